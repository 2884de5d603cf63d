"""How ordered objectives train, what they cost, and two streams. B sequences, T tokens, K predicted positions, D hidden."""

import math

import pytest
from order_cases import (
    CAUSAL,
    LSTM,
    MAIN,
    PERMUTATION,
    SEEDS,
    VOCABULARY,
    Case,
    each,
    packed,
)

from harness.models.batch import Batch
from harness.models.objectives.causal import BidirectionalLM

# Two streams, written out


# How it trains


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
