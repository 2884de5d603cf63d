"""The shape of one encoder as plain data; the defaults are BERT-base (arXiv:1810.04805).

Fields are what was said; properties are what follows from it. A field that is None follows a rule, so that the same variant
stays the same at every scale; an explicit value switches the rule off. Each field is read in one class (named beside it).
"""

from dataclasses import dataclass
from enum import Enum


class Activation(Enum):
    """Non-linearity of the feed-forward layer."""

    gelu = "gelu"
    gelu_tanh = "gelu_tanh"
    relu = "relu"
    silu = "silu"


def round_to(value: float, multiple: int) -> int:
    """The multiple of `multiple` nearest to `value`, at least one of it."""
    return max(multiple, int(value / multiple + 0.5) * multiple)


@dataclass
class EncoderConfig:
    """Names are those of the papers' own configuration files; lengths count tokens, sizes count features."""

    # Embeddings
    vocab_size: int = 30522
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    pad_token_id: int = 0
    hidden_size: int = 768
    embedding_size: int | None = None  # None: hidden_size * embedding_fraction, rounded to a multiple of 8
    embedding_fraction: float = 1.0
    # Stack
    num_hidden_layers: int = 12
    num_hidden_groups: int | None = None  # None: as many as layers, nothing is shared (arXiv:1909.11942)
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    # Attention
    num_attention_heads: int = 12
    attention_window: int | None = None  # total width, half to each side; None: full attention (arXiv:2004.05150)
    attention_probs_dropout_prob: float = 0.1
    # Feed-forward
    intermediate_size: int = 3072  # width of a plain feed-forward
    feed_forward_size: int | None = None  # None: intermediate_size, or 2/3 of it when gated (arXiv:2002.05202)
    hidden_act: Activation = Activation.gelu
    gated_feed_forward: bool = False
    # Heads and initialisation
    classifier_dropout: float | None = None  # None: hidden_dropout_prob
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        self._refuse_sizes_below_one()
        self._refuse_impossible_fractions()
        self._refuse_impossible_shapes()

    @property
    def embedding_width(self) -> int:
        """Size of the token, position and type vectors before projection."""
        if self.embedding_size is not None:
            return self.embedding_size
        return self.hidden_size if self.embedding_fraction == 1 else round_to(self.hidden_size * self.embedding_fraction, 8)

    @property
    def feed_forward_width(self) -> int:
        """Inner size of the feed-forward: a gated one has three matrices, so 2/3 of the width keeps the parameters equal."""
        if self.feed_forward_size is not None:
            return self.feed_forward_size
        return round_to(self.intermediate_size * 2 / 3, 8) if self.gated_feed_forward else self.intermediate_size

    @property
    def groups(self) -> int:
        """Number of distinct layers; layer i runs module `i * groups // num_hidden_layers`."""
        return self.num_hidden_layers if self.num_hidden_groups is None else self.num_hidden_groups

    @property
    def head_size(self) -> int:
        """Features of one attention head."""
        return self.hidden_size // self.num_attention_heads

    def _refuse_sizes_below_one(self) -> None:
        sizes = "vocab_size max_position_embeddings hidden_size num_hidden_layers num_attention_heads intermediate_size"
        optional = "embedding_size num_hidden_groups feed_forward_size attention_window"
        for key in (*sizes.split(), *optional.split()):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ValueError(f"model.{key}={value} must be at least 1")
        if self.type_vocab_size < 0:
            raise ValueError(f"model.type_vocab_size={self.type_vocab_size} must be at least 0")
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"model.pad_token_id={self.pad_token_id} must be below model.vocab_size={self.vocab_size}")

    def _refuse_impossible_fractions(self) -> None:
        for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            value = getattr(self, key)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"model.{key}={value} must be at least 0 and below 1")
        for key in ("initializer_range", "layer_norm_eps"):
            if getattr(self, key) < 0:
                raise ValueError(f"model.{key}={getattr(self, key)} must be at least 0")
        if not 0 < self.embedding_fraction <= 1:
            raise ValueError(f"model.embedding_fraction={self.embedding_fraction} must be above 0 and at most 1")

    def _refuse_impossible_shapes(self) -> None:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"model.hidden_size={self.hidden_size} must be a multiple of "
                f"model.num_attention_heads={self.num_attention_heads}"
            )
        if self.groups > self.num_hidden_layers:
            raise ValueError(
                f"model.num_hidden_groups={self.groups} must be at most model.num_hidden_layers={self.num_hidden_layers}"
            )
        if self.attention_window is not None and self.attention_window % 2:
            raise ValueError(f"model.attention_window={self.attention_window} must be even: half of it goes to each side")
