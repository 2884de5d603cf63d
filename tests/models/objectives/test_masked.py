"""Masks, what is asked through them, and the losses of masked tokens and pairs. B sequences, T tokens, K predicted places."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import initialise
from models.objectives.config import Masking, ObjectiveConfig
from models.objectives.drawing import LONGEST_SPAN, masked_question, span_shares
from models.objectives.masked import MaskedTokens, MaskedTokensOfPairs, answer, masked_loss
from models.objectives.probe import Probe, pinned_question
from models.objectives.question import IGNORED, Objective, Question, Vocabulary

V, T = 60, 40
STARTS = torch.arange(V) % 3 != 2  # every third piece goes on with the word before it
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=STARTS)
SHAPE = EncoderConfig(
    vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, max_position_embeddings=64
)
STILL = replace(SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
KINDS = (MaskedTokens, MaskedTokensOfPairs)


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


def asked(rows: int = 6, seed: int = 0, **keys) -> Question:
    return masked_question(batch(rows), [seed * 1000 + row for row in range(rows)], ObjectiveConfig(**keys), VOCABULARY)


def places_of(question: Question) -> list[list[int]]:
    """The predicted places of every sequence."""
    rows = zip(question.places, question.targets, strict=True)
    return [places[targets != IGNORED].tolist() for places, targets in rows]


def test_as_many_as_the_rate_says_are_asked_and_none_is_special():
    question = asked(rate := 64)
    assert question.places.shape == (rate, round(0.15 * T))
    assert question.total == question.targets.numel()
    assert all(len(set(places)) == 6 and not {0, 17, T - 1} & set(places) for places in places_of(question))
    assert torch.equal(question.targets, batch(rate).input_ids.gather(1, question.places))


def test_what_is_not_asked_for_stays_as_it_was():
    question, clean = asked(), batch().input_ids
    untouched = torch.ones_like(clean, dtype=torch.bool).scatter(1, question.places, False)
    assert torch.equal(question.batch.input_ids[untouched], clean[untouched])


def test_eight_of_ten_are_masked_one_is_another_piece_and_one_stays():
    question = asked(2000)
    shown = question.batch.input_ids.gather(1, question.places)
    masked, kept = (shown == VOCABULARY.mask).float().mean(), (shown == question.targets).float().mean()
    assert masked == pytest.approx(0.8, abs=0.015)
    assert kept == pytest.approx(0.1 + 0.1 / (V - 4), abs=0.012)
    assert not torch.isin(shown, torch.tensor([0, 2, 3])).any()


def test_shares_follow_their_keys():
    shown = (question := asked(200, masked_share=0.0, random_share=0.0)).batch.input_ids.gather(1, question.places)
    assert torch.equal(shown, question.targets)
    shown = (question := asked(200, masked_share=1.0, random_share=0.0)).batch.input_ids.gather(1, question.places)
    assert (shown == VOCABULARY.mask).all()


@pytest.mark.parametrize("masking", Masking)
def test_masks_depend_on_the_seed_of_the_sequence_alone(masking):
    whole, again, other = asked(masking=masking), asked(masking=masking), asked(seed=1, masking=masking)
    assert torch.equal(whole.batch.input_ids, again.batch.input_ids)
    assert not torch.equal(whole.places, other.places)
    first = masked_question(Batch(batch().input_ids[2:3]), [2], ObjectiveConfig(masking=masking), VOCABULARY)
    assert torch.equal(first.places[0], whole.places[2])
    assert torch.equal(first.batch.input_ids[0], whole.batch.input_ids[2])


def test_two_variants_of_a_seed_are_asked_the_same():
    shapes = (SHAPE, replace(SHAPE, causal=True))
    base, other = (objective(MaskedTokens, shape).ask(batch(), list(range(6))) for shape in shapes)
    assert torch.equal(base.batch.input_ids, other.batch.input_ids)
    assert torch.equal(base.targets, other.targets)


def words_of(row: torch.Tensor) -> list[set[int]]:
    """Places of each word; special pieces end one and belong to none."""
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
    question = asked(200, masking=Masking.word, mask_rate=0.3)
    for row, places in zip(batch(200).input_ids, places_of(question), strict=True):
        words = words_of(row)
        assert set(places) == set().union(*(word for word in words if word & set(places)))
    counts = [len(places) for places in places_of(question)]
    assert max(counts) == 12
    assert sum(counts) / len(counts) > 11.5


def test_spans_are_longer_than_words_and_end_at_special_pieces():
    runs = Counter()
    for masking in (Masking.word, Masking.span):
        for places in places_of(asked(300, masking=masking, mask_rate=0.3)):
            runs[masking] += sum(place - 1 not in places for place in places)
            assert not {0, 17, T - 1} & set(places)
    assert runs[Masking.span] < 0.7 * runs[Masking.word]


@pytest.mark.parametrize("mean", [1.5, 3.8, 5.0])
def test_lengths_of_spans_have_the_mean_that_is_asked_for(mean):
    shares = span_shares(mean)
    assert len(shares) == LONGEST_SPAN
    assert sum(shares) == pytest.approx(1)
    assert sum(k * share for k, share in enumerate(shares, 1)) == pytest.approx(mean, abs=1e-6)


def test_spans_of_mean_3_8_are_the_published_ones():
    shares = span_shares(3.8)
    assert shares[1] / shares[0] == pytest.approx(0.8, abs=0.002)


def test_a_sequence_with_too_few_candidates_leaves_slots_unused():
    given = batch(2)
    given.input_ids[0] = 3
    question = masked_question(given, [0, 1], ObjectiveConfig(), VOCABULARY)
    assert (question.targets[0] == IGNORED).all()
    assert question.total == 6
    assert torch.isfinite(objective(MaskedTokens)(question))


@pytest.mark.parametrize("kind", KINDS)
def test_masked_places_never_see_their_answer(kind):
    """With everything shown as [MASK], another truth changes the targets and nothing else."""
    model = objective(kind, masked_share=1.0, random_share=0.0).eval()
    first, given = model.ask(batch(), list(range(6))), batch()
    given.input_ids.scatter_(1, first.places, (first.targets - 5 + 1) % (V - 5) + 5)
    second = model.ask(given, list(range(6)))
    assert not torch.equal(first.targets, second.targets)
    assert torch.equal(first.batch.input_ids, second.batch.input_ids)


def test_loss_of_predicted_places_equals_the_loss_from_all_logits():
    model, question = objective(MaskedTokens).double(), asked()
    hidden = model.encoder(question.batch)
    labels = torch.full_like(question.batch.input_ids, IGNORED).scatter(1, question.places, question.targets)
    whole = F.cross_entropy(model.masked_head(hidden).flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)
    torch.testing.assert_close(model(question), whole, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_add_up_to_the_whole(kind):
    whole, cut = objective(kind).double(), objective(kind).double()
    question = whole.ask(batch(7), list(range(7)))
    whole(question).backward()
    pieces = [question.cut(slice(start, start + 3)) for start in range(0, 7, 3)]
    assert [len(piece) for piece in pieces] == [3, 3, 1]
    total = sum(cut(piece) for piece in pieces)
    total.backward()
    torch.testing.assert_close(total, whole(question), rtol=1e-6, atol=0)
    for (name, a), b in zip(whole.named_parameters(), cut.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-8, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_trained_and_the_loss_falls(kind):
    model = objective(kind, SHAPE).train()
    question = model.ask(batch(), list(range(6)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(40):
        loss = model(question)
        loss.backward()
        assert all(p.grad is not None and p.grad.any() for p in model.parameters())
        losses.append(loss.item())
        optimiser.step()
        optimiser.zero_grad()
    assert losses[-1] < 0.5 * losses[0]


def test_pairs_are_told_apart_by_the_vector_of_the_text():
    model, given = objective(MaskedTokensOfPairs).eval(), batch()
    question = model.ask(given, list(range(6)))
    other = model.ask(replace(given, labels=1 - given.labels), list(range(6)))
    masked = masked_loss(model.masked_head, model.encoder(question.batch), question)
    assert model(question) > masked
    assert model(question) != model(other)


@pytest.mark.parametrize("kind", KINDS)
def test_formula_is_what_the_counter_counts(kind):
    model = objective(kind, SHAPE)
    question = model.ask(batch(), list(range(6))).to("meta")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model.to("meta")(question)
    assert 6 * model.flops(T) == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_pinned_question_shows_nothing_but_masks():
    question = pinned_question(batch(), list(range(6)), VOCABULARY, 0.15)
    assert (question.batch.input_ids.gather(1, question.places) == VOCABULARY.mask).all()
    assert question.total == 6 * 6


def test_answer_adds_up_to_the_loss():
    model, question = objective(MaskedTokens).eval(), asked()
    summed, hits, count = answer(model.encoder, model.masked_head, question)
    assert summed / count == pytest.approx(model(question).item(), rel=1e-5)
    logits = model.masked_head(model.encoder(question.batch))
    assert hits == (logits.argmax(-1).gather(1, question.places) == question.targets).sum()


def test_probe_trains_its_head_and_leaves_the_encoder():
    encoder = objective(MaskedTokens).encoder
    probe = Probe(STILL, encoder, 0)
    assert torch.equal(probe.head.output.weight, encoder.embeddings.token_embedding.weight)
    assert probe.head.output.weight is not encoder.embeddings.token_embedding.weight
    probe.loss(encoder, asked()).backward()
    assert all(parameter.grad is None for parameter in encoder.parameters())
    assert all(parameter.grad is not None for parameter in probe.parameters())
