"""Linear layers in float32 through oneDNN, on processors for which torch's own library has no fast kernels.

torch multiplies float32 matrices with MKL, which uses 256-bit kernels on processors of other makers than Intel. oneDNN, which
torch contains for bfloat16, uses the widest that the processor has. Both compute in float32.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CPUINFO = Path("/proc/cpuinfo")

SMALLEST = 1 << 20
"""Multiplications below which the fixed cost of a call outweighs the gain."""


def is_faster_here() -> bool:
    """Whether torch has both libraries, and the processor has AVX-512 but is not made by Intel."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available() and CPUINFO.exists()):
        return False
    facts = CPUINFO.read_text()
    return "avx512f" in facts.split() and "GenuineIntel" not in facts


def load() -> None:
    """Multiplies once in all three ways of a linear layer, so that the memory of the library itself counts for no model."""
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng([]):
        OneDnnLinear(128, 128)(torch.ones(128, 128, requires_grad=True)).sum().backward()


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """(M, K) and (N, K) -> (M, N): left times right transposed, plus the bias of (N,)."""
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


class _Product(torch.autograd.Function):
    """`F.linear` with its three products through oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(M, K), (N, K) and (N,) or None -> (M, N)."""
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """(M, N) -> gradients of the three inputs that need one."""
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous()  # other strides take a slow path
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        outer = None  # (N, K): the sum over rows of outer products
        if needs_weight:  # oneDNN's left matrix is copied transposed, which is slow, so the narrower one takes that side
            is_narrow = gradient.shape[1] <= x.shape[1]
            outer = product(gradient.t(), x.t()) if is_narrow else product(x.t(), gradient.t()).t().contiguous()
        return (
            product(gradient, weight.t()) if needs_x else None,
            outer,
            gradient.sum(0) if needs_bias else None,
        )


class OneDnnLinear(nn.Linear):
    """nn.Linear through oneDNN; small products, and those whose FLOPs are counted without values, as before."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., K) -> (..., N)."""
        is_small = x.numel() * self.out_features < SMALLEST
        if is_small or x.is_meta or x.dtype is not torch.float32 or torch.is_autocast_enabled("cpu"):
            return F.linear(x, self.weight, self.bias)
        rows = _Product.apply(x.flatten(0, -2).contiguous(), self.weight, self.bias)  # type: ignore[no-untyped-call]  # torch's
        return rows.view(*x.shape[:-1], self.out_features)


def use_onednn(model: nn.Module) -> None:
    """Makes every linear layer of the model multiply through oneDNN; names and tensors stay."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear
