"""Maintenance of a folder of results and its store: `clean`, `delete`, `status`, `sync`, `ui`."""

from harness.commands import Command

CLEAN = Command(
    "Remove stale files that no run needs; asks first",
    "harness.plugins.upkeep.options:Clean",
    "harness.plugins.upkeep.clean:main",
)
DELETE = Command(
    "Delete a study or a run, with its entries in MLflow; asks first",
    "harness.plugins.upkeep.options:Delete",
    "harness.plugins.upkeep.delete:main",
)
STATUS = Command(
    "Show what is missing in a study, and the command that completes it",
    "harness.plugins.upkeep.options:Status",
    "harness.plugins.upkeep.status:main",
)
SYNC = Command(
    "Send missing results to MLflow",
    "harness.plugins.upkeep.options:Sync",
    "harness.plugins.upkeep.sync:main",
)
UI = Command(
    "Open the results in the MLflow UI",
    "harness.plugins.upkeep.options:Ui",
    "harness.plugins.upkeep.ui:main",
)
