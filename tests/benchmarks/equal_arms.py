"""Repetitions of the first command with three arms that are equal: how often a verdict names a difference between them.

    python tests/benchmarks/equal_arms.py FOLDER [--repetitions 20] [OVERRIDE ...]

`base_a` and `base_b` are base with its learned positions counted from another number: each position has another random initial
vector of the same distribution, and no work or size changes. (Copies under other names would be bit-equal in their scores and
share their timing.) Each repetition has seeds of its own. Run again, it does what is left.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from harness import metrics, records  # noqa: E402
from harness.comparison.compare import compare  # noqa: E402
from harness.comparison.overall import of_tasks  # noqa: E402
from harness.comparison.paired import grouped  # noqa: E402
from harness.comparison.section import RESULTS  # noqa: E402
from harness.metrics import Compared  # noqa: E402
from harness.reports.read import read  # noqa: E402
from harness.reports.reading.predictions import errors_in  # noqa: E402
from harness.terminal import counted  # noqa: E402

OFFSETS = {"base_a": 1, "base_b": 2}
"""Arm -> the number of its first position."""
SEEDS = 3
DIFFERENT, OTHERS = ("better", "worse"), ("same", "equal", "inconclusive", "no verdict")

Row = dict[str, str]
"""Task, arm, metric, verdict."""


def write_arms(folder: Path) -> None:
    """The folder of configs that the command adds."""
    (folder / "conf" / "model").mkdir(parents=True, exist_ok=True)
    for arm, offset in OFFSETS.items():
        text = f"# base with other initial positions\nposition_offset: {offset}\n"
        (folder / "conf" / "model" / f"{arm}.yaml").write_text(text)


def repeat(folder: Path, number: int, overrides: Iterable[str]) -> list[Row]:
    """The verdicts of one repetition, which is run if it has not ended yet; CalledProcessError where it fails."""
    output, ended = folder / f"repetition-{number}", folder / f"repetition-{number}.json"
    if not ended.exists():
        seeds = ",".join(str(SEEDS * number + place) for place in range(SEEDS))
        added = [f"model=base,{','.join(OFFSETS)}", f"seed={seeds}", *overrides, f"output={output}"]
        command = [sys.executable, "-m", "harness", "--config-dir", str(folder / "conf"), "-m", *added]
        subprocess.run(command, cwd=HERE.parents[1], check=True)
        records.write(ended, {"verdicts": verdicts(output)})
    return json.loads(ended.read_text())["verdicts"]


def verdicts(output: Path) -> list[Row]:
    """What the report says of each arm in each metric, on each task and over all of them."""
    found = read(f"sqlite:///{output}/mlflow.db")
    comparison = compare(found.study, found.runs, "base", errors=errors_in(output))
    changes = [
        (section.task, row.label, name, section.change(row, name))
        for section in comparison.selected_tasks
        for row in section.rows[1:]
        for name in RESULTS
    ]
    over = of_tasks(comparison)
    changes += [(MEAN, arm, name, over.change(arm, name)) for arm in comparison.others for name in RESULTS]
    return [
        {"task": task, "arm": arm, "metric": name, "verdict": change.verdict.value}
        for task, arm, name, change in changes
        if change and change.verdict and metrics.get(name).compared in (Compared.BY_SEED, Compared.BY_LAUNCH)
    ]


def markdown(repetitions: list[list[Row]]) -> str:
    """Verdicts by metric. A family is one metric on one task in one repetition; 5 % of them may hold a false verdict."""
    head = ("of", "metric", *DIFFERENT, *OTHERS, "families", "with a false verdict")
    lines = [f"{counted(len(repetitions), 'repetition')} of three equal arms", "", f"| {' | '.join(head)} |"]
    lines.append(f"| :-- | :-- |{' --: |' * (len(head) - 2)}")
    rows = [(number, row) for number, of_one in enumerate(repetitions) for row in of_one]
    by_place = grouped(((MEAN if row["task"] == MEAN else "each task", row["metric"]), (number, row)) for number, row in rows)
    false: dict[tuple[str, str], set[int]] = {}
    for (place, metric), of_metric in by_place.items():
        counts = Counter(row["verdict"] for _, row in of_metric)
        families = grouped(((number, row["task"]), row["verdict"] in DIFFERENT) for number, row in of_metric)
        cells = (*(counts[verdict] for verdict in (*DIFFERENT, *OTHERS)), len(families), sum(map(any, families.values())))
        lines.append(f"| {place} | {metric} | {' | '.join(map(str, cells))} |")
        kind = KINDS.get(metrics.get(metric).unit, "times")
        false.setdefault((kind, place), set()).update(number for (number, _), one in families.items() if any(one))
    ends = [f"- {kind}, {place}: {len(numbers)} of {len(repetitions)}" for (kind, place), numbers in sorted(false.items())]
    return "\n".join([*lines, "", "Repetitions with any false verdict:", "", *ends]) + "\n"


MEAN = "mean of tasks"
"""As the first table has it."""
KINDS = {"score": "scores", "bytes": "memory", "nats": "losses", "share": "others", "FLOP": "others", "1": "others"}
"""Unit -> kind of metrics, of all others times."""


def main() -> None:
    """Writes the table after each repetition."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*", help="settings added to the command")
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_intermixed_args()
    folder, found = options.folder.resolve(), []
    write_arms(folder)
    for number in range(options.repetitions):
        found.append(repeat(folder, number, options.overrides))
        (folder / "equal_arms.md").write_text(markdown(found))
    print(markdown(found))


if __name__ == "__main__":
    main()
