"""Keys and switches of `clean`, `sync` and `ui`."""

from dataclasses import dataclass

from harness.commands.options import OutputFolder
from harness.grammar import key
from harness.models.ranges import Range
from harness.plugins.shared.options import Store


@dataclass(frozen=True, kw_only=True)
class Clean(OutputFolder):
    """Removes what no run needs: unused data, launches of old timing sessions, temporary files; asks first."""

    dry_run: bool = key(False, "only lists what would be removed")
    yes: bool = key(False, "does not ask")

    def __post_init__(self) -> None:
        self.refuse_missing()


@dataclass(frozen=True, kw_only=True)
class Sync(Store):
    """Sends results to MLflow that it has missed, from the folders of the runs; sending them twice changes nothing."""

    def __post_init__(self) -> None:
        self.refuse_missing()
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class Ui(OutputFolder):
    """Opens the tracking store in MLflow's UI: prints the address of each study's table, sorted by score, and serves until
    Ctrl-C.
    """

    port: int = key(5000, "port on this machine", range=Range(at_least=0, at_most=65535))
