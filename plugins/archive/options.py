"""The options of the commands on archives, which `--help` reads without what they need."""

from pathlib import Path

from harness.grammar import arguments, key, word
from harness.reports.options import Compared


@arguments
class Archive(Compared):
    """Writes the data of a study's report, without weights, and the report made from them."""

    study: str = word("STUDY", meaning="Name of the study.")
    to: Path = key(meaning="New folder, or an archive to replace.")
    lean: bool = key(False, "Leave out logits, sentence pairs and summary.csv, and thin out long curves.")
    pictures: str | None = key(None, "Pictures to keep. Example: changes.svg,loss.svg. Default: all.")


@arguments
class Verify:
    """Recomputes every number of an archived report; exit code 1 where one differs."""

    folder: Path = word("FOLDER", meaning="Folder of an archive, written by `python -m reports archive`.")
