"""A session: all variants of a command timed in interleaved launches, and the baseline twice.

In each round every variant is launched once, in a new random order, so that a slow minute of the machine affects all of them
alike; the report pairs launches by round. The A/A replicate is the baseline timed a second time: the difference between the
two is noise. A launch during which other processes kept the CPUs busy is repeated.

A variant is launched once per shape, not once per run: runs that differ in their seed, rate or weights share their launches,
and so do tasks with the same vocabulary and number of outputs. They share the throughput too, unless that of their own texts is
asked for (measure.throughput_texts=null). The launch times training steps: other trained parameters, or another optimizer, are
another shape. Its launches share what torch.compile makes.

A session ends before its last round where every comparison with the baseline is decided: different, or the same within the
margin. With each further interim analysis chance alone would name more differences, so these are few, fixed before the first
round (`by_launch.looks`), and share the level: all verdicts, whenever the session ends, are at the level of a single analysis.
`tests/harness/comparison/test_stopping.py` simulates it.

What it measured of a run is in the run's folder: percentiles over all calls, values per launch, raw calls in a compressed file.
"""

import contextlib
import gzip
import hashlib
import importlib.metadata
import json
import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import TypedDict

import numpy as np
from filelock import FileLock, Timeout

from harness import metrics, paths, records, tags, tasks, versions
from harness.comparison import arms, by_launch
from harness.comparison.by_launch import History
from harness.comparison.launches import Table
from harness.comparison.paired import MOST_PAIRS, grouped
from harness.config.choices import Precision
from harness.config.schema import RunConfig, flatten, to_dict
from harness.hardware import facts, peak_flops
from harness.measure.launch import TIMING, launch
from harness.measure.launch import prepare as prepare_launches
from harness.measure.records import Launch, LoadTimes, Request, to_json
from harness.metrics import HIGHEST_FLOOR
from harness.models.config import AdaptationConfig, EncoderConfig
from harness.records import CorruptError
from harness.study import run_folder
from harness.study.plan import PlannedRun
from harness.study.progress import Screen, TimingProgress
from harness.terminal import console, counted, duration
from harness.tracking import run_log
from harness.tracking.run_log import RunLog
from harness.tracking.trackers import TrackedRun, Trackers

COUNTED = "counted.json"
"""In the folder of a launch: what counts of it, of several tries the least disturbed one."""


class State(TypedDict):
    """Content of the file of a session."""

    shapes: dict[str, list[str]]  # name of each timed shape -> keys of the data whose throughput it measures
    conditions: dict[str, str]  # what must not change within a session: the machine, and the code that measures
    rounds: int  # in which every variant was launched that had not failed
    failed: dict[str, str]  # name of a shape -> why one of its launches failed
    done: bool  # everything was added to the runs


def unfinished(output: str, begun: State) -> tuple[Path, State] | None:
    """The newest session under the same conditions that has all of these shapes and that no command holds, if there is one."""
    for path in sorted(paths.sessions_folder(output).glob(f"*/{paths.SESSION}"), reverse=True):
        try:
            for counted_file in paths.matching(path.parent, f"*/*/{COUNTED}"):
                records.read(counted_file, dict[str, Launch])
            state = records.read(path, State)
        except CorruptError as error:  # a round without a launch would pair nothing
            print(f"{error}: the session is not resumed; {path.name} is kept as {records.set_aside(path).name}", flush=True)
            continue
        has_all = all({*keys} <= {*state["shapes"].get(name, [])} for name, keys in begun["shapes"].items())
        if has_all and state["conditions"] == begun["conditions"] and not state["done"]:
            with contextlib.suppress(Timeout), FileLock(path.with_name(paths.LOCK), timeout=0):
                return path.parent, state
    return None


BASELINE = "base"
"""The variant that is timed twice is the one with the shortest label that begins so, or with the shortest label of all."""

FUTILE_REPEATS = 3
"""Consecutive repeats above the allowed load after which a session stops repeating launches: the load persists."""

