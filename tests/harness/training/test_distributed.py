"""One training in several processes: the same batches, losses and weights as in one."""

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


@pytest.mark.parametrize("count", [2, 3])
def test_the_losses_of_200_steps_are_those_of_one_process(finetuned_alone: Path, tmp_path: Path, count: int):
    """Tagging: the labels of a row vary. Batches of 8 and 2 rows in pieces of 4 and 1 leave ranks without rows."""
    several = rank_cases.run(finetuned, count, tmp_path / str(count))
    curves_agree(finetuned_alone, several, "finetune", 200)
    losses = rank_cases.curve(finetuned_alone, "finetune/loss")
    assert losses[-1] < 0.5 * losses[0]
    clipped = [norm > 0.1 for norm in rank_cases.curve(finetuned_alone, "finetune/gradient_norm")]
    assert 50 < sum(clipped) < 200
    first, *others = (torch.load(several / f"{rank}.pt", weights_only=True) for rank in range(count))
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)


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
