"""Attention, full and windowed. B sequences, T tokens, D hidden, H heads, K head size."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from harness.models.attention.full import SelfAttention
from harness.models.attention.full import full_attention as full_of_heads
from harness.models.attention.products import Context, Heads, attend
from harness.models.attention.windowed import windowed_attention as windowed_of_heads
from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Position
from harness.models.encoder import Encoder
from harness.models.positions import BucketedBias

WINDOWS = [2, 8, 64]
GRID = [
    *((2, length) for length in (1, 17, 18, 19, 33)),  # one token; the longest text of one block is 18; three blocks
    *((8, length) for length in (3, 16, 24, 25, 70)),  # less than half a window; 24 is the longest of one block
    *((64, length) for length in (33, 128, 130)),  # 128 is the longest of one block
    (48, 100),  # blocks of more than half a window and less than one
]
"""Windows and lengths around each change of what is computed: one block for all of the text, or several, the last one short."""
B, H, K = 3, 2, 4


def full_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    return full_of_heads(Heads(query, key, value, mask, dropout=dropout))


def windowed_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, window: int, dropout: float) -> Tensor:
    return windowed_of_heads(Heads(query, key, value, mask, dropout=dropout), window)


def config(**changes) -> EncoderConfig:
    sizes = {
        "vocab_size": 40,
        "max_position_embeddings": 130,
        "hidden_size": H * K,
        "num_attention_heads": H,
        "intermediate_size": 16,
    }
    return EncoderConfig(**{**sizes, "num_hidden_layers": 2, **changes})


def heads(length: int, seed: int = 0) -> list[Tensor]:
    """Query, key and value, each (B, H, T, K) and a leaf."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(B, H, length, K, generator=generator).requires_grad_() for _ in range(3)]


def padding_mask(length: int) -> Tensor:
    """(B, T): one whole text, one of two thirds, one of a single token."""
    return torch.arange(length) < torch.tensor([length, math.ceil(length * 2 / 3), 1])[:, None]


def pair_mask(length: int) -> Tensor:
    """(B, T, T): every token sees itself and half of the others, drawn."""
    drawn = torch.rand(B, length, length, generator=torch.Generator().manual_seed(3)) < 0.5
    return drawn | torch.eye(length, dtype=torch.bool)


MASKS = {"none": lambda length: None, "padding": padding_mask, "pairs": pair_mask}


def band_mask(mask: Tensor | None, length: int, window: int) -> Tensor:
    """(B, T, T): what a window lets through, one pair at a time; every token sees itself."""
    pairs = torch.ones(B, length, length, dtype=torch.bool) if mask is None else mask
    pairs = pairs[:, None].expand(B, length, length) if pairs.dim() == 2 else pairs
    near = torch.tensor([[abs(row - column) <= window / 2 for column in range(length)] for row in range(length)])
    return (pairs & near) | torch.eye(length, dtype=torch.bool)


def plain_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The textbook formula, mask (B, T, T)."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(K)
    return scores.masked_fill(~mask[:, None], float("-inf")).softmax(-1) @ value


def assert_same_with_gradients(output: Tensor, inputs: list[Tensor], expected: Tensor, their_inputs: list[Tensor]) -> None:
    """Outputs and the gradients with respect to the inputs agree to 1e-5."""
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(9))
    ours = torch.autograd.grad((output * direction).sum(), inputs)
    wanted = torch.autograd.grad((expected * direction).sum(), their_inputs)
    for mine, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [5, 24, 25, 70])  # 24 is the longest text of one block at window 8