OF_SHAPE = ("measure.", "hardware.", *(f"model.{key.name}" for key in fields(EncoderConfig)))
OF_TRAINING_STEP = (
    *(f"finetune.{key.name}" for key in fields(AdaptationConfig)),
    *(f"finetune.{name}" for name in ("optimizer", "momentum", "ema_decay", "activation_checkpointing")),
)
"""Keys on which the time of one call depends, and with those of fine-tuning that of one training step, whose number of texts is
that of measuring."""


@dataclass
class Timed:
    """One shape of a variant with its launches; `folder` has a folder for each of them."""

    config: RunConfig
    folder: Path
    is_aa_replicate: bool
    tasks: dict[str, str] = field(default_factory=dict)  # key of prepared data -> name of its task
    launches: dict[str, list[Launch]] = field(default_factory=dict)  # by the same keys; they differ in throughput
    failed: str | None = None

    @property
    def title(self) -> str:
        """Its name in console lines."""
        replicate = " (A/A replicate)" if self.is_aa_replicate else ""
        return f"{self.config.label} on {', '.join(dict.fromkeys(self.tasks.values()))}{replicate}"

    def history(self, key: str) -> History:
        """What its launches measured, with the throughput on the texts of this data."""
        return by_launch.history_of((launch.round, launch.values) for launch in self.launches.get(key, []))


