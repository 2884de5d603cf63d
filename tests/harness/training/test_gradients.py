"""Norms of gradients: what they are by hand, and that a training is the same bit by bit whether they are written or not."""

from pathlib import Path

import in_process
import pytest
import torch
from torch import nn

from harness.config.schema import FinetuneConfig, HardwareConfig
from harness.hardware.device import Machine
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, Sharing
from harness.models.heads import SequenceClassifier, build_classifier
from harness.tracking.run_log import Reader, RunLog
from harness.training import loop
from harness.training.finetune import step_of
from harness.training.loop import Limit, Position, Training, train
from harness.training.optimiser import make_optimiser

SHAPE = {"vocab_size": 1100, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
BUDGET = FinetuneConfig(learning_rate=3e-3, warmup_fraction=0.5, max_grad_norm=0.05)
STEPS = 12


def classifier(**keys: object) -> SequenceClassifier:
    """Its table of tokens is large enough for sparse gradients."""
    return build_classifier(EncoderConfig(**SHAPE | keys), 2, seed=0)


def batch(seed: int) -> Batch:
    ids = torch.randint(1, 1100, (8, 6), generator=torch.Generator().manual_seed(seed))
    return Batch(ids, labels=ids[:, 1] % 2, tokens=ids.numel())


def trained(folder: Path, steps: int = STEPS, **keys: object) -> tuple[SequenceClassifier, dict[str, dict[int, float]]]:
    """The model after the steps, and its curves."""
    model, run_log = classifier(**keys), RunLog(folder)
    following = lambda position: step_of(batch(position.step), 1)  # noqa: E731
    loss = lambda batch: model.loss(model(batch), batch.labels)  # noqa: E731
    training = Training(model, loss, following, Limit("step", steps), steps, "finetune", BUDGET, 0)
    train(training, make_optimiser(model, BUDGET), Position(), Machine(HardwareConfig(threads=1)), run_log)
    loop.write_medians(run_log, "finetune")
    run_log.finish("finished")
    found = in_process.curves_of(folder) | {name: {0: value} for name, value in in_process.metrics_of(folder).items()}
    return model, {name.removeprefix("finetune/"): curve for name, curve in found.items()}


def test_the_norm_of_every_step_and_the_spread_and_rate_of_every_tenth_are_written(tmp_path: Path):
    _, curves = trained(tmp_path)
    every = list(range(1, STEPS + 1))
    assert {name: list(points) for name, points in curves.items() if not name.endswith("_p50")} == {
        "loss": every,
        "gradient_norm": every,
        "gradient_spread": [1, 11],
        "learning_rate": [1, 11],
    }
    assert curves["learning_rate"] == {1: pytest.approx(3e-3 / 6), 11: pytest.approx(3e-3 / 3)}
    norms = sorted(curves["gradient_norm"].values())
    assert curves["gradient_norm_p50"][0] == pytest.approx((norms[5] + norms[6]) / 2)
    assert curves["gradient_spread_p50"][0] == pytest.approx(sum(curves["gradient_spread"].values()) / 2)


def test_the_first_norm_and_spread_are_those_of_plain_gradients(tmp_path: Path):
    _, curves = trained(tmp_path, steps=1)
    model = classifier()
    torch.manual_seed(loop.derive(0, "dropout", 1))
    model.train().loss(model(batch(0)), batch(0).labels).backward()
    total = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    stack = model.encoder.layers
    halves = zip(stack.attentions, stack.feed_forwards, strict=True)
    layers = [torch.cat([p.grad.flatten() for block in both for p in block.parameters()]).norm().item() for both in halves]
    assert curves["gradient_norm"][1] == pytest.approx(total.item(), rel=1e-5)
    assert total > BUDGET.max_grad_norm  # it is the norm before they are clipped
    assert curves["gradient_spread"][1] == pytest.approx(max(layers) / min(layers), rel=1e-5)
    assert max(layers) / min(layers) > 1.01


@pytest.mark.long
def test_a_training_is_bit_by_bit_the_same_without_spread_and_with_it_at_every_step(tmp_path: Path, monkeypatch):
    models = []
    for every in (1, 10**9):
        monkeypatch.setattr(loop, "LOG_EVERY", every)
        (tmp_path / str(every)).mkdir()
        model, curves = trained(tmp_path / str(every))
        models.append(model)
        assert len(curves["gradient_spread"]) == (STEPS if every == 1 else 1)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({}, 3),
        ({"num_hidden_groups": 1}, 1),
        ({"num_hidden_groups": 1, "sharing": Sharing.attention}, 3),
        ({"body": Body.static}, 0),
    ],
    ids=["plain", "shared", "attention shared", "no layers"],
)
def test_layers_that_share_all_of_their_parameters_count_once(keys: dict, count: int):
    assert len(loop.layers_of(classifier(**keys))) == count


def test_a_spread_needs_two_layers_with_gradients(tmp_path: Path):
    first, second = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    first.grad = torch.tensor([3.0, 4.0])
    assert loop.spread([[first], [second]]) is None
    second.grad = torch.tensor([0.0, 2.0])
    assert loop.spread([[first], [second]]).item() == 2.5
    _, curves = trained(tmp_path, num_hidden_groups=1)
    assert not {"gradient_spread", "gradient_spread_p50"} & curves.keys()


def test_a_norm_that_is_not_finite_has_no_point_and_ends_nothing(tmp_path: Path):
    run_log = RunLog(tmp_path)
    curves = loop.Curves("finetune", run_log)
    curves.add(Position(step=1), torch.tensor(0.5), {"gradient_norm": torch.tensor(torch.inf)})
    curves.write()
    run_log.finish("finished")
    assert [entry["key"] for entry in Reader(tmp_path).new_entries()] == ["finetune/loss"]
