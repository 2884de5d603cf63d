"""The input of the first layer, worked by hand: scaled token vectors plus those of position and type, then the projection."""

import math

import pytest
import torch

from harness.models.batch import Batch, as_batch
from harness.models.config import EncoderConfig, Position
from harness.models.encoder import Encoder, initialise
from harness.models.positions import sinusoids

IDS, TYPES = torch.tensor([[2, 5, 7, 3], [2, 9, 3, 0]]), torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0]])


def encoder(width: int, scaled: bool | None, position: Position = Position.learned) -> Encoder:
    """Of hidden size 16, without norm and dropout."""
    made = Encoder(
        EncoderConfig(
            vocab_size=10,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
            max_position_embeddings=8,
            embedding_size=width,
            embedding_scale=scaled,
            position=position,
            embedding_norm=False,
        )
    ).eval()
    initialise(made, 0.5, seed=0)
    return made


@pytest.mark.parametrize(("scaled", "width", "factor"), [(False, 16, 1), (True, 16, 4), (False, 4, 1), (True, 4, 2)])
def test_token_vectors_are_scaled_by_the_root_of_their_size_where_the_key_says_so(scaled: bool, width: int, factor: int):
    assert factor in (1, math.isqrt(width))
    made = encoder(width, scaled)
    table = dict(made.embeddings.named_parameters())
    tokens, types = table["token_embedding.weight"][IDS], table["type_embedding.weight"][TYPES]
    summed = factor * tokens + table["position_embedding.weight"][:4] + types
    expected = summed if width == 16 else summed @ table["projection.weight"].T + table["projection.bias"]
    torch.testing.assert_close(made.hidden_states(Batch(IDS, TYPES))[0], expected)


@pytest.mark.parametrize(("scaled", "width", "factor"), [(None, 16, 4), (None, 4, 2), (True, 16, 4), (False, 16, 1)])
def test_token_vectors_beside_sines_and_cosines_are_scaled_unless_the_key_says_otherwise(scaled, width, factor):
    made = encoder(width, scaled, Position.sinusoidal)
    table = dict(made.embeddings.named_parameters())
    tokens, types = table["token_embedding.weight"][IDS], table["type_embedding.weight"][TYPES]
    summed = factor * tokens + sinusoids(4, width) + types
    expected = summed if width == 16 else summed @ table["projection.weight"].T + table["projection.bias"]
    torch.testing.assert_close(made.hidden_states(Batch(IDS, TYPES))[0], expected)


@pytest.mark.parametrize("position", [position for position in Position if position is not Position.sinusoidal])
def test_other_positions_leave_token_vectors_as_they_are(position):
    assert EncoderConfig(position=position).token_scale == 1


def test_dropout_is_behind_the_norm():
    """What is dropped is 0, and what is kept is the normed vector over the share that is kept."""
    shape = EncoderConfig(vocab_size=9, hidden_size=64, num_attention_heads=2, intermediate_size=8, hidden_dropout_prob=0.5)
    embeddings = Encoder(shape).embeddings
    ids = torch.arange(1, 9)[None]
    with torch.no_grad():
        plain, dropped = embeddings.eval()(as_batch(ids)), embeddings.train()(as_batch(ids))
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
