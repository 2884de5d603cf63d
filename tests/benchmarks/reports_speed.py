"""`python -m reports` from start to end in a fresh process: of a study as the demo leaves it, and of one of 1,000 runs.

    python tests/benchmarks/reports_speed.py [--quick] [--uri sqlite:////ABSOLUTE/PATH/mlflow.db]

With `--uri`, the newest study of that store is timed as well. Nothing here is asserted: the machine decides the numbers.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import generated_study
from generated_study import Shape

ROOT = Path(__file__).resolve().parents[2]
STUDIES = {"3 arms, 3 tasks, 1 seed": Shape(3, 3, 1, 5, 1, 64, 0), "40 arms, 5 tasks, 5 seeds": Shape()}


def measure(quick: bool, uris: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Wall time and CPU time in seconds of a report of each study; `uris` are further studies by name."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        made = {name: generated_study.generate(Path(folder, str(shape.arms)), shape) for name, shape in STUDIES.items()}
        for name, uri in (made | (uris or {})).items():
            timed = [_report(uri, Path(folder, "report")) for _ in range(2 if quick else 7)]
            found += [_figure(f"{kind} time of a report, {name}", values) for kind, values in _by_kind(timed).items()]
    return found


def _report(uri: str, out: Path) -> tuple[float, float]:
    """Wall seconds and CPU seconds of one process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "reports", "--uri", uri, "--out", str(out)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _by_kind(timed: list[tuple[float, float]]) -> dict[str, list[float]]:
    walls, cpus = zip(*timed, strict=True)
    return {"wall": list(walls), "CPU": list(cpus)}


def _figure(name: str, values: list[float]) -> dict[str, Any]:
    ends = {"low": min(values), "high": max(values), "rounds": len(values)}
    return {"name": name, "value": statistics.median(values), "unit": "s"} | ends


def main() -> None:
    """Prints the median and the range of each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="2 rounds instead of 7")
    parser.add_argument("--uri", help="a tracking store whose newest study is timed as well")
    options = parser.parse_args()
    for figure in measure(options.quick, {options.uri: options.uri} if options.uri else None):
        print("{name}: {value:.2f} {unit} ({low:.2f} to {high:.2f}, {rounds} rounds)".format(**figure))


if __name__ == "__main__":
    main()
