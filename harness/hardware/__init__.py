"""The machine: its device as a worker uses it, facts about it, its energy counters and the load of others."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.choices import Device
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

NO_GPU = "hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu"

NODES = ("nvidia[0-9]*", "kfd", "dxg")
"""Files in /dev of the drivers of GPUs: NVIDIA, ROCm, Windows' subsystem for Linux."""


def refuse_without_driver(configs: "Iterable[RunConfig]") -> None:
    """InputError for runs on a GPU where there cannot be one; without torch, whose import takes seconds."""
    has_driver = any(node for name in NODES for node in Path("/dev").glob(name))
    if not has_driver and any(config.hardware.device is Device.cuda for config in configs):
        raise InputError(NO_GPU)