class Session:
    """The launches of one command: the variants of its finished runs that are to be timed, and the A/A replicates.

    `timed` is empty where there is nothing to time; there is a folder otherwise.
    """

    def __init__(self, planned: list[PlannedRun]) -> None:
        self.folder = Path()
        self._futile = 0
        self.timed: dict[str, Timed] = {}
        self._peaks: dict[str, float | None] = {}  # hardware -> FLOP/s of its fastest matrix product
        measured = [run for run in planned if is_measured(run)]
        untimed = [run for run in measured if run.config.sweep.retime or not has_timing(run)]
        self.runs = [(run, self._launched_for(run)) for run in untimed]
        self.replicates: list[tuple[PlannedRun, Timed]] = []
        for run in baselines(measured, untimed):
            if run not in untimed:  # its own launches belong to another session
                self.replicates.append((run, self._launched_for(run)))
            self.replicates.append((run, self._launched_for(run, is_aa_replicate=True)))
        if self.timed:
            self._begin_or_resume()

    def _launched_for(self, run: PlannedRun, is_aa_replicate: bool = False) -> Timed:
        name = shape_key(run) + ("-again" if is_aa_replicate else "")
        timed = self.timed.setdefault(name, Timed(run.config, Path(name), is_aa_replicate))
        timed.tasks[run.inputs.rows] = run.config.task.name
        return timed

    def _begin_or_resume(self) -> None:
        """Takes over the launches of an interrupted session that times all of this, or begins a new one."""
        config = next(iter(self.timed.values())).config
        self._state: State = {
            "shapes": {name: sorted(timed.tasks) for name, timed in self.timed.items()},
            "conditions": {
                "machine": os.uname().nodename,
                "device": facts.device_name(config.hardware),
                "torch": importlib.metadata.version("torch"),
                "versions": json.dumps({part: versions.VERSIONS[part] for part in ("models", "measure")}),
            },
            "rounds": 0,
            "failed": {},
            "done": False,
        }
        if earlier := unfinished(config.output, self._state):
            self.folder, self._state = earlier
        else:
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
            self.folder = paths.named(paths.sessions_folder(config.output), name)
            self.folder.mkdir(parents=True)
            paths.made(self.folder)
            self._write()
        for name, timed in self.timed.items():
            timed.folder, timed.failed = self.folder / name, self._state["failed"].get(name)
            for number in range(self._state["rounds"]):
                file = timed.folder / f"launch-{number}" / COUNTED
                self._count(timed, records.read_or(file, dict[str, Launch], {}))  # empty where it was not launched
        self.replicates = [
            (run, timed)
            for run, timed in self.replicates
            if timed.is_aa_replicate or run_folder.read(run.folder)["tags"].get(tags.SESSION) != self.name
        ]

    @property
    def name(self) -> str:
        """Name of the session, which is that of its folder."""
        return self.folder.name

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other commands from resuming the session."""
        with FileLock(self.folder / paths.LOCK, timeout=0):
            yield

    def finish(self) -> None:
        """Marks the session as added to its runs."""
        self._state["done"] = True
        self._write()

    def _write(self) -> None:
        records.write(self.folder / paths.SESSION, self._state)

    def _count(self, timed: Timed, launches: dict[str, Launch]) -> None:
        """Adds what counts of one launch, by key of the data."""
        for key, record in launches.items():
            timed.launches.setdefault(key, []).append(record)
            if record.peak_flops_per_s is not None:
                self._peaks.setdefault(_hardware(timed), record.peak_flops_per_s)

    def run(self, screen: Screen | None = None) -> None:
        """Launches everything, round by round, until every comparison is decided.

        A variant whose launch fails is left out of later rounds.
        """
        if not self.timed:
            return
        timed, first = [*self.timed.values()], self._state["rounds"]
        most, replicates = max(it.config.measure.rounds for it in timed), sum(it.is_aa_replicate for it in timed)
        counts = f"{counted(len(timed) - replicates, 'model')} and {counted(replicates, 'A/A replicate')}"
        resumed = f", resuming at round {first + 1}" if first else ""
        console.plain(f"Timing {counts}, up to {counted(most, 'round')}{resumed} (measure=none skips timing)")
        began, launches = time.monotonic(), sum(max(0, it.config.measure.rounds - first) for it in timed)
        compiles = any(it.config.hardware.compile for it in timed)  # to a place that is not among results: its content is run
        compiled = tempfile.TemporaryDirectory(prefix="harness-compiled-") if compiles else contextlib.nullcontext("")
        with compiled as place, TimingProgress(launches, screen) as progress:
            for number in range(first, most):
                if number and self._is_done(number, time.monotonic() - began):
                    break
                active = [it for it in timed if not it.failed and number < it.config.measure.rounds]
                random.Random(f"{self.name} {number}").shuffle(active)
                for variant in active:
                    progress.launch(f"{variant.title}, round {number + 1} of up to {most}")
                    self._launch(variant, number, Path(place))
                self._state["rounds"] = number + 1
                self._state["failed"] = {name: it.failed for name, it in self.timed.items() if it.failed}
                self._write()
        self._say_end(first, time.monotonic() - began)

    def _say_end(self, first: int, seconds: float) -> None:
        """What was decided, the noise, and what failed; the rounds from `first` on took so long."""
        done, tables = self._state["rounds"], [*self._tables()]
        known = [(table, floor) for table in tables if (floor := table.floor) is not None]
        of_metrics = grouped((table.metric, floor) for table, floor in known)
        floors = {metric: max(of_metric) for metric, of_metric in of_metrics.items()}  # log ratios of all A/A replicates
        percents = {metric: f"{by_launch.percent(floor):.1f} %" for metric, floor in floors.items()}
        listed = ", ".join(f"{metrics.SHORT[metric]} {percent}" for metric, percent in percents.items())
        quiet = [table for table, floor in known if floor <= HIGHEST_FLOOR]  # all others get no verdict
        comparisons, judged = (sum(len(table.arms) for table in some) for some in (tables, quiet))
        needed = [rounds for table in quiet for rounds in table.undecided(len(self.looks))]
        decided = f"; {judged - len(needed)} of {counted(comparisons, 'comparison')} decided" if comparisons else ""
        noise = f". Noise floor: {listed}" if listed else ""
        console.plain(f"Timed {counted(done, 'round')} in {seconds:.0f} s{decided}{noise}")
        if needed and done > first:
            console.plain(of_undecided(needed, seconds / (done - first)))
        if noisy := [metrics.SHORT[metric] for metric, floor in floors.items() if floor > HIGHEST_FLOOR]:
            console.problem(
                f"No verdict on {', '.join(noisy)}: noise floor above {by_launch.percent(HIGHEST_FLOOR):.0f} %. "
                "On a quieter machine, repeat the command with sweep.retime=true, which trains nothing"
            )
        for variant in self.timed.values():
            if variant.failed is not None:
                console.problem(f"Timing of {variant.title} failed: {variant.failed}")

    def _launch(self, variant: Timed, number: int, compiled: Path) -> None:
        """One launch, repeated while other processes keep more than measure.foreign_cpus busy; the least disturbed counts."""
        allowed = variant.config.measure.foreign_cpus
        tried: list[list[Launch]] = []
        tries = 1 + (variant.config.measure.retries if self._futile < FUTILE_REPEATS else 0)
        hardware, folder = _hardware(variant), variant.folder / f"launch-{number}"
        request = Request(TIMING, number, tuple(variant.tasks), with_peak_flops=hardware not in self._peaks)
        if variant.config.hardware.compile:
            request = replace(request, compiled=str(compiled / variant.folder.name))
        seconds = 0.0
        while not tried or (_foreign(tried[-1]) > allowed and len(tried) < tries):
            with FileLock(paths.timing_lock(variant.config.output)):
                started = time.monotonic()
                outcome = launch(variant.config, request, folder)
            seconds += time.monotonic() - started
            measured = outcome.measured.timing
            if outcome.code != 0 or measured is None:
                variant.failed = f"{outcome.ending.reason} (see {outcome.log})"
                return
            tried.append(measured)
        if len(tried) > 1:
            self._futile = self._futile + 1 if _foreign(tried[-1]) > allowed else 0
        best = min(tried, key=_foreign)
        peak = self._peaks.setdefault(hardware, best[0].peak_flops_per_s)
        compile_s = tried[0][0].compile_s  # later tries find it compiled
        launches = {
            key: replace(
                record, round=number, repeated=len(tried) - 1, peak_flops_per_s=peak, compile_s=compile_s, seconds=seconds
            )
            for key, record in zip(variant.tasks, best, strict=True)
        }
        records.write(folder / COUNTED, {key: to_json(one) for key, one in launches.items()})
        self._count(variant, launches)

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of rounds after which it may end; the last one is all of them."""
        settings = [timed.config.measure for timed in self.timed.values()]
        return by_launch.looks(max(one.min_rounds for one in settings), max(one.rounds for one in settings))

    def _tables(self) -> Iterator[Table]:
        """The comparisons of each baseline, on the texts of each task; what failed is left out.

        What tasks share, such as latency, stands once.
        """
        shared = []
        alive = {name: timed for name, timed in self.timed.items() if not timed.failed}
        for name, again in alive.items():
            first = alive.get(name.removesuffix("-again"))
            if not again.is_aa_replicate or first is None:
                continue
            for key in again.launches:
                others = [one for one in alive.values() if key in one.launches and one is not first and one is not again]
                histories = [one.history(key) for one in (first, again, *others)]
                for metric in by_launch.headlines(histories[1]):
                    values = [history.get(metric) for history in histories]
                    if values not in shared:
                        shared.append(values)
                        yield Table(metric, histories[0], histories[1], tuple(histories[2:]))

    def values(self) -> dict[tuple[str, str], dict[str, float]]:
        """Shape and key of its data -> metric of a launch -> its value; a shape that was timed twice has the mean of both."""
        histories, pairs, launched = {}, [], []
        for name, timed in self.timed.items():
            again = self.timed.get(f"{name}-again")
            for key in timed.launches:
                launched.append(timed.history(key))
                both = [one.history(key) for one in (timed, again) if one and not one.failed and key in one.launches]
                histories[name, key] = by_launch.merged(both or [timed.history(key)])
                pairs += [(both[0], both[1])] if len(both) > 1 else []
        return by_launch.summed_up(histories, pairs, launched)

    def _is_done(self, rounds: int, seconds: float) -> bool:
        """Whether further rounds would add nothing that is needed, or measure.budget_minutes are spent."""
        if all(variant.failed for variant in self.timed.values() if not variant.is_aa_replicate):
            return True
        budgets = [budget for timed in self.timed.values() if (budget := timed.config.measure.budget_minutes) is not None]
        if budgets and seconds > 60 * min(budgets):
            return True
        number = len(self.looks)
        return rounds in self.looks and not any(table.undecided(number) for table in self._tables())


