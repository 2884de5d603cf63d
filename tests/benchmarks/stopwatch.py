"""What the first command takes, as its user waits for it: lines on a terminal, with a clock beside them.

    python tests/benchmarks/stopwatch.py [--rounds 3] [--against CHECKOUT] [--demo] [--clone] [--avx2] [OVERRIDE ...]

Runs `python -m harness -m model=base,albert,windowed` in a fresh output folder, by turns in this checkout and in another one.
The table has the seconds until what a user waits for, what a launch of timing takes beside its timed calls, and where the
seconds of the command went, which add up to the command. Do nothing else on the machine meanwhile: its load is in the table.
"""

import argparse
import csv
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import termios
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import fmean, median
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

import results  # noqa: E402
import rounds  # noqa: E402

from harness import metrics  # noqa: E402
from harness.config.schema import HardwareConfig  # noqa: E402

COMMAND = ("-m", "harness", "-m", "model=base,albert,windowed")
ARMS = COMMAND[-1].partition("=")[2].split(",")
DECIDED = ("better", "worse", "same", "equal")
"""Verdicts in `summary.csv` that decide a comparison."""

PART = "of these, "
"""Before the name of an activity of the timeline."""

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}

SIZE = (60, 200)
"""Rows and columns of the terminal."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


# The clock beside the terminal


@dataclass
class Watched:
    """A command that has ended: when it started, by the clock of its files, and its lines with the seconds until each."""

    began: float
    lines: list[tuple[float, str]] = field(default_factory=list)
    first: float | None = None  # until anything was visible
    seconds: float = 0.0

    def until(self, text: str) -> list[float]:
        """Seconds until each line with this text; of one that is replaced, until it is."""
        return [at for at, line in self.lines if text in line]

    def tables(self, arms: Sequence[str]) -> list[float]:
        """Seconds until each table with a row for every arm: below a head that begins with `arm` and a line that is drawn."""
        found = []
        for place, (at, line) in enumerate(self.lines[:-1]):
            rule = self.lines[place + 1][1].strip()
            if line.split()[:1] == ["arm"] and rule and {*rule} <= {"-", "─", " "}:
                below = [*takewhile(bool, (row.strip() for _, row in self.lines[place + 2 :]))]
                found += [at] if all(any(row.startswith(f"{arm} ") for row in below) for arm in arms) else []
        return found


def watch(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Watched:
    """Runs the command on a terminal of its own; RuntimeError with its last lines if it fails."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, SIZE)
    watched, rest = Watched(time.time()), ""
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | (environment or {}), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    for text in _chunks(ours):
        now, rest = time.time() - watched.began, rest + text
        if watched.first is None and CONTROL.sub("", rest).strip():
            watched.first = now
        *whole, rest = re.split(r"\r\n|\r|\n", rest)
        watched.lines += [(now, CONTROL.sub("", line).rstrip()) for line in whole]
    os.close(ours)
    if code := process.wait():
        raise RuntimeError(f"{' '.join(command)} ended with {code}: " + "\n".join(line for _, line in watched.lines[-20:]))
    watched.seconds = time.time() - watched.began
    return watched


def _chunks(terminal: int) -> Iterator[str]:
    """What is printed, until the last process has left the terminal."""
    while True:
        try:
            read = os.read(terminal, 1 << 16)
        except OSError:  # on Linux, where no process has it any more
            return
        if not read:
            return
        yield read.decode(errors="replace")


# What is on the disk


def verdicts(output: Path) -> dict[str, list[str]]:
    """`scores`, `costs` -> the verdict of every comparison with the baseline; what tasks share is one cost."""
    (path,) = output.glob("reports/*/summary.csv")
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["verdict"]]
    timed = metrics.COMPARED_BY.keys() & {row["metric"] for row in rows}
    timed = {name for name in timed if metrics.judged_by(name, timed.__contains__) == name}
    costs = {(row["arm"], row["metric"], row["change"]): row["verdict"] for row in rows if row["metric"] in timed}
    return {"scores": [row["verdict"] for row in rows if row["metric"] == "eval/score"], "costs": [*costs.values()]}


Figures = dict[str, float | None]
"""Name -> seconds, or a number of comparisons; None for what never came."""

Span = tuple[float, float, str]
"""Begin and end in seconds since the epoch, and what was done."""


def stages(folder: Path) -> list[Span]:
    """The stages of a run, from its record to its end, in order."""
    record, ended = (json.loads((folder / name).read_text()) for name in ("run.json", "result.json"))
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    begins = [(record["started"], "runs: start of the worker")]
    begins += [(entry["time"], f"runs: {entry['stage']}") for entry in entries if "stage" in entry]
    begins += [(ended["time"], "runs: end of the worker"), (record["end"]["time"], "")]
    return [(at / 1e3, then / 1e3, name) for (at, name), (then, _) in pairwise(begins)]


