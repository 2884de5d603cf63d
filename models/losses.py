"""Cross-entropy over a vocabulary, and over the paragraphs of a batch. N predictions, V vocabulary, B pairs, D hidden."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100
"""Target of a token or slot that counts for no loss and no score."""

CHUNK = 1 << 21
"""Logits that are computed with at a time on a CPU, in float32: 8 MiB, which stay in its cache."""


def summed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """(..., V) logits and (...) targets -> () cross-entropy in nats, summed over the targets that are not IGNORED."""
    return F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="sum")


def vocabulary_loss(logits: Tensor, targets: Tensor, divisor: float) -> Tensor:
    """(N, V) logits and (N,) targets -> () cross-entropy in nats, summed over the targets that are not IGNORED, over `divisor`.

    On a CPU the gradient is computed with the loss and written over the logits, which must not be used again.
    """
    if torch.is_grad_enabled() and logits.device.type == "cpu" and not torch.compiler.is_compiling():
        return _InPlace.apply(logits, targets, divisor)  # type: ignore[no-untyped-call]  # torch's own
    return summed_loss(logits, targets) / divisor


def in_batch_loss(questions: Tensor, paragraphs: Tensor, relevant: Tensor, temperature: float) -> Tensor:
    """Cross-entropy in nats of each question's own paragraph among those of the batch (arXiv:1705.00652, section 4.4).

    (B, D) vectors of length 1 of both, and (B, B), True where a paragraph belongs to a question: except for its own it is not a
    negative of it. Cosines are divided by the temperature.
    """
    others = relevant & ~torch.eye(len(questions), dtype=torch.bool, device=questions.device)
    cosines = (questions @ paragraphs.T / temperature).masked_fill(others, float("-inf"))
    return F.cross_entropy(cosines, torch.arange(len(questions), device=questions.device))


class _InPlace(torch.autograd.Function):
    """The gradient of a row is its softmax, less 1 at the target."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, divisor: float) -> Tensor:
        """The loss; the logits become their gradient."""
        ctx.gradient, rows = logits, max(1, CHUNK // logits.shape[-1])
        parts = [_loss_of_chunk(*chunk, divisor) for chunk in zip(logits.split(rows), targets.split(rows), strict=True)]
        return torch.stack(parts).sum() / divisor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """The stored gradient of the logits, scaled."""
        return (ctx.gradient if gradient == 1 else ctx.gradient.mul_(gradient)), None, None


def _loss_of_chunk(logits: Tensor, targets: Tensor, divisor: float) -> Tensor:
    """The summed loss of some rows, which become their gradient."""
    scores, used = logits.float(), targets != IGNORED
    index = targets.where(used, 0)[:, None]
    total = scores.logsumexp(dim=-1, keepdim=True)
    loss = (total - scores.gather(1, index))[used].sum()
    scores = scores.sub_(total).exp_().scatter_add_(1, index, scores.new_full((1, 1), -1.0).expand_as(index))
    logits.copy_(scores.mul_(used[:, None] / divisor))
    return loss
