"""Relative attention by itself. B sequences, T tokens, D hidden."""

import pytest
import torch
from torch import Tensor

from harness.models.attention.relative import RelativeAttention, relative_context, relative_shift
from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Position
from harness.models.encoder import Encoder, initialise


def small_config(**changes) -> EncoderConfig:
    sizes = {"vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 80}
    return EncoderConfig(**{**sizes, "position": Position.relative, "type_vocab_size": 0, **changes})


def built(**changes) -> Encoder:
    """With weights large enough for every part of a score to matter, outside training."""
    encoder = Encoder(small_config(**changes)).eval()
    initialise(encoder, 0.2, seed=0)
    return encoder


def words(rows: int, length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(B, T) ids and types, the second type last."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 60, (rows, length), generator=generator)
    starts = torch.randint(1, length + 1, (rows, 1), generator=generator)
    return ids, (torch.arange(length) >= starts).long()


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_relative_shift_gathers_offsets(length):
    offsets = torch.arange(length, -length, -1)
    rows, columns = torch.arange(length)[:, None], torch.arange(length)
    assert torch.equal(relative_shift(offsets.expand(2, length, -1).clone(), length), (rows - columns).expand(2, -1, -1))


def test_a_row_that_sees_nothing_gets_zeros():
    config = small_config(attention_bias=False)
    attention = RelativeAttention(config).eval()
    initialise(attention, 0.2, seed=0)
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    mask[0, 2] = False
    batch = Batch(torch.zeros(1, 4, dtype=torch.int64), attention_mask=mask)
    seen = attention(torch.randn(1, 4, 48), relative_context(batch, config))
    assert (seen.abs().amax(dim=-1) > 0).tolist() == [[True, True, False, True]]


@pytest.mark.parametrize("length", [1, 2, 33])
def test_explicit_positions_equal_the_relative_shift(length):
    encoder = built()
    ids, types = words(2, length)
    explicit = Batch(ids, types, position_ids=torch.arange(length).expand(2, -1))
    assert_near(encoder(explicit), encoder(Batch(ids, types)))


def test_one_segment_is_as_none_whichever_it_is():
    encoder = built()
    ids, types = words(2, 12)
    plain = encoder(Batch(ids))
    assert_near(encoder(Batch(ids, torch.ones_like(ids))), plain)
    assert not torch.allclose(encoder(Batch(ids, types)), plain, atol=1e-2)
