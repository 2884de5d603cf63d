"""Repetitions of the first command with three arms that are equal: how often a verdict names a difference between them.

    python tests/benchmarks/equal_arms.py FOLDER [--repetitions 20] [OVERRIDE ...]

`base_a` and `base_b` are base with its learned positions counted from another number: each position has another random initial
vector of the same distribution, and no work or size changes. (Copies under other names would be bit-equal in their scores and
share their timing.) Each repetition has seeds of its own. Run again, it does what is left.
"""

import argparse
import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from harness import metrics  # noqa: E402
from harness.paired import grouped  # noqa: E402

OFFSETS = {"base_a": 1, "base_b": 2}
"""Arm -> the number of its first position."""
SEEDS = 3
DIFFERENT, OTHERS = ("better", "worse"), ("same", "equal", "not resolved", "no verdict")

Row = dict[str, str]
"""A row of `summary.csv`, by column."""


def repeat(folder: Path, number: int, overrides: Iterable[str]) -> list[Row]:
    """The changes of one repetition, which is run if it has not ended yet; CalledProcessError where it fails."""
    output, ended = folder / f"repetition-{number}", folder / f"repetition-{number}.csv"
    if not ended.exists():
        seeds = ",".join(str(SEEDS * number + place) for place in range(SEEDS))
        command = [
            sys.executable,
            "-m",
            "harness",
            "--config-dir",
            str(folder / "conf"),
            "-m",
            f"model=base,{','.join(OFFSETS)}",
        ]
        command += [f"seed={seeds}", *overrides, f"output={output}"]
        subprocess.run(command, cwd=HERE.parents[1], check=True)
        (summary,) = output.glob("reports/*/summary.csv")
        partly = ended.with_suffix(".partly")
        partly.write_bytes(summary.read_bytes())
        partly.replace(ended)
    with ended.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["verdict"] and metrics.get(row["metric"]).compared in JUDGED]


JUDGED = (metrics.Compared.BY_SEED, metrics.Compared.BY_LAUNCH)
"""Others are counted, and equal, or have no verdict."""


def markdown(repetitions: list[list[Row]]) -> str:
    """Verdicts by metric. A family is one metric on one task in one repetition; 5 % of them may hold a false verdict."""
    head = ("metric", *DIFFERENT, *OTHERS, "families", "with a false verdict")
    lines = [f"{len(repetitions)} repetitions of three equal arms", "", f"| {' | '.join(head)} |"]
    lines.append(f"| :-- |{' --: |' * (len(head) - 1)}")
    rows = [(number, row) for number, of_one in enumerate(repetitions) for row in of_one]
    for metric, of_metric in grouped((row["metric"], (number, row)) for number, row in rows).items():
        counts = Counter(row["verdict"] for _, row in of_metric)
        families = grouped(((number, row["task"]), row["verdict"] in DIFFERENT) for number, row in of_metric)
        cells = (*(counts[verdict] for verdict in (*DIFFERENT, *OTHERS)), len(families), sum(map(any, families.values())))
        lines.append(f"| {metric} | {' | '.join(map(str, cells))} |")
    for kind, how in (("scores", metrics.Compared.BY_SEED), ("times", metrics.Compared.BY_LAUNCH)):
        false = {
            number
            for number, row in rows
            if metrics.get(row["metric"]).compared is how
            and row["verdict"] in DIFFERENT
            and (kind != "scores" or metrics.get(row["metric"]).unit == "score")
        }
        lines += ["", f"Repetitions with any false verdict on {kind}: {len(false)} of {len(repetitions)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the table after each repetition."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*", help="settings added to the command")
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_intermixed_args()
    folder, found = options.folder.resolve(), []
    (folder / "conf" / "model").mkdir(parents=True, exist_ok=True)
    for arm, offset in OFFSETS.items():
        (folder / "conf" / "model" / f"{arm}.yaml").write_text(
            f"# base with other initial positions\nposition_offset: {offset}\n"
        )
    for number in range(options.repetitions):
        found.append(repeat(folder, number, options.overrides))
        (folder / "equal_arms.md").write_text(markdown(found))
    print(markdown(found))


if __name__ == "__main__":
    main()
