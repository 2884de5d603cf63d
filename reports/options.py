"""The options of the report and of its commands, which `--help` reads without what a report needs."""

from dataclasses import dataclass
from pathlib import Path

from harness.grammar import key
from harness.reports.reading import default_uri

GC_THRESHOLDS = (100_000, 50, 50)
"""Thresholds of garbage collection: of what a report makes, nearly all is kept until it is written."""

STUDIES = "study to report on; several are joined"
NEWEST = "(the newest with a finished run)"


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where the runs and the tracking store are."""

    output: str = key("multirun", "folder of the runs")
    uri: str | None = key(None, "tracking store, or the folder of an archive (mlflow.db of `output`)", name="tracking.uri")

    @property
    def address(self) -> str:
        """Address of the store that is read."""
        return self.uri or default_uri(self.output)


@dataclass(frozen=True, kw_only=True)
class Runs(Store):
    """Which runs are compared with which."""

    where: str | None = key(None, "which runs, as MLflow filters them: \"tags.task = 'sst2'\"")
    along: tuple[str, ...] = key(
        (), "setting that arms may differ in, such as hardware.dtype or a group such as hardware; may be repeated", whole=True
    )


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Which arms are compared, and by what."""

    baseline: tuple[str, ...] = key((), "arm that the others are compared with; the first one present (base)", whole=True)
    all_pairs: bool = key(False, "compares all pairs of arms: ranks with intervals, groups, and how likely each is the best")
    random_tasks: bool = key(False, "all pairs by tasks, as a sample of others: tasks repeat, in place of seeds")


@dataclass(frozen=True, kw_only=True)
class Compared(Runs, Pairs):
    """What a report compares."""

    columns: tuple[str, ...] = key(
        (), "costs in the table on the terminal, by a part of their name, such as flops,latency; or all (the first that differ)"
    )
    audit: Path | None = key(None, "verdicts on claims (audit/audit.json in `output`)")
    with_wnli: bool = key(False, "counts WNLI in the average over GLUE")
    target: tuple[str, ...] = key(
        (),
        "METRIC=NUMBER: quality whose cost is shown, such as pretrain/masked_loss=6.5; may be repeated (the baseline's end)",
        whole=True,
    )


@dataclass(frozen=True, kw_only=True)
class Report(Compared):
    """Compares the arms of a study with its baseline."""

    study: tuple[str, ...] = key((), f"{STUDIES} {NEWEST}", whole=True)
    to: Path | None = key(None, "folder to write to (reports/STUDY in `output`)")
    format: str = key("md,html,csv", "what to write, of md, html, csv, latex, parquet, png, comment")
