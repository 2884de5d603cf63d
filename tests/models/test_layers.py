"""One layer and its feed-forward, written out once more. B sequences, T tokens, D hidden."""

import math

import pytest
import torch
from torch.nn import functional as F

from harness.models.attention.products import Context
from harness.models.config import Activation, EncoderConfig, NormPlace
from harness.models.layers import ACTIVATIONS, AttentionBlock, FeedForward, FeedForwardBlock

CONFIG = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 24}
VALUES = [-3.0, -0.5, 0.0, 0.7, 2.0]


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        (Activation.gelu, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        (Activation.gelu_tanh, lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
        (Activation.relu, lambda x: max(x, 0.0)),
        (Activation.relu2, lambda x: max(x, 0.0) ** 2),
        (Activation.silu, lambda x: x / (1 + math.exp(-x))),
        (Activation.tanh, math.tanh),
    ],
)
def test_activation_follows_its_formula(activation, formula):
    seen = ACTIVATIONS[activation](torch.tensor(VALUES, dtype=torch.float64))
    assert seen.tolist() == pytest.approx([formula(x) for x in VALUES], abs=1e-12)


def test_gated_feed_forward_activates_the_first_half_and_multiplies_by_the_second():
    torch.manual_seed(0)
    config = EncoderConfig(**CONFIG, hidden_act=Activation.silu, gated_feed_forward=True)
    module, hidden = FeedForward(config), torch.randn(2, 3, 8)
    weights, biases = module.input.weight, module.input.bias
    gate, linear = hidden @ weights[:16].T + biases[:16], hidden @ weights[16:].T + biases[16:]
    expected = (gate * gate.sigmoid() * linear) @ module.output.weight.T + module.output.bias
    torch.testing.assert_close(module(hidden), expected)


HALVES = pytest.mark.parametrize("half", [0, 1], ids=["attention", "feed_forward"])


def blocks(half: int, **changes) -> tuple:
    """One half of a layer, and as functions of the hidden states: the half, and the module in it."""
    torch.manual_seed(0)
    config = EncoderConfig(**CONFIG, **changes)
    if half == 0:
        block = AttentionBlock(config, layer=1)
        return block, lambda hidden: block(hidden, Context()), lambda x: block.attention(x, Context())
    block = FeedForwardBlock(config)
    return block, block, block.feed_forward


@HALVES
def test_post_norm_norms_the_sum(half):
    block, run, branch = blocks(half)
    block.eval()
    hidden = torch.randn(2, 3, 8)
    torch.testing.assert_close(run(hidden), F.layer_norm(hidden + branch(hidden), (8,), eps=1e-12))


@HALVES
def test_pre_norm_norms_what_the_branch_sees(half):
    block, run, branch = blocks(half, norm_place=NormPlace.pre)
    block.eval()
    hidden = 3 * torch.randn(2, 3, 8)
    torch.testing.assert_close(run(hidden), hidden + branch(F.layer_norm(hidden, (8,), eps=1e-12)))


@HALVES
def test_both_halves_drop_out_while_training(half):
    block, run, _ = blocks(half, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.0)
    hidden = torch.randn(2, 3, 8)
    assert not torch.allclose(run(hidden), run(hidden))
    block.eval()
    assert torch.equal(run(hidden), run(hidden))
