"""What runs and variants cost before anything is trained: `plan`, `profile`, `memory`."""

from harness.commands import Command

MEMORY = Command(
    "memory of a training step by batch size, and the largest batch that fits",
    "harness.plugins.costs.options:Memory",
    "harness.plugins.costs.memory:main",
)
PLAN = Command(
    "what a sweep would run and take: states, parameters, FLOPs, memory, minutes",
    "harness.plugins.costs.options:Plan",
    "harness.plugins.costs.plan:main",
)
PROFILE = Command(
    "parameters, FLOPs, latency and memory of variants, without training",
    "harness.plugins.costs.options:Profile",
    "harness.plugins.costs.profile:main",
)
