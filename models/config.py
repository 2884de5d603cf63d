"""The shape of one encoder as plain data; the defaults are BERT-base (arXiv:1810.04805).

Fields are set; properties follow from them. A field that is None follows a rule, so that the same variant
stays the same at every scale; an explicit value switches the rule off. A field that some models do not read says what it needs
(models/keys.py).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from harness import extensions
from harness.errors import InputError, unknown
from harness.models.ranges import Refused, Role, When, added, count, not_negative, option, positive, refuse_out_of_range, share

GROUP = "harness.encoders"


def class_of(key: str, name: str, setting: str = "") -> Callable[..., Any]:
    """The class; InputError, naming the setting, by default `model.KEY`, where no package adds it, or it cannot be imported.

    Also InputError for a class that is not a module with FLOPs.

    An encoder may also be MODULE:CLASS of an installed package, or a function that makes one; it need not count its FLOPs.
    """
    if key == "encoder" and ":" in name:
        return extensions.code_of(name, f"model.{key}")
    points = {
        point.removeprefix(f"{key}."): of for point, of in extensions.declared(GROUP).items() if point.startswith(f"{key}.")
    }
    if name not in points:
        error = unknown(key, name, points, setting or f"model.{key}")
        raise InputError(f"{error} (a package adds it by the entry point '{key}.{name}' in {GROUP})")
    point = points[name]
    if key == "encoder":
        return extensions.load(point, cast(Any, Callable))
    loaded = extensions.load(point, type)
    if not all(callable(getattr(loaded, method, None)) for method in ("forward", "flops")):
        raise InputError(f"{GROUP}: {point.name} = {point.value} must be a torch.nn.Module with forward and flops(length)")
    return loaded


class Activation(Enum):
    """A non-linearity, of the feed-forward layer or of the pooler."""

    gelu = "gelu"
    gelu_tanh = "gelu_tanh"
    relu = "relu"
    relu2 = "relu2"  # squared ReLU (arXiv:2109.08668)
    silu = "silu"
    tanh = "tanh"


class Body(Enum):
    """The layers between embeddings and heads."""

    transformer = "transformer"
    encoder_decoder = "encoder_decoder"  # arXiv:1706.03762
    lstm = "lstm"  # bidirectional LSTM, as in ELMo (arXiv:1802.05365)
    static = "static"  # no layers, as in word2vec (arXiv:1301.3781)
    foreign = "foreign"  # encoder class of another package, with its embeddings (model.encoder)


class Init(Enum):
    """Standard deviation of the initial values of matrices."""

    flat = "flat"  # initializer_range everywhere (arXiv:1810.04805)
    scaled_by_depth = "scaled_by_depth"  # divided by sqrt(2 L) for residual outputs (GPT-2; arXiv:1909.08053)
    small_embeddings = "small_embeddings"  # sqrt(2 / (5 E)) for embeddings (arXiv:2212.14034, after arXiv:1910.05895)


class Trains(Enum):
    """Which parameters a fine-tuning changes; what is above the encoder is always trained."""

    all = "all"
    head = "head"  # only the head: a probe on the frozen encoder
    bitfit = "bitfit"  # head and biases (arXiv:2106.10199)
    lora = "lora"  # head and low-rank matrices on queries and values (arXiv:2106.09685)


class Position(Enum):
    """How a model knows the position of a token."""

    learned = "learned"  # added to the embeddings
    sinusoidal = "sinusoidal"  # added to the embeddings (arXiv:1706.03762)
    rotary = "rotary"  # rotation of queries and keys (arXiv:2104.09864)
    alibi = "alibi"  # linear penalty on distance (arXiv:2108.12409)
    bucketed = "bucketed"  # learned bias per distance bucket, shared over layers (arXiv:1910.10683)
    disentangled = "disentangled"  # content-to-position and position-to-content terms (arXiv:2006.03654)
    relative = "relative"  # relative attention (arXiv:1901.02860), with segment terms unless causal (arXiv:1906.08237)
    none = "none"


class PositionTerms(Enum):
    """Products with distances that disentangled scores add to those of content (arXiv:2006.03654, section 3.1)."""

    both = "both"
    content_to_position = "content_to_position"
    position_to_content = "position_to_content"


class Norm(Enum):
    """Layer norm (arXiv:1607.06450) or root mean square norm (arXiv:1910.07467)."""

    layer = "layer"
    rms = "rms"


class NormPlace(Enum):
    """After the residual sum, or before attention and feed-forward with one more at the end of the stack."""

    post = "post"
    pre = "pre"


class Sharing(Enum):
    """Which weights the layers of a group share."""

    all = "all"
    attention = "attention"
    feed_forward = "feed_forward"


class Pooling(Enum):
    """One vector from one per token: the first, the last real one, or the mean or maximum of the real ones."""

    cls = "cls"
    last = "last"
    mean = "mean"
    max = "max"


def round_to(value: float, multiple: int) -> int:
    """The multiple of `multiple` nearest to `value`, at least one of it."""
    return max(multiple, int(value / multiple + 0.5) * multiple)


NOT_NULL = "not null"
"""Placeholder for every value but None in what a key needs."""

LAYERED = {"body": (Body.transformer, Body.encoder_decoder, Body.lstm)}
ATTENDING = {"body": (Body.transformer, Body.encoder_decoder)}
OWN = {"attention": (None,), "layers": (None,)}
WITHOUT_OWN = tuple(p for p in Position if p not in (Position.disentangled, Position.relative))
SELF_ATTENTION = ATTENDING | OWN | {"position": WITHOUT_OWN}
CAUSAL_ATTENTION = ATTENDING | OWN | {"position": tuple(p for p in Position if p is not Position.disentangled)}
SCALED_ATTENTION = SELF_ATTENTION | {"attention_scale": (True,)}
ROTARY = ATTENDING | {"position": (Position.rotary,)}
BY_DISTANCE = ATTENDING | {"position": (Position.bucketed, Position.disentangled)}
CAUSAL_RELATIVE = {"body": (Body.transformer,), "position": (Position.relative,), "causal": (True,)}
DISENTANGLED = {"body": (Body.transformer,), "position": (Position.disentangled,)}
"""Key -> conditions under which it is read: other keys with one of these values."""


LARGEST_SIZE = 2**24
LARGEST_TABLE = 10**8
MOST_LAYERS = 10**5
"""Upper bounds beyond any machine's memory: features, rows of a table, layers."""

