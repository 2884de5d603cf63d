"""Sparse gradients of large tables, clipping, and the step: equal to torch's own with dense gradients."""

import pytest
import torch
from torch import nn

from harness.config.schema import OptimiserConfig
from harness.training.optimiser import LEAST_ROWS, make_optimiser, use_sparse_gradients

ROWS, WIDTH = LEAST_ROWS + 76, 3


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(ROWS, WIDTH, padding_idx=0), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2)).double()


def batches() -> list[torch.Tensor]:
    """Rows that come back, rows that do not, repeated ones and padding."""
    return [
        torch.tensor([[5, 5, 9, 0]]),
        torch.tensor([[9, 1, 0, 0]]),
        torch.tensor([[5, 1099, 7, 7]]),
        torch.tensor([[2, 2, 2, 3]]),
    ]


@pytest.mark.parametrize("max_norm", [0.01, 1e6], ids=["clipped", "not clipped"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_steps_are_those_of_dense_gradients_and_torchs_own_clipping(max_norm: float, accumulation: int):
    config = OptimiserConfig(learning_rate=0.1, weight_decay=0.2, max_grad_norm=max_norm)
    ours, plain = model(), model()
    use_sparse_gradients(ours)
    optimiser = make_optimiser(ours, config)
    decayed, kept = ([p for p in plain.parameters() if (p.dim() >= 2) is flag] for flag in (True, False))
    groups = [{"params": decayed, "weight_decay": 0.2}, {"params": kept, "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.1, fused=False, foreach=False)
    for number, ids in enumerate(batches(), 1):
        for one in (ours, plain):
            one(ids).square().sum().backward()
        assert [one[0].weight.grad.is_sparse for one in (ours, plain)] == [True, False]
        if number % accumulation:
            continue
        optimiser.update()
        nn.utils.clip_grad_norm_(plain.parameters(), max_norm)
        reference.step()
        reference.zero_grad()
        assert all(p.grad is None for p in ours.parameters())
    for own, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-12)


def test_only_large_tables_that_nothing_else_uses_get_sparse_gradients():
    large, small, tied = nn.Embedding(LEAST_ROWS, 2), nn.Embedding(LEAST_ROWS - 1, 2), nn.Embedding(LEAST_ROWS, 2)
    output = nn.Linear(2, LEAST_ROWS)
    output.weight = tied.weight
    use_sparse_gradients(nn.ModuleList([large, small, tied, output]))
    assert (large.sparse, small.sparse, tied.sparse) == (True, False, False)


def test_a_frozen_table_and_a_parameter_without_gradient_are_left_alone():
    one = model()
    one[0].weight.requires_grad = False
    use_sparse_gradients(one)
    optimiser = make_optimiser(one, OptimiserConfig(learning_rate=0.1))
    before = one[0].weight.clone()
    one(batches()[0]).sum().backward()
    one[1].bias.grad = None
    optimiser.update()
    assert torch.equal(one[0].weight, before)
