"""How many tokens of a sequence are predicted."""

from itertools import pairwise

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.losses import IGNORED
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import Masking, ObjectiveConfig, ObjectiveName
from harness.models.objectives.masking import masked_batch, num_predictions, span_shares


@pytest.mark.parametrize(("rate", "length", "expected"), [(0.15, 512, 77), (0.15, 128, 19), (0.15, 10, 2), (0.4, 512, 205)])
def test_number_of_predictions_is_rounded_to_the_nearest(rate: float, length: int, expected: int):
    """0.15 * 512 = 76.8 and 0.4 * 512 = 204.8; 0.15 * 128 = 19.2 goes down, and the half of 0.15 * 10 to the even number."""
    assert num_predictions(rate, length) == expected


def test_at_least_one_token_is_predicted():
    assert num_predictions(0.01, 8) == 1


@pytest.mark.parametrize("name", [ObjectiveName.mlm, ObjectiveName.rtd])
def test_a_sequence_of_512_tokens_has_77_masks(name: ObjectiveName):
    shape = EncoderConfig(vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=16)
    vocabulary = Vocabulary(30, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(30, dtype=torch.bool))
    objective = build(ObjectiveConfig(name), shape, vocabulary, seed=0)
    ids = torch.randint(5, 30, (2, 512), generator=torch.Generator().manual_seed(0))
    data = objective.make_batch(Batch(ids), [0, 1])
    assert (data.targets != IGNORED).sum(dim=1).tolist() == [77, 77]


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
