"""The options of `judge`, which `--help` reads without what it needs."""

from dataclasses import dataclass
from pathlib import Path

from harness.grammar import key, word
from harness.reports.options import Pairs


@dataclass(frozen=True, kw_only=True)
class Files:
    """What files of results do not say."""

    metric: str | None = key(None, "the metric alone, of results that have several")
    columns: tuple[str, ...] = key((), "what a table calls the columns, such as arm=model,seed=run")
    task: str | None = key(None, "the task, where files do not say it")
    seed: str | None = key(None, "the seed, where files do not say it")
    unit: str | None = key(None, "of metrics whose files do not say it: share, percent, ms, bytes, 1, ...")
    direction: str | None = key(None, "of metrics whose files do not say it", choices=("higher", "lower"))


@dataclass(frozen=True, kw_only=True)
class Judge(Files, Pairs):
    """Compares the arms in results of any tool.

    Files and folders are read by what wrote them: tables (CSV, JSON lines, Parquet), lm-evaluation-harness, MTEB, Trainer and
    others. A table has one row per value, with columns such as arm, task, seed, metric, value and item.
    """

    paths: tuple[Path, ...] = word("PATH...", meaning="files and folders of results")
    arm: str | None = key(None, "the arm, where files do not say it")
    unpaired: bool = key(False, "treats runs with equal seeds as independent")
    to: Path | None = key(None, "folder for the report (none is written)")
    format: str = key("md,html,csv", "what to write there, of md, html, csv, latex, parquet, png, comment")
