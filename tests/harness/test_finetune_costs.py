"""What a fine-tuning took: counted on its real batches, and told wherever a split was looked at."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness import run
from harness.cell import Inputs
from harness.choices import KeepBest
from harness.config import FinetuneConfig, HardwareConfig, RunConfig
from harness.data import cache
from harness.data.cache import Prepared
from harness.hardware import Machine
from harness.journal import Journal, Reader
from harness.measure import energy
from harness.measure.energy import Counter
from harness.training import finetune as finetuning

BATCH = 32


@dataclass(frozen=True)
class Done:
    """What one cell left: its results, and the points of its curves by step."""

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
        folder.mkdir()
        journal, key = Journal(folder), cache.prepare(config)
        run.measure_and_finetune(config, Inputs(data=key), Machine(HardwareConfig(threads=1)), journal)
        journal.finish("finished")
        curves: dict[str, dict[int, float]] = {}
        for entry in Reader(folder).new_entries():
            if "key" in entry:
                curves.setdefault(entry["key"], {})[entry["step"]] = entry["value"]
        return Done(cache.read(config, key), json.loads((folder / "result.json").read_text())["metrics"], curves)

    return train


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter of a machine that takes 1 J for a training step and 1000 J for the answers of a split."""
    total = [0]

    def taking(work: Callable, joules: int) -> Callable:
        def does(*given: object) -> object:
            total[0] += joules
            return work(*given)

        return does

    monkeypatch.setattr(energy, "counters", lambda machine: [Counter(lambda: total[0], 1.0)])
    monkeypatch.setattr(finetuning, "step_of", taking(finetuning.step_of, 1))
    monkeypatch.setattr(finetuning, "predict", taking(finetuning.predict, 1000))


@pytest.mark.parametrize("keep_best", [KeepBest.none, KeepBest.tune])
@pytest.mark.usefixtures("drawn")
def test_energy_is_that_of_training_without_any_evaluation(done, keep_best):
    seen = done(epochs=2, keep_best=keep_best)
    assert seen.values["finetune/energy_j"] == 2 * seen.steps


def test_energy_without_a_counter_is_no_number(done, monkeypatch):
    monkeypatch.setattr(energy, "counters", lambda machine: [])
    assert "finetune/energy_j" not in done(epochs=1).values
