"""Cross-entropies: over a vocabulary, whose gradient is written over the logits, equal to torch's; and over a batch."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from harness.models import losses
from harness.models.losses import IGNORED, in_batch_loss, vocabulary_loss


def plain(logits: Tensor, targets: Tensor, divisor: float) -> Tensor:
    return F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="sum") / divisor


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)], ids=["fp32", "bf16"])
@pytest.mark.parametrize("chunk", [1, 3 * 11, 1 << 21], ids=["row by row", "three rows", "at once"])
@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_loss_and_gradients_are_torchs(dtype, tolerance: float, chunk: int, factor: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(losses, "CHUNK", chunk)
    stream = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(8, 5, generator=stream), 3 * torch.randn(11, 5, generator=stream)
    targets = torch.tensor([0, 10, IGNORED, 4, 4, IGNORED, 7, 1])
    found = []
    for loss_of in (vocabulary_loss, plain):
        x, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        loss = loss_of((x @ w.t()).to(dtype), targets, 6.0)
        (factor * loss).backward()
        found.append((loss.detach(), x.grad, w.grad))
    for own, other in zip(*found, strict=True):
        torch.testing.assert_close(own, other, rtol=tolerance, atol=tolerance)


def test_without_predictions_loss_and_gradients_are_zero():
    logits = torch.randn(3, 4).requires_grad_()
    loss = vocabulary_loss(logits * 1, torch.full((3,), IGNORED), 1.0)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(logits.grad, torch.zeros(3, 4))


def test_without_gradients_the_logits_stay():
    logits = torch.randn(3, 4)
    before = logits.clone()
    with torch.no_grad():
        loss = vocabulary_loss(logits, torch.tensor([0, 1, 2]), 3.0)
    torch.testing.assert_close(loss, F.cross_entropy(before, torch.tensor([0, 1, 2])))
    assert torch.equal(logits, before)


def test_in_batch_loss_is_the_cross_entropy_without_the_other_relevant_paragraphs():
    torch.manual_seed(0)
    questions, paragraphs = (F.normalize(torch.randn(4, 8), dim=-1) for _ in range(2))
    own = torch.eye(4, dtype=torch.bool)
    cosines = questions @ paragraphs.T / 0.1
    plain = in_batch_loss(questions, paragraphs, own, 0.1)
    torch.testing.assert_close(plain, (cosines.logsumexp(dim=1) - cosines.diagonal()).mean())
    relevant = own.clone()
    relevant[0, 3] = True
    without = torch.cat([cosines[0, :3].logsumexp(dim=0)[None], cosines[1:].logsumexp(dim=1)])
    torch.testing.assert_close(in_batch_loss(questions, paragraphs, relevant, 0.1), (without - cosines.diagonal()).mean())
