"""`python -m reports verify FOLDER`: whether the report of an archive follows from its data.

Files are compared with their hashes, predictions with their logits, scores with predictions, results with the tracked metrics;
means, intervals and verdicts are recomputed with the whole report, whose numbers and marks are compared one by one.
"""

import ast
import csv
import io
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from harness import tags
from harness.config.choices import TaskKind
from harness.errors import on_one_line
from harness.plugins.archive.options import Verify
from harness.plugins.archive.pack import report_of
from harness.plugins.archive.reader import RUNS, ArchiveReader, contents, manifest, split_of
from harness.tasks import scores
from harness.terminal import still_line

MOST, LONGEST = 5, 400
"""Differences that are printed, and characters of one."""
CLOSE = {"rel_tol": 1e-6, "abs_tol": 1e-9}
"""Numbers that differ by less are equal: sums of floats depend on the machine."""
OLDER = "  Only report.md differs: the data agree. Another version may have worded the report differently."


@dataclass
class Checks:
    """Numbers of comparisons, and the differences found."""

    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def compare(self, what: str, where: str, archived: Any, computed: Any) -> None:
        """Counts one comparison; numbers may differ by CLOSE."""
        self.counts[what] = self.counts.get(what, 0) + 1
        both = (archived, computed)
        equal = math.isclose(*both, **CLOSE) if all(isinstance(one, (int, float)) for one in both) else archived == computed
        if not equal:
            self.wrong.append(f"{where}: {archived} in the archive, {computed} recomputed")


def main(options: Verify) -> int:
    """0 where everything agrees, else 1, with the first differences on stdout; InputError for a folder that is not an
    archive.
    """
    folder = options.folder
    with still_line("recomputing all numbers: seconds, a minute for hundreds of runs"):
        checks = verify(folder)
    listed = ", ".join(f"{count:,} {what}" for what, count in checks.counts.items())
    print(f"{on_one_line(str(folder))}: {listed} compared: {f'{len(checks.wrong)} differ' if checks.wrong else 'all agree'}")
    for line in checks.wrong[:MOST]:
        print(f"  {on_one_line(line, LONGEST)}")
    if checks.wrong and all(line.startswith("report.md, ") for line in checks.wrong):
        print(OLDER)
    return 1 if checks.wrong else 0


def verify(folder: Path) -> Checks:
    """All comparisons; for an archive with changed data, only the hashes."""
    content, checks = manifest(folder), Checks()
    checks.counts["files"] = len(content.data) + len(content.report)
    data, checks.wrong = contents(folder, content.data)
    if checks.wrong:
        return checks
    reader = ArchiveReader(str(folder), content, data)
    written, changed = contents(folder, content.report)
    with reader.guarded():
        compare_results(checks, reader)
        computed = report_of(reader)
        for name in (name for name in computed if name.endswith((".md", ".csv"))):
            if name in written:
                compare_files(checks, name, written[name].decode(), computed[name].decode())
            elif name not in content.report:
                checks.compare("files of the report", name, "nothing", "a file")
    checks.wrong = [*changed, *checks.wrong]
    return checks


def compare_results(checks: Checks, reader: ArchiveReader) -> None:
    """The metrics of every run with its result, and with its predictions."""
    for run_id, row in reader.rows.items():
        for key, value in reader.results(run_id).items():
            if key in row["metrics"]:
                checks.compare("results", f"{row['name']}, {key}, {RUNS}", row["metrics"][key], value)
    for name, of_file in reader.predictions.items():
        for run_id, table in of_file.items():
            row = reader.rows[run_id]
            if row["tags"].get(tags.STATUS) == "finished":  # a run that was killed may lack its scores
                compare_predictions(checks, f"{row['name']}, {name}", row, table, split_of(name))


def compare_predictions(checks: Checks, where: str, row: Mapping[str, Any], table: pyarrow.Table, suffix: str) -> None:
    """Predictions with their logits; scores of the task, and for the main split the headline and the number of labels."""
    params, columns = row["params"], {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    kind = TaskKind(params["task.kind"])
    logits = [columns[name] for name in columns if name.startswith("logit_")]
    if logits:
        of_logits = logits[0] if kind is TaskKind.regression else np.argmax(logits, axis=0)
        given = ~np.isnan(logits[0])  # of truncated words there are none
        wrong = np.flatnonzero(given & (columns["prediction"] != of_logits))
        rows = f"{where}, predictions that differ from their logits, from row {wrong[:1].tolist()} on"
        checks.compare("files of logits", rows, len(wrong), 0)
    labels, predicted = answers(kind, columns, ast.literal_eval(params["task.labels"]))
    names = {f"eval/{name}{suffix}": name for name in ast.literal_eval(params["task.scores"])}
    names |= {} if suffix else {"eval/score": params["task.headline"]}
    for metric, name in names.items():
        archived = row["metrics"].get(metric)
        checks.compare("scores", f"{where}, {metric}", archived, scores.compute(kind, name, labels, predicted))
    if not suffix:
        checks.compare("scores", f"{where}, eval/examples", row["metrics"].get("eval/examples"), len(labels))


def answers(kind: TaskKind, columns: Mapping[str, np.ndarray], names: list[str]) -> tuple[Any, Any]:
    """Labels and predictions as scores take them, from the columns of `predictions.parquet`; `names` are those of tags."""
    if kind is TaskKind.spans:
        return [list(texts) for texts in columns["answers"]], columns["prediction"].tolist()
    if kind is TaskKind.minimal_pairs:
        right = columns["label"] == columns["prediction"], columns["right_by_piece"]
        return columns["paradigm"].tolist(), np.stack(right, axis=1)
    if kind is TaskKind.multilabel:
        both = columns["labels"], columns["predictions"]
        sides = [np.array([[name in row for name in names] for row in rows], dtype=int) for rows in both]
        return sides[0], sides[1]
    if kind is TaskKind.retrieval:
        relevant, ranked = ([row.tolist() for row in columns[name]] for name in ("relevant", "ranked"))
        if "grades" in columns:
            relevant = [dict(zip(*both, strict=True)) for both in zip(relevant, columns["grades"], strict=True)]
        return relevant, ranked
    both = columns["label"], columns["cosine" if kind is TaskKind.similarity else "prediction"]
    if kind is not TaskKind.tokens:
        return both
    starts = np.flatnonzero(columns["position"] == 0)[1:]
    labels, predicted = ([part.tolist() for part in np.split(np.array(names, dtype=object)[one], starts)] for one in both)
    return labels, predicted


def compare_files(checks: Checks, name: str, archived: str, computed: str) -> None:
    """The words of a report, or the cells of a table, which may be numbers."""
    is_table = name.endswith(".csv")
    rows = (
        [*csv.reader(io.StringIO(text))] if is_table else [*map(str.split, text.splitlines())] for text in (archived, computed)
    )
    for number, (before, anew) in enumerate(itertools.zip_longest(*rows, fillvalue=[]), 1):
        for pair in itertools.zip_longest(before, anew, fillvalue="nothing"):
            checks.compare("words and cells of the report", f"{name}, line {number}", *map(_number, pair))


def _number(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
