"""Commands next to the report: differences of two runs, gates, limits, the power of a design."""

from harness.commands import Command

COMPARE = Command(
    "Show how two runs differ: settings, environment, numbers",
    "harness.plugins.decide.options:Compare",
    "harness.plugins.decide.compare:main",
)
GATE = Command(
    "Fail (exit code 1) unless arms are shown to be non-inferior, for CI",
    "harness.plugins.decide.options:Gate",
    "harness.plugins.decide.gate:main",
)
PICK = Command(
    "List the arms that meet limits on size, speed, memory and score",
    "harness.plugins.decide.options:Pick",
    "harness.plugins.decide.pick:main",
)
POWER = Command(
    "Compute the smallest detectable score difference of a design",
    "harness.plugins.decide.options:Power",
    "harness.plugins.decide.power:main",
)
