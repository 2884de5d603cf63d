"""From launches to a cell's numbers: percentiles over all calls, one value a launch, raw calls in a compressed file."""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from harness.measure import intervals, peak_flops
from harness.tracking.run_log import Journal

FILE = "timing.json.gz"
"""Below a cell's folder: everything that every launch said."""

RANKS = {"p50": 50, "p90": 90, "p99": 99}

Launch = dict[str, Any]


def write(folder: Path, session: str, launches: list[Launch]) -> None:
    """Leaves the launches in the folder; the bytes depend on them alone."""
    told = json.dumps({"unit": "ms", "session": session, "launches": launches}, allow_nan=False)
    (folder / FILE).write_bytes(gzip.compress(told.encode(), mtime=0))


def read(folder: Path) -> list[Launch]:
    """Launches of the cell, none where it was not timed."""
    path = folder / FILE
    return json.loads(gzip.decompress(path.read_bytes()))["launches"] if path.exists() else []


def tell(launches: list[Launch], forward_flops: int | None, journal: Journal) -> None:
    """Writes results, one point a launch, and one point a launch and length.

    `forward_flops` are those of a timed call, None where nobody counted them.
    """
    if not launches:
        return
    told = values(launches)
    for key, value in told.items():
        journal.value(key, value)
    journal.value("inference/mfu", None if forward_flops is None else _utilisation(forward_flops, told))
    for launch in launches:
        _tell_launch(launch, journal)
        for point in launch["points"]:
            _tell_point(point, launch["time"], journal)


def values(launches: list[Launch]) -> dict[str, float | None]:
    """Metric name -> value over all launches."""
    raw = [launch["latency"]["raw_ms"] for launch in launches]
    pooled = np.concatenate(raw)
    low, high = intervals.percentile_interval(raw, 50) if len(raw) > 1 else (None, None)
    work = [launch["throughput"] for launch in launches]
    seconds = sum(one["seconds"] for one in work)
    tokens, padded = sum(one["tokens"] for one in work), sum(one["padded_tokens"] for one in work)
    joules, compiling = [one["joules"] for one in work], _known(launch["compile_s"] for launch in launches)
    return {
        **percentiles(pooled),
        "inference/latency_ms_p50_low": low,
        "inference/latency_ms_p50_high": high,
        "inference/tokens_per_s": tokens / seconds,
        "inference/padded_tokens_per_s": padded / seconds,
        "inference/samples_per_s": sum(one["samples"] for one in work) / seconds,
        "inference/padding_share": 1 - tokens / padded,
        "inference/energy_j_per_token": None if None in joules else sum(joules) / tokens,
        "inference/first_call_ms": median(launch["first_call_ms"] for launch in launches),
        "setup/import_s": median(launch["import_s"] for launch in launches),
        "setup/build_s": median(launch["build_s"] for launch in launches),
        "setup/compile_s": median(compiling) if compiling else None,
        "inference/peak_flops_per_s": max(_known(launch["peak_flops_per_s"] for launch in launches), default=None),
    }


def percentiles(raw_ms: Sequence[float]) -> dict[str, float]:
    """Metric name -> fastest call and percentiles of all calls."""
    ranked = {f"inference/latency_ms_{name}": float(np.percentile(raw_ms, rank)) for name, rank in RANKS.items()}
    return {"inference/latency_ms_min": float(np.min(raw_ms)), **ranked}


def _utilisation(forward_flops: int, told: dict[str, float | None]) -> float | None:
    """Of the peak that the first launch measured; None without one, and where the peak must have been measured too low."""
    try:
        return peak_flops.mfu(forward_flops, told["inference/latency_ms_p50"] / 1e3, told["inference/peak_flops_per_s"])
    except RuntimeError as error:
        print(f"left out: {error}")
        return None


def _tell_launch(launch: Launch, journal: Journal) -> None:
    latency, work = launch["latency"], launch["throughput"]
    told = {
        "timing/latency_ms": median(latency["raw_ms"]),
        "timing/tokens_per_s": work["tokens"] / work["seconds"],
        "timing/reference_ms": median([*latency["reference_ms"], *work["reference_ms"]]),
        "timing/load_average": launch["load_average"],
        "timing/cpu_mhz": launch["cpu_mhz"],
        "timing/foreign_cpus": launch["foreign_cpus"],
    }
    for key, value in told.items():
        if value is not None:
            journal.sample(key, launch["round"], value, launch["time"])


def _tell_point(point: dict[str, Any], time_ms: int, journal: Journal) -> None:
    if point["batch_size"] != 1:
        journal.sample("batching/latency_ms", point["batch_size"], median(point["raw_ms"]), time_ms)
        journal.sample("batching/tokens_per_s", point["batch_size"], point["tokens_per_s"], time_ms)
        return
    journal.sample("scaling/latency_ms", point["length"], median(point["raw_ms"]), time_ms)
    journal.sample("scaling/tokens_per_s", point["length"], point["tokens_per_s"], time_ms)
    if point["peak_memory_bytes"] is not None:
        journal.sample("scaling/peak_memory_bytes", point["length"], point["peak_memory_bytes"], time_ms)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
