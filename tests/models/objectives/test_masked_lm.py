"""Masking, and the losses of masked tokens and segment pairs. B sequences, T tokens, K predicted positions."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import initialise
from harness.models.losses import IGNORED
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary
from harness.models.objectives.config import Masking, ObjectiveConfig, ObjectiveName
from harness.models.objectives.masked_lm import MaskedLM, NextSentence, Probe, SentenceOrder, evaluate, prediction_loss
from harness.models.objectives.masking import LONGEST_SPAN, masked_batch, num_predictions, span_shares

V, T = 60, 40
STARTS = torch.arange(V) % 3 != 2  # every third piece goes on with the word before it
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=STARTS)
SHAPE = EncoderConfig(
    vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, max_position_embeddings=64
)
STILL = replace(SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
KINDS = (MaskedLM, NextSentence)


def batch(rows: int = 6, seed: int = 0) -> Batch:
    """[CLS] ... [SEP] ... [SEP], with types and labels as pairs have them."""
    ids = torch.randint(5, V, (rows, T), generator=torch.Generator().manual_seed(seed))
    ids[:, 0], ids[:, 17], ids[:, -1] = 2, 3, 3
    types = (torch.arange(T) > 17).long().expand(rows, -1)
    return Batch(ids, types, labels=torch.arange(rows) % 2, tokens=rows * T)


def objective(kind: type[Objective], shape: EncoderConfig = STILL, **keys) -> Objective:
    made = kind(ObjectiveConfig(**keys), shape, VOCABULARY)
    initialise(made, 0.1, 0)
    return made


def example(rows: int = 6, seed: int = 0, **keys) -> PretrainBatch:
    return masked_batch(batch(rows), [seed * 1000 + row for row in range(rows)], ObjectiveConfig(**keys), VOCABULARY)


def positions_of(data: PretrainBatch) -> list[list[int]]:
    """The predicted positions of every sequence."""
    rows = zip(data.positions, data.targets, strict=True)
    return [places[targets != IGNORED].tolist() for places, targets in rows]


def test_as_many_as_the_rate_says_are_predicted_and_none_is_special():
    data = example(rate := 64)
    assert data.positions.shape == (rate, round(0.15 * T))
    assert data.total_predictions == data.targets.numel()
    assert all(len(set(places)) == 6 and not {0, 17, T - 1} & set(places) for places in positions_of(data))
    assert torch.equal(data.targets, batch(rate).input_ids.gather(1, data.positions))


def test_tokens_that_are_not_predicted_stay():
    data, clean = example(), batch().input_ids
    untouched = torch.ones_like(clean, dtype=torch.bool).scatter(1, data.positions, False)
    assert torch.equal(data.inputs.input_ids[untouched], clean[untouched])


def test_eight_of_ten_are_masked_one_is_random_and_one_stays():
    data = example(2000)
    shown = data.inputs.input_ids.gather(1, data.positions)
    masked, kept = (shown == VOCABULARY.mask).float().mean(), (shown == data.targets).float().mean()
    assert masked == pytest.approx(0.8, abs=0.015)
    assert kept == pytest.approx(0.1 + 0.1 / (V - 4), abs=0.012)
    assert not torch.isin(shown, torch.tensor([0, 2, 3])).any()


@pytest.mark.parametrize("masking", Masking)
def test_masks_depend_on_the_seed_of_the_sequence_alone(masking):
    whole, again, other = example(masking=masking), example(masking=masking), example(seed=1, masking=masking)
    assert torch.equal(whole.inputs.input_ids, again.inputs.input_ids)
    assert not torch.equal(whole.positions, other.positions)
    first = masked_batch(Batch(batch().input_ids[2:3]), [2], ObjectiveConfig(masking=masking), VOCABULARY)
    assert torch.equal(first.positions[0], whole.positions[2])
    assert torch.equal(first.inputs.input_ids[0], whole.inputs.input_ids[2])


def test_two_variants_of_a_seed_have_the_same_inputs_and_targets():
    shapes = (SHAPE, replace(SHAPE, causal=True))
    base, other = (objective(MaskedLM, shape).make_batch(batch(), list(range(6))) for shape in shapes)
    assert torch.equal(base.inputs.input_ids, other.inputs.input_ids)
    assert torch.equal(base.targets, other.targets)


def words_of(row: torch.Tensor) -> list[set[int]]:
    """Positions of each word; special tokens end one and belong to none."""
    words: list[set[int]] = []
    fresh = True
    for place, piece in enumerate(row.tolist()):
        if piece in VOCABULARY.special:
            fresh = True
            continue
        if STARTS[piece] or fresh:
            words.append(set())
        words[-1].add(place)
        fresh = False
    return words


def test_whole_words_are_masked_whole():
    data = example(200, masking=Masking.word, mask_rate=0.3)
    for row, places in zip(batch(200).input_ids, positions_of(data), strict=True):
        words = words_of(row)
        assert set(places) == set().union(*(word for word in words if word & set(places)))
    counts = [len(places) for places in positions_of(data)]
    assert max(counts) == 12
    assert sum(counts) / len(counts) > 11.5


@pytest.mark.long
def test_spans_are_longer_than_words_and_end_at_special_tokens():
    runs = Counter()
    for masking in (Masking.word, Masking.span):
        for places in positions_of(example(300, masking=masking, mask_rate=0.3)):
            runs[masking] += sum(place - 1 not in places for place in places)
            assert not {0, 17, T - 1} & set(places)
    assert runs[Masking.span] < 0.7 * runs[Masking.word]


@pytest.mark.parametrize("mean", [1.5, 5.0])
def test_lengths_of_spans_have_the_configured_mean(mean):
    shares = span_shares(mean)
    assert len(shares) == LONGEST_SPAN
    assert sum(shares) == pytest.approx(1)
    assert sum(k * share for k, share in enumerate(shares, 1)) == pytest.approx(mean, abs=1e-6)


def test_a_sequence_with_too_few_candidates_leaves_slots_unused():
    given = batch(2)
    given.input_ids[0] = 3
    data = masked_batch(given, [0, 1], ObjectiveConfig(), VOCABULARY)
    assert (data.targets[0] == IGNORED).all()
    assert data.total_predictions == 6
    assert torch.isfinite(objective(MaskedLM)(data))


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_do_not_depend_on_the_targets(kind):
    """With everything shown as [MASK], another truth changes the targets and nothing else."""
    model = objective(kind, masked_share=1.0, random_share=0.0).eval()
    first, given = model.make_batch(batch(), list(range(6))), batch()
    given.input_ids.scatter_(1, first.positions, (first.targets - 5 + 1) % (V - 5) + 5)
    second = model.make_batch(given, list(range(6)))
    assert not torch.equal(first.targets, second.targets)
    assert torch.equal(first.inputs.input_ids, second.inputs.input_ids)


def test_loss_of_predicted_positions_equals_the_loss_from_all_logits():
    model, data = objective(MaskedLM).double(), example()
    hidden = model.encoder(data.inputs)
    labels = torch.full_like(data.inputs.input_ids, IGNORED).scatter(1, data.positions, data.targets)
    whole = F.cross_entropy(model.masked_head(hidden).flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)
    torch.testing.assert_close(model(data), whole, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", [NextSentence, SentenceOrder])
def test_pairs_are_classified_by_the_vector_of_the_text_beside_masked_tokens(kind):
    model, given = objective(kind).eval(), batch()
    data = model.make_batch(given, list(range(6)))
    pairs = model.evaluate_parts(data)["pair"]
    masked = prediction_loss(model.masked_head, model.encoder(data.inputs), data)
    assert model(data).item() == pytest.approx(masked.item() + pairs.loss / pairs.predictions, rel=1e-5)
    assert model(data) != model(model.make_batch(replace(given, labels=1 - given.labels), list(range(6))))
    with torch.no_grad():
        model.pair_head.weight.zero_()
        model.pair_head.bias.copy_(torch.tensor([0.0, 2.0]))  # always: not in order
    found = model.evaluate_parts(data)["pair"]
    assert (found.correct, found.predictions) == (3, 6)
    losses = F.cross_entropy(torch.tensor([[0.0, 2.0]]).expand(6, 2), given.labels, reduction="sum")
    assert found.loss == pytest.approx(losses.item(), rel=1e-6)


def test_evaluation_adds_up_to_the_loss():
    model, data = objective(MaskedLM).eval(), example()
    summed, hits, count = evaluate(model.encoder, model.masked_head, data)
    assert summed / count == pytest.approx(model(data).item(), rel=1e-5)
    logits = model.masked_head(model.encoder(data.inputs))
    assert hits == (logits.argmax(-1).gather(1, data.positions) == data.targets).sum()


def test_probe_trains_its_head_and_leaves_the_encoder():
    encoder = objective(MaskedLM).encoder
    probe = Probe(STILL, encoder, 0)
    assert torch.equal(probe.head.output.weight, encoder.embeddings.token_embedding.weight)
    assert probe.head.output.weight is not encoder.embeddings.token_embedding.weight
    probe.loss(encoder, example()).backward()
    assert all(parameter.grad is None for parameter in encoder.parameters())
    assert all(parameter.grad is not None for parameter in probe.parameters())


# How many tokens of a sequence are predicted.


@pytest.mark.parametrize(
    ("rate", "length", "expected"), [(0.15, 512, 77), (0.15, 128, 19), (0.15, 10, 2), (0.4, 512, 205), (0.01, 8, 1)]
)
def test_number_of_predictions_is_rounded_to_the_nearest(rate: float, length: int, expected: int):
    """0.15 * 512 = 76.8 and 0.4 * 512 = 204.8; 0.15 * 128 = 19.2 goes down, the half of 0.15 * 10 to 2; at least 1."""
    assert num_predictions(rate, length) == expected


@pytest.mark.long
@pytest.mark.parametrize("begins_word", [True, False])
def test_no_span_crosses_a_special_piece(begins_word: bool):
    """Text behind a special piece begins a word, also where its piece would continue one.

    Five words, each alone between two special pieces, are spans of one word: each is masked three times out of five.

    A span that went on behind a special piece would be too long in most places but the last ones.
    """
    vocabulary = Vocabulary(30, pad=0, cls=2, sep=3, mask=4, word_start=torch.full((30,), begins_word))
    config = ObjectiveConfig(ObjectiveName.mlm, mask_rate=0.3, masking=Masking.span, mean_span=5.0)
    ids = torch.tensor([[2, 10, 3, 11, 3, 12, 3, 13, 3, 14, 3]]).repeat(400, 1)
    data = masked_batch(Batch(ids), list(range(400)), config, vocabulary)
    assert (data.targets != IGNORED).all()
    assert data.positions.shape == (400, 3)
    shares = torch.bincount(data.positions.flatten(), minlength=11)[1::2] / 400
    torch.testing.assert_close(shares, torch.full((5,), 0.6), rtol=0, atol=0.08)


def test_spans_are_those_of_spanbert():
    """Geometric with p = 0.2, of at most 10 words, 3.8 in the mean (arXiv:1907.10529, section 3.1)."""
    shares = span_shares(3.8)
    assert len(shares) == 10
    assert shares[0] == pytest.approx(0.2 / (1 - 0.8**10), rel=0.03)
    assert [later / before for before, later in pairwise(shares)] == pytest.approx([0.8] * 9, rel=0.02)
    assert sum(length * share for length, share in enumerate(shares, 1)) == pytest.approx(3.8)
