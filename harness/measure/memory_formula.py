"""What a training step must hold, by the shapes alone: the second opinion on what is measured.

Activations are what autograd keeps of a forward pass for the backward one, each storage once, parameters and the given batch
left out. The sums follow the operators one by one, in float32 on CPU, for a text without padding. Where that is not worked out
the answer is None: bodies lstm and encoder_decoder; positions disentangled, relative, alibi and bucketed; global tokens; bf16;
CUDA, whose kernels keep other things. Parameters that a text does not reach, as the segment vectors of relative attention, are
counted with gradient and moments all the same.

N = B * T tokens, D hidden, E embedding size, F feed-forward width, H heads, K head size, M keys around a block.
"""

from dataclasses import dataclass

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from harness.measure.size import on_meta
from models.attention import MINIMUM_BLOCK
from models.config import Activation, Body, EncoderConfig, Norm, NormPlace, Pooling, Position
from models.heads import Classifier, SequenceClassifier

FLOAT, INTEGER, BOOLEAN = 4, 8, 1
"""Bytes of one element."""

KEEPS_OUTPUT = (Activation.relu, Activation.tanh)
"""Non-linearities whose gradient follows from their output, which the next product keeps anyhow."""

KNOWN_POSITIONS = (Position.learned, Position.sinusoidal, Position.rotary, Position.none)


@dataclass(frozen=True)
class Parts:
    """Bytes of a training step; activations are None where nobody says."""

    weights: int
    gradients: int
    optimiser: int
    activations: int | None

    @property
    def total(self) -> int | None:
        """All four together. A step never holds them at once: gradients come as activations go."""
        return None if self.activations is None else self.lasting + self.gradients + self.activations

    @property
    def lasting(self) -> int:
        """What is there all the time from the second step on."""
        return self.weights + self.optimiser


@dataclass(frozen=True)
class Shape:
    """A model and the batch that goes through it."""

    config: EncoderConfig
    num_outputs: int
    batch_size: int
    length: int
    head: type[Classifier] = SequenceClassifier

    @property
    def tokens(self) -> int:
        """N."""
        return self.batch_size * self.length


def parts(shape: Shape, hardware: HardwareConfig, checkpointing: bool) -> Parts:
    """By formula. AdamW keeps two float32 moments of each parameter, and a float32 step count of each tensor."""
    sizes = [parameter.numel() for parameter in on_meta(shape.config, shape.num_outputs, shape.head).parameters()]
    weights = FLOAT * sum(sizes)
    known = hardware.device is Device.cpu and hardware.dtype is Dtype.fp32
    return Parts(weights, weights, 2 * weights + FLOAT * len(sizes), activations(shape, checkpointing) if known else None)


def activations(shape: Shape, checkpointing: bool) -> int | None:
    """Bytes kept for the backward pass, in float32 on CPU, in training mode; None for what the module's docstring names.

    With checkpointing: the input of every layer, and all of the largest layer while it is computed again.
    """
    config = shape.config
    if config.body not in (Body.transformer, Body.static) or config.position not in KNOWN_POSITIONS or config.global_tokens:
        return None
    layers = [layer(shape, number) for number in range(config.depth)] if config.body is Body.transformer else []
    around = embeddings(shape) + final_norm(shape) + head(shape)
    if not checkpointing or not layers:
        return around + tables(config) * rotation(shape) + sum(layers)
    inputs = (len(layers) - 1) * FLOAT * shape.tokens * config.hidden_size
    return around + inputs + min(1, tables(config)) * rotation(shape) + max(layers)


def norm(config: EncoderConfig, rows: int, width: int) -> int:
    """Its input, with mean and deviation of each row; of the root mean square norm the normed input too."""
    return FLOAT * (2 * rows * width + rows if config.norm is Norm.rms else rows * width + 2 * rows)


def dropped(probability: float, elements: int) -> int:
    """The scaled mask; nothing where nothing is dropped."""
    return FLOAT * elements if probability else 0


def embeddings(shape: Shape) -> int:
    """The sum before its norm, the mask of dropout, what is projected, and token types that are made here."""
    config, N, E = shape.config, shape.tokens, shape.config.embedding_width
    saved = INTEGER * N if config.type_vocab_size else 0
    saved += norm(config, N, E) if config.embedding_norm else 0
    saved += dropped(config.hidden_dropout_prob, N * E)
    return saved + (FLOAT * N * E if config.hidden_size != E else 0)


def layer(shape: Shape, number: int) -> int:
    """Both blocks: input of the first product, what is inside, mask of dropout, and what the norm keeps."""
    config, ND = shape.config, shape.tokens * shape.config.hidden_size
    once = norm(config, shape.tokens, config.hidden_size)
    pre = config.norm_place is NormPlace.pre
    first_is_bare = pre and number == 0 and config.embedding_norm and config.groups == config.depth
    around = 2 * (FLOAT * ND + dropped(config.hidden_dropout_prob, ND)) + (once if first_is_bare else 2 * once)
    return around + attention(shape, number) + feed_forward(shape)


