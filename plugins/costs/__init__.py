"""What variants cost without data and training: `profile`, `memory`."""

from harness.commands import Command

MEMORY = Command(
    "memory of a training step by batch size, and the largest batch that fits",
    "harness.plugins.costs.options:Memory",
    "harness.plugins.costs.memory:main",
)
PROFILE = Command(
    "parameters, FLOPs, latency and memory of variants, without training",
    "harness.plugins.costs.options:Profile",
    "harness.plugins.costs.profile:main",
)
