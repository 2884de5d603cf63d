"""`python -m reports` from start to end in a fresh process: of a study as the demo leaves it, and of one of 1,000 runs.

    python tests/benchmarks/reports_speed.py [--quick] [--large] [--uri sqlite:////ABSOLUTE/PATH/mlflow.db]

With `--large`, of one of 10,000 runs too, which takes minutes to generate; with `--uri`, the newest study of that store too.
Nothing here is asserted: the machine decides the numbers. Meant are 10 s for 1,000 runs and 60 s for 10,000.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import generated_study
import rounds
from generated_study import Shape

ROOT = Path(__file__).resolve().parents[2]
LARGE = {"250 arms, 8 tasks, 5 seeds": Shape(arms=250, tasks=8)}
STUDIES = {"3 arms, 3 tasks, 1 seed": Shape(3, 3, 1, 5, 1, 64, 0), "40 arms, 5 tasks, 5 seeds": Shape()}


def measure(quick: bool, uris: dict[str, str] | None = None, large: bool = False) -> list[dict[str, Any]]:
    """Wall time, CPU time and peak memory of a report of each study; `uris` are further studies by name."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        shapes = STUDIES | (LARGE if large else {})
        made = {name: generated_study.generate(Path(folder, str(shape.arms)), shape) for name, shape in shapes.items()}
        for name, uri in (made | (uris or {})).items():
            timed = [report(uri, Path(folder, "report")) for _ in range(2 if quick else 7)]
            for (kind, unit), values in zip(KINDS.items(), zip(*timed, strict=True), strict=True):
                found.append(rounds.row(f"{kind} of a report, {name}", values, unit))
    return found


KINDS = {"wall time": "s", "CPU time": "s", "peak memory": "MB"}
"""What is measured -> its unit."""


def report(uri: str, out: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory in MB of a report."""
    return timed("--uri", uri, "--out", str(out))


def timed(*words: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory in MB of one process; CalledProcessError where it fails."""
    command = [sys.executable, "-m", "reports", *words]
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main() -> None:
    """Prints the median and the range of each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="2 rounds instead of 7")
    parser.add_argument("--large", action="store_true", help="10,000 runs too")
    parser.add_argument("--uri", help="a tracking store whose newest study is timed as well")
    options = parser.parse_args()
    for figure in measure(options.quick, {options.uri: options.uri} if options.uri else None, options.large):
        print("{name}: {value:.2f} {unit} ({low:.2f} to {high:.2f}, {rounds} rounds)".format(**figure))


if __name__ == "__main__":
    main()
