"""The options of the commands on archives, which `--help` reads without what they need."""

from dataclasses import dataclass
from pathlib import Path

from harness.grammar import key, word
from harness.reports.options import Compared


@dataclass(frozen=True, kw_only=True)
class Archive(Compared):
    """Writes all that the report of a study reads, without weights, and the report made from that."""

    study: str = word("STUDY", meaning="name of the study")
    to: Path = key(meaning="new folder, or an archive to replace")
    lean: bool = key(False, "no logits, sentence pairs or summary.csv; long curves keep only the steps of shorter ones")
    pictures: str | None = key(None, "which pictures to keep, such as changes.svg,loss.svg (all)")


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Recomputes every number of an archived report; exit code 1 where one differs."""

    folder: Path = word("FOLDER", meaning="an archive, as `python -m reports archive` writes it")
