"""Values that keys of a model may have; those of sizes and shares are in models/config.py."""

from enum import Enum


class Activation(Enum):
    """A non-linearity, of the feed-forward layer or of the pooler."""

    gelu = "gelu"
    gelu_tanh = "gelu_tanh"
    relu = "relu"
    relu2 = "relu2"  # its square (arXiv:2109.08668)
    silu = "silu"
    tanh = "tanh"


class Body(Enum):
    """The layers between embeddings and heads."""

    transformer = "transformer"
    encoder_decoder = "encoder_decoder"  # arXiv:1706.03762
    lstm = "lstm"  # two directions, in ELMo's place (arXiv:1802.05365)
    static = "static"  # nothing, in word2vec's place (arXiv:1301.3781)


class Init(Enum):
    """Standard deviation of the initial values of matrices."""

    flat = "flat"  # initializer_range everywhere (arXiv:1810.04805)
    scaled_by_depth = "scaled_by_depth"  # over the root of 2 L where a block adds to its input (GPT-2; arXiv:1909.08053)
    small_embeddings = "small_embeddings"  # of embeddings the root of 2 / (5 E) (arXiv:2212.14034, after arXiv:1910.05895)


class Trains(Enum):
    """Which parameters a fine-tuning changes; what is above the encoder is always trained."""

    all = "all"
    head = "head"  # nothing else: a probe on the frozen encoder
    bitfit = "bitfit"  # and the biases of the encoder (arXiv:2106.10199)
    lora = "lora"  # and matrices of low rank, added to those of queries and values (arXiv:2106.09685)


class Position(Enum):
    """How a model knows the position of a token."""

    learned = "learned"  # added to the embeddings
    sinusoidal = "sinusoidal"  # added to the embeddings (arXiv:1706.03762)
    rotary = "rotary"  # turns queries and keys (arXiv:2104.09864)
    alibi = "alibi"  # a penalty on distance (arXiv:2108.12409)
    bucketed = "bucketed"  # a learned bias by bucket of distance, shared over layers (arXiv:1910.10683)
    disentangled = "disentangled"  # content-to-position and back (arXiv:2006.03654)
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
    """What the layers of one hidden group have in common."""

    all = "all"
    attention = "attention"
    feed_forward = "feed_forward"


class Pooling(Enum):
    """One vector from one per token: the first, the last real one, or the mean or maximum of the real ones."""

    cls = "cls"
    last = "last"
    mean = "mean"
    max = "max"