def first_step(folder: Path) -> tuple[float, float] | None:
    """Seconds since the epoch of a run's record and of its first training step; None where it does not train."""
    begun = json.loads((folder / "run.json").read_text())["started"]
    entries = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    step = next((entry["time"] for entry in entries if entry.get("key") == "finetune/loss"), None)
    return None if step is None else (begun / 1e3, step / 1e3)


def launches(output: Path) -> list[tuple[float, float, float]]:
    """End in seconds since the epoch, seconds, and seconds in timed calls of each launch of the sessions."""
    found = []
    for path in sorted(output.glob("sessions/**/counted.json")):
        of_tasks = [one for one in json.loads(path.read_text()).values() if isinstance(one, dict)]
        once, work = of_tasks[0], [one["throughput"] for one in of_tasks]
        calls = [once["latency"], *([once["training"]] if once["training"] else []), *once["points"]]
        ms = sum(sum(one.get(name) or ()) for one in (*calls, *work) for name in ("raw_ms", "reference_ms"))
        found.append((path.stat().st_mtime, once["seconds"], ms / 1e3 + sum(one["seconds"] for one in work)))
    return found


def figures(watched: Watched, output: Path) -> Figures:
    """Those of the screen and the folders; verdicts on scores are there with the first table, on costs with the last one."""
    tables, decided = watched.tables(ARMS), verdicts(output)
    share = {kind: fmean(one in DECIDED for one in of_kind or [""]) for kind, of_kind in decided.items()}
    is_scored, is_timed = share["scores"] == 1, share["costs"] >= 0.8
    found: Figures = {
        "first line": watched.first,
        "first run finished and on the screen": next(iter(watched.until(" finished in ")), None),
        "first table of all arms": tables[0] if tables else None,
        "last table of all arms": tables[-1] if tables else None,
        "verdict on every score": tables[0] if tables and is_scored else None,
        "verdict on every score and 8 of 10 costs": tables[-1] if tables and is_scored and is_timed else None,
        "end of the command": watched.seconds,
    }
    for kind, of_kind in decided.items():
        found |= {f"{kind} compared": len(of_kind), f"{kind} decided": sum(one in DECIDED for one in of_kind)}
    steps = sorted(filter(None, map(first_step, _runs(output))))
    if steps:
        found["from the command to a worker's first step, cold"] = steps[0][1] - watched.began
    if len(steps) > 1:
        found["from a run to its first step, warm"] = median(step - begun for begun, step in steps[1:])
    if timed := launches(output):
        found |= {"a launch": median(all_ for _, all_, _ in timed), "its timed calls": median(calls for *_, calls in timed)}
        found["a launch beside its timed calls"] = median(all_ - calls for _, all_, calls in timed)
    return found


def _runs(output: Path) -> list[Path]:
    """The folders of what was trained, without A/A replicates."""
    records = (path for path in sorted(output.glob("*/*/run.json")) if (path.parent / "metrics.jsonl").exists())
    return [path.parent for path in records if "end" in json.loads(path.read_text())]


def timeline(watched: Watched, output: Path) -> dict[str, float]:
    """Activity -> seconds of the command; they add up to all of it. Each of several runs at once has its part of a second."""
    began, ended = watched.began, watched.began + watched.seconds
    folders, timed = _runs(output), launches(output)
    spans = [span for folder in folders for span in stages(folder)]
    workers = int(json.loads((folders[0] / "run.json").read_text())["parameters"]["hardware.workers"])
    first, last = min(begin for begin, *_ in spans), max(end for _, end, _ in spans)
    found, at = Counter(), began
    parts = {"until anything is visible": [watched.first or 0.0]} | {text: watched.until(text) for text in STARTS}
    for name, times in (parts | {"until the first run": [first - began]}).items():
        then = min(max([at, *(began + seconds for seconds in times[:1])]), first)
        found[f"start: {name}"], at = then - at, then
    report = max([began + seconds for seconds in watched.until("report.html")] + [last, *(end for end, *_ in timed)])
    spans += [(end - seconds, end, LAUNCHES) for end, seconds, _ in timed]
    timing = min((end - seconds for end, seconds, _ in timed), default=report)
    edges = sorted({first, last, timing, report, *(at for begin, end, _ in spans for at in (begin, end))})
    for begin, end in pairwise(edges):
        active = [name for start, stop, name in spans if start <= begin < stop]
        runs = [name for name in active if name != LAUNCHES]
        for name in runs:
            found[name] += (end - begin) / max(workers, len(runs))
        if begin < last:
            found["runs: idle workers"] += (end - begin) * (1 - len(runs) / max(workers, len(runs)))
        elif active:
            found[LAUNCHES] += end - begin
        elif begin < timing:
            found["after the runs, before timing"] += end - begin
        else:
            found["between and after launches, until the report"] += end - begin
    calls = min(sum(calls for *_, calls in timed), found[LAUNCHES])
    found.update({"timing: timed calls": calls, "end, after the report": ended - report})
    found[LAUNCHES] -= calls
    return dict(found)


