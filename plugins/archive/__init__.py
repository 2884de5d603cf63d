"""Archives: a study to keep and to share, in one folder of few files, and whether the report in it follows from its data."""

from harness.commands import Command

ARCHIVE = Command(
    "all that the report of a study reads, and the report, in one folder to keep and share",
    "harness.plugins.archive.options:Archive",
    "harness.plugins.archive.pack:main",
)
VERIFY = Command(
    "recompute the report of an archive; exit code 1 where a number differs",
    "harness.plugins.archive.options:Verify",
    "harness.plugins.archive.verify:main",
)
