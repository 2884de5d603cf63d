"""The fastest matrix product that this machine does, and the share of it that a model uses (arXiv:2204.02311, appendix B).

That share counts what the model needs; what is computed a second time to save memory is another one's to add.
"""

import time
from collections.abc import Callable

import torch

from harness.hardware.device import Machine

SIZES = (512, 1024, 2048, 4096, 8192)
"""Rows of the square matrices that are tried; a size that would not fit the rest of the time is left out."""

SECONDS = 1.0
"""Time for all sizes together."""

CALLS = 4
"""Calls of one size that the time must have room for: one unmeasured, two that are compared, and what making the data takes."""


def peak_flops_per_s(machine: Machine, seconds: float = SECONDS) -> float:
    """FLOP/s of the fastest product, at the dtype of the run's products and on the threads that are set now."""
    dtype, best = product_dtype(machine), 0.0
    ends = time.perf_counter() + seconds
    for position, size in enumerate(SIZES):
        left = ends - time.perf_counter()
        flops = 2 * size**3
        if best and CALLS * flops / best > left:
            break
        fastest = _fastest_s(size, dtype, machine, left / (len(SIZES) - position))
        best = max(best, flops / fastest)
    return best


def product_dtype(machine: Machine) -> torch.dtype:
    """What a matrix product computes in under the run's arithmetic."""
    one = torch.ones(1, 1, device=machine.device)
    with machine.autocast():
        return (one @ one).dtype


def _fastest_s(size: int, dtype: torch.dtype, machine: Machine, seconds: float) -> float:
    """Seconds of the fastest of at least two calls after an unmeasured one; all that is done here fits the time if it can."""
    ends = time.perf_counter() + seconds
    given = torch.Generator(machine.device).manual_seed(0)
    left, right = (torch.randn(size, size, generator=given, device=machine.device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    torch.mm(left, right.t(), out=out)
    machine.synchronise()
    took: list[float] = []
    while len(took) < 2 or time.perf_counter() < ends:
        started = time.perf_counter()
        torch.mm(left, right.t(), out=out)  # the layout of a linear layer
        machine.synchronise()
        took.append(time.perf_counter() - started)
    return min(took)


def mfu(flops: float, seconds: float, peak: float | None) -> float | None:
    """Model FLOPs per second over the peak, None without one; RuntimeError above 1: then one of the two numbers is wrong."""
    if peak is None:
        return None
    achieved = flops / seconds
    if achieved > peak:
        raise RuntimeError(f"utilisation above 1: {achieved:.4g} FLOP/s, but the fastest matrix product gave {peak:.4g} FLOP/s")
    return achieved / peak


def utilisation(flops: float, seconds: float, measure: Callable[[], float]) -> tuple[float, float | None]:
    """The peak and the share of it; a share above 1 is measured again once, for others may have slowed the first peak.

    None, with a printed line, where it stays above 1.
    """
    peak = measure()
    if flops / seconds > peak:
        peak = max(peak, measure())
    try:
        return peak, mfu(flops, seconds, peak)
    except RuntimeError as error:
        print(f"left out: {error}")
        return peak, None
