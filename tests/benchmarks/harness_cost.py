"""What the harness costs: its loop against a bare one, tracking, memory, and whether both stay flat over steps and data.

Every run of the first part is a whole process with the same data, batches and steps: under `python -m harness` with its
supervisor and MLflow; the worker alone; and a bare loop of torch.

    python harness_cost.py FOLDER      the bare loop over the config in the folder of a run; prints its figures as JSON
"""

import json
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import ours
import pictures
import psutil
import rounds

from harness.config import resolve
from harness.config.schema import RunConfig
from harness.hardware.device import Machine
from harness.measure.memory import Baseline, peak_memory
from harness.models.heads import build_classifier
from harness.study import run_folder
from harness.tasks import prepared as cache
from harness.tasks.base import Split
from harness.tasks.batches import step_of_lengths, training_batches
from harness.tasks.prepared import Prepared
from harness.training.loop import learning_rate_factor
from harness.training.optimiser import make_optimiser, use_sparse_gradients

HERE = Path(__file__).resolve().parent
STEPS = 60
SAMPLE_S = 0.05


def measure(quick: bool) -> list[dict[str, Any]]:
    """Costs in percent, and how much longer or more a late step takes than an early one."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            *processes_compared(Path(folder) / "processes", 2 if quick else 7),
            *flat_over_steps(Path(folder) / "flat", 500 if quick else 10_000),
            *flat_over_data(Path(folder) / "data", (1000, 50_000) if quick else (1000, 10_000, 100_000, 1_000_000), 3),
        ]


# Whole processes


def processes_compared(folder: Path, count: int, *overrides: str) -> list[dict[str, Any]]:
    """Share of training time that the loop of the harness and its tracking take, and memory against the bare loop."""
    memory: dict[str, list[float]] = {"worker": [], "bare": []}
    supervised = folder / "multirun"
    sides = {
        "supervised": lambda number: _supervised(supervised, *overrides)["finetune/tokens_per_s"],
        "worker": lambda number: _kept(memory, "worker", _worker(supervised, folder / f"worker-{number}")),
        "bare": lambda number: _kept(memory, "bare", _bare(supervised)),
    }
    sides["supervised"](-1)  # makes the folder that the others read
    values = rounds.interleaved(sides, count)
    return [
        _cost("loop of the harness, share of training time", values["worker"], values["bare"]),
        _cost("supervisor and tracking, share of training time", values["supervised"], values["worker"]),
        rounds.times_as_fast(memory["worker"], memory["bare"], "memory of the worker / bare loop") | {"unit": "x as much"},
        *rounds.rates(values, "tokens/s"),
        *[rounds.row(f"peak of memory, {name}", [one / 1e6 for one in bytes_], "MB") for name, bytes_ in memory.items()],
    ]


def _cost(name: str, slower: list[float], faster: list[float]) -> dict[str, Any]:
    """Percent of the slower side's time that the faster one does not need; below 0 where noise is larger than the cost."""
    return rounds.row(name, [100 * (1 - one / other) for one, other in zip(slower, faster, strict=True)], "%")


def _kept(memory: dict[str, list[float]], name: str, found: dict[str, float]) -> float:
    memory[name].append(found["finetune/peak_memory_bytes"])
    return found["finetune/tokens_per_s"]


def _supervised(output: Path, *overrides: str) -> dict[str, float]:
    """Results of a run of the whole command."""
    ours.run_python(
        *("-m", "harness", "task=sst2", "data=local", f"data.root={ours.data_root()}", f"data.train_examples={ours.ROWS}"),
        *(f"tokenizer.vocab_file={ours.vocabulary_file()}", f"finetune.max_steps={STEPS}", "finetune.keep=none"),
        *("measure=none", f"hardware.threads={ours.THREADS}", f"output={output}", "rerun=true", *overrides),
    )
    return json.loads((_folder_of(output) / "result.json").read_text())["metrics"]


def _folder_of(output: Path) -> Path:
    """The folder of the only run."""
    (path,) = (path.parent for path in output.glob("default/*/result.json"))
    return path


def _worker(output: Path, folder: Path) -> dict[str, float]:
    """Results of the worker of that run, started again without a supervisor."""
    folder.mkdir()
    for name in ("config.yaml", "run.json"):
        shutil.copyfile(_folder_of(output) / name, folder / name)
    ours.run_python("-m", "harness.study.worker", str(folder))
    return json.loads((folder / "result.json").read_text())["metrics"]


def _bare(output: Path) -> dict[str, float]:
    return json.loads(ours.run_python(str(HERE / "harness_cost.py"), str(_folder_of(output))).splitlines()[-1])


