"""Keys and switches of `clean`, `sync` and `ui`."""

from dataclasses import dataclass

from harness.commands.options import OutputFolder
from harness.grammar import key, word
from harness.models.ranges import Range
from harness.plugins.shared.options import Store


@dataclass(frozen=True, kw_only=True)
class Clean(OutputFolder):
    """Removes what no run needs: unused data, launches of old timing sessions, temporary files; asks first."""

    dry_run: bool = key(False, "List what would be removed, and remove nothing.")
    yes: bool = key(False, "Remove without asking.")

    def __post_init__(self) -> None:
        self.refuse_missing()


@dataclass(frozen=True, kw_only=True)
class Delete(Store):
    """Deletes a study with its report, or a single run: the folder and what the tracking store has of it; asks first.

    Pretrained weights are runs of the folder `pretrained` and stay with a deleted study, as other studies may share them.
    """

    name: str = word("STUDY|RUN", meaning="Name of a study; or name, folder or id of a run.")
    yes: bool = key(False, "Delete without asking.")

    def __post_init__(self) -> None:
        self.refuse_missing()
        super().__post_init__()


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

    port: int = key(5000, "Port on this machine.", range=Range(at_least=1, at_most=65535))
