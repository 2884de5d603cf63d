"""The machine: its device as a worker uses it, facts about it, its energy counters and the load of others."""

from pathlib import Path

NO_GPU = "hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu"

NODES = ("nvidia[0-9]*", "kfd", "dxg")
"""Files in /dev of the drivers of GPUs: NVIDIA, ROCm, Windows' subsystem for Linux."""


def has_gpu_driver() -> bool:
    """Whether a GPU may be there; without torch, whose import takes seconds."""
    return any(node for name in NODES for node in Path("/dev").glob(name))
