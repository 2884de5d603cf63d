"""The input of the first layer, worked by hand: scaled token vectors plus those of position and type, then the projection."""

import pytest
import torch

from harness.models.batch import Batch, as_batch
from harness.models.config import EncoderConfig, Position
from harness.models.encoder import Encoder, initialise
from harness.models.positions import sinusoids

IDS, TYPES = torch.tensor([[2, 5, 7, 3], [2, 9, 3, 0]]), torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0]])


LEARNED, SINES = Position.learned, Position.sinusoidal


@pytest.mark.parametrize(
    ("position", "scaled", "width", "factor"),
    [
        *((LEARNED, False, 16, 1), (LEARNED, True, 16, 4), (LEARNED, False, 4, 1), (LEARNED, True, 4, 2)),
        *((SINES, None, 16, 4), (SINES, None, 4, 2), (SINES, True, 16, 4), (SINES, False, 16, 1)),
    ],
)
def test_token_vectors_are_scaled_by_the_root_of_their_size_where_the_key_or_the_positions_say_so(
    position: Position, scaled: bool | None, width: int, factor: int
):
    """Hidden size 16, without norm and dropout; beside sines and cosines they are scaled unless the key says otherwise."""
    sizes = {"vocab_size": 10, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    keys = {"embedding_size": width, "embedding_scale": scaled, "position": position, "embedding_norm": False}
    encoder = Encoder(EncoderConfig(**sizes, max_position_embeddings=8, **keys)).eval()
    initialise(encoder, 0.5, seed=0)
    table = dict(encoder.embeddings.named_parameters())
    tokens, types = table["token_embedding.weight"][IDS], table["type_embedding.weight"][TYPES]
    summed = factor * tokens + (table["position_embedding.weight"][:4] if position is LEARNED else sinusoids(4, width)) + types
    expected = summed if width == 16 else summed @ table["projection.weight"].T + table["projection.bias"]
    torch.testing.assert_close(encoder.hidden_states(Batch(IDS, TYPES))[0], expected)


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
