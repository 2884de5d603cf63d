"""The arithmetic in which this machine multiplies faster: float32, or bfloat16 where it has instructions for it."""

import functools
import json
import subprocess
import sys
from dataclasses import dataclass

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from harness.errors import InputError

PROBE = "harness.hardware.product_probe"
"""Module that measures, in a process of its own, because this one may not have loaded torch."""

THREADS = 1
"""That multiply on a CPU: several wait for each other, so that beside a busy process both arithmetics are equally slow."""


@dataclass(frozen=True)
class Products:
    """FLOP/s of the fastest matrix product in each arithmetic."""

    fp32: float
    bf16: float

    @property
    def faster(self) -> Dtype:
        """The arithmetic with the higher figure; float32 if they are equal."""
        return Dtype.bf16 if self.bf16 > self.fp32 else Dtype.fp32


def chosen(hardware: HardwareConfig) -> Dtype:
    """`hardware.dtype`, or the faster one of this machine for `auto`; what was measured is printed."""
    if hardware.dtype is not Dtype.auto:
        return hardware.dtype
    return _faster(hardware.device)


@functools.cache
def _faster(device: Device) -> Dtype:
    found = measured(device, THREADS)
    print(
        f"hardware.dtype=auto is {found.faster.value} here: matrix products of one thread at {found.fp32 / 1e9:,.0f} GFLOP/s "
        f"in fp32, {found.bf16 / 1e9:,.0f} in bf16",
        file=sys.stderr,
        flush=True,
    )
    return found.faster


def measured(device: Device, threads: int) -> Products:
    """The products of both. InputError if the device is not available."""
    asked = json.dumps({"device": device.value, "threads": threads})
    process = subprocess.run([sys.executable, "-m", PROBE, asked], capture_output=True, text=True)
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or ["no output"])[-1]
        raise InputError(f"hardware.dtype=auto cannot be decided: {reason}; set hardware.dtype=fp32 or bf16")
    return Products(**json.loads(process.stdout))
