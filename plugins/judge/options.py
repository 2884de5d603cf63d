"""The options of `judge`, which `--help` reads without what it needs."""

from pathlib import Path

from harness.grammar import arguments, key, word
from harness.reports.options import Pairs


@arguments
class Files:
    """Facts that files of results lack."""

    metric: str | None = key(None, "Metric to use if the results have several.")
    columns: tuple[str, ...] = key((), "Column names of a table. Example: arm=model,seed=run.")
    task: str | None = key(None, "Task, if the files do not say it.")
    seed: str | None = key(None, "Seed, if the files do not say it.")
    unit: str | None = key(None, "Unit of the metrics, if the files do not say it: share, percent, ms, bytes, 1.")
    direction: str | None = key(
        None,
        "Which values of the metrics are better, if the files do not say it: higher or lower.",
        choices=("higher", "lower"),
    )


@arguments
class Judge(Files, Pairs):
    """Compares the arms in results of any tool.

    The format of a file is recognised: tables (CSV, JSON lines, Parquet), lm-evaluation-harness, MTEB, Trainer and
    others. A table has one row per value, with columns such as arm, task, seed, metric, value and item.
    """

    paths: tuple[Path, ...] = word("PATH...", meaning="Files and folders of results.")
    arm: str | None = key(None, "Arm, if the files do not say it.")
    unpaired: bool = key(False, "Treat runs with equal seeds as independent.")
    to: Path | None = key(None, "Folder of the report. Default: no report is written.")
    format: str = key("md,html,csv", "Formats to write there: md, html, csv, latex, parquet, png, comment.")