def of_undecided(needed: list[int], round_s: float) -> str:
    """What decides these comparisons: the command for the one that needs the fewest rounds, and the cost of all."""
    costs = [
        f"{n} rounds, {duration(n * round_s)}" if n <= MOST_PAIRS else f"over {MOST_PAIRS:,} rounds" for n in sorted(needed)
    ]
    if min(needed) > MOST_PAIRS:
        return f"The rest need {costs[0]}: leave them inconclusive, or time on a quieter machine"
    command = f"measure.rounds={min(needed)} sweep.retime=true (about {costs[0]}; nothing is trained)"
    rest = f"; all of them need {costs[-1]}" if costs[-1] != costs[0] else ""
    return f"To decide {'one more' if rest else 'the rest'}, repeat the command with {command}{rest}"


def is_measured(run: PlannedRun) -> bool:
    """Whether it is a finished run on a task whose inference is to be timed."""
    return run.is_to_be_timed and run_log.finished(run.folder) is not None


def has_timing(run: PlannedRun) -> bool:
    """Whether a finished run was timed: its folder is that of its settings, those of measuring among them."""
    return tags.SESSION in run_folder.read(run.folder)["tags"]


def baselines(measured: list[PlannedRun], untimed: list[PlannedRun]) -> list[PlannedRun]:
    """The baseline of each group of runs that share task and conditions and have something to time; it may be timed already."""
    groups = grouped((arms.short_hash(arms.conditions(run.identity.facts, run.lifted)), run) for run in measured)
    return [
        min(group, key=lambda run: (not run.config.label.startswith(BASELINE), len(run.config.label)))
        for group in groups.values()
        if any(run in untimed for run in group)
    ]


