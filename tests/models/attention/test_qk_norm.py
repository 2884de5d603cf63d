"""Norms of queries and keys (arXiv:2302.05442). B sequences, T tokens, D hidden, H heads, K head size."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from harness.measure.flops import Shape, counted
from harness.measure.size import count
from harness.models.attention.full import SelfAttention
from harness.models.attention.products import Context
from harness.models.config import EncoderConfig, Norm, Position
from harness.models.encoder import initialise
from harness.models.heads import on_meta

B, T, H, K = 3, 60, 4, 8
SMALL = {"vocab_size": 40, "hidden_size": H * K, "num_hidden_layers": 2, "num_attention_heads": H, "intermediate_size": 48}
PLAIN = EncoderConfig(**SMALL, max_position_embeddings=T)
NORMED = replace(PLAIN, qk_norm=True)
SHAPES = {
    "full": {},
    "windowed": {"attention_window": 8},
    "rotary": {"position": Position.rotary},
    "causal": {"causal": True},
    "rms": {"norm": Norm.rms},
    "one head": {"num_attention_heads": 1},
}


@pytest.mark.parametrize("window", [None, 8])
def test_queries_and_keys_of_each_head_are_normed(window):
    """Against the formula, a pair at a time; a window bars what is farther than half of it."""
    module = SelfAttention(replace(NORMED, attention_window=window)).eval()
    initialise(module, 0.5, seed=0)
    hidden = torch.randn(B, T, H * K, generator=torch.Generator().manual_seed(1))
    query, key, value = (x.view(B, T, H, K).transpose(1, 2) for x in module.query_key_value(hidden).chunk(3, dim=-1))
    scores = F.layer_norm(query, (K,), eps=1e-12) @ F.layer_norm(key, (K,), eps=1e-12).transpose(-1, -2) / K**0.5
    places = torch.arange(T)
    far = (places[:, None] - places).abs() > (T if window is None else window // 2)
    expected = scores.masked_fill(far, float("-inf")).softmax(-1) @ value
    expected = module.output(expected.transpose(1, 2).reshape(B, T, H * K))
    torch.testing.assert_close(module(hidden, Context()), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_only_norms_are_added(changes):
    plain, normed = replace(PLAIN, **changes), replace(NORMED, **changes)
    vectors = 1 if normed.norm is Norm.rms else 2  # weight and bias
    assert count(on_meta(normed, 2)) - count(on_meta(plain, 2)) == 2 * 2 * vectors * normed.head_width
    assert counted(Shape(normed, 2, 2, T), backward=False) == counted(Shape(plain, 2, 2, T), backward=False)
