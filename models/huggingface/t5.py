"""T5 (arXiv:1910.10683) and T5 1.1, whose feed-forward is gated (arXiv:2002.05202).

A checkpoint is read as its encoder alone, but for one that names the bare T5Model as its architecture, or that `with_decoder`
makes name it: that one is read as encoder and decoder.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from harness.models.choices import Activation, Body, Norm, NormPlace, Pooling, Position
from harness.models.config import EncoderConfig
from harness.models.huggingface.names import (
    ConfigJson,
    Layout,
    Names,
    activation,
    activation_name,
    read_keys,
    refuse,
    renamed,
    unrenamed,
    written_keys,
)

BOTH, ENCODER = "T5Model", "T5EncoderModel"
"""Names of the architecture of encoder and decoder, and of the encoder alone."""


def _stack(theirs: str, ours: str, feed_forward: int, gated: bool) -> dict[str, str]:
    """The table of one stack; `feed_forward` is the number of its feed-forward among the parts of a published layer."""
    layer, attention = rf"{theirs}\.block\.(\d+)\.layer", rf"{ours}.attentions.\1"
    dense, inner = rf"{layer}\.{feed_forward}\.DenseReluDense", rf"{ours}.feed_forwards.\1.feed_forward"
    return {
        rf"{theirs}\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias": f"{ours}.bias.bias",
        rf"{layer}\.0\.SelfAttention\.q": f"{attention}.attention.query_key_value#0",
        rf"{layer}\.0\.SelfAttention\.k": f"{attention}.attention.query_key_value#1",
        rf"{layer}\.0\.SelfAttention\.v": f"{attention}.attention.query_key_value#2",
        rf"{layer}\.0\.SelfAttention\.o": f"{attention}.attention.output",
        rf"{layer}\.0\.layer_norm": f"{attention}.norm",
        **({rf"{dense}\.wi_0": f"{inner}.input#0", rf"{dense}\.wi_1": f"{inner}.input#1"} if gated else {}),
        **({} if gated else {rf"{dense}\.wi": f"{inner}.input"}),
        rf"{dense}\.wo": f"{inner}.output",
        rf"{layer}\.{feed_forward}\.layer_norm": rf"{ours}.feed_forwards.\1.norm",
        rf"{theirs}\.final_layer_norm": f"{ours}.norm",
    }


CROSS_LAYER, CROSS = r"decoder\.block\.(\d+)\.layer\.1", r"encoder.layers.decoder.crosses.\1"
CROSS_ATTENTION = {
    rf"{CROSS_LAYER}\.EncDecAttention\.q": f"{CROSS}.attention.query",
    rf"{CROSS_LAYER}\.EncDecAttention\.k": f"{CROSS}.attention.key_value#0",
    rf"{CROSS_LAYER}\.EncDecAttention\.v": f"{CROSS}.attention.key_value#1",
    rf"{CROSS_LAYER}\.EncDecAttention\.o": f"{CROSS}.attention.output",
    rf"{CROSS_LAYER}\.layer_norm": f"{CROSS}.norm",
}


def _modules(both: bool, gated: bool) -> dict[str, str]:
    embedding = {r"shared": "encoder.embeddings.token_embedding"}
    if not both:
        return embedding | _stack("encoder", "encoder.layers", 1, gated)
    encoder = _stack("encoder", "encoder.layers.encoder", 1, gated)
    return embedding | encoder | _stack("decoder", "encoder.layers.decoder.stack", 2, gated) | CROSS_ATTENTION


def with_decoder(config_json: ConfigJson) -> dict[str, Any]:
    """The config.json that is read as encoder and decoder, where it is of a T5; any other one as it is."""
    return config_json | {"architectures": [BOTH]} if config_json.get("model_type") == "t5" else config_json


HEAD = {r"classifier": "head"}
LAYOUTS = {"t5": Layout("", _modules(both=False, gated=False), HEAD, {})}
"""Of the encoder with a plain feed-forward; `publish` uses the table of the shape."""

NAMES = Names(prefix=r"transformer\.", modules=_modules(both=True, gated=False))
"""By which its tensors are recognised; `tensors` uses the table of the shape."""


KEYS = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "n_positions",
    "hidden_size": "d_model",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "initializer_range": "initializer_range",
    "feed_forward_size": "d_ff",
    "position_buckets": "relative_attention_num_buckets",
    "max_relative_distance": "relative_attention_max_distance",
    "pad_token_id": "pad_token_id",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_dropout_prob": "dropout_rate",
    "classifier_dropout": "classifier_dropout",
    "tie_masked_lm_head": "tie_word_embeddings",
}
"""Our key -> key of config.json."""

DEFAULTS: dict[str, Any] = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "dropout_rate": 0.1,
    "classifier_dropout": 0.0,
    "feed_forward_proj": "relu",
}
"""What a config.json means where it is silent."""


def config(config_json: ConfigJson) -> EncoderConfig:
    """Pooled by the mean, as T5 has no token that represents a text; ValueError naming a key that ours cannot express."""
    refuse(config_json, {"is_decoder": False})
    config_json = DEFAULTS | config_json
    both = config_json.get("architectures") == [BOTH]
    if both and config_json.get("num_decoder_layers") is not None:
        refuse(config_json, {"num_decoder_layers": config_json["num_layers"]})
    kind, head_size = config_json["feed_forward_proj"], config_json["d_kv"]
    act = "gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-")  # which has always meant the one by tanh
    return EncoderConfig(
        **read_keys(config_json, KEYS),
        body=Body.encoder_decoder if both else Body.transformer,
        head_size=None if config_json["num_heads"] * head_size == config_json["d_model"] else head_size,
        gated_feed_forward=kind.startswith("gated-"),
        hidden_act=activation({"feed_forward_proj": act}, "feed_forward_proj", "relu"),
        feed_forward_bias=False,
        attention_bias=False,
        attention_scale=False,
        position=Position.bucketed,
        type_vocab_size=0,
        embedding_norm=False,
        norm=Norm.rms,
        norm_place=NormPlace.pre,
        attention_probs_dropout_prob=config_json["dropout_rate"],
        pooling=Pooling.mean,
        pooler=None,
    )


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names; what belongs to the decoder is left out where ours has none."""
    both = config.body is Body.encoder_decoder
    modules = _modules(both, config.gated_feed_forward) | {
        r"encoder\.embed_tokens|decoder\.embed_tokens": "encoder.embeddings.token_embedding",
        **HEAD,
    }
    ignored = r"^lm_head\." if both else r"^decoder\.|^lm_head\."
    return renamed(state, replace(NAMES, modules=modules, ignored=ignored))


def config_json_of(shape: EncoderConfig, family: str) -> dict[str, Any]:
    """The config.json that comes nearest to a settled shape."""
    act = activation_name(shape.hidden_act)
    gated = "gated-gelu" if shape.hidden_act is Activation.gelu_tanh else f"gated-{act}"
    return written_keys(shape, KEYS) | {
        "architectures": [BOTH if shape.body is Body.encoder_decoder else ENCODER],
        "d_kv": shape.head_width,
        "d_ff": shape.feed_forward_width,
        "num_decoder_layers": shape.num_hidden_layers,
        "feed_forward_proj": gated if shape.gated_feed_forward else act,
        "decoder_start_token_id": shape.pad_token_id,
    }


def publish(state: dict[str, Tensor], config: EncoderConfig, family: str) -> tuple[dict[str, Tensor], list[str]]:
    """Under published names, and our names that have none."""
    modules = _modules(config.body is Body.encoder_decoder, config.gated_feed_forward)
    return unrenamed(state, Layout("", modules, HEAD, {}))