def shape_key(run: PlannedRun) -> str:
    """Hash of what is timed: equal for runs that differ in seed, rate, weights, or a task of the same kind and outputs."""
    timed = (*OF_SHAPE, *(OF_TRAINING_STEP if run.config.measure.train_steps else ()))
    settings = {key: value for key, value in flatten(to_dict(run.config)).items() if arms.within(key, timed)}
    settings |= {"kind": run.config.task.kind.name, "outputs": tasks.num_outputs(run.config.task)}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def _hardware(timed: Timed) -> str:
    """Equal for variants whose fastest matrix product is the same."""
    return json.dumps([to_dict(timed.config.hardware), timed.config.measure.threads])


def _foreign(launches: list[Launch]) -> float:
    """CPUs that other processes kept busy during a launch that only the wall clock times; 0 if it need not be repeated."""
    return 0.0 if launches[0].latency.device_ms else launches[0].foreign_cpus or 0.0


RANKS = {"p50": 50, "p90": 90, "p99": 99}

Values = dict[str, float]
"""Metric of a launch -> its value in the session, which is that of the run."""

FLOAT32_PRODUCTS = (Precision.fp32, Precision.int8_weights)
"""Precisions whose products are those of the fastest matrix product, of which an MFU is a share; others have no MFU."""

MEDIANS = {
    "inference/first_call_ms": "first_call_ms",
    "setup/import_s": "import_s",
    "setup/build_s": "build_s",
}
"""Metric of a run -> field of its launches, whose median it is."""


@dataclass(frozen=True)
class Timing:
    """What a session measured of one run, as `timing.json.gz` has it; without `values` those of its launches alone."""

    session: str
    launches: list[Launch]
    values: Values | None = None


def write_timing(folder: Path, timing: Timing, flops_forward: float | None = None) -> RunLog:
    """Writes the launches to the run's folder and their metrics to its log: results, and curves by launch, length and batch.

    The returned log is open. The bytes of the file depend on the timing alone. `flops_forward`: of one timed call.
    """
    launches = timing.launches
    content: dict[str, object] = {"unit": "ms", "session": timing.session, "launches": [to_json(launch) for launch in launches]}
    content |= {"values": timing.values} if timing.values else {}
    with paths.replaced(folder / run_log.TIMING) as temporary:
        temporary.write_bytes(gzip.compress(json.dumps(content, allow_nan=False).encode(), mtime=0))
    log = RunLog(folder)
    log.values(timing_values(launches, flops_forward, timing.values))
    for measured in launches:
        for key, value in measured.values.items():
            log.sample(key, measured.round, value, measured.time)
        for point in measured.points:
            by_batch = point.of_sizes or point.batch_size != 1
            curve, place = ("batching", point.batch_size) if by_batch else ("scaling", point.length)
            log.sample(f"{curve}/latency_ms", place, median(point.raw_ms), measured.time)
            log.sample(f"{curve}/tokens_per_s", place, point.tokens_per_s, measured.time)
            if not by_batch and point.peak_memory_bytes is not None:
                log.sample("scaling/peak_memory_bytes", place, point.peak_memory_bytes, measured.time)
    return log


