"""Which tokens each ordered objective reads, and which it predicts. B sequences, T tokens, K predicted positions."""

import math

import pytest
import torch
from order_cases import (
    BIDIRECTIONAL,
    CAUSAL,
    FIRST_WORD,
    LENGTH,
    LSTM,
    MAIN,
    PERMUTATION,
    SEEDS,
    SEP,
    STATIC,
    STATICS,
    VOCABULARY,
    Case,
    changed,
    each,
    packed,
    same,
)

from harness.models.batch import Batch
from harness.models.losses import IGNORED
from harness.models.objectives.causal import BidirectionalLM, CausalLM
from harness.models.objectives.permutation import PermutationLM

# What is read


@each([*CAUSAL, Case(CausalLM, STATIC)])
def test_the_next_token_is_predicted_from_this_one_and_those_before_it_alone(case):
    objective = case.build()
    data = objective.make_batch(packed(), SEEDS)
    plain = objective.states(data)
    for place in (1, 6, 15, 22):
        states = objective.states(changed(data, 2, place))
        assert same(states[:, :place], plain[:, :place])
        assert not same(states[2, place], plain[2, place])
        assert case.shape is STATIC or not same(states[2, place + 1], plain[2, place + 1])


def test_a_mask_makes_of_any_architecture_a_causal_one():
    behind_mask, causal = CAUSAL[0].build(), CAUSAL[1].build()
    data = causal.make_batch(packed(), SEEDS)
    assert same(behind_mask.states(data), causal.states(data))


@each(BIDIRECTIONAL)
def test_neither_direction_reads_its_target(case):
    objective = case.build()
    data = objective.make_batch(packed(), SEEDS)
    onward, back = objective.states(data).chunk(2, dim=1)
    for place in (1, 6, 15, 22):
        read, reread = objective.states(changed(data, 2, place)).chunk(2, dim=1)
        assert same(read[:, :place], onward[:, :place])
        assert same(reread[:, place + 1 :], back[:, place + 1 :])
        assert not same(read[2, place], onward[2, place])
        assert not same(read[2, place + 1], onward[2, place + 1])
        assert not same(reread[2, place], back[2, place])
        assert not same(reread[2, place - 1], back[2, place - 1])


@each(PERMUTATION)
def test_a_query_attends_to_what_is_before_its_target_in_the_order_alone(case):
    objective = case.build()
    data = objective.make_batch(packed(), SEEDS)
    plain, asked = objective.encoder(data.inputs), data.inputs.position_ids[1, LENGTH:].tolist()
    content = [place for place in range(LENGTH) if place not in asked]
    for number, target in enumerate(asked):
        states = objective.encoder(changed(data, 1, target).inputs)
        assert same(states[1, content], plain[1, content])
        assert same(states[1, asked[:number]], plain[1, asked[:number]])
        assert same(states[1, LENGTH : LENGTH + number + 1], plain[1, LENGTH : LENGTH + number + 1])
        later = range(LENGTH + number + 1, LENGTH + len(asked))
        assert all(not same(states[1, query], plain[1, query]) for query in later)
    given = next(place for place in content if data.inputs.input_ids[1, place] >= FIRST_WORD)
    states = objective.encoder(changed(data, 1, given).inputs)
    assert all(not same(now, before) for now, before in zip(states[1], plain[1], strict=True))


@pytest.mark.parametrize("part", [slice(0, LENGTH), slice(6, 15)], ids=["packed", "between"])
@each(STATICS)
def test_a_bag_is_the_mean_of_the_ordinary_tokens_near_its_position(case, part):
    objective, ids = case.build(), packed().input_ids[:, part]
    data, vectors = objective.make_batch(Batch(ids), SEEDS), objective.encoder(Batch(ids))
    for row, places in enumerate(data.positions.tolist()):
        for slot, place in enumerate(places):
            near = [
                p for p in range(max(0, place - 5), min(ids.shape[1], place + 6)) if p != place and ids[row, p] >= FIRST_WORD
            ]
            assert same(objective.vectors(data)[row, slot], vectors[row, near].mean(dim=0))


# What is predicted


@each(MAIN)
def test_special_tokens_are_never_predicted_and_the_others_counted(case):
    data = case.build().make_batch(packed(), SEEDS)
    used = data.targets[data.targets != IGNORED]
    assert used.min() >= FIRST_WORD
    assert data.total_predictions == len(used)
    assert data.total_sequences == len(SEEDS)
    assert data.positions.shape == data.targets.shape


@pytest.mark.parametrize(
    ("one", "other"),
    [(PERMUTATION[0], PERMUTATION[1]), (STATICS[0], STATICS[1]), (CAUSAL[0], CAUSAL[1]), (BIDIRECTIONAL[0], BIDIRECTIONAL[1])],
    ids=str,
)
def test_two_ordered_variants_of_one_seed_have_the_same_targets(one, other):
    first, second = one.build().make_batch(packed(), SEEDS), other.build().make_batch(packed(), SEEDS)
    assert torch.equal(first.positions, second.positions)
    assert torch.equal(first.targets, second.targets)


@each([PERMUTATION[0], STATICS[0]])
def test_targets_of_a_sequence_follow_from_its_seed_alone(case):
    objective, batch = case.build(), packed()
    targets = objective.make_batch(batch, SEEDS).targets
    alone = objective.make_batch(Batch(batch.input_ids[1:2], batch.token_type_ids[1:2]), SEEDS[1:2])
    assert torch.equal(alone.targets, targets[1:2])
    assert not torch.equal(objective.make_batch(batch, [1, 2, 3]).targets, targets)


@each(PERMUTATION)
def test_few_ordinary_tokens_leave_slots_unused_and_numbers_finite(case):
    batch = packed()
    batch.input_ids[0, 3:] = SEP
    batch.input_ids[1] = SEP
    objective = case.build(hidden_dropout_prob=0.1).train()
    data = objective.make_batch(batch, SEEDS)
    assert (data.targets != IGNORED).sum(dim=1).tolist() == [2, 0, 4]
    assert data.inputs.attention_mask.any(dim=-1).all()
    loss = objective(data)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in objective.parameters() if p.grad is not None)


def test_positions_of_queries_stay_within_the_table():
    objective = Case(PermutationLM).build()
    assert objective.make_batch(packed(), SEEDS).inputs.position_ids.max() == LENGTH - 1 < objective.encoder.config.longest_text
    longer = Batch(torch.full((1, LENGTH + 1), FIRST_WORD))
    with pytest.raises(ValueError, match=r"model\.max_position_embeddings=24"):
        objective.make_batch(longer, [1])


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
