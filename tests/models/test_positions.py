"""Positions as biases, worked by hand. B sequences, T tokens, H heads, K head size."""

import math

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Position
from harness.models.encoder import Encoder, initialise

SLOPES = {
    2: [2**-4, 2**-8],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],  # those of four heads, then every other one of eight
}
"""Heads -> slopes of arXiv:2108.12409, section 3, and of its published code where heads are no power of two."""


def encoder(heads: int, **keys) -> Encoder:
    sizes = {"vocab_size": 20, "hidden_size": 4 * heads, "num_hidden_layers": 1, "num_attention_heads": heads}
    made = Encoder(EncoderConfig(**sizes, intermediate_size=8, max_position_embeddings=8, **keys)).eval()
    initialise(made, 0.5, seed=0)
    return made


@pytest.mark.parametrize("heads", SLOPES)
def test_alibi_takes_away_its_slope_for_every_token_of_distance(heads: int):
    T, K = 5, 4
    made, ids = encoder(heads, position=Position.alibi), torch.tensor([[2, 11, 12, 13, 3]])
    attention, hidden = (
        made.layers.attentions[0].attention,
        torch.randn(1, T, 4 * heads, generator=torch.Generator().manual_seed(1)),
    )
    distances = torch.tensor([[abs(row - column) for column in range(T)] for row in range(T)])
    query, key, value = attention.query_key_value(hidden).view(T, 3, heads, K).permute(1, 2, 0, 3)  # each (H, T, K)
    scores = query @ key.transpose(-1, -2) / math.sqrt(K) - torch.tensor(SLOPES[heads])[:, None, None] * distances
    expected = attention.output((scores.softmax(-1) @ value).transpose(0, 1).reshape(1, T, 4 * heads))
    torch.testing.assert_close(attention(hidden, made.layers.context(Batch(ids))), expected)


@pytest.mark.parametrize(
    ("causal", "offsets", "expected"),
    [
        # 8 buckets, 4 to each side, 2 of them exact: farther ones by the logarithm of the distance, 16 tokens and more alike.
        (False, [0, -1, -2, -5, -6, -16, -90], [0, 1, 2, 2, 3, 3, 3]),
        (False, [1, 2, 5, 6, 16, 90], [5, 6, 6, 7, 7, 7]),
        # All 8 for what lies before, 4 of them exact.
        (True, [0, -1, -3, -4, -5, -6, -8, -11, -12, -16, 3], [0, 1, 3, 4, 4, 5, 6, 6, 7, 7, 0]),
    ],
    ids=["before", "behind", "causal"],
)
def test_buckets_are_exact_when_near_and_logarithmic_when_far(causal: bool, offsets: list[int], expected: list[int]):
    """arXiv:1910.10683, section 2.1: the bias of an offset, key place minus query place, is that of its bucket."""
    made = encoder(2, position=Position.bucketed, position_buckets=8, max_relative_distance=16, causal=causal)
    (table,) = (parameter for name, parameter in made.layers.named_parameters() if name.startswith("bias."))
    with torch.no_grad():
        table.copy_(torch.arange(8.0)[:, None].expand(8, 2))
        found = made.layers.bias(torch.tensor([offsets]))
    assert found.shape == (2, 1, len(offsets))
    assert found[0, 0].tolist() == expected
