"""Log-likelihoods of texts, against loops that hide or read one token at a time. B texts, T tokens, D hidden."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Position
from harness.models.objectives import scoring
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.scoring import can_score, log_likelihoods

V, CLS, SEP, MASK = 40, 2, 3, 4
IDS = torch.tensor([[CLS, 10, 11, 12, 13, 14, SEP], [CLS, 15, 16, 17, 18, 10, SEP], [CLS, 20, 21, 22, 23, 24, SEP]])
WORDS = torch.tensor([[-1, 0, 0, 0, 1, 2, -1], [-1, 0, 1, 2, 3, 4, -1], [-1, -1, -1, 2, 3, 3, -1]])
"""A word of three pieces; words of one; a context that is not scored, then a word of two pieces."""
SHAPE = EncoderConfig(
    vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=16
)
NAMES = [ObjectiveName.mlm, ObjectiveName.mlm_nsp, ObjectiveName.clm, ObjectiveName.plm, ObjectiveName.bidirectional_lm]


def objective(name: ObjectiveName, shape: EncoderConfig = SHAPE) -> Objective:
    vocabulary = Vocabulary(V, pad=0, cls=CLS, sep=SEP, mask=MASK, word_start=torch.ones(V, dtype=torch.bool))
    shape = replace(shape, initializer_range=0.3)  # so that predictions depend on what is seen
    return build(ObjectiveConfig(name), shape, vocabulary, seed=0).eval()


def nats_of(logits: Tensor, target: Tensor) -> float:
    return logits.log_softmax(dim=-1)[target].item()


def one_mask_at_a_time(model: Objective, ids: Tensor, words: Tensor, whole: bool) -> Tensor:
    """(T,) by a forward pass of one text with one target each; `whole`: the later pieces of its word are hidden, too."""
    scores = torch.zeros(len(ids))
    for at in range(len(ids)):
        if words[at] < 0:
            continue
        hidden = ids.clone()
        hidden[at] = MASK
        for later in range(at + 1, len(ids)):
            if whole and words[later] == words[at]:
                hidden[later] = MASK
        scores[at] = nats_of(model.masked_head(model.masked_head.read(model.encoder, Batch(hidden[None]))[1])[0, at], ids[at])
    return scores


def one_prefix_at_a_time(model: Objective, ids: Tensor, words: Tensor) -> Tensor:
    """(T,) from texts that end before the token: there is nothing to its right."""
    scores = torch.zeros(len(ids))
    for at in range(1, len(ids)):
        if words[at] >= 0:
            prefix = model.make_batch(Batch(ids[None, :at]), [])
            scores[at] = nats_of(model.lm_head(model.states(prefix))[0, -1], ids[at])
    return scores


@torch.inference_mode()
@pytest.mark.parametrize("name", [ObjectiveName.mlm, ObjectiveName.mlm_nsp], ids=lambda name: name.value)
def test_many_masks_in_a_pass_are_one_mask_at_a_time(name):
    model = objective(name)
    scores = log_likelihoods(model, IDS, WORDS, MASK)
    for way, whole in enumerate((True, False)):
        expected = torch.stack([one_mask_at_a_time(model, *text, whole) for text in zip(IDS, WORDS, strict=True)])
        torch.testing.assert_close(scores[way], expected, rtol=0, atol=1e-5)
    differ = (scores[0] - scores[1]).abs() > 1e-4
    expected = torch.zeros_like(differ)
    expected[0, 1:3] = expected[2, 4] = True  # every piece of a word but the last
    assert torch.equal(differ, expected)


@torch.inference_mode()
def test_causal_scores_read_what_is_on_the_left_alone():
    model = objective(ObjectiveName.clm)
    scores = log_likelihoods(model, IDS, WORDS, MASK)
    expected = torch.stack([one_prefix_at_a_time(model, *text) for text in zip(IDS, WORDS, strict=True)])
    torch.testing.assert_close(scores[0], expected, rtol=0, atol=1e-5)
    assert torch.equal(scores[0], scores[1])


@torch.inference_mode()
def test_two_directions_add_up():
    model = objective(ObjectiveName.bidirectional_lm)
    scores = log_likelihoods(model, IDS, WORDS, MASK)[0]
    onward, backward = model.states(model.make_batch(Batch(IDS), [])).chunk(2, dim=1)
    for text, at in (WORDS >= 0).nonzero().tolist():
        target = IDS[text, at]
        expected = nats_of(model.lm_head(onward[text, at - 1]), target) + nats_of(model.lm_head(backward[text, at + 1]), target)
        assert scores[text, at].item() == pytest.approx(expected, abs=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("position", [Position.learned, Position.relative], ids=lambda position: position.value)
def test_a_permuted_query_does_not_see_what_is_hidden(position):
    """Its score is the same whatever the hidden tokens are, but for the target whose score it is."""
    model = objective(ObjectiveName.plm, replace(SHAPE, position=position))
    whole, by_piece = log_likelihoods(model, IDS, WORDS, MASK)
    target = torch.tensor([1])
    for hidden_places, score in (([1, 2, 3], whole[0, 1]), ([1], by_piece[0, 1])):
        hidden = torch.zeros(1, 7, dtype=torch.bool)
        hidden[0, hidden_places] = True
        other = IDS[:1].masked_fill(hidden, 30)
        state = scoring._states(model, model.lm_head, other, hidden, target, MASK)
        assert nats_of(model.lm_head(state)[0], IDS[0, 1]) == pytest.approx(score.item(), abs=1e-5)
    changed = IDS.clone()
    changed[0, 5] = 31  # in sight of every other token
    assert abs(log_likelihoods(model, changed, WORDS, MASK)[0, 0, 1] - whole[0, 1]) > 1e-4


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.value)
def test_batching_changes_no_score(monkeypatch, name):
    model = objective(name)
    together = log_likelihoods(model, IDS, WORDS, MASK)
    monkeypatch.setattr(scoring, "TOKENS", 14)
    monkeypatch.setattr(scoring, "LOGITS", 3 * V)
    alone = torch.cat([log_likelihoods(model, *text, MASK) for text in zip(IDS.split(1), WORDS.split(1), strict=True)], dim=1)
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-5)
    assert (together[:, WORDS < 0] == 0).all()
    assert (together[:, WORDS >= 0] < 0).all()


def test_an_objective_without_such_a_head_is_refused():
    assert not can_score(ObjectiveConfig(ObjectiveName.rtd))
    assert not can_score(ObjectiveConfig(ObjectiveName.cbow))
    assert not can_score(ObjectiveConfig(ObjectiveName.distillation, soft_weight=0, masked_weight=0))
    assert all(can_score(ObjectiveConfig(name)) for name in (*NAMES, ObjectiveName.distillation))
    with pytest.raises(ValueError, match="ReplacedTokenDetection has no head"):
        log_likelihoods(objective(ObjectiveName.rtd), IDS, WORDS, MASK)
