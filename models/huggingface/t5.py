"""The encoder of T5 (arXiv:1910.10683) and of T5 1.1, whose feed-forward is gated (arXiv:2002.05202)."""

from torch import Tensor

from models.config import Activation, EncoderConfig, Norm, NormPlace, Pooling, Position
from models.huggingface.names import Names, activation, refuse, renamed

BLOCK = r"encoder\.block\.(\d+)\.layer"
ATTENTION, FEED_FORWARD = r"encoder.layers.attentions.\1", r"encoder.layers.feed_forwards.\1"
NAMES = Names(
    prefix=r"transformer\.",
    modules={
        r"shared|encoder\.embed_tokens": "encoder.embeddings.token_embedding",
        r"encoder\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias": "encoder.layers.bias.bias",
        rf"{BLOCK}\.0\.SelfAttention\.q": f"{ATTENTION}.attention.query_key_value#0",
        rf"{BLOCK}\.0\.SelfAttention\.k": f"{ATTENTION}.attention.query_key_value#1",
        rf"{BLOCK}\.0\.SelfAttention\.v": f"{ATTENTION}.attention.query_key_value#2",
        rf"{BLOCK}\.0\.SelfAttention\.o": f"{ATTENTION}.attention.output",
        rf"{BLOCK}\.0\.layer_norm": f"{ATTENTION}.norm",
        rf"{BLOCK}\.1\.DenseReluDense\.wi(?:_0)?": f"{FEED_FORWARD}.feed_forward.input#0",
        rf"{BLOCK}\.1\.DenseReluDense\.wi_1": f"{FEED_FORWARD}.feed_forward.input#1",
        rf"{BLOCK}\.1\.DenseReluDense\.wo": f"{FEED_FORWARD}.feed_forward.output",
        rf"{BLOCK}\.1\.layer_norm": f"{FEED_FORWARD}.norm",
        r"encoder\.final_layer_norm": "encoder.layers.norm",
        r"classifier": "head",
    },
    ignored=r"^decoder\.|^lm_head\.",
)


def config(given: dict) -> EncoderConfig:
    """Pooled by the mean, as T5 has no token that stands for a text; ValueError naming a key that ours cannot express."""
    size, heads = given.get("d_model", 512), given.get("num_heads", 8)
    refuse({"d_kv": given.get("d_kv", 64)}, {"d_kv": size // heads})
    refuse(given, {"is_decoder": False})
    gated, act = _feed_forward(given)
    return EncoderConfig(
        vocab_size=given.get("vocab_size", 32128),
        hidden_size=size,
        num_hidden_layers=given.get("num_layers", 6),
        num_attention_heads=heads,
        feed_forward_size=given.get("d_ff", 2048),
        gated_feed_forward=gated,
        hidden_act=act,
        feed_forward_bias=False,
        attention_bias=False,
        attention_scale=False,
        position=Position.bucketed,
        position_buckets=given.get("relative_attention_num_buckets", 32),
        max_relative_distance=given.get("relative_attention_max_distance", 128),
        type_vocab_size=0,
        pad_token_id=given.get("pad_token_id") or 0,
        embedding_norm=False,
        norm=Norm.rms,
        norm_place=NormPlace.pre,
        layer_norm_eps=given.get("layer_norm_epsilon", 1e-6),
        hidden_dropout_prob=given.get("dropout_rate", 0.1),
        attention_probs_dropout_prob=given.get("dropout_rate", 0.1),
        classifier_dropout=given.get("classifier_dropout", 0.0),
        pooling=Pooling.mean,
        pooler=None,
    )


def _feed_forward(given: dict) -> tuple[bool, Activation]:
    """Whether it is gated, and by what; `gated-gelu` has always meant the approximation by tanh."""
    said = given.get("feed_forward_proj", "relu")
    gated = said.startswith("gated-")
    name = "gelu_new" if said == "gated-gelu" else said.removeprefix("gated-")
    return gated, activation({"feed_forward_proj": name}, "feed_forward_proj", "relu")


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names; what belongs to the decoder is left out."""
    return renamed(state, NAMES)
