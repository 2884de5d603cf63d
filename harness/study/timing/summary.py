"""Timing results of a run from its launches: percentiles over all calls, values per launch, raw calls in a compressed file."""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from harness.hardware import peak_flops
from harness.measure import intervals
from harness.measure.records import Launch, Point, from_json, to_json
from harness.tracking import run_files
from harness.tracking.run_log import RunLog

FILE = run_files.TIMING
"""In the folder of a run: all launches with their raw values."""

RANKS = {"p50": 50, "p90": 90, "p99": 99}


def write(folder: Path, session: str, launches: list[Launch], flops_forward: float | None = None) -> RunLog:
    """Writes the launches to the run's folder and their metrics to its log: results, and curves by launch, length and batch.

    The returned log is open. The bytes of the file depend on the launches alone. `flops_forward`: of one timed call.
    """
    content = {"unit": "ms", "session": session, "launches": [to_json(launch) for launch in launches]}
    temporary = folder / f".{FILE}"
    temporary.write_bytes(gzip.compress(json.dumps(content, allow_nan=False).encode(), mtime=0))
    temporary.replace(folder / FILE)
    run_log = RunLog(folder)
    for key, value in values(launches, flops_forward).items():
        run_log.value(key, value)
    for launch in launches:
        _log_launch(launch, run_log)
        for point in launch.points:
            _log_point(point, launch.time, run_log)
    return run_log


def read(folder: Path) -> tuple[str, list[Launch]]:
    """Session and launches of the run; FileNotFoundError if it was not timed."""
    content = json.loads(gzip.decompress((folder / FILE).read_bytes()))
    return content["session"], [from_json(Launch, launch) for launch in content["launches"]]


def values(launches: list[Launch], flops_forward: float | None = None) -> dict[str, float | None]:
    """Metric name -> value over all launches; there must be at least one."""
    raw = [launch.latency.raw_ms for launch in launches]
    ranked = percentiles(np.concatenate(raw))
    low, high = intervals.percentile_interval(raw, 50) if len(raw) > 1 else (None, None)
    work = [launch.throughput for launch in launches]
    seconds = sum(one.seconds for one in work)
    tokens, padded = sum(one.tokens for one in work), sum(one.padded_tokens for one in work)
    joules, compiling = [one.joules for one in work], _known(launch.compile_s for launch in launches)
    fastest = max(_known(launch.peak_flops_per_s for launch in launches), default=None)
    return {
        **ranked,
        "inference/latency_ms_p50_low": low,
        "inference/latency_ms_p50_high": high,
        "inference/tokens_per_s": tokens / seconds,
        "inference/padded_tokens_per_s": padded / seconds,
        "inference/samples_per_s": sum(one.samples for one in work) / seconds,
        "inference/padding_share": 1 - tokens / padded,
        "inference/energy_j_per_token": None if None in joules else sum(joules) / tokens,
        "inference/first_call_ms": median(launch.first_call_ms for launch in launches),
        "setup/import_s": median(launch.import_s for launch in launches),
        "setup/build_s": median(launch.build_s for launch in launches),
        "setup/compile_s": median(compiling) if compiling else None,
        "inference/peak_flops_per_s": fastest,
        "inference/mfu": _utilisation(flops_forward, ranked["inference/latency_ms_p50"], fastest),
    }


def percentiles(raw_ms: Sequence[float]) -> dict[str, float]:
    """Metric name -> minimum and percentiles of all calls."""
    ranked = {f"inference/latency_ms_{name}": float(np.percentile(raw_ms, rank)) for name, rank in RANKS.items()}
    return {"inference/latency_ms_min": float(np.min(raw_ms)), **ranked}


def _utilisation(flops: float | None, p50_ms: float, fastest: float | None) -> float | None:
    """Model FLOPs over the fastest matrix product; None without a count, or above 1: then the product was slowed down."""
    try:
        return None if flops is None else peak_flops.mfu(flops, p50_ms / 1e3, fastest)
    except RuntimeError as error:
        print(f"inference/mfu is left out: {error}")
        return None


def _log_launch(launch: Launch, run_log: RunLog) -> None:
    values = {
        "timing/latency_ms": launch.latency.ms,
        "timing/tokens_per_s": launch.throughput.tokens_per_s,
        "timing/reference_ms": median(launch.latency.reference_ms),
        "timing/throughput_reference_ms": median(launch.throughput.reference_ms),
        "timing/load_average": launch.load_average,
        "timing/cpu_mhz": launch.cpu_mhz,
        "timing/foreign_cpus": launch.foreign_cpus,
    }
    for key, value in values.items():
        if value is not None:
            run_log.sample(key, launch.round, value, launch.time)


def _log_point(point: Point, time_ms: int, run_log: RunLog) -> None:
    if point.of_sizes or point.batch_size != 1:
        run_log.sample("batching/latency_ms", point.batch_size, median(point.raw_ms), time_ms)
        run_log.sample("batching/tokens_per_s", point.batch_size, point.tokens_per_s, time_ms)
        return
    run_log.sample("scaling/latency_ms", point.length, median(point.raw_ms), time_ms)
    run_log.sample("scaling/tokens_per_s", point.length, point.tokens_per_s, time_ms)
    if point.peak_memory_bytes is not None:
        run_log.sample("scaling/peak_memory_bytes", point.length, point.peak_memory_bytes, time_ms)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
