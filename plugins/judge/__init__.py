"""Verdicts on results of any tool: one frame, what pairs in it, all pairs and ranks."""

from harness.commands import Command

JUDGE = Command(
    "compare the arms in results of any tool: tables, lm-evaluation-harness, MTEB, Trainer and others",
    "harness.plugins.judge.options:Judge",
    "harness.plugins.judge.judging:main",
)
