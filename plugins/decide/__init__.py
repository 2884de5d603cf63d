"""Questions beside a report: what differs between two runs, which arms pass a gate or satisfy limits, what a study can tell."""

from harness.commands import Command

COMPARE = Command(
    "what differs between two runs: settings, environment, numbers",
    "harness.plugins.decide.options:Compare",
    "harness.plugins.decide.compare:main",
)
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
POWER = Command(
    "the smallest difference of scores that so many seeds and items would show",
    "harness.plugins.decide.options:Power",
    "harness.plugins.decide.power:main",
)
