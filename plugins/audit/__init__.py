"""Claims of papers and other sources, held against what is counted, timed and trained here. A claim is data: conf/claims/."""

from harness.commands import Command

COMMAND = Command(
    "claims of papers and notebooks against what is counted, timed and trained here",
    "harness.plugins.audit.options:Audit",
    "harness.plugins.audit.command:main",
)
