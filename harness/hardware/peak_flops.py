"""The fastest matrix product of this machine, and the share of it that a model uses (arXiv:2204.02311, appendix B).

The share (MFU) counts the FLOPs of the model, without recomputation of activation checkpointing.

python -m harness.hardware.peak_flops JSON     measures the products of both arithmetics: see `facts.chosen_dtype`
"""

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace

import torch
from torch import Tensor

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware import products
from harness.hardware.device import Machine
from harness.hardware.facts import ProductRates

SIZES = (512, 1024, 2048, 4096, 8192)
"""Rows of the square matrices; a size that would exceed the remaining time is left out."""

SECONDS = 1.0
"""Time for all sizes together."""

CALLS = 4
"""Calls of one size that must fit the remaining time: one unmeasured, two measured, and about one for making the data."""


def peak_flops_per_s(machine: Machine, seconds: float = SECONDS) -> float:
    """FLOP/s of the fastest product, in the dtype of the run and with the threads that are set now."""
    one, best = torch.ones(1, 1, device=machine.device), 0.0
    with machine.autocast():
        dtype = (one @ one).dtype
    ends = time.perf_counter() + seconds
    for position, size in enumerate(SIZES):
        left = ends - time.perf_counter()
        flops = 2 * size**3
        if best and CALLS * flops / best > left:
            break
        fastest = _fastest_s(size, dtype, machine, left / (len(SIZES) - position))
        best = max(best, flops / fastest)
    return best


def _fastest_s(size: int, dtype: torch.dtype, machine: Machine, seconds: float) -> float:
    """Seconds of the fastest of at least two calls after an unmeasured one; stays within `seconds` if possible."""
    ends = time.perf_counter() + seconds
    stream = torch.Generator(machine.device).manual_seed(0)
    left, right = (torch.randn(size, size, generator=stream, device=machine.device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)

    def multiply() -> Tensor:
        """As a linear layer, in its layout, by the library that the machine multiplies with."""
        return products.product(left, right) if machine.multiplies_with_onednn else torch.mm(left, right.t(), out=out)

    multiply()
    machine.synchronise()
    took: list[float] = []
    while len(took) < 2 or time.perf_counter() < ends:
        started = time.perf_counter()
        multiply()
        machine.synchronise()
        took.append(time.perf_counter() - started)
    return min(took)


def mfu(flops: float, seconds: float, peak: float | None) -> float | None:
    """Model FLOPs per second over the peak, None without one; RuntimeError above 1, which is impossible."""
    if peak is None:
        return None
    achieved = flops / seconds
    if achieved > peak:
        raise RuntimeError(f"utilisation above 1: {achieved:.4g} FLOP/s, but the fastest matrix product gave {peak:.4g} FLOP/s")
    return achieved / peak


def utilisation(
    flops: float, seconds: float, measure: Callable[[], float], known: float | None = None
) -> tuple[float, float | None]:
    """The peak and the share of it; if it is above 1, the peak is measured once more, as other processes may have slowed it.

    `known`: what an earlier run has measured. If it stays above 1, the share is None and a line is printed.
    """
    peak = known or measure()
    if math.isnan(flops):  # unknown
        return peak, None
    if flops / seconds > peak:
        peak = max(peak, measure())
    try:
        return peak, mfu(flops, seconds, peak)
    except RuntimeError as error:
        print(f"left out: {error}")
        return peak, None


PROBE_S = 0.3
"""Time of the products in each arithmetic: one is several times as fast as the other, so that little is enough."""


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    hardware = HardwareConfig(device=Device(asked["device"]), threads=asked["threads"])
    try:
        machines = (Machine(replace(hardware, dtype=dtype)) for dtype in (Dtype.fp32, Dtype.bf16))
        print(json.dumps(asdict(ProductRates(*(peak_flops_per_s(machine, PROBE_S) for machine in machines)))))
    except InputError as error:
        sys.exit(str(error))
