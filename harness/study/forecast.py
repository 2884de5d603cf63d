"""What the folders of earlier runs tell of those that a command names: which are done, and how long the others take."""

import contextlib
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness import paths, tags
from harness.comparison import arms
from harness.comparison.paired import Replicate
from harness.hardware import facts
from harness.records import CorruptError
from harness.study import run_folder
from harness.study.identity import Identity
from harness.study.plan import PlannedRun
from harness.terminal import counted, duration
from harness.tracking import run_log
from harness.tracking.run_log import Record, Result


@dataclass(frozen=True)
class Pace:
    """Time and memory of one run, and their source."""

    seconds: float
    memory_bytes: float | None  # peak of the process's training above its libraries
    source: str


def is_done(run: PlannedRun) -> bool:
    """Whether the command would skip the run."""
    has_weights = all(folder.is_dir() for folder in run.needs_weights)
    return run_log.result(run.folder) is not None and has_weights and not run.config.rerun


def opening(planned: list[PlannedRun]) -> str:
    """One line before a sweep: how many runs are done and left, and how long the left ones take as far as earlier ones tell."""
    left = [run for run in planned if not is_done(run)]
    paces_by_kind = earlier({run.config.output for run in planned}) if left else {}
    paces = [pace for run in left if (pace := paces_by_kind.get(kind_of(run)))]
    text = f"{counted(len(planned), 'run')}, {len(planned) - len(left)} already finished"
    if unmeasured := sum(run.is_to_be_timed and run_log.finished(_unmeasured(run)) is not None for run in left):
        text += f" ({unmeasured} more with measure=none: trained again, since the process that trains a run measures it)"
    if not paces:
        return text
    seconds = training_s([pace.seconds for pace in paces], planned[0].config.hardware.workers or 1)
    of = "" if len(paces) == len(left) else f" for {len(paces)} of them"
    return f"{text}; about {duration(seconds)} left{of}, judging by earlier runs"


def _unmeasured(run: PlannedRun) -> Path:
    """The folder of the same run with measure=none."""
    measure = replace(run.config.measure, enabled=False)
    return Identity(replace(run.config, measure=measure), run.inputs).folder


def training_s(seconds: list[float], workers: int) -> float:
    """Wall-clock seconds of these runs on so many workers, at least those of the longest run."""
    return max(sum(seconds) / workers, max(seconds, default=0.0))


def kind_of(run: PlannedRun) -> tuple[str, ...]:
    """A key that runs share if they differ only in seeds and ran on one machine."""
    config = run.config
    named = (config.label, config.scale_name, run.identity.task)
    return (*named, arms.short_hash(run.identity.facts), facts.description(config.hardware))


@dataclass(frozen=True)
class Finished:
    """A finished run in a folder, and its kind."""

    folder: Path
    kind: tuple[str, ...]
    record: Record
    result: Result

    @property
    def replicate(self) -> Replicate:
        """Both of its seeds."""
        run_tags = self.record["tags"]
        return Replicate(run_tags.get(tags.PRETRAIN_SEED, ""), run_tags[tags.SEED])


def finished(outputs: Iterable[str]) -> Iterator[Finished]:
    """The finished runs in these folders, without A/A replicates, which train nothing: their records last milliseconds."""
    for folder in (path.parent for output in outputs for path in paths.matching(output, f"*/*/{run_log.RECORD}")):
        with contextlib.suppress(CorruptError):  # the command that ran it says so, and makes it again
            result, record = run_log.finished(folder), run_folder.read(folder)
            run_tags = record["tags"]
            if result is not None and run_tags.get(tags.REPLICATE) != "true":
                named = (run_tags[tags.ARM], run_tags[tags.SCALE], run_tags[tags.TASK])
                kind = (*named, arms.short_hash(arms.facts(record["parameters"])), run_tags["hardware"])
                yield Finished(folder, kind, record, result)


def earlier(outputs: Iterable[str]) -> dict[tuple[str, ...], Pace]:
    """Kind of a run -> the medians of its finished runs in these folders, each trained in one uninterrupted attempt."""
    measured: dict[tuple[str, ...], list[tuple[float, float | None]]] = {}
    for run in finished(outputs):
        stages = [entry["stage"] for entry in run_log.Reader(run.folder).new_entries() if "stage" in entry]
        if len(stages) > len(set(stages)) or run.record.get(tags.RETRIES):
            continue  # resumed by a second worker: nobody knows how long the run waited between the two
        seconds = (run.result["time"] - run.record["started"]) / 1000
        measured.setdefault(run.kind, []).append((seconds, memory_of(run.result["metrics"])))
    paces = {}
    for kind, runs in measured.items():
        seconds, memory = statistics.median(took for took, _ in runs), [value for _, value in runs if value is not None]
        paces[kind] = Pace(seconds, statistics.median(memory) if memory else None, counted(len(runs), "earlier run"))
    return paces


def memory_of(metrics: dict[str, float]) -> float | None:
    """The peak of training, or of inference where there is none."""
    peaks = (metrics.get(f"{phase}/peak_memory_bytes") for phase in ("finetune", "pretrain", "inference"))
    return next((value for value in peaks if value is not None), None)