def read_timing(folder: Path) -> Timing:
    """The timing that `write_timing` wrote; FileNotFoundError if the run was not timed."""
    return records.decoded(run_log.read_gzip(folder / run_log.TIMING), Timing, folder / run_log.TIMING)


def timing_values(
    launches: list[Launch], flops_forward: float | None = None, of_session: Values | None = None
) -> dict[str, float | None]:
    """Metric name -> value over all launches; there must be at least one.

    What is compared by launch has its value in the session, and so have its other units.
    """
    values = of_session or launches[0].values
    if len(launches) > 1 and not of_session:
        values = by_launch.summed_up({"": by_launch.history_of((launch.round, launch.values) for launch in launches)})[""]
    p50_ms, tokens_per_s = values[metrics.LATENCY], values[metrics.THROUGHPUT]
    work = [launch.throughput for launch in launches]
    tokens, padded = sum(part.tokens for part in work), sum(part.padded_tokens for part in work)
    joules = [part.joules for part in work if part.joules is not None]
    loads = [launch.load for launch in launches if launch.load]
    compiling, peaks = ([*filter(None, map(attrgetter(name), launches))] for name in ("compile_s", "peak_flops_per_s"))
    raw_ms, fastest = np.concatenate([launch.latency.raw_ms for launch in launches]), max(peaks, default=None)
    return {
        "inference/latency_ms_min": float(np.min(raw_ms)),
        **{f"inference/latency_ms_{rank}": float(np.percentile(raw_ms, RANKS[rank])) for rank in ("p90", "p99")},
        **{name: values[metric] for name, metric in metrics.COMPARED_BY.items() if metric in values},
        "inference/padded_tokens_per_s": tokens_per_s * padded / tokens,
        "inference/samples_per_s": tokens_per_s * sum(part.samples for part in work) / tokens,
        "inference/padding_share": 1 - tokens / padded,
        "inference/energy_j_per_token": sum(joules) / tokens if len(joules) == len(work) else None,
        **{name: median(map(attrgetter(field), launches)) for name, field in MEDIANS.items()},
        "setup/compile_s": median(compiling) if compiling else None,
        "inference/peak_flops_per_s": fastest,
        "inference/mfu": _utilisation(flops_forward, p50_ms, fastest),
        **(of_load(loads) if loads else {}),
    }


def of_load(loads: list[LoadTimes]) -> dict[str, float]:
    """Metric name -> rate, the median over launches, and percentiles over the texts of all of them."""
    values = {f"load/{name}_samples_per_s": median(one.samples_per_s[name] for one in loads) for name in loads[0].samples_per_s}
    for name in loads[0].latencies_ms:
        texts = np.concatenate([one.latencies_ms[name] for one in loads])
        values |= {f"load/{name}_latency_ms_{rank}": float(np.percentile(texts, at)) for rank, at in RANKS.items()}
    return values


def _utilisation(flops: float | None, p50_ms: float, fastest: float | None) -> float | None:
    """Model FLOPs over the fastest matrix product; None without a count, or above 1: then the product was slowed down."""
    try:
        return None if flops is None else peak_flops.mfu(flops, p50_ms / 1e3, fastest)
    except RuntimeError as error:
        print(f"inference/mfu is left out: {error}")
        return None


def prepare(planned: list[PlannedRun]) -> None:
    """Starts what a later `time_runs` begins with, where there will be something to time."""
    if planned[0].config.sweep.timing and any(run.is_to_be_timed for run in planned):
        prepare_launches()


