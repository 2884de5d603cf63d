"""Verdicts on results of any tool: one frame, what pairs in it, all pairs and ranks."""

from harness.commands import Command

JUDGE = Command(
    "Compare results of other tools: lm-evaluation-harness, MTEB, tables",
    "harness.plugins.judge.options:Judge",
    "harness.plugins.judge.judging:main",
)
