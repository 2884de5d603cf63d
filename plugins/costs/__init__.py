"""Costs of runs and variants before training: `plan`, `profile`, `memory`."""

from harness.commands import Command

MEMORY = Command(
    "Measure the memory of a training step by batch size",
    "harness.plugins.costs.options:Memory",
    "harness.plugins.costs.memory:main",
)
PLAN = Command(
    "Show what a sweep would run and how long it would take",
    "harness.plugins.costs.options:Plan",
    "harness.plugins.costs.plan:main",
)
PROFILE = Command(
    "Measure FLOPs, latency and memory of models, without training",
    "harness.plugins.costs.options:Profile",
    "harness.plugins.costs.profile:main",
)
