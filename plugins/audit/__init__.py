"""Claims of papers and other sources, held against what is counted, timed and trained here. A claim is data: conf/claims/."""

from harness.commands import Command

COMMAND = Command(
    "Check claims of papers against counts, timings and scores",
    "harness.plugins.audit.options:Audit",
    "harness.plugins.audit.command:main",
)
