"""One layer and its feed-forward, written out once more. B sequences, T tokens, D hidden."""

import math

import pytest
import torch
from torch.nn import functional as F

from models.config import Activation, EncoderConfig
from models.layers import ACTIVATIONS, FeedForward, Layer

CONFIG = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 24}
VALUES = [-3.0, -0.5, 0.0, 0.7, 2.0]


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        (Activation.gelu, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        (Activation.gelu_tanh, lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
        (Activation.relu, lambda x: max(x, 0.0)),
        (Activation.silu, lambda x: x / (1 + math.exp(-x))),
    ],
)
def test_activation_follows_its_formula(activation, formula):
    seen = ACTIVATIONS[activation](torch.tensor(VALUES, dtype=torch.float64))
    assert seen.tolist() == pytest.approx([formula(x) for x in VALUES], abs=1e-12)


def test_every_activation_is_known():
    assert set(ACTIVATIONS) == set(Activation)


def test_plain_feed_forward_is_two_matrices():
    torch.manual_seed(0)
    module, hidden = FeedForward(EncoderConfig(**CONFIG, hidden_act=Activation.relu)), torch.randn(2, 3, 8)
    inner = (hidden @ module.input.weight.T + module.input.bias).clamp(min=0)
    assert inner.shape == (2, 3, 24)
    torch.testing.assert_close(module(hidden), inner @ module.output.weight.T + module.output.bias)


def test_gated_feed_forward_activates_the_first_half_and_multiplies_by_the_second():
    torch.manual_seed(0)
    config = EncoderConfig(**CONFIG, hidden_act=Activation.silu, gated_feed_forward=True)
    module, hidden = FeedForward(config), torch.randn(2, 3, 8)
    weights, biases = module.input.weight, module.input.bias
    gate, linear = hidden @ weights[:16].T + biases[:16], hidden @ weights[16:].T + biases[16:]
    expected = (gate * gate.sigmoid() * linear) @ module.output.weight.T + module.output.bias
    torch.testing.assert_close(module(hidden), expected)


def test_layer_norms_after_each_residual():
    torch.manual_seed(0)
    layer, hidden = Layer(EncoderConfig(**CONFIG)).eval(), torch.randn(2, 3, 8)
    middle = F.layer_norm(hidden + layer.attention(hidden, None), (8,), eps=1e-12)
    torch.testing.assert_close(layer(hidden, None), F.layer_norm(middle + layer.feed_forward(middle), (8,), eps=1e-12))


@pytest.mark.parametrize("silent", ["attention", "feed_forward"])
def test_layer_drops_out_of_both_branches(silent):
    """With the other branch silenced, what still changes from one draw to the next is dropout of this one."""
    torch.manual_seed(0)
    layer = Layer(EncoderConfig(**CONFIG, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.0))
    hidden = torch.randn(2, 3, 8)
    for parameter in getattr(layer, silent).output.parameters():
        torch.nn.init.zeros_(parameter)
    assert not torch.allclose(layer(hidden, None), layer(hidden, None))
    layer.eval()
    assert torch.equal(layer(hidden, None), layer(hidden, None))
