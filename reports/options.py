"""The options of the report and of its commands, which `--help` reads without what a report needs."""

from pathlib import Path

from harness.grammar import arguments, key
from harness.reports.reading import default_uri

GC_THRESHOLDS = (100_000, 50, 50)
"""Thresholds of garbage collection: of what a report makes, nearly all is kept until it is written."""

STUDIES = "Study; may be repeated, several are joined. Default: the newest with a finished run."


@arguments
class Store:
    """Where the runs and the tracking store are."""

    output: str = key("multirun", "Folder of the results.")
    uri: str | None = key(None, "Tracking store, or folder of an archive. Default: mlflow.db in `output`.", name="tracking.uri")

    @property
    def address(self) -> str:
        """Address of the store that is read."""
        return self.uri or default_uri(self.output)


@arguments
class Runs(Store):
    """Which runs are compared with which."""

    where: str | None = key(None, "MLflow filter that selects runs. Example: \"tags.task = 'sst2'\".")
    along: tuple[str, ...] = key(
        (), "Key or group in which compared arms may differ; may be repeated. Example: hardware.dtype.", whole=True
    )


@arguments
class Pairs:
    """Which arms are compared, and by what."""

    baseline: tuple[str, ...] = key(
        (), "Baseline arm; may be repeated, the first that exists is used. Default: base.", whole=True
    )
    all_pairs: bool = key(False, "Compare all pairs of arms: ranks with intervals, groups, probability of being best.")
    random_tasks: bool = key(False, "Treat tasks as a random sample when comparing all pairs.")


@arguments
class Compared(Runs, Pairs):
    """What a report compares."""

    columns: tuple[str, ...] = key(
        (),
        "Cost columns of the table on the terminal and in tables/overview.tex, by part of their name, or all. "
        "Example: flops,latency.",
    )
    audit: Path | None = key(None, "Verdicts of `audit`. Default: audit/audit.json in `output`.")
    with_wnli: bool = key(False, "Include WNLI in the GLUE average.")
    target: tuple[str, ...] = key(
        (),
        "Quality whose cost is shown; may be repeated. Example: pretrain/masked_loss=6.5. Default: the baseline's result.",
        whole=True,
    )


@arguments
class Report(Compared):
    """Compares the arms of a study with its baseline."""

    study: tuple[str, ...] = key((), STUDIES, whole=True)
    to: Path | None = key(None, "Folder of the report. Default: reports/STUDY in `output`.")
    format: str = key("md,html,csv", "Formats to write: md, html, csv, latex, parquet, png, pdf, comment.")
