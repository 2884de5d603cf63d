"""The keys, words and switches of `status`, and those that commands share; `--help` prints what is stated here.

A command line is read into such a dataclass before the module of its command, which may need torch, is imported.
"""

from pathlib import Path

from harness.errors import InputError
from harness.grammar import arguments, key, word


@arguments
class OutputFolder:
    """Where the runs are."""

    output: str = key("multirun", "Folder of the results.")

    def refuse_missing(self) -> None:
        """InputError where the folder is not there."""
        if not Path(self.output).is_dir():
            raise InputError(f"output={self.output!r} is not a folder: expected the folder of the runs")


@arguments
class Status(OutputFolder):
    """What of a study has finished, what is missing and why, and the command that completes it."""

    study: str | None = word("STUDY", None, "Name of the study. Default: a summary of all studies.")

    def __post_init__(self) -> None:
        self.refuse_missing()
