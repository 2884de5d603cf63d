"""Runs the benchmarks, each in a fresh process, and writes one table of their figures.

    python tests/benchmarks/run.py [--only NAME ...] [--full]

Figures are ratios, measured side by side in interleaved rounds. Needs ../shared/data beside the checkout, or its place in
BENCHMARK_DATA.
"""

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import results  # noqa: E402

from harness import processes  # noqa: E402

BENCHMARKS = {
    "finetune": "finetune_speed",
    "short": "short_speed",
    "options": "options_speed",
    "pretrain": "pretrain_speed",
    "attention": "attention_speed",
    "inference": "inference_speed",
    "evaluation": "evaluation_speed",
    "sweep": "sweep_speed",
    "neighbour": "neighbour",
    "harness": "harness_cost",
    "utilisation": "utilisation",
    "reports": "reports_speed",
    "corpus": "corpus_speed",
    "published": "published_speed",
}
"""Name -> module with `measure(quick) -> list of figures`."""

ON_DEMAND = {"published", "short"}
"""Those that need more than ../shared/data or many minutes, and are run where --only names them."""


def main() -> int:
    """1 if a benchmark failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="extend", nargs="+", choices=BENCHMARKS, help="these benchmarks alone")
    parser.add_argument("--full", action="store_true", help="more rounds and sizes")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder of the tables")
    parser.add_argument("--here", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        processes.end_with_parent()
        (name,) = options.only
        options.here.write_text(json.dumps(importlib.import_module(BENCHMARKS[name]).measure(not options.full)))
        return 0
    peak, started = results.peak_gflops(), time.monotonic()
    measured, failed = {}, []
    names = options.only or [name for name in BENCHMARKS if name not in ON_DEMAND]
    with tempfile.TemporaryDirectory() as cache:
        for number, name in enumerate(names, 1):
            print(f"[{number}/{len(names)}] {name}, after {_clock(time.monotonic() - started)}", flush=True)
            before = _cpu_seconds()
            rows = in_fresh_process(name, options.full, options.output, cache)
            print(f"{name} used {_cpu_seconds() - before:.0f} s of CPU", flush=True)
            if rows is None:
                failed.append(f"{name}: failed, see above")
            else:
                measured[name] = rows
    print(f"{len(names)} benchmarks in {_clock(time.monotonic() - started)}", flush=True)
    peak = max(peak, results.peak_gflops())  # another process may have been busy at one of both times
    print(results.write(options.output, measured, "full" if options.full else "quick", failed, peak=peak))
    return 1 if failed else 0


def _clock(seconds: float) -> str:
    return "{}:{:02d} min".format(*divmod(round(seconds), 60))


def _cpu_seconds() -> float:
    """Of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_fresh_process(name: str, full: bool, output: Path, cache: str) -> list[dict] | None:
    """The figures of one benchmark, None if it failed; `cache` is a folder for prepared data."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / "run.py"), "--only", name, "--here", str(file), *(["--full"] if full else [])]
        quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": f"{cache}/datasets"}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(results.THREADS))
        settings = threads | {results.FOLDER: str(output.absolute()), results.CACHE: f"{cache}/output"}
        code = subprocess.run(command, env=os.environ | quiet | settings).returncode
        return json.loads(file.read_text()) if code == 0 else None


if __name__ == "__main__":
    sys.exit(main())
