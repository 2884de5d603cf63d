"""Initial values that make the heads of the first layer attend to neighbouring tokens.

Where positions are added to the embeddings and all values begin at random, masked language modelling stays near word
frequencies until heads by position have formed. Here they are there from the start: the position table begins as sinusoids,
and queries and keys of the first layer so that each head sees the token at one distance. All of it is trained as ever. After
the idea of arXiv:2305.09828, which begins query and key as trained transformers have them.
"""

import math

import torch
from torch import Tensor

from harness.models.attention.full import SelfAttention
from harness.models.encoder import Encoder, generator_of

STRENGTH = 11.0
"""Attention score of a head at its own distance, a third less where type vectors are added; about 0 +- 1 elsewhere."""

DISTANCES = (-1, 1, -2, 2, -3, 3, -4, 4)
"""Offsets of the heads in turn, repeated; only the negative ones if attention is causal."""


@torch.no_grad()
def look_at_neighbours(encoder: Encoder, seed: int) -> bool:
    """Replaces initial values of the position table and of the first layer's queries and keys; False if the model lacks them.

    Models without a learned position table, or with another attention, stay unchanged. Sinusoids (arXiv:1706.03762) turn by
    at most 1 radian a token: heads that read them cannot tell one neighbour from the next.
    """
    table = encoder.embeddings.position_embedding
    attentions = getattr(encoder.layers, "attentions", None)
    attention = attentions[0].attention if attentions else None
    if table is None or not isinstance(attention, SelfAttention):
        return False
    width, heads, size = table.embedding_dim, attention.num_heads, attention.head_size
    pairs = min(size, width) // 2  # of sine and cosine, in each head
    if not pairs:
        return False
    sets = min(heads, width // 2 // pairs)  # of frequencies: heads take one after the other and then again
    frequencies = _frequencies(sets, pairs, seed)
    deviation = encoder.embeddings.token_embedding.weight.std()
    normal = torch.randn(width, width, generator=generator_of(seed, "neighbour_heads.directions"))
    directions = torch.linalg.qr(normal).Q[: 2 * sets * pairs]  # (2 S P, E), random and orthonormal
    angles = torch.arange(len(table.weight))[:, None] * frequencies.flatten()  # (positions, S P)
    rest = math.sqrt(width / len(directions))  # features that carry no sine or cosine
    longer = math.sqrt(size // 2 / pairs)  # fewer pairs stand out less among the features of tokens
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (positions, 2 pairs), sine beside cosine
    table.weight.copy_(longer * rest * math.sqrt(2) * deviation * waves @ directions)

    scale = size**-0.5 if attention.scale is None else attention.scale
    gain = math.sqrt(STRENGTH / (pairs * scale)) / rest
    projection = encoder.embeddings.projection  # undone: from the input of attention to the sum of token and position vectors
    unprojected = torch.eye(width) if projection is None else torch.linalg.pinv(projection.weight)  # (E, D)
    reader = (directions @ unprojected).view(sets, 2 * pairs, -1)  # from there to sines and cosines
    query, key, _ = attention.query_key_value.weight.view(3, heads, size, -1)
    distances = [distance for distance in DISTANCES if distance < 0 or not attention.causal]
    for head in range(heads):
        own = reader[head % sets]
        turned = _turned(own, frequencies[head % sets] * distances[head % len(distances)])
        query[head, : 2 * pairs], key[head, : 2 * pairs] = gain * turned, gain * own
        query[head, 2 * pairs :], key[head, 2 * pairs :] = 0.0, 0.0
    return True


def _frequencies(sets: int, pairs: int, seed: int) -> Tensor:
    """(S, P) in radians per token: one at random in each of P equal parts of (0, pi), so that no two distances coincide."""
    draws = torch.rand(sets, pairs, generator=generator_of(seed, "neighbour_heads.frequencies"))
    return math.pi * (torch.arange(pairs) + draws) / pairs


def _turned(rows: Tensor, angles: Tensor) -> Tensor:
    """(2 P, D) that read sin x and cos x -> (2 P, D) that read sin (x + angle) and cos (x + angle)."""
    sine, cosine = rows[0::2], rows[1::2]
    turn, keep = angles.sin()[:, None], angles.cos()[:, None]
    return torch.stack([keep * sine + turn * cosine, keep * cosine - turn * sine], dim=1).flatten(0, 1)
