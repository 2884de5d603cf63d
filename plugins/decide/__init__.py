"""Decisions by the verdicts of a report: a gate for checks in CI, its ledger of candidates, and arms that satisfy limits."""

from harness.commands import Command

GATE = Command(
    "exit code 1 where an arm is not shown to be at most so much worse, for CI",
    "harness.plugins.decide.options:Gate",
    "harness.plugins.decide.gate:main",
)
PICK = Command(
    "the arms that satisfy limits on size, speed, memory and score",
    "harness.plugins.decide.options:Pick",
    "harness.plugins.decide.pick:main",
)