def feed_forward(shape: Shape) -> int:
    """What stands between its matrices."""
    config, NF = shape.config, shape.tokens * shape.config.feed_forward_width
    if config.gated_feed_forward:
        return 4 * FLOAT * NF  # gate and factor are halves of one tensor; the activated gate; the product
    return FLOAT * NF * (1 if config.hidden_act in KEEPS_OUTPUT else 2)


def attention(shape: Shape, number: int) -> int:
    """Queries, keys, values, what their meeting keeps, and the input of the output product."""
    config, T = shape.config, shape.length
    window = config.window_of(number)
    if window is None or window // 2 >= T - 1:
        return full_attention(shape, T * T if config.causal else 0)
    block = max(window, MINIMUM_BLOCK)
    if block + window >= T:
        return full_attention(shape, T * T)
    return blocked_attention(shape, block, block + window)


def full_attention(shape: Shape, masked: int) -> int:
    """`masked` pairs have a mask. Spelt out with dropout, fused without: models/attention.py says why."""
    config, B, T = shape.config, shape.batch_size, shape.length
    NW, H, turned = shape.tokens * config.attention_width, config.num_attention_heads, config.position is Position.rotary
    if not config.attention_probs_dropout_prob:
        own = 3 + (2 if turned else 0) + 1  # one tensor of all three, turned ones apart, and what is seen
        return FLOAT * (own * NW + B * H * T + masked)
    of_one_tensor = B == 1 or H == 1  # a batch of heads is a view then; otherwise each of the three is copied
    own = (4 + (1 if turned else 0) if of_one_tensor else 3) + 1
    return FLOAT * (own * NW + 3 * B * H * T * T) + BOOLEAN * masked


def blocked_attention(shape: Shape, block: int, M: int) -> int:
    """Queries of all blocks with the M keys and values around each, padded to whole blocks."""
    config, blocks = shape.config, shape.batch_size * -(-shape.length // block)
    W, H, queries, pairs = config.attention_width, config.num_attention_heads, blocks * block, blocks * block * M
    given = (queries + 2 * blocks * M) * W
    if not config.attention_probs_dropout_prob:
        padded = shape.length % block != 0  # what is seen is copied where the padding is cut off
        return FLOAT * (given + queries * W + (shape.tokens * W if padded else 0) + queries * H + pairs)
    return FLOAT * (given + shape.tokens * W + 3 * H * pairs) + BOOLEAN * pairs


def rotation(shape: Shape) -> int:
    """Cosines and sines, once for all layers that turn alike."""
    return 2 * FLOAT * shape.length * shape.config.head_width


def tables(config: EncoderConfig) -> int:
    """How many different rotations the layers use."""
    if config.position is not Position.rotary:
        return 0
    windows = {config.window_of(number) is None for number in range(config.depth)}
    return 1 if config.rotary_global_theta is None else len(windows)


def final_norm(shape: Shape) -> int:
    """Of a pre-norm stack."""
    config = shape.config
    stands = config.norm_place is NormPlace.pre and config.body is Body.transformer
    return norm(config, shape.tokens, config.hidden_size) if stands else 0


def head(shape: Shape) -> int:
    """From the last hidden states to the loss."""
    config, B, ND = shape.config, shape.batch_size, shape.tokens * shape.config.hidden_size
    probability = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
    if shape.head is not SequenceClassifier:
        asked = INTEGER + FLOAT  # how many tokens are asked about, and their weight
        return dropped(probability, ND) + FLOAT * (ND + shape.tokens * shape.num_outputs) + asked
    saved, waiting = pooled(shape)
    BD = FLOAT * B * config.hidden_size
    if probability:
        saved, waiting = saved + BD, BD
    loss = FLOAT * B * shape.num_outputs + (FLOAT if shape.num_outputs > 1 else 0)
    return saved + waiting + loss


def pooled(shape: Shape) -> tuple[int, int]:
    """Bytes that the pooler keeps, and those that who keeps its output keeps besides: 0 where it is kept already."""
    config, BD = shape.config, FLOAT * shape.batch_size * shape.config.hidden_size
    saved, waiting = _pool(shape)
    if config.pooler is not None:
        saved, waiting = saved + waiting + BD, 0 if config.pooler in KEEPS_OUTPUT else BD
    if config.pooler_norm:
        own = norm(config, shape.batch_size, config.hidden_size) - BD
        saved, waiting = saved + waiting + own, BD
    return saved, waiting


def _pool(shape: Shape) -> tuple[int, int]:
    config, B, N = shape.config, shape.batch_size, shape.tokens
    ND, BD = FLOAT * N * config.hidden_size, FLOAT * B * config.hidden_size
    return {
        Pooling.cls: (0, ND),  # a view of all hidden states
        Pooling.last: (2 * INTEGER * B, BD),
        Pooling.mean: (BOOLEAN * N + INTEGER * B, BD),
        Pooling.max: (BOOLEAN * N + ND + BD, 0),
    }[config.pooling]
