"""One layer of the stack and its feed-forward. B sequences, T tokens, D hidden."""

from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import SelfAttention
from models.config import Activation, EncoderConfig
from models.dropout import Dropout

ACTIVATIONS = {
    Activation.gelu: F.gelu,
    Activation.gelu_tanh: partial(F.gelu, approximate="tanh"),
    Activation.relu: F.relu,
    Activation.silu: F.silu,
}


class FeedForward(nn.Module):
    """Two matrices around a non-linearity, or three with a gate: act(x W) * x V (GLU variants, arXiv:2002.05202)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.gated = config.gated_feed_forward
        self.activation = ACTIVATIONS[config.hidden_act]
        width = config.feed_forward_width
        self.input = nn.Linear(config.hidden_size, 2 * width if self.gated else width)
        self.output = nn.Linear(width, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        inner = self.input(hidden)
        if not self.gated:
            return self.output(self.activation(inner))
        gate, linear = inner.chunk(2, dim=-1)
        return self.output(self.activation(gate) * linear)


class Layer(nn.Module):
    """Attention and feed-forward, each with dropout, residual and layer norm after it (arXiv:1706.03762)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D), mask as in SelfAttention -> (B, T, D)."""
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, mask)))
        return self.feed_forward_norm(hidden + self.dropout(self.feed_forward(hidden)))
