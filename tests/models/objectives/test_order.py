"""What each objective with an order may see and asks for. B sequences, T tokens, K predicted places."""

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
    WINDOW,
    Case,
    changed,
    each,
    packed,
    same,
    small_shape,
)

from models.batch import Batch
from models.config import Body, Position
from models.objectives.causal import Bidirectional, Causal
from models.objectives.cbow import ContinuousBag
from models.objectives.config import ObjectiveConfig
from models.objectives.permutation import Permutation
from models.objectives.question import IGNORED


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# What is seen


@each([*CAUSAL, Case(Causal, STATIC)])
def test_the_next_token_is_told_from_this_one_and_those_before_it_alone(case):
    objective = case.build()
    question = objective.ask(packed(), SEEDS)
    plain = objective.states(question.batch)
    for place in (1, 6, 15, 22):
        states = objective.states(changed(question, 2, place).batch)
        assert same(states[:, :place], plain[:, :place])
        assert not same(states[2, place], plain[2, place])
        assert case.shape is STATIC or not same(states[2, place + 1], plain[2, place + 1])


def test_a_mask_makes_of_any_architecture_a_causal_one():
    behind_mask, causal = CAUSAL[0].build(), CAUSAL[1].build()
    question = causal.ask(packed(), SEEDS)
    assert same(behind_mask.states(question.batch), causal.states(question.batch))


@each(BIDIRECTIONAL)
def test_neither_direction_sees_what_it_is_asked_for(case):
    objective = case.build()
    question = objective.ask(packed(), SEEDS)
    onward, back = objective.states(question.batch).chunk(2, dim=1)
    for place in (1, 6, 15, 22):
        read, reread = objective.states(changed(question, 2, place).batch).chunk(2, dim=1)
        assert same(read[:, :place], onward[:, :place])
        assert same(reread[:, place + 1 :], back[:, place + 1 :])
        assert not same(read[2, place], onward[2, place])
        assert not same(read[2, place + 1], onward[2, place + 1])
        assert not same(reread[2, place], back[2, place])
        assert not same(reread[2, place - 1], back[2, place - 1])


def test_both_directions_are_asked_for_each_piece_once():
    question = Case(Bidirectional).build().ask(packed(), SEEDS)
    ids, sides = packed().input_ids, question.places // LENGTH
    neighbours = question.places % LENGTH + 1 - 2 * sides
    used = question.targets != IGNORED
    assert torch.equal(question.targets[used], ids.gather(1, neighbours)[used])
    assert (sides == 0).sum() == (sides == 1).sum() == len(ids) * (LENGTH - 1)


@each(PERMUTATION)
def test_a_query_sees_what_was_drawn_before_its_target_alone(case):
    objective = case.build()
    question = objective.ask(packed(), SEEDS)
    plain, asked = objective.encoder(question.batch), question.batch.position_ids[1, LENGTH:].tolist()
    content = [place for place in range(LENGTH) if place not in asked]
    for number, target in enumerate(asked):
        states = objective.encoder(changed(question, 1, target).batch)
        assert same(states[1, content], plain[1, content])
        assert same(states[1, asked[:number]], plain[1, asked[:number]])
        assert same(states[1, LENGTH : LENGTH + number + 1], plain[1, LENGTH : LENGTH + number + 1])
        later = range(LENGTH + number + 1, LENGTH + len(asked))
        assert all(not same(states[1, query], plain[1, query]) for query in later)
    given = next(place for place in content if question.batch.input_ids[1, place] >= FIRST_WORD)
    states = objective.encoder(changed(question, 1, given).batch)
    assert all(not same(now, before) for now, before in zip(states[1], plain[1], strict=True))


@pytest.mark.parametrize("part", [slice(0, LENGTH), slice(6, 15)], ids=["packed", "between"])
@each(STATICS)
def test_a_bag_is_the_mean_of_the_ordinary_pieces_near_its_place(case, part):
    objective, ids = case.build(), packed().input_ids[:, part]
    question, vectors = objective.ask(Batch(ids), SEEDS), objective.encoder(Batch(ids))
    for row, places in enumerate(question.places.tolist()):
        for slot, place in enumerate(places):
            near = [
                p for p in range(max(0, place - 5), min(ids.shape[1], place + 6)) if p != place and ids[row, p] >= FIRST_WORD
            ]
            assert same(objective.means(question)[row, slot], vectors[row, near].mean(dim=0))