def time_runs(planned: list[PlannedRun], trackers: Trackers, screen: Screen, before: Callable[[], None] = lambda: None) -> None:
    """Times the finished runs that are to be timed, and adds it to them; a failed launch leaves a run as it was.

    `before` is called where there is something to time.
    """
    for run in filter(is_measured, planned):
        if has_timing(run):  # a store that is new, or was away, lacks its replicates
            for folder in sorted(run.folder.parent.glob(f"replicate-*-{run.folder.name}")):
                if not run_log.faults(folder) and run_log.result(folder) is not None:
                    _sync(run, folder, trackers)
        elif (run.folder / run_log.TIMING).exists():  # an earlier command was killed while it added this
            try:
                _add_timing(run, read_timing(run.folder), trackers)
            except CorruptError as error:
                console.problem(f"{error}: kept as *{records.ASIDE}, and timed again")
                records.set_aside(run.folder / run_log.TIMING)
    session = Session(planned)
    if not session.timed:
        return
    with session.held():
        before()
        session.run(screen)
        values = session.values()

        def timing(run: PlannedRun, timed: Timed) -> Timing:
            key = run.inputs.rows
            return Timing(session.name, timed.launches[key], values[timed.folder.name, key])

        for run, timed in session.replicates:
            if timed.failed is None:
                _track_replicate(run, timed, timing(run, timed), trackers)
        for run, timed in session.runs:
            if timed.failed is None:
                is_new = _supersede(run, session.name)
                _add_timing(run, timing(run, timed), trackers)
                if is_new:
                    _sync(run, run.folder, trackers)
        session.finish()


def _supersede(run: PlannedRun, session: str) -> bool:
    """Makes a run that another session has timed a new attempt, whose timing is still to be added; whether it did."""
    with FileLock(run.folder / paths.LOCK):
        if not (is_measured(run) and has_timing(run)):
            return False
        record = run_folder.read(run.folder)
        if record["tags"].pop(tags.SESSION) == session:
            return False
        # of two attempts reports count the one that started later
        run_folder.write(run.folder, record | {"attempt": uuid.uuid4().hex, "started": record["started"] + 1})
        return True


def _sync(run: PlannedRun, folder: Path, trackers: Trackers) -> None:
    record = run_folder.read(folder)
    trackers.send(run.config, lambda backend: backend.sync_if_stale(record, folder))


def _add_timing(run: PlannedRun, timing: Timing, trackers: Trackers) -> None:
    """Adds launches to a finished run: to its folder, then in MLflow. The record of the run names the session last."""
    with FileLock(run.folder / paths.LOCK):
        result = run_log.result(run.folder)
        if result is None or not is_measured(run) or has_timing(run):  # meanwhile another command ran it again, or timed it
            return
        record = run_folder.read(run.folder)
        record["tags"] |= _session_tags(run, timing)
        run_log.drop_later(run.folder)  # of another session, or of a command that was killed here
        reader = run_log.Reader(run.folder)
        reader.new_entries()
        flops = result["metrics"].get("model/flops_forward") if run.config.measure.precision in FLOAT32_PRODUCTS else None
        write_timing(run.folder, timing, flops).finish(result["status"], result["time"], result.get("notes", []))
        entries = reader.new_entries()
        trackers.send(run.config, lambda backend: backend.add(record, run.folder, entries))
        run_folder.write(run.folder, record)


def _session_tags(run: PlannedRun, timing: Timing) -> dict[str, str]:
    settings = run.config.measure
    looks = {tags.LOOKS: str(len(by_launch.looks(settings.min_rounds, settings.rounds)))}
    return {tags.SESSION: timing.session} | looks | ({tags.OF_SESSION: "true"} if timing.values else {})


def _track_replicate(run: PlannedRun, timed: Timed, timing: Timing, trackers: Trackers) -> None:
    """Tracks a second timing of the baseline as a run of its own, without training."""
    number = "2" if timed.is_aa_replicate else "1"  # the first one of a baseline that another session timed
    folder = run.folder.with_name(f"replicate-{timing.session}-{number}-{run.folder.name}")
    if run_log.result(folder) is not None:  # an earlier command was interrupted after it had added this
        _sync(run, folder, trackers)
        return
    record = run_folder.new_record(run.config, run.inputs, run.lifted)
    record["name"] += " (A/A replicate)"
    record["tags"] |= _session_tags(run, timing) | {tags.REPLICATE: "true", tags.ROLE: tags.ROLE_REPLICATE}
    run_folder.prepare(folder, run.config, record)
    write_timing(folder, timing).finish("finished")
    tracked = TrackedRun(trackers, run.config, record, folder)
    tracked.add(run_log.Reader(folder).new_entries())
    tracked.end("finished")
