"""Keys and switches of `clean`, `delete`, `status`, `sync` and `ui`."""

from harness.grammar import arguments, key, word
from harness.models.ranges import Range
from harness.plugins.shared.options import OutputFolder, Store


@arguments
class Clean(OutputFolder):
    """Removes files that no run needs: unused data, launches of old timing sessions, temporary files; asks first."""

    dry_run: bool = key(False, "List what would be removed, and remove nothing.")
    yes: bool = key(False, "Remove without asking.")

    def __post_init__(self) -> None:
        self.refuse_missing()


@arguments
class Delete(Store):
    """Deletes a study with its report, or a single run: its folder and its entries in the tracking store; asks first.

    Pretrained weights are runs of the folder `pretrained` and stay with a deleted study, as other studies may share them.
    """

    name: str = word("STUDY|RUN", meaning="Name of a study; or name, folder or id of a run.")
    yes: bool = key(False, "Delete without asking.")

    def __post_init__(self) -> None:
        self.refuse_missing()
        super().__post_init__()


@arguments
class Status(OutputFolder):
    """What of a study has finished, what is missing and why, and the command that completes it."""

    study: str | None = word("STUDY", None, "Name of the study. Default: a summary of all studies.")

    def __post_init__(self) -> None:
        self.refuse_missing()


@arguments
class Sync(Store):
    """Sends results that MLflow lacks, from the folders of the runs; sending them twice changes nothing."""

    def __post_init__(self) -> None:
        self.refuse_missing()
        super().__post_init__()


@arguments
class Ui(Store):
    """Opens the tracking store in MLflow's UI: prints the address of each study's table, sorted by score, and serves until
    Ctrl-C.
    """

    port: int = key(5000, "Port on this machine.", range=Range(at_least=1, at_most=65535))