def bare_loop(folder: Path) -> dict[str, float]:
    """Tokens per second of the same training without log, clock, FLOPs and callbacks, and its peak memory above that before."""
    config = resolve.load(folder / "config.yaml")
    data = cache.read(config, run_folder.read(folder)["inputs"]["data"])
    machine = ours.machine(config.hardware.dtype.name)
    with peak_memory(machine, Baseline(machine)) as peak:
        tokens_per_s = _train_bare(config, data, machine)
    return {"finetune/tokens_per_s": tokens_per_s, "finetune/peak_memory_bytes": peak.kernel}


def _train_bare(config: RunConfig, data: Prepared, machine: Machine) -> float:
    """Tokens per second of the whole training."""
    model, budget = machine.prepare(build_classifier(config.model, 2, config.seed).train()), config.finetune
    use_sparse_gradients(model)
    optimiser, steps = make_optimiser(model, budget), budget.planned_steps(len(data.train))
    step, tokens = step_of_lengths(config.hardware), 0
    batches = training_batches(data.train, budget.batch_size, config.seed, data.pad_token_id, step)
    started = time.perf_counter()
    for step in range(steps):
        batch = next(batches)
        for group in optimiser.param_groups:
            group["lr"] = budget.learning_rate * learning_rate_factor(step, steps, budget.warmup_fraction)
        model.loss(model(batch), batch.labels).backward()
        optimiser.update()
        tokens += batch.tokens
    return tokens / (time.perf_counter() - started)


# One process over many steps


class Memory(threading.Thread):
    """Resident memory of this process over time, sampled beside the training."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float]] = []
        self._ended = threading.Event()

    def run(self) -> None:
        """Until `end`."""
        process = psutil.Process()
        while not self._ended.wait(SAMPLE_S):
            self.samples.append((time.time() * 1e3, process.memory_info().rss / 1e6))

    def end(self) -> None:
        """Stops sampling."""
        self._ended.set()
        self.join()


def tiny_task(folder: Path) -> tuple[RunConfig, Prepared]:
    """SST-2 at scale tiny, for more steps than are run."""
    overrides = ("task=sst2", "scale=tiny", f"data.train_examples={ours.ROWS}", "finetune.epochs=1000")
    return ours.on_task(*overrides, output=ours.prepared_folder(folder))


def flat_over_steps(folder: Path, steps: int) -> list[dict[str, Any]]:
    """Time per token and memory of the last tenth of a training over those of the second; the first has the warm-up."""
    config, data = tiny_task(folder)
    training, memory = ours.Finetuning(config, build_classifier(config.model, 2, 0), data, folder / "runs"), Memory()
    memory.start()
    training.run(steps, 1, 0)
    memory.end()
    points = training.points()
    times, tokens = np.array([point["time"] for point in points]), np.array([point["tokens"] for point in points])
    tenth = steps // 10
    parts = [slice(start, start + tenth) for start in range(tenth, steps - tenth + 1, tenth)]
    per_token = [float(np.ptp(times[part]) / np.ptp(tokens[part])) for part in parts]
    when, megabytes = np.array(memory.samples).T
    of_step = np.interp(times, when, megabytes)
    used = [float(np.median(of_step[part])) for part in parts]
    pictures.flat(times, tokens, of_step)
    return [
        rounds.row(
            f"time per token, last tenth / second tenth of {steps:,} steps", [per_token[-1] / per_token[0]], "x as long"
        ),
        rounds.row(f"memory, last tenth / second tenth of {steps:,} steps", [used[-1] / used[0]], "x as much"),
    ]


def flat_over_data(folder: Path, sizes: tuple[int, ...], count: int, steps: int = 60) -> list[dict[str, Any]]:
    """Throughput with training splits of several sizes, made by repeating SST-2, over that of the smallest."""
    config, data = tiny_task(folder)
    sides = {}
    for size in sizes:
        split = replace(data, train=repeated(data.train, size))
        training = ours.Finetuning(config, build_classifier(config.model, 2, 0), split, folder / f"runs-{size}")
        sides[f"{size:,} sentences"] = rounds.tokens_per_s(training, steps, 3)
    for side in sides.values():
        side(1000)
    values = rounds.interleaved(sides, count)
    first, *others = values
    return [
        *(rounds.times_as_fast(values[name], values[first], f"training on {name} / {first}") for name in others),
        *rounds.rates({f"training on {name}": one for name, one in values.items()}, "tokens/s"),
    ]


def repeated(split: Split, size: int) -> Split:
    """The first `size` sequences of the split, repeated as often as needed."""
    rows = np.arange(size) % len(split)
    lengths = split.lengths[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(split.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
    return Split(split.ids[places], split.types[places], starts, split.labels[rows], range(size))


if __name__ == "__main__":
    print(json.dumps(bare_loop(Path(sys.argv[1]))))
