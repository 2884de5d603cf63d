"""How ordered objectives train, what they cost, and two streams. B sequences, T tokens, K predicted positions, D hidden."""

import math

import pytest
import torch
from order_cases import (
    CAUSAL,
    LENGTH,
    LSTM,
    MAIN,
    PERMUTATION,
    RELATIVE,
    SEEDS,
    VOCABULARY,
    Case,
    each,
    packed,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harness.models.batch import Batch
from harness.models.config import Sharing
from harness.models.objectives.causal import BidirectionalLM, CausalLM
from harness.models.objectives.permutation import PermutationLM

# Two streams, written out


# How it trains


@each(MAIN)
def test_losses_and_gradients_of_micro_batches_add_up(case):
    objective = case.build()
    data = objective.make_batch(packed(), SEEDS)
    whole = objective(data)
    whole.backward()
    gradients = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    objective.zero_grad()
    losses = [objective(data.micro_batch(rows)) for rows in (slice(0, 1), slice(1, 3))]
    sum(losses).backward()
    torch.testing.assert_close(sum(losses), whole)
    for name, parameter in objective.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-5)


@each(MAIN)
def test_the_loss_is_the_mean_over_predictions_in_nats(case):
    objective = case.build()
    for parameter in objective.lm_head.output.parameters():
        parameter.data.zero_()
    assert objective(objective.make_batch(packed(), SEEDS)).item() == pytest.approx(math.log(VOCABULARY), rel=1e-5)


@pytest.mark.parametrize(("case", "idle"), [(PERMUTATION[1], ("segment",)), (CAUSAL[5], ("mask", "segment"))], ids=str)
def test_relative_attention_without_types_leaves_segments_idle_and_without_queries_their_vector(case, idle):
    objective = case.build()
    objective(objective.make_batch(Batch(packed().input_ids), SEEDS)).backward()
    left = {name.rpartition(".")[2].partition("_")[0] for name, p in objective.named_parameters() if p.grad is None}
    assert left == set(idle)


def test_upper_lstm_layers_keep_the_columns_that_read_the_other_direction():
    objective = Case(BidirectionalLM, LSTM).build()
    objective(objective.make_batch(packed(), SEEDS)).backward()
    for there, again in objective.encoder.layers.execution_order()[1:]:
        own, other = there.weight_ih_l0.grad.chunk(2, dim=1)
        assert other.abs().max() == 0
        assert own.abs().amax(dim=0).min() > 0
        other, own = again.weight_ih_l0.grad.chunk(2, dim=1)
        assert other.abs().max() == 0
        assert own.abs().amax(dim=0).min() > 0


# What it costs


@pytest.mark.long
@each([*MAIN, CAUSAL[5], Case(CausalLM, {"sharing": Sharing.all, "num_hidden_groups": 1})])
def test_flops_are_those_that_torch_counts(case):
    """On the meta device, but for relative attention with given positions, which reads their extent."""
    objective = case.build()
    data = objective.make_batch(packed(), SEEDS).micro_batch(slice(0, 1))
    read = case.objective is PermutationLM and case.shape == RELATIVE
    data.inputs.token_type_ids = None  # segments are a vector a query, which the formula leaves out
    counter = FlopCounterMode(display=False)
    device = "cpu" if read else "meta"
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        objective.to(device)(data.to(device))
    assert objective.flops(LENGTH) == pytest.approx(counter.get_total_flops(), rel=0.02)
