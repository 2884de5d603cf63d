"""Archives: a study to keep and share as one folder of few files, and a check that its report follows from its data."""

from harness.commands import Command

ARCHIVE = Command(
    "Pack a report with the data it is computed from, without weights",
    "harness.plugins.archive.options:Archive",
    "harness.plugins.archive.pack:main",
)
VERIFY = Command(
    "Recompute the report of an archive; exit code 1 if a number differs",
    "harness.plugins.archive.options:Verify",
    "harness.plugins.archive.verify:main",
)
