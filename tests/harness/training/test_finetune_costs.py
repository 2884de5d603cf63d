"""What a fine-tuning took: counted on its real batches, and written at every evaluation."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import in_process
import numpy as np
import pytest

from harness.config.choices import KeepBest
from harness.config.schema import FinetuneConfig, RunConfig
from harness.hardware import energy
from harness.hardware.energy import Counter
from harness.measure import flops
from harness.measure.memory import CLEAR
from harness.models.heads import build_classifier
from harness.tasks import prepared as cache
from harness.tasks.batches import training_order
from harness.tasks.prepared import Prepared
from harness.training import evaluation, loop
from harness.training import finetune as finetuning

pytestmark = pytest.mark.long

BATCH = 32
COSTS = ("finetune/tokens", "finetune/flops", "finetune/duration_s")


@dataclass(frozen=True)
class Done:
    """What one run left: its results, and the points of its curves by step."""

    prepared: Prepared
    values: dict[str, float]
    curves: dict[str, dict[int, float]]

    @property
    def steps(self) -> int:
        """Optimiser steps of one epoch."""
        return -(-len(self.prepared.train) // BATCH)


@pytest.fixture
def done(small_config: RunConfig, tmp_path: Path) -> Callable[..., Done]:
    """Fine-tunes and evaluates on the task bag, a third of whose training rows are kept for tuning."""
    task, measure = replace(small_config.task, tune_share=0.3), replace(small_config.measure, enabled=False)

    def train(**budget: object) -> Done:
        config = replace(small_config, task=task, measure=measure, finetune=FinetuneConfig(batch_size=BATCH, **budget))
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        values = in_process.ran(config, folder)
        return Done(cache.read(config, cache.prepare(config)), values, in_process.curves_of(folder))

    return train


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which a training step takes 1 s and 1 J, and the answers of a split 1000 of each."""
    total = [0]

    def taking(work: Callable, amount: int) -> Callable:
        def does(*given: object) -> object:
            total[0] += amount
            return work(*given)

        return does

    monkeypatch.setattr(energy, "counters", lambda *, cuda: [Counter(lambda: total[0], 1.0)])
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: float(total[0])))
    monkeypatch.setattr(finetuning, "step_of", taking(finetuning.step_of, 1))
    monkeypatch.setattr(evaluation, "predict", taking(evaluation.predict, 1000))


@pytest.mark.parametrize("keep_best", [KeepBest.none, KeepBest.tune])
@pytest.mark.parametrize("name", ["finetune/energy_j", "finetune/duration_s"])
@pytest.mark.usefixtures("slow")
def test_energy_and_time_are_those_of_training_without_any_evaluation(done, keep_best, name):
    seen = done(epochs=2, keep_best=keep_best)
    assert seen.values[name] == 2 * seen.steps
    at_evaluations = {step: step for step in (seen.steps, 2 * seen.steps)} if keep_best is KeepBest.tune else {}
    assert seen.curves.get(name, {}) == at_evaluations


@pytest.mark.skipif(not CLEAR.exists(), reason="this kernel gives no high-water mark")
def test_the_peak_of_memory_is_that_of_training_without_any_evaluation(done, monkeypatch):
    def predict(*given: object) -> np.ndarray:
        held, answers = np.ones(50_000_000), predicted(*given)
        time.sleep(0.1)
        return answers + 0 * held[0]

    predicted = evaluation.predict
    monkeypatch.setattr(evaluation, "predict", predict)
    seen = done(epochs=2, keep_best=KeepBest.tune)
    assert max(seen.values[f"finetune/{one}peak_memory_bytes"] for one in ("", "sampled_")) < 250e6


@pytest.mark.usefixtures("slow")
def test_a_budget_in_seconds_is_of_training_alone_and_its_end_is_evaluated(done):
    """A second a step; evaluation takes 1,000 seconds, of which none counts."""
    plain, timed = done(epochs=3, keep_best=KeepBest.tune), done(seconds=17, keep_best=KeepBest.tune)
    losses, steps = timed.curves["finetune/loss"], 17
    assert [*losses] == [*range(1, steps + 1)]
    assert 8 * timed.steps < steps < 9 * timed.steps
    assert [*timed.curves["tune/score"]] == [*range(timed.steps, steps, timed.steps), steps]
    assert timed.values["finetune/duration_s"] == steps
    rates = timed.curves["finetune/learning_rate"]
    assert 0 == rates[1] < rates[11]  # the warm-up begins at 0, as nobody knows the size of a step
    assert plain.curves["finetune/learning_rate"][1] > 0


def padded_tokens(seen: Done, seed: int, epochs: int) -> int:
    """Places of all batches of so many epochs, by the order that they are drawn in."""
    order = [batch for epoch in range(epochs) for batch in training_order(seen.prepared.train, BATCH, seed, epoch)]
    return sum(len(batch) * int(seen.prepared.train.lengths[batch].max()) for batch in order)


@pytest.mark.parametrize(("epochs", "accumulation"), [(1, 1), (2, 1), (1, 4)], ids=["one_epoch", "two_epochs", "in_pieces"])
def test_throughputs_are_totals_of_the_data_set_over_the_time_of_training(done, small_config, epochs, accumulation):
    seen = done(epochs=epochs, accumulation=accumulation)
    train, values, padded = seen.prepared.train, seen.values, padded_tokens(seen, small_config.seed, epochs)
    seconds, tokens = values["finetune/duration_s"], epochs * int(train.lengths.sum())
    assert tokens < padded
    assert values["finetune/tokens"] == tokens
    assert values["finetune/tokens_per_s"] * seconds == pytest.approx(tokens)
    assert values["finetune/samples_per_s"] * seconds == pytest.approx(epochs * len(train))
    assert values["finetune/padded_tokens_per_s"] * seconds == pytest.approx(padded)
    assert values["finetune/padding_share"] == pytest.approx(1 - tokens / padded)


def test_costs_are_written_at_every_evaluation_and_end_with_the_whole(done, monkeypatch):
    monkeypatch.setattr(energy, "counters", lambda *, cuda: [])
    seen = done(epochs=3, keep_best=KeepBest.tune)
    evaluations = [seen.steps, 2 * seen.steps, 3 * seen.steps]
    assert list(seen.curves["tune/score"]) == evaluations
    for name in COSTS:
        spent = seen.curves[name]
        assert list(spent) == evaluations
        assert 0 < spent[evaluations[0]] < spent[evaluations[1]] < spent[evaluations[2]] == seen.values[name]
    assert list(seen.curves["finetune/tokens"].values()) == [epoch * seen.prepared.train.lengths.sum() for epoch in (1, 2, 3)]
    assert "finetune/energy_j" not in seen.curves


def test_flops_are_those_of_the_padded_batches(done, small_config):
    seen = done(epochs=1)
    model = build_classifier(small_config.model, 2, 0)  # a vocabulary costs no FLOPs
    cost = flops.of_training(model)
    order = training_order(seen.prepared.train, BATCH, small_config.seed, 0)
    assert seen.values["finetune/flops"] == sum(cost(len(b), int(seen.prepared.train.lengths[b].max())) for b in order)
