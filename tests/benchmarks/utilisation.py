"""Share of the machine's fastest matrix product that our training reaches, and where the time of a training step goes.

FLOPs are those of `harness.measure.flops`, with padding; the peak is that of `harness.hardware.peak_flops`, measured in turns
with the training. The profile is of ten steps of the project's own `finetune` and `pretrain`, in all operators and by parts.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import ours
import pictures
import pretrain_speed
import rounds
from ours import Finetuning, Pretraining
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

from harness.hardware.peak_flops import peak_flops_per_s
from harness.models.heads import build_classifier
from harness.tracking.run_log import RunLog
from harness.training import finetune as finetuning
from harness.training.pretrain_steps import Steps

DATA, LOGGING, OPTIMISER, CLIPPING, OTHER = "data", "logging", "optimiser", "clipping", "other operators"
BETWEEN = "Python between operators"

OF_OPERATOR = {
    "matrix products": ("addmm", "mm", "bmm", "baddbmm", "linear", "mkldnn_linear", "matmul"),
    "attention kernel": ("scaled_dot_product", "softmax", "flash"),
    "norms": ("layer_norm",),
    "dropout": ("dropout", "bernoulli", "random_"),
    "activation": ("gelu",),
    "embeddings": ("embedding", "index_select"),
    CLIPPING: ("foreach_norm", "linalg_vector_norm", "foreach_mul", "clip"),
    "copies and casts": ("copy_", "to_copy", "clone", "cat"),
}
"""Part -> beginnings of the names of its operators, without namespace and underscores; the first that fits."""

RANGES = {DATA: DATA, LOGGING: LOGGING, "Optimizer.": OPTIMISER}
"""Beginning of the name of a range -> part of all within it."""

STEPS, FIRST = 20, 10
"""A profile is of the steps between two readings of the losses, after the first ten."""


def measure(quick: bool) -> list[dict[str, Any]]:
    """Percent of the peak for each training and arithmetic, and percent of each part of its steps."""
    rows, profiles = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("fp32", "bf16"):
            for name, training in trainings(dtype, Path(folder)).items():
                title = f"{name}, {dtype}"
                rows += _utilisation(title, training, dtype, 2 if quick else 7)
                profiles[title] = profiled(training)
    pictures.shares(profiles)
    parts = [(title, part, share) for title, shares in profiles.items() for part, share in shares.items()]
    return rows + [rounds.row(f"{title}: {part}", [share], "% of a step") for title, part, share in parts]


def trainings(dtype: str, folder: Path) -> dict[str, Finetuning | Pretraining]:
    """Those of the benchmarks of fine-tuning and pretraining."""
    output = ours.prepared_folder(folder / "output")
    config, data = ours.on_task("task=sst2", f"data.train_examples={ours.ROWS}", f"hardware.dtype={dtype}", output=output)
    text_config, corpus = pretrain_speed.pretraining(dtype, folder)
    return {
        "fine-tuning": Finetuning(config, build_classifier(config.model, 2, 0), data, folder / f"finetune-{dtype}"),
        "pretraining": Pretraining(text_config, corpus, folder / f"pretrain-{dtype}"),
    }


def _utilisation(title: str, training: Finetuning | Pretraining, dtype: str, count: int) -> list[dict[str, Any]]:
    steps = 20 if isinstance(training, Finetuning) else 4
    machine = ours.machine(dtype)
    sides = {
        "training": lambda number: training.run(steps, 1, number).flops_per_s / 1e9,
        "peak": lambda number: peak_flops_per_s(machine) / 1e9,
    }
    sides["training"](1000)
    values = rounds.interleaved(sides, count)
    share = [100 * one / peak for one, peak in zip(values["training"], values["peak"], strict=True)]
    named = {f"{title}: {name}": one for name, one in values.items()}
    return [rounds.row(f"{title}: model FLOPs", share, "% of peak"), *rounds.rates(named, "GFLOP/s")]


class ProfilingLog(RunLog):
    """Starts a profiler when the losses of the first steps are written, and stops it when the next ones are."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.profiler = profile(activities=[ProfilerActivity.CPU])

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None:
        """Writes the point."""
        is_loss = key.endswith("/loss") and time_ms is not None
        if is_loss and step == STEPS:
            self.profiler.stop()
        with record_function(LOGGING):
            super().curve(key, step, value, tokens, time_ms)
        if is_loss and step == FIRST:
            self.profiler.start()


def profiled(training: Finetuning | Pretraining) -> dict[str, float]:
    """Part -> percent of the time of ten steps, the largest first."""
    logs: list[ProfilingLog] = []

    def log_of(folder: Path) -> RunLog:
        logs.append(ProfilingLog(folder))
        return logs[0]

    batches, next_step = finetuning.training_batches, Steps.next_step
    with (
        mock.patch.object(finetuning, "training_batches", lambda *given: _ranged(batches(*given))),
        mock.patch.object(Steps, "next_step", lambda steps, position: _in_range(lambda: next_step(steps, position))),
    ):
        training.run(STEPS, FIRST, 0, log_of)
    return shares(logs[0].profiler.events())


def _ranged(batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        yield _in_range(lambda: next(batches))


def _in_range(call: Callable[[], Any]) -> Any:
    with record_function(DATA):
        return call()


def shares(events: Any) -> dict[str, float]:
    """Part -> percent of the time from the first event to the end of the last; self times of the thread that trains."""
    trained = [event for event in events if event.thread == events[0].thread]
    spent: dict[str, float] = {}
    for event in trained:
        part = part_of(event)
        spent[part] = spent.get(part, 0.0) + event.self_cpu_time_total
    whole = max(event.time_range.end for event in trained) - min(event.time_range.start for event in trained)
    spent[BETWEEN] = max(0.0, whole - sum(spent.values()))
    whole = sum(spent.values())
    return {part: 100 * spent[part] / whole for part in sorted(spent, key=spent.get, reverse=True)}


def part_of(event: Any) -> str:
    """The part of the range around it, or of its own name."""
    around = event
    while around is not None:
        for beginning, part in RANGES.items():
            if around.name.startswith(beginning):
                return part
        around = around.cpu_parent
    name = event.name.rpartition("::")[2].lstrip("_").removeprefix("native_")
    fitting = (part for part, beginnings in OF_OPERATOR.items() if name.startswith(beginnings))
    return next(fitting, OTHER)
