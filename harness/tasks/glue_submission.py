"""Files of test predictions for GLUE's evaluation server: one TSV file per test set."""

from collections.abc import Sequence
from pathlib import Path

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.errors import InputError, unknown
from harness.paths import replaced

FOLDER = "submission"
"""Subfolder of a run's folder with its files."""

ROWS = {
    "CoLA": 1063,
    "SST-2": 1821,
    "MRPC": 1725,
    "QQP": 390965,
    "STS-B": 1379,
    "MNLI-m": 9796,
    "MNLI-mm": 9847,
    "QNLI": 5463,
    "RTE": 3000,
    "WNLI": 146,
}
"""Rows of each file of GLUE (arXiv:1804.07461), without the diagnostic set AX."""

NAMED = ("MNLI-m", "MNLI-mm", "QNLI", "RTE")
"""Files with names of classes; all others have class numbers, also WNLI, whose classes have the same names."""

HIGHEST_SCORE = 5.0
"""Highest score of STS-B; the lowest is 0."""


def splits(task: TaskConfig) -> dict[str, str]:
    """File -> name of the split for `load_table`; InputError when the task has no file."""
    if not task.submission:
        raise InputError(f"finetune.submit=true needs a task of GLUE: task {task.name!r} has no task.submission")
    if task.kind not in (TaskKind.classification, TaskKind.regression):
        raise InputError(
            f"finetune.submit=true needs a classification or regression: task {task.name!r} is of kind {task.kind.value}"
        )
    files = {task.submission: "test"} | {name: name for name in task.more_submission}
    for name in files:
        if name not in ROWS:
            raise unknown("file of GLUE", name, ROWS, "task.submission")
    return files


def write(
    folder: Path, task: TaskConfig, items: Sequence[int] | Sequence[str], predictions: Sequence[float], name: str | None = None
) -> Path:
    """Writes `name`.tsv, by default task.submission, below the run's folder; returns its path.

    `items` (N,) are the ids of the rows, in any order; `predictions` (N,) are class numbers, or scores of a regression.
    InputError unless the items are the rows of the benchmark's test set, each once.
    """
    name = name or task.submission
    if name not in splits(task):
        raise unknown("file of GLUE", name, splits(task), "task.submission")
    refuse_other_rows(task, name, items)
    rows = sorted(zip(map(int, items), predictions, strict=True), key=lambda row: row[0])
    path = folder / FOLDER / f"{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    if task.kind is TaskKind.regression:
        texts = [f"{min(max(float(value), 0.0), HIGHEST_SCORE):.3f}" for _, value in rows]
    else:
        texts = [task.labels[int(value)] if name in NAMED else str(int(value)) for _, value in rows]
    lines = ["index\tprediction", *(f"{item}\t{text}" for (item, _), text in zip(rows, texts, strict=True))]
    with replaced(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n")
    return path


def refuse_other_rows(task: TaskConfig, name: str, items: Sequence[int] | Sequence[str]) -> None:
    """InputError unless the items are the rows of the benchmark's file, each once."""
    if sorted(map(str, items)) != sorted(map(str, range(ROWS[name]))):
        expected = f"expected the rows 0 to {ROWS[name] - 1}, each once"
        found = f"the test split has {len(items)}, first {next(iter(items), '-')}"
        raise InputError(f"task {task.name!r}, {name}.tsv: {expected}; {found}; change task.test_split or the data")