LAUNCHES = "timing: launches beside their timed calls"
STARTS = ("preparing data", "opening the trackers")
"""Lines of the start that the next one replaces."""


# Rounds of both sides


def in_checkout(checkout: Path, output: Path, overrides: Sequence[str], environment: Mapping[str, str]) -> Figures:
    """Figures and timeline of the command with the code of this checkout."""
    command = [sys.executable, *COMMAND, *overrides, f"output={output}"]
    watched = watch(command, checkout, {**environment, "PYTHONPATH": str(checkout)})
    return figures(watched, output) | {f"{PART}{name}": seconds for name, seconds in timeline(watched, output).items()}


def in_clone(checkout: Path, folder: Path, environment: Mapping[str, str]) -> Figures:
    """Figures of `make demo` in a fresh clone of the checkout, with the seconds until everything is installed."""
    subprocess.run(["git", "clone", "--quiet", str(checkout), str(folder)], check=True)
    watched = watch(["make", "demo"], folder, {**environment, "PYTHONPATH": ""})
    installed = min(path.stat().st_mtime for path in (folder / ".venv").glob(".installed*")) - watched.began
    return {"installation": installed} | figures(watched, folder / "multirun")


def demo_overrides(checkout: Path) -> list[str]:
    """What `make demo` adds to the command."""
    line = next(line for line in (checkout / "Makefile").read_text().splitlines() if " ".join(COMMAND) in line)
    return line.partition(" ".join(COMMAND))[2].split()


def of_machine(environment: Mapping[str, str]) -> dict[str, float]:
    """Speed of one thread and load, now."""
    command = [sys.executable, "-m", "harness.hardware.peak_flops", json.dumps({"device": "cpu", "threads": 1})]
    settings = os.environ | environment | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(command, env=settings, check=True, capture_output=True, text=True).stdout
    return {
        "load average before, processes": os.getloadavg()[0],
        "fp32 on one thread, GFLOP/s": json.loads(printed)["fp32"] / 1e9,
    }


def markdown(table: dict[str, Any]) -> str:
    """A column for each side: median, and range in brackets."""
    sides = table["sides"]
    names = dict.fromkeys(name for side in sides.values() for one in side["rounds"] for name in one)
    lines = [f"# Stopwatch on {table['processor']}, {table['cores']} cores, {table['date']}", "", f"`{table['command']}`", ""]
    lines += [f"| seconds until, or of | {' | '.join(sides)} |", f"| :-- |{' --: |' * len(sides)}"]
    for name in names:
        cells = []
        for side in sides.values():
            values = [value for one in side["rounds"] if (value := one.get(name)) is not None]
            missing = f", {len(side['rounds']) - len(values)} without" if len(values) < len(side["rounds"]) else ""
            cells.append(f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f}{missing})" if values else "never")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the table of all rounds so far after each of them, as JSON and Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("overrides", nargs="*", help="settings added to the command")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="the code before, by turns with this")
    parser.add_argument("--demo", action="store_true", help="with the settings of `make demo`")
    parser.add_argument("--clone", action="store_true", help="`make demo` in a fresh clone, with the installation")
    parser.add_argument("--avx2", action="store_true", help="emulates a processor with AVX2 alone")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder of the table")
    options = parser.parse_intermixed_args()
    environment = AVX2 if options.avx2 else {}
    checkouts = ({"before": options.against.resolve()} if options.against else {}) | {"after": ROOT}
    names = {side: f"{side} ({_commit(checkout)})" for side, checkout in checkouts.items()}
    added = [*(demo_overrides(ROOT) if options.demo else ()), *options.overrides]
    command = ["make", "demo"] if options.clone else ["python", *COMMAND, *added]
    table = {"command": " ".join(command), "date": date.today().isoformat()}
    table |= results.machine(HardwareConfig()) | {"sides": {name: {"rounds": []} for name in names.values()}}
    table["processor"] += ", AVX2 alone (emulated)" if options.avx2 else ""
    stem = f"stopwatch-{'clone-' * options.clone}{results.file_name(table, table['date'])}"
    options.output.mkdir(parents=True, exist_ok=True)

    def once(side: str) -> float:
        checkout, values = checkouts[side], of_machine(environment)
        with tempfile.TemporaryDirectory() as folder:
            if options.clone:
                values |= in_clone(checkout, Path(folder) / "clone", environment)
            else:
                overrides = [*(demo_overrides(checkout) if options.demo else ()), *options.overrides]
                values |= in_checkout(checkout, Path(folder) / "output", overrides, environment)
        table["sides"][names[side]]["rounds"].append(values)
        (options.output / f"{stem}.json").write_text(json.dumps(table, indent=1) + "\n")
        (options.output / f"{stem}.md").write_text(markdown(table))
        return values["end of the command"]

    rounds.interleaved({side: lambda _, side=side: once(side) for side in checkouts}, options.rounds)
    print(markdown(table))


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
