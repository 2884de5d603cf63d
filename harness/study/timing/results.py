"""The timing results of runs: percentiles over all calls, values per launch, raw calls in a compressed file."""

import gzip
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median

import numpy as np
from filelock import FileLock

from harness import metrics, paths, records, tags
from harness.comparison import by_launch
from harness.config.choices import Precision
from harness.hardware import peak_flops
from harness.measure.launch import prepare as prepare_launches
from harness.measure.records import Launch, LoadTimes, to_json
from harness.records import CorruptError
from harness.study import run_folder
from harness.study.plan import PlannedRun
from harness.study.progress import Screen
from harness.study.timing.session import Session, Timed, has_timing, is_measured
from harness.terminal import console
from harness.tracking import run_log
from harness.tracking.run_log import TIMING, RunLog
from harness.tracking.trackers import TrackedRun, Trackers

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
    content = {"unit": "ms", "session": timing.session, "launches": [to_json(launch) for launch in launches]}
    content |= {"values": timing.values} if timing.values else {}
    with paths.replaced(folder / TIMING) as temporary:
        temporary.write_bytes(gzip.compress(json.dumps(content, allow_nan=False).encode(), mtime=0))
    run_log = RunLog(folder)
    run_log.values(timing_values(launches, flops_forward, timing.values))
    for launch in launches:
        for key, value in launch.values.items():
            run_log.sample(key, launch.round, value, launch.time)
        for point in launch.points:
            by_batch = point.of_sizes or point.batch_size != 1
            curve, place = ("batching", point.batch_size) if by_batch else ("scaling", point.length)
            run_log.sample(f"{curve}/latency_ms", place, median(point.raw_ms), launch.time)
            run_log.sample(f"{curve}/tokens_per_s", place, point.tokens_per_s, launch.time)
            if not by_batch and point.peak_memory_bytes is not None:
                run_log.sample("scaling/peak_memory_bytes", place, point.peak_memory_bytes, launch.time)
    return run_log


def read_timing(folder: Path) -> Timing:
    """What was written; FileNotFoundError if the run was not timed."""
    return records.decoded(run_log.read_gzip(folder / TIMING), Timing, folder / TIMING)


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
    joules = [part.joules for part in work]
    compiling, peaks = ([*filter(None, map(attrgetter(name), launches))] for name in ("compile_s", "peak_flops_per_s"))
    raw_ms, fastest = np.concatenate([launch.latency.raw_ms for launch in launches]), max(peaks, default=None)
    return {
        "inference/latency_ms_min": float(np.min(raw_ms)),
        **{f"inference/latency_ms_{rank}": float(np.percentile(raw_ms, RANKS[rank])) for rank in ("p90", "p99")},
        **{name: values[metric] for name, metric in metrics.COMPARED_BY.items() if metric in values},
        "inference/padded_tokens_per_s": tokens_per_s * padded / tokens,
        "inference/samples_per_s": tokens_per_s * sum(part.samples for part in work) / tokens,
        "inference/padding_share": 1 - tokens / padded,
        "inference/energy_j_per_token": None if None in joules else sum(joules) / tokens,
        **{name: median(map(attrgetter(field), launches)) for name, field in MEDIANS.items()},
        "setup/compile_s": median(compiling) if compiling else None,
        "inference/peak_flops_per_s": fastest,
        "inference/mfu": _utilisation(flops_forward, p50_ms, fastest),
        **(of_load([launch.load for launch in launches]) if launches[0].load else {}),
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


def time_runs(
    planned: list[PlannedRun], trackers: Trackers, screen: Screen | None = None, before: Callable[[], None] = lambda: None
) -> None:
    """Times the finished runs that are to be timed, and adds it to them; a failed launch leaves a run as it was.

    `before` is called where there is something to time.
    """
    for run in filter(is_measured, planned):
        if has_timing(run):  # a store that is new, or was away, lacks its replicates
            for folder in sorted(run.folder.parent.glob(f"replicate-*-{run.folder.name}")):
                if not run_log.faults(folder) and run_log.result(folder) is not None:
                    _sync(run, folder, trackers)
        elif (run.folder / TIMING).exists():  # an earlier command was killed while it added this
            try:
                _add_timing(run, read_timing(run.folder), trackers)
            except CorruptError as error:
                console.problem(f"{error}: kept as *{records.ASIDE}, and timed again")
                records.set_aside(run.folder / TIMING)
    session = Session(planned)
    if session.folder is None:
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
        if not is_measured(run) or has_timing(run):  # meanwhile another command ran it again, or timed it
            return
        record, result = run_folder.read(run.folder), run_log.result(run.folder)
        record["tags"] |= _session_tags(run, timing)
        run_log.drop_later(run.folder)  # of another session, or of a command that was killed here
        reader = run_log.Reader(run.folder)
        reader.new_entries()
        as_peak = run.config.measure.precision in FLOAT32_PRODUCTS
        flops = result["metrics"].get("model/flops_forward") if as_peak else None
        log = write_timing(run.folder, timing, flops)
        log.finish(result["status"], result["time"], result.get("notes", []))
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
