"""Answers to hidden labels as the benchmark takes them: GLUE's files of two columns, and the archive of them all."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.errors import InputError, unknown

FOLDER = "submission"
"""Where a run leaves its files, in its own folder."""

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
"""Rows of each file of GLUE (arXiv:1804.07461); the benchmark's diagnostic set AX is not among them."""

NAMED = ("MNLI-m", "MNLI-mm", "QNLI", "RTE")
"""Files that want the names of classes; the others want numbers, WNLI too though its classes have the same names."""

HIGHEST_SCORE = 5.0
"""Of STS-B; its lowest is 0."""


def splits(task: TaskConfig) -> dict[str, str]:
    """The split that answers each of the task's files, as `load_table` knows it; InputError when the task has no file."""
    if not task.submission:
        raise InputError(f"finetune.submit: task {task.name!r} is answered to no benchmark: task.submission names no file")
    if task.kind not in (TaskKind.classification, TaskKind.regression):
        raise InputError(f"finetune.submit: task {task.name!r} is of kind {task.kind.value}, of which GLUE takes no answers")
    files = {task.submission: "test"} | {name: name for name in task.more_submission}
    for name in files:
        if name not in ROWS:
            raise unknown("file of GLUE", name, ROWS, "task.submission")
    return files


def write(folder: Path, task: TaskConfig, items: Sequence[int], predictions: Sequence[float], name: str | None = None) -> Path:
    """Writes `name`.tsv, task.submission where none is given, below the run's folder; returns its path.

    `items` (N,) are the rows' own ids, in any order; `predictions` (N,) class numbers, or scores for a regression.
    InputError when they are not each row of the benchmark's test set once.
    """
    name = name or task.submission
    if name not in splits(task):
        raise unknown("file of GLUE", name, splits(task), "task.submission")
    refuse_other_rows(task, name, items)
    rows = sorted(zip(map(int, items), predictions, strict=True), key=lambda row: row[0])
    path = folder / FOLDER / f"{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["index\tprediction", *(f"{item}\t{_answer(task, name, value)}" for item, value in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def refuse_other_rows(task: TaskConfig, name: str, items: Sequence[int]) -> None:
    """InputError when the rows' own ids are not each row of the benchmark's file once."""
    if sorted(map(str, items)) != sorted(map(str, range(ROWS[name]))):
        told = f"has the rows 0 to {ROWS[name] - 1}, the test split gave {len(items)}, first {next(iter(items), '-')}"
        raise InputError(f"task {task.name!r}: {name}.tsv {told}; see task.test_split")


def _answer(task: TaskConfig, name: str, value: float) -> str:
    if task.kind is TaskKind.regression:
        return f"{min(max(float(value), 0.0), HIGHEST_SCORE):.3f}"
    return task.labels[int(value)] if name in NAMED else str(int(value))


def pack(folders: list[Path], archive: Path) -> list[str]:
    """Packs the files of several runs; returns the names that are still missing. InputError when two runs have one file."""
    found: dict[str, Path] = {}
    for folder in folders:
        files = sorted((folder / FOLDER).glob("*.tsv"))
        if not files:
            raise InputError(f"{folder} holds no answers: run it with finetune.submit=true")
        for path in files:
            if path.name in found:
                raise InputError(f"{found[path.name]} and {path} answer the same: give one run a task")
            found[path.name] = path
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in sorted(found.items()):
            packed.write(path, name)
    return [f"{name}.tsv" for name in ROWS if f"{name}.tsv" not in found]
