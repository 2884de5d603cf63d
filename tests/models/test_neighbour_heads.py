"""Initial values with which heads of the first layer look at neighbours."""

import copy

import pytest
import torch

from harness.models.batch import as_batch
from harness.models.config import Body, EncoderConfig, Position
from harness.models.encoder import Encoder, initialise
from harness.models.neighbour_heads import DISTANCES, STRENGTH, look_at_neighbours

SHAPE = {"vocab_size": 500, "max_position_embeddings": 96, "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
SHAPE |= {"intermediate_size": 64}
LENGTH = 96


def encoder_of(**keys: object) -> Encoder:
    encoder = Encoder(EncoderConfig(**(SHAPE | keys))).eval()
    initialise(encoder, 0.05, 3)
    return encoder


def scores_of(encoder: Encoder) -> torch.Tensor:
    """(B, H, T, T) of the first layer, on random texts."""
    attention = encoder.layers.attentions[0].attention
    ids = torch.randint(5, 500, (8, LENGTH), generator=torch.Generator().manual_seed(0))
    heads = attention.query_key_value(encoder.embeddings(as_batch(ids)))
    query, key, _ = heads.view(8, LENGTH, 3, attention.num_heads, attention.head_size).transpose(1, 3).unbind(2)
    return query @ key.transpose(-1, -2) * attention.head_size**-0.5


def attention_by_distance(encoder: Encoder) -> list[dict[int, float]]:
    """Of each head of the first layer: distance -> mean share of the attention of all tokens that have a token there."""
    scores = scores_of(encoder)
    if encoder.config.causal:
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -torch.inf)
    shares = scores.softmax(-1)  # (B, H, T, T)
    return [
        {distance: shares[:, head].diagonal(distance, 1, 2).mean().item() for distance in range(-40, 41)}
        for head in range(shares.shape[1])
    ]


@pytest.mark.parametrize(
    ("keys", "least"),
    [
        ({}, 3.0),
        ({"embedding_size": 48, "num_hidden_groups": 1}, 3.0),  # two heads share each set of frequencies
        ({"embedding_size": 12}, 1.8),  # all heads share one, of 6 pairs in place of 12
        ({"type_vocab_size": 0}, 3.0),
    ],
    ids=str,
)
@torch.no_grad()
def test_each_head_sees_the_token_at_its_distance_most(keys, least):
    encoder = encoder_of(**keys)
    assert look_at_neighbours(encoder, 3)
    for shares, distance in zip(attention_by_distance(encoder), DISTANCES, strict=False):
        others = [share for other, share in shares.items() if other != distance]
        assert shares[distance] > least * max(others)


@torch.no_grad()
def test_a_causal_model_looks_back_only():
    encoder = encoder_of(causal=True)
    assert look_at_neighbours(encoder, 3)
    for head, shares in enumerate(attention_by_distance(encoder), 1):
        assert max(shares, key=shares.get) == -head


@torch.no_grad()
def test_only_the_position_table_and_the_first_queries_and_keys_change():
    encoder = encoder_of()
    before = copy.deepcopy(encoder.state_dict())
    look_at_neighbours(encoder, 3)
    changed = [name for name, tensor in encoder.state_dict().items() if not torch.equal(tensor, before[name])]
    first = "layers.attentions.0.attention.query_key_value.weight"
    assert changed == ["embeddings.position_embedding.weight", first]
    values = encoder.state_dict()[first].view(3, -1)[2]
    assert torch.equal(values, before[first].view(3, -1)[2])
    table, tokens = encoder.embeddings.position_embedding.weight, encoder.embeddings.token_embedding.weight
    assert table.std().item() == pytest.approx(tokens.std().item(), rel=0.05)


@torch.no_grad()
def test_equal_seeds_give_equal_values_and_others_do_not():
    first, again, other = (encoder_of() for _ in range(3))
    for encoder, seed in ((first, 3), (again, 3), (other, 4)):
        look_at_neighbours(encoder, seed)
    table = [encoder.embeddings.position_embedding.weight for encoder in (first, again, other)]
    assert torch.equal(table[0], table[1])
    assert not torch.equal(table[0], table[2])


@pytest.mark.parametrize(
    "keys",
    [{"position": position} for position in Position if position is not Position.learned]
    + [{"body": Body.lstm}, {"body": Body.static}],
    ids=str,
)
def test_models_without_a_learned_table_and_plain_attention_stay_as_they_are(keys):
    try:
        encoder = encoder_of(**keys)
    except ValueError as error:
        pytest.skip(f"not a shape of its own: {error}")
    before = copy.deepcopy(encoder.state_dict())
    assert not look_at_neighbours(encoder, 3)
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())


@pytest.mark.parametrize("embedding_size", [96, 64])
@torch.no_grad()
def test_the_score_at_a_head_s_own_distance_is_the_stated_one(embedding_size):
    """Also where sines and cosines take 48 of 64 features."""
    encoder = encoder_of(embedding_size=embedding_size, type_vocab_size=0)
    assert look_at_neighbours(encoder, 3)
    scores = scores_of(encoder)
    own = [scores[:, head].diagonal(distance, 1, 2).mean().item() for head, distance in zip(range(4), DISTANCES, strict=False)]
    assert sum(own) / len(own) == pytest.approx(STRENGTH, rel=0.1)