size = functools.partial(option, at_least=1, limit=LARGEST_SIZE)
rows = functools.partial(option, at_least=1, limit=LARGEST_TABLE)
"""Fields of a number of features, and of rows of a table."""

OF_FOREIGN = (
    *("encoder", "options", "layers_kept", "vocab_size", "pad_token_id", "initializer_range", "layer_norm_eps", "norm"),
    *("hidden_act", "hidden_dropout_prob", "classifier_dropout", "pooling", "vector_pooling", "pooler", "pooler_norm"),
    *("pooler_bias", "classifier_bias"),
)
"""Keys read by heads on another package's encoder, whose sizes follow from its options."""

OF_HEADS = ("num_attention_heads", "head_size", "attention_bias", "attention_scale", "attention_probs_dropout_prob")
"""Keys read by another package's attention unless its class states `reads`."""


@dataclass
class EncoderConfig:
    """Names are those of the papers' own configuration files; lengths count tokens, sizes count features."""

    # Encoder
    encoder: str | None = added(
        None
    )  # Encoder class of another package: MODULE:CLASS, a registered name, or transformers. Example: my_package:Encoder.
    options: dict[str, Any] = added(
        dict, needs={"encoder": NOT_NULL}
    )  # Options of the encoder class; for transformers, keys of its config. Example: {hidden_size: 128}.
    layers_kept: list[int] = not_negative(
        list, earlier=..., needs={"encoder": NOT_NULL}, limit=MOST_LAYERS
    )  # Indices of the encoder layers to keep, from 0; empty keeps all. Example: [0,2,4].
    body: Body = Body.transformer  # Kind of layers between embeddings and heads.
    layers: str | None = added(None)  # Name of a layer class from another package, in place of model.body. Example: my_layers.
    hidden_size: int = size(768)  # Hidden size: features per token in every layer.
    num_hidden_layers: int = count(
        12, needs=LAYERED, limit=MOST_LAYERS
    )  # Number of layers, of which model.depth_fraction are used.
    depth_fraction: float = share(1.0, needs=LAYERED)  # Share of model.num_hidden_layers that is used.
    num_hidden_groups: int | None = count(
        None, needs=ATTENDING, limit=MOST_LAYERS
    )  # Groups of layers that share weights. Null: one per layer, no sharing (arXiv:1909.11942). Example: 1.
    sharing: Sharing = option(
        Sharing.all, needs=ATTENDING | {"num_hidden_groups": NOT_NULL}
    )  # Which weights the layers of a group share.
    initializer_range: float = not_negative(0.02, limit=100)  # Standard deviation of the initial values of matrices.
    init: Init = Init.flat  # Scheme that scales the initial standard deviation between matrices.
    # Embeddings
    vocab_size: int = rows(30522, role=Role.derived)  # Rows of the token embedding table; a run uses the size of its tokenizer.
    max_position_embeddings: int = rows(512)  # Maximum tokens of a text: rows of the position embedding table.
    position_offset: int = not_negative(0, limit=LARGEST_TABLE)  # Index of the first position, as RoBERTa's 2.
    type_vocab_size: int = not_negative(2, limit=LARGEST_TABLE)  # Number of segment types; 0 removes segment embeddings.
    pad_token_id: int = option(
        0, role=Role.derived, limit=LARGEST_TABLE
    )  # Id of the padding token; a run uses that of its tokenizer.
    embedding_size: int | None = size(
        None
    )  # Size of token embeddings. Null: hidden_size * embedding_fraction, rounded to a multiple of 8. Example: 128.
    embedding_fraction: float = share(
        1.0, needs={"embedding_size": (None,)}
    )  # Size of token embeddings, as a share of the hidden size.
    embedding_norm: bool = True  # Normalise the sum of the embeddings.
    embedding_scale: bool | None = (
        None  # Scale token embeddings by the root of their size. Null: only with sinusoidal positions.
    )
    # Norms and residuals
    norm: Norm = Norm.layer  # Normalisation: layer norm (arXiv:1607.06450) or RMS norm (arXiv:1910.07467).
    norm_place: NormPlace = option(
        NormPlace.post, needs=ATTENDING
    )  # Place of the norms: post follows the residual sum, pre precedes each block and ends the stack.
    norm_bias: bool = option(True, needs={"norm": (Norm.layer,)})  # Use a bias in layer norms.
    layer_norm_eps: float = not_negative(1e-12, limit=1)  # Epsilon added to the variance in every norm.
    hidden_dropout_prob: float = not_negative(0.1, below=1)  # Dropout of the embeddings and of each block's output.
    # Attention
    position: Position = Position.learned  # Position encoding.
    attention: str | None = added(
        None, needs=ATTENDING
    )  # Name of an attention class from another package. Example: my_attention.
    num_attention_heads: int = size(12, needs=ATTENDING)  # Attention heads per layer.
    head_size: int | None = size(
        None, needs=ATTENDING
    )  # Features per head. Null: hidden_size / num_attention_heads. Example: 64.
    attention_bias: bool = option(True, needs=ATTENDING)  # Use biases in the four attention projections.
    attention_scale: bool = option(True, needs=ATTENDING)  # Divide attention scores by the root of the head size.
    base_head_size: int | None = size(
        None, earlier=..., needs=SCALED_ATTENTION
    )  # Head size at which attention scaling was tuned (µP, arXiv:2203.03466). Null: no scaling. Example: 64.
    attention_window: int | None = rows(
        None, needs=SELF_ATTENTION
    )  # Window width in tokens, half to each side. Null: full attention (arXiv:2004.05150). Example: 32.
    global_tokens: int = not_negative(
        0, needs=SELF_ATTENTION, limit=LARGEST_TABLE
    )  # Leading tokens with global attention (arXiv:2004.05150).
    global_layer_every: int | None = count(
        None, needs=SELF_ATTENTION, limit=MOST_LAYERS
    )  # Every n-th layer, from layer 0, has no window (arXiv:2412.13663). Example: 3.
    causal: bool = option(False, needs=CAUSAL_ATTENTION)  # Use causal attention: a token sees only itself and earlier ones.
    segment_length: int | None = rows(
        None, needs=CAUSAL_RELATIVE
    )  # Tokens per segment of recurrent attention. Null: the whole text (arXiv:1901.02860). Example: 64.
    memory_length: int = not_negative(
        0, needs=CAUSAL_RELATIVE | {"segment_length": NOT_NULL}, limit=LARGEST_TABLE
    )  # Cached tokens before a segment that it attends to, without gradient (arXiv:1901.02860).
    qk_norm: bool = option(False, needs=SELF_ATTENTION)  # Normalise queries and keys in each head (arXiv:2302.05442).
    attention_probs_dropout_prob: float = not_negative(0.1, needs=ATTENDING, below=1)  # Dropout of the attention weights.
    rotary_theta: float = positive(10000.0, needs=ROTARY, limit=1e15)  # Base of the rotary wavelengths.
    rotary_global_theta: float | None = positive(
        None, needs=ROTARY, limit=1e15
    )  # Base of the rotary wavelengths in global layers. Null: model.rotary_theta. Example: 160000.
    position_buckets: int | None = size(
        None, needs=BY_DISTANCE
    )  # Buckets of relative distances. Null: 32 for bucketed, one per distance for disentangled. Example: 32.
    max_relative_distance: int = size(512, needs=BY_DISTANCE)  # Maximum relative distance; larger ones are clipped.
    share_position_projections: bool = option(
        False, needs=DISENTANGLED
    )  # Share the projections of content and position (disentangled attention).
    norm_relative_embeddings: bool = option(
        False, needs=DISENTANGLED
    )  # Normalise the relative position embeddings (disentangled attention).
    position_terms: PositionTerms = option(
        PositionTerms.both, needs=DISENTANGLED
    )  # Position terms of the attention score (disentangled attention).
    key_bias: bool = option(
        True, needs=DISENTANGLED
    )  # Use a bias for keys (disentangled attention): true since DeBERTa v2 (arXiv:2111.09543).
    # Feed-forward
    feed_forward: str | None = added(
        None, needs=ATTENDING
    )  # Name of a feed-forward class from another package. Example: my_feed_forward.
    intermediate_size: int = size(
        3072, needs=ATTENDING | {"feed_forward_size": (None,)}
    )  # Width of a feed-forward without gates.
    feed_forward_size: int | None = size(
        None, needs=ATTENDING
    )  # Width of the feed-forward. Null: intermediate_size, 2/3 of it if gated (arXiv:2002.05202). Example: 512.
    hidden_act: Activation = Activation.gelu  # Activation function of the feed-forward.
    gated_feed_forward: bool = option(False, needs=ATTENDING)  # Use a gated feed-forward such as SwiGLU (arXiv:2002.05202).
    feed_forward_bias: bool = option(True, needs=ATTENDING)  # Use biases in the feed-forward.
    # Heads
    pooling: Pooling = Pooling.cls  # Pooling for classification: first token, last token, mean or maximum.
    vector_pooling: Pooling = added(Pooling.mean)  # Pooling for text vectors that are compared by cosine similarity.
    pooler: Activation | None = Activation.tanh  # Activation of the dense layer after pooling; null removes the layer.
    pooler_norm: bool = False  # Normalise the output of the pooler.
    pooler_bias: bool = option(True, needs={"pooler": NOT_NULL})  # Use a bias in the dense layer of the pooler.
    classifier_bias: bool = True  # Use a bias in the output layer.
    classifier_dropout: float | None = not_negative(
        None, below=1
    )  # Dropout before the classifier. Null: model.hidden_dropout_prob. Example: 0.1.
    tie_masked_lm_head: bool = True  # Tie the output matrix of the masked-LM head to the token embeddings.
    mask_decoder: bool = option(
        False, needs=DISENTANGLED
    )  # Predict masked tokens with absolute positions (disentangled; arXiv:2006.03654, 3.2).

    def __post_init__(self) -> None:
        refuse_out_of_range(self, "model.")
        if self.encoder is not None or self.body is Body.foreign:
            self.body = Body.foreign if self.encoder is not None else Body.transformer
            return
        for key in ("attention", "feed_forward", "layers"):
            if (name := getattr(self, key)) is not None:
                class_of(key, name)
        self._refuse_impossible_shapes()
        self._refuse_impossible_pairs()

    @property
    def depth(self) -> int:
        """Layers that run."""
        return max(1, round(self.num_hidden_layers * self.depth_fraction))

    @property
    def init_depth(self) -> int:
        """Layers by which the initial values of a block's last matrices are scaled; 1 where init does not scale by depth."""
        return self.depth if self.init is Init.scaled_by_depth else 1

    @property
    def embedding_width(self) -> int:
        """Size of the token, position and type vectors before projection."""
        if self.embedding_size is not None:
            return self.embedding_size
        return self.hidden_size if self.embedding_fraction == 1 else round_to(self.hidden_size * self.embedding_fraction, 8)

    @property
    def token_scale(self) -> float:
        """Factor of the token vectors, which sines of amplitude 1 would drown (arXiv:1706.03762, section 3.4)."""
        scaled = self.position is Position.sinusoidal if self.embedding_scale is None else self.embedding_scale
        return self.embedding_width**0.5 if scaled else 1.0

    @property
    def feed_forward_width(self) -> int:
        """Inner size of the feed-forward: a gated one has three matrices, so 2/3 of the width keeps the parameters equal."""
        if self.feed_forward_size is not None:
            return self.feed_forward_size
        return round_to(self.intermediate_size * 2 / 3, 8) if self.gated_feed_forward else self.intermediate_size

    @property
    def norms_first_layer(self) -> bool:
        """False where it would norm again what the embeddings have normed, before a pre-norm stack (arXiv:2412.13663)."""
        return not (self.norm_place is NormPlace.pre and self.embedding_norm and self.groups == self.depth)

    @property
    def groups(self) -> int:
        """Number of distinct layers."""
        return self.depth if self.num_hidden_groups is None else self.num_hidden_groups

    def group_of(self, layer: int) -> int:
        """The distinct layer that a layer runs, in floating point: so published ALBERT was computed (arXiv:1909.11942)."""
        return int(layer / (self.depth / self.groups))

    @property
    def head_width(self) -> int:
        """Features of one attention head."""
        return self.hidden_size // self.num_attention_heads if self.head_size is None else self.head_size

    @property
    def product_scale(self) -> float | None:
        """Factor of the products of queries and keys; None for one over the root of the head size."""
        if not self.attention_scale:
            return 1.0
        return None if self.base_head_size in (None, self.head_width) else self.base_head_size**0.5 / self.head_width

    @property
    def attention_width(self) -> int:
        """Features of the queries of all heads together; hidden_size unless head_size says otherwise."""
        return self.num_attention_heads * self.head_width

    @property
    def longest_text(self) -> int:
        """Tokens that the position table has room for."""
        return self.max_position_embeddings - self.position_offset

    def window_of(self, layer: int) -> int | None:
        """Attention window of a layer, None for one that sees everything."""
        sees_all = self.global_layer_every is not None and layer % self.global_layer_every == 0
        return None if sees_all else self.attention_window

    def _refuse_impossible_shapes(self) -> None:
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"model.pad_token_id={self.pad_token_id} must be below model.vocab_size={self.vocab_size}")
        if self.head_size is None and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"model.hidden_size={self.hidden_size} must be a multiple of "
                f"model.num_attention_heads={self.num_attention_heads}, unless model.head_size is set"
            )
        if self.groups > self.depth:
            raise ValueError(
                f"model.num_hidden_groups={self.groups} must be at most the layers that run, "
                f"{self.depth} of model.num_hidden_layers={self.num_hidden_layers}"
            )
        if self.attention_window is not None and self.attention_window % 2:
            raise ValueError(f"model.attention_window={self.attention_window} must be even: half of it goes to each side")
        buckets = self.position_buckets if self.position is Position.disentangled else None
        if buckets is not None and not 1 <= buckets // 2 < self.max_relative_distance - 1:
            raise ValueError(
                f"model.position_buckets={buckets} must be at least 2, and half of it below "
                f"model.max_relative_distance={self.max_relative_distance} - 1: the other half is for farther tokens"
            )
        number, part = self.position_buckets or 32, 2 if self.causal or self.body is Body.encoder_decoder else 4
        if self.position is Position.bucketed and not 4 <= number < part * self.max_relative_distance:
            raise ValueError(
                f"model.position_buckets={number} must be at least 4, and below {part} times "
                f"model.max_relative_distance={self.max_relative_distance}: 1/{part} of the buckets hold one distance each"
            )
        if self.position is Position.rotary and self.head_width % 2:
            sizes = (
                f"model.hidden_size={self.hidden_size} over model.num_attention_heads={self.num_attention_heads}"
                if self.head_size is None
                else f"model.head_size={self.head_size}"
            )
            raise ValueError(f"model.position=rotary turns pairs: {sizes} must be even")

    def _refuse_impossible_pairs(self) -> None:
        transformer, disentangled = self.body is Body.transformer, self.position is Position.disentangled
        own_attention = disentangled or self.position is Position.relative
        own, windowed = self.attention is not None, self.attention_window is not None
        shared = self.groups != self.depth
        added_position = self.position in (Position.learned, Position.sinusoidal, Position.none)
        without_attention = self.body in (Body.lstm, Body.static)
        pairs = {
            f"attention={self.attention} and position={self.position.value}": own and own_attention,
            f"attention={self.attention} and attention_window={self.attention_window}": own and windowed,
            f"attention={self.attention} and causal=true": own and self.causal,
            f"attention={self.attention} and qk_norm=true": own and self.qk_norm,
            f"attention={self.attention} and body={self.body.value}": own and not transformer,
            f"feed_forward={self.feed_forward} and body={self.body.value}": self.feed_forward is not None and not transformer,
            f"layers={self.layers} and body={self.body.value}": self.layers is not None and not transformer,
            f"position={self.position.value} and attention_window={self.attention_window}": own_attention and windowed,
            f"position={self.position.value} and causal=true": disentangled and self.causal,
            f"position={self.position.value} and global_tokens={self.global_tokens}": own_attention
            and bool(self.global_tokens),
            f"qk_norm=true and position={self.position.value}": self.qk_norm and own_attention,
            f"qk_norm=true and body={self.body.value}": self.qk_norm and not transformer,
            f"global_tokens={self.global_tokens} and attention_window=null": bool(self.global_tokens) and not windowed,
            f"global_tokens={self.global_tokens} and causal=true": bool(self.global_tokens) and self.causal,
            f"global_layer_every={self.global_layer_every} and attention_window=null": (
                self.global_layer_every is not None and not windowed
            ),
            f"global_layer_every={self.global_layer_every} and num_hidden_groups={self.num_hidden_groups}": (
                self.global_layer_every is not None and shared
            ),
            f"mask_decoder=true and position={self.position.value}": self.mask_decoder and not disentangled,
            f"body={self.body.value} and attention_window={self.attention_window}": not transformer and windowed,
            f"body={self.body.value} and num_hidden_groups={self.num_hidden_groups}": (
                not transformer and self.num_hidden_groups is not None
            ),
            f"body={self.body.value} and position={self.position.value}": (
                (without_attention and not added_position) or (self.body is Body.encoder_decoder and own_attention)
            ),
            f"body={self.body.value} and causal=true": not transformer and self.causal,
            f"body={self.body.value} and gated_feed_forward=true": without_attention and self.gated_feed_forward,
            f"body={self.body.value} and hidden_size={self.hidden_size}": self.body is Body.lstm and self.hidden_size % 2 == 1,
        }
        for pair, impossible in pairs.items():
            if impossible:
                raise ValueError(f"model.{pair.replace(' and ', ' cannot be combined with model.')}")


BY_LORA = When(lambda _, own: own.trains is Trains.lora, "trains low-rank matrices", "finetune.trains=lora", Refused.everywhere)
BY_LAYER = When(
    lambda _, own: own.trains is not Trains.head,
    "trains layers of the encoder",
    "finetune.trains=all",
    Refused.everywhere,
)


@dataclass
class AdaptationConfig:
    """Which parameters a fine-tuning trains; read in `models/adapt.py`."""

    trains: Trains = added(Trains.all)  # Parameters that are trained.
    lora_rank: int = size(8, BY_LORA, earlier=...)  # Rank of the LoRA matrices.
    freeze_layers: int | None = not_negative(
        None, BY_LAYER, earlier=..., limit=MOST_LAYERS
    )  # Number of layers to freeze from the bottom, with the embeddings. Null: none. Example: 6.