@pytest.mark.parametrize("window", [2, 8])
def test_token_sees_half_a_window_to_each_side(window, length):
    """Reach is read off the gradient, so that a band off by one at either end is caught without a second mask."""
    query, key, value = (x.detach() for x in heads(length))
    value.requires_grad_()
    output = windowed_attention(query, key, value, None, window, 0.0)
    for token in range(length):
        (gradient,) = torch.autograd.grad(output[0, 0, token, 0], value, retain_graph=True)
        seen = gradient[0, 0, :, 0].nonzero().flatten().tolist()
        assert seen == list(range(max(0, token - window // 2), min(length, token + window // 2 + 1)))


@pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(("window", "length"), GRID)
def test_windowed_equals_masked_full_attention(window, length, make_mask):
    mask, ours, theirs = make_mask(length), heads(length), heads(length)
    output = windowed_attention(*ours, mask, window, 0.0)
    expected = plain_attention(*theirs, band_mask(mask, length, window))
    assert_same_with_gradients(output, ours, expected, theirs)


# Cost


class Elements(TorchDispatchMode):
    """Counts the elements of every tensor that an operator returns: an upper bound of the memory a step can touch."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.total += tensor.numel()
                self.largest = max(self.largest, tensor.numel())
        return result


def run_on_meta(window: int, length: int, mode) -> None:
    """Windowed attention of one text forward and backward inside `mode`; nothing is computed."""
    query, key, value = (torch.empty(1, H, length, K, device="meta", requires_grad=True) for _ in range(3))
    mask = torch.ones(1, length, dtype=torch.bool, device="meta")
    with sdpa_kernel(SDPBackend.MATH), mode:
        windowed_attention(query, key, value, mask, window, 0.0).sum().backward()


def flops(window: int, length: int) -> int:
    counter = FlopCounterMode(display=False)
    run_on_meta(window, length, counter)
    return counter.get_total_flops()


@pytest.mark.parametrize("window", WINDOWS)
def test_windowed_flops_are_those_of_the_blocks(window):
    """Two products forward and four backward, of N queries with N + window keys in every block."""
    length, block = 1024, {2: 16, 8: 16, 64: 32}[window]
    multiply_adds = (length // block) * H * block * (block + window) * K
    assert flops(window, length) == 6 * 2 * multiply_adds
    assert flops(window, 4 * length) == 4 * flops(window, length)


@pytest.mark.parametrize("window", WINDOWS)
def test_windowed_memory_is_linear_in_length(window):
    one, two, four = (Elements() for _ in range(3))
    for length, elements in ((1024, one), (2048, two), (4096, four)):
        run_on_meta(window, length, elements)
    assert four.total - two.total == 2 * (two.total - one.total)
    assert four.largest <= 4 * one.largest


# Dropout


def test_attend_with_a_dropout_that_never_strikes_equals_the_fused_kernel():
    query, key, value = heads(33)
    mask = padding_mask(33)[:, None, None]
    explicit = attend(Heads(query, key, value, None, dropout=1e-9), mask, None)
    fused = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert_same_with_gradients(explicit, [query, key, value], fused, [query, key, value])


@pytest.mark.parametrize(
    "attention", [full_attention, lambda *x: windowed_attention(*x[:-1], 4, x[-1])], ids=["full", "windowed"]
)
def test_dropped_attention_keeps_the_mean(attention):
    torch.manual_seed(0)
    length, draws = 30, 4000
    query, key, value = (x[:1].detach() for x in heads(length))
    kept = attention(query, key, value, None, 0.0)
    many = [x.expand(draws, H, length, K) for x in (query, key, value)]
    dropped = attention(*many, None, 0.3)
    error = dropped.std(0) / math.sqrt(draws)
    assert (error > 0).all()
    assert ((dropped.mean(0) - kept[0]).abs() < 6 * error).all()


def test_module_drops_only_while_training():
    torch.manual_seed(0)
    module, hidden = SelfAttention(config(attention_probs_dropout_prob=0.5)), torch.randn(B, 9, H * K)
    assert not torch.equal(module(hidden, Context()), module(hidden, Context()))
    module.eval()
    assert torch.equal(module(hidden, Context()), module(hidden, Context()))


@pytest.mark.parametrize("length", [70, 130])
@pytest.mark.parametrize("tokens", [1, 3])
def test_bias_of_global_keys_has_the_offset_of_full_attention(length: int, tokens: int):
    """Buckets for each direction: a mirrored offset would be another number. Several blocks; the mask is written out."""
    bias = BucketedBias(config(position=Position.bucketed))
    torch.nn.init.normal_(bias.bias.weight, std=2.0, generator=torch.Generator().manual_seed(1))
    query, key, value = heads(length)
    places = torch.arange(length)
    visible = ((places[None, :] - places[:, None]).abs() <= 4) | (places < tokens)
    expected = full_of_heads(Heads(query, key, value, visible.expand(B, -1, -1), bias))
    torch.testing.assert_close(windowed_of_heads(Heads(query, key, value, None, bias), 8, tokens), expected)


@pytest.mark.parametrize("changes", [{}, {"position": Position.rotary}, {"qk_norm": True}], ids=["plain", "rotary", "normed"])
def test_global_tokens_attend_as_if_all_tokens_were_global_queries(changes: dict):
    """Their rows alone are computed, with the place of each; texts of one block and of several."""
    torch.manual_seed(0)
    encoder = Encoder(config(attention_window=8, global_tokens=2, num_hidden_layers=1, **changes)).eval()
    attention = encoder.layers.attentions[0].attention
    for length in (2, 20, 70):
        hidden = torch.randn(B, length, H * K, generator=torch.Generator().manual_seed(length))
        context = encoder.layers.context(Batch(torch.zeros(B, length, dtype=torch.long), attention_mask=padding_mask(length)))
        found = attention(hidden, context)[:, :2]
        attention.global_tokens = length
        every = attention._of_global_tokens(hidden, context)
        torch.testing.assert_close(found, attention.output(every.transpose(1, 2).flatten(2))[:, :2])
        attention.global_tokens = 2
