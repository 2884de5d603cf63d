"""Keys and words that commands of several plug-ins have."""

from pathlib import Path
from typing import ClassVar

from harness.errors import InputError
from harness.grammar import Composed, arguments, group_of, key, word
from harness.models.ranges import Range
from harness.redact import refuse_address

RUN = "folder, name or id of a run"
OF_MODEL = ("model", "scale", "enhancement")
"""Config groups that choose the model."""

ABOVE_ZERO, COUNT = Range(above=0, limit=float("inf")), Range(at_least=1)


@arguments
class OutputFolder:
    """Where the runs are."""

    output: str = key("multirun", "Folder of the results.")

    def refuse_missing(self) -> None:
        """InputError where the folder is not there."""
        if not Path(self.output).is_dir():
            raise InputError(f"output={self.output!r} is not a folder: expected the folder of the runs")


@arguments
class Store(OutputFolder):
    """Where the runs and the tracking store are."""

    uri: str | None = key(None, "Tracking store. Default: SQLite in `output`.", name="tracking.uri")

    def __post_init__(self) -> None:
        """InputError for an address that none can be, or that holds a password."""
        refuse_address(self.uri)


@arguments
class Weights(Composed):
    """A command that reads weights, of a run of ours or from elsewhere."""

    reads_as_runs: ClassVar[bool] = False

    run: str | None = word("RUN", None, f"{RUN.capitalize()}.")
    checkpoint: str | None = key(None, "Folder of weights, or name on the hub, instead of RUN.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(models := self.models) > 1:
            raise InputError(f"{models[0]} and {models[1]} both name a model: give only one")

    @property
    def models(self) -> list[str]:
        """What on the command line says which model is meant."""
        choices = [choice for choice in self.choices if group_of(choice) in OF_MODEL]
        return [*(["RUN"] if self.run else []), *(["checkpoint="] if self.checkpoint else []), *choices[:1]]

    @property
    def source(self) -> tuple[str, str] | None:
        """Where the weights are: `RUN` or `checkpoint`, and which."""
        return ("RUN", self.run) if self.run else ("checkpoint", self.checkpoint) if self.checkpoint else None
