"""One training in several processes: the same batches, losses and weights as in one."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import rank_cases
import torch
from safetensors.torch import load_file

from harness.config.choices import KeepBest, TaskKind
from harness.config.schema import RunConfig
from harness.corpus import prepare
from harness.models.config import Body, Position
from harness.training.distributed import ALONE, Ranks, not_empty

TOLERANCE = 1e-5
"""Largest difference of two losses in float32: sums of other rows are rounded otherwise."""


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8])
def test_the_shares_of_the_ranks_are_all_rows_once_and_even(rows: int, count: int):
    shares = [range(rows)[Ranks(rank, count).share(rows)] for rank in range(count)]
    assert [row for share in shares for row in share] == list(range(rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_rank_without_rows_takes_one_that_weighs_nothing():
    assert not_empty(Ranks(0, 3).share(2)) == slice(0, 1)
    assert not_empty(Ranks(1, 2).share(2)) == slice(1, 2)


def test_one_rank_communicates_nothing():
    model, loss = torch.nn.Linear(1, 1), lambda batch: batch
    assert ALONE.parallel(model, loss) is loss
    assert (ALONE.agreed(3.5), ALONE.gathered(2.0), ALONE.gathered(None)) == (3.5, [2.0], None)
    assert ALONE.summed([torch.tensor(1.5)]) == [1.5]


def curves_agree(one: Path, several: Path, phase: str, steps: int) -> None:
    losses = [rank_cases.curve(folder, f"{phase}/loss") for folder in (one, several)]
    assert [len(curve) for curve in losses] == [steps, steps]
    np.testing.assert_allclose(*losses, rtol=0, atol=TOLERANCE)
    norms = [rank_cases.curve(folder, f"{phase}/gradient_norm") for folder in (one, several)]
    np.testing.assert_allclose(*norms, rtol=1e-3)


def finetuned(ranks: Ranks, folder: Path, **keys: object) -> None:
    model = rank_cases.finetuned(ranks, folder, **keys)
    torch.save(model.state_dict(), folder / f"{ranks.rank}.pt")


@pytest.fixture(scope="module")
def finetuned_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rank_cases.run(finetuned, 1, tmp_path_factory.mktemp("ranks") / "1")


@pytest.mark.long
def test_the_losses_of_200_steps_are_those_of_one_process(finetuned_alone: Path, tmp_path: Path):
    """Tagging: the labels of a row vary. Batches of 8 and 2 rows in pieces of 4 and 1 leave ranks without rows."""
    several = rank_cases.run(finetuned, 3, tmp_path)
    curves_agree(finetuned_alone, several, "finetune", 200)
    losses = rank_cases.curve(finetuned_alone, "finetune/loss")
    assert losses[-1] < 0.5 * losses[0]
    clipped = [norm > 0.1 for norm in rank_cases.curve(finetuned_alone, "finetune/gradient_norm")]
    assert 50 < sum(clipped) < 200
    first, *others = (torch.load(several / f"{rank}.pt", weights_only=True) for rank in range(3))
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.long
def test_the_first_rank_evaluates_and_has_the_best_weights(tmp_path: Path):
    best = partial(finetuned, kind=TaskKind.classification, keep_best=KeepBest.validation, max_steps=48, learning_rate=0.03)
    one, two = (rank_cases.run(best, count, tmp_path / str(count)) for count in (1, 2))
    scores = rank_cases.curve(one, "eval/score")
    assert rank_cases.curve(two, "eval/score") == scores
    assert len(scores) == 6
    kept, also = (torch.load(folder / "0.pt", weights_only=True) for folder in (one, two))
    for name in kept:
        torch.testing.assert_close(kept[name], also[name], rtol=1e-3, atol=1e-3)  # a step is of 0.03


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, str]:
    config = rank_cases.corpus_config(tmp_path_factory.mktemp("text"))
    return config, prepare.prepare(config)


def pretrained(ranks: Ranks, folder: Path, config: RunConfig, key: str) -> None:
    rank_cases.pretrained(ranks, folder, config, key)


@pytest.fixture(scope="module")
def pretrained_alone(text: tuple[RunConfig, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rank_cases.run(partial(pretrained, config=text[0], key=text[1]), 1, tmp_path_factory.mktemp("ranks") / "1")


@pytest.mark.long
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_pretraining_has_the_losses_and_weights_of_one_process(
    text: tuple[RunConfig, str], pretrained_alone: Path, tmp_path: Path, count: int
):
    several = rank_cases.run(partial(pretrained, config=text[0], key=text[1]), count, tmp_path / str(count))
    curves_agree(pretrained_alone, several, "pretrain", len(rank_cases.curve(pretrained_alone, "pretrain/loss")))
    for name in ("pretrain/masked_loss", "pretrain/tokens"):
        points = [rank_cases.curve(folder, name) for folder in (pretrained_alone, several)]
        np.testing.assert_allclose(*points, rtol=0, atol=TOLERANCE)
    weights = [load_file(folder / "checkpoint" / "model.safetensors") for folder in (pretrained_alone, several)]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(
            tensor, weights[1][name], rtol=1e-2, atol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.long
def test_sharded_weights_are_trained_as_whole_ones(finetuned_alone: Path, tmp_path: Path):
    """On the first rank the model that is evaluated and kept has the trained weights; the others keep no whole one."""
    several = rank_cases.run(partial(finetuned, max_steps=200), 2, tmp_path, sharded=True)
    curves_agree(finetuned_alone, several, "finetune", 200)
    spreads = [rank_cases.curve(folder, "finetune/gradient_spread") for folder in (finetuned_alone, several)]
    np.testing.assert_allclose(*spreads, rtol=1e-3)
    one, first, second = (torch.load(folder, weights_only=True) for folder in (finetuned_alone / "0.pt", *several.glob("?.pt")))
    first, second = (first, second) if second["head.weight"].is_meta else (second, first)
    assert {tensor.device.type for tensor in second.values()} == {"meta"}
    for name in one:
        torch.testing.assert_close(first[name], one[name], rtol=1e-2, atol=1e-2)


@pytest.mark.long
def test_averages_of_sharded_weights_are_those_of_one_process(tmp_path: Path):
    averaged = partial(finetuned, max_steps=30, ema_decay=0.9)
    one = rank_cases.run(averaged, 1, tmp_path / "1")
    two = rank_cases.run(averaged, 2, tmp_path / "2", sharded=True)
    last = rank_cases.run(partial(finetuned, max_steps=30), 1, tmp_path / "last")
    kept, plain = (torch.load(folder / "0.pt", weights_only=True) for folder in (one, last))
    both = (torch.load(folder, weights_only=True) for folder in two.glob("?.pt"))
    (collected,) = (weights for weights in both if not weights["head.weight"].is_meta)
    for name in kept:
        torch.testing.assert_close(collected[name], kept[name], rtol=1e-2, atol=1e-3)
    assert any(not torch.allclose(kept[name], plain[name], rtol=1e-2, atol=1e-3) for name in kept)


STAGES = ((5, 1, False), (10, 2, True), (15, 3, True), (20, 2, False), (22, 2, True))
"""Last step, ranks, and whether their weights are sharded."""


@pytest.mark.long
@pytest.mark.parametrize("stages", [STAGES[:2], pytest.param(STAGES, marks=pytest.mark.slow)], ids=["short", "long"])
def test_any_number_of_ranks_resumes_what_another_left(text: tuple[RunConfig, str], tmp_path: Path, stages: tuple):
    """Whole and sharded checkpoints, read by one process, by ranks with whole weights, and by sharded ones."""
    config = replace(text[0], pretrain=replace(text[0].pretrain, tokens=None, steps=25, checkpoint_every_s=600))
    resumed = tmp_path / "resumed"
    for step, count, sharded in stages:
        part = partial(rank_cases.pretrained_until, config=config, key=text[1], step=step)
        rank_cases.run(part, count, resumed, sharded)
        assert sorted(path.name for path in (resumed / "checkpoints").iterdir())[-1] == f"step-{step:09d}"
    whole = partial(pretrained, config=config, key=text[1])
    rank_cases.run(whole, 1, resumed)
    curves_agree(rank_cases.run(whole, 1, tmp_path / "whole"), resumed, "pretrain", 25)
    kept = (resumed / "checkpoints").rglob("*")
    assert {path.suffix for path in kept if path.is_file()} == {".json", ".safetensors"}


VARIANTS = {
    "shared layers, computed again": (replace(rank_cases.SHAPE, num_hidden_groups=1), {"activation_checkpointing": True}),
    "recurrent": (replace(rank_cases.SHAPE, body=Body.lstm), {}),
    "small embeddings, rotary": (replace(rank_cases.SHAPE, embedding_size=8, position=Position.rotary), {}),
}
"""Shapes whose parameters are used several times, are in no block, or are computed again."""


def variants(ranks: Ranks, folder: Path) -> None:
    for name, (shape, keys) in VARIANTS.items():
        (folder / name).mkdir(exist_ok=True)
        rank_cases.finetuned(ranks, folder / name, shape=shape, max_steps=20, **keys)


@pytest.mark.long
def test_models_of_other_shapes_train_as_in_one_process(tmp_path: Path):
    one = rank_cases.run(variants, 1, tmp_path / "one")
    for sharded in (False, True):
        several = rank_cases.run(variants, 2, tmp_path / f"two {sharded}", sharded)
        for name in VARIANTS:
            curves_agree(one / name, several / name, "finetune", 20)


class Layers(torch.nn.Module):
    """A layer that no loss reaches, beside one that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = (torch.nn.Linear(2, 2) for _ in range(2))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.used(batch).sum()


def untouched(ranks: Ranks, folder: Path) -> None:
    model = Layers()
    loss = ranks.parallel(model, model)
    ranks.backward(loss(torch.ones(1, 2)))
    assert model.unused.weight.grad is None
    assert torch.equal(model.used.bias.grad, torch.full((2,), float(ranks.count)))


@pytest.mark.long
def test_a_parameter_that_no_loss_reaches_has_no_gradient_so_it_does_not_decay(tmp_path: Path):
    for count in (1, 2):
        rank_cases.run(untouched, count, tmp_path)