@each(STATICS)
def test_a_bag_leaves_out_its_own_place_and_far_ones(case):
    objective = case.build()
    question = objective.ask(packed(), SEEDS)
    row, place = 2, int(question.places[2, 0])
    plain = objective.means(question)[row, 0]
    assert same(objective.means(changed(question, row, place))[row, 0], plain)
    ordinary = [p for p in range(1, LENGTH - 1) if p != place]
    for other in ordinary:
        now = objective.means(changed(question, row, other))[row, 0]
        assert same(now, plain) == (abs(other - place) > 5)


# What is asked


@each(MAIN)
def test_special_pieces_are_never_predicted_and_the_others_counted(case):
    question = case.build().ask(packed(), SEEDS)
    used = question.targets[question.targets != IGNORED]
    assert used.min() >= FIRST_WORD
    assert question.total == len(used)
    assert question.rows == len(SEEDS)
    assert question.places.shape == question.targets.shape


@pytest.mark.parametrize(
    ("one", "other"),
    [(PERMUTATION[0], PERMUTATION[1]), (STATICS[0], STATICS[1]), (CAUSAL[0], CAUSAL[1]), (BIDIRECTIONAL[0], BIDIRECTIONAL[1])],
    ids=str,
)
def test_two_variants_of_one_seed_are_asked_the_same(one, other):
    first, second = one.build().ask(packed(), SEEDS), other.build().ask(packed(), SEEDS)
    assert torch.equal(first.places, second.places)
    assert torch.equal(first.targets, second.targets)


@each([PERMUTATION[0], STATICS[0]])
def test_what_a_sequence_is_asked_follows_from_its_seed_alone(case):
    objective, batch = case.build(), packed()
    targets = objective.ask(batch, SEEDS).targets
    alone = objective.ask(Batch(batch.input_ids[1:2], batch.token_type_ids[1:2]), SEEDS[1:2])
    assert torch.equal(alone.targets, targets[1:2])
    assert not torch.equal(objective.ask(batch, [1, 2, 3]).targets, targets)


@each(PERMUTATION)
def test_few_ordinary_pieces_leave_slots_unused_and_numbers_finite(case):
    batch = packed()
    batch.input_ids[0, 3:] = SEP
    batch.input_ids[1] = SEP
    objective = case.build(hidden_dropout_prob=0.1).train()
    question = objective.ask(batch, SEEDS)
    assert (question.targets != IGNORED).sum(dim=1).tolist() == [2, 0, 4]
    assert question.batch.attention_mask.any(dim=-1).all()
    loss = objective(question)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in objective.parameters() if p.grad is not None)


def test_positions_of_queries_stay_within_the_table():
    objective = Case(Permutation).build()
    assert objective.ask(packed(), SEEDS).batch.position_ids.max() == LENGTH - 1 < objective.encoder.config.longest_text
    longer = Batch(torch.full((1, LENGTH + 1), FIRST_WORD))
    with pytest.raises(ValueError, match=r"model\.max_position_embeddings=24"):
        objective.ask(longer, [1])


# What cannot be


@pytest.mark.parametrize(
    ("objective", "name", "shape", "pair"),
    [
        (Causal, "clm", LSTM, "body=lstm"),
        (Causal, "clm", {"body": Body.encoder_decoder}, "body=encoder_decoder"),
        (Causal, "clm", {**WINDOW, "global_tokens": 1}, "global_tokens=1"),
        (Bidirectional, "bidirectional_lm", {"causal": True}, "causal=true"),
        (Bidirectional, "bidirectional_lm", STATIC, "body=static"),
        (Bidirectional, "bidirectional_lm", {"body": Body.encoder_decoder}, "body=encoder_decoder"),
        (Bidirectional, "bidirectional_lm", {**WINDOW, "global_tokens": 2}, "global_tokens=2"),
        (Permutation, "plm", WINDOW, "attention_window=4"),
        (Permutation, "plm", {**WINDOW, "global_tokens": 2}, "global_tokens=2"),
        (Permutation, "plm", {"causal": True}, "causal=true"),
        (Permutation, "plm", {"position": Position.alibi}, "position=alibi"),
        (Permutation, "plm", {"position": Position.bucketed}, "position=bucketed"),
        (Permutation, "plm", {"position": Position.disentangled}, "position=disentangled"),
        (Permutation, "plm", LSTM, "body=lstm"),
        (Permutation, "plm", STATIC, "body=static"),
        (Permutation, "plm", {"body": Body.encoder_decoder}, "body=encoder_decoder"),
        (ContinuousBag, "cbow", {}, "body=transformer"),
        (ContinuousBag, "cbow", LSTM, "body=lstm"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_impossible_pairs_are_refused_by_both_keys(objective, name, shape, pair):
    with pytest.raises(ValueError, match=f"^pretrain.objective={name} cannot be combined with model.{pair}$"):
        objective.refuse(ObjectiveConfig(), small_shape(**shape))
