"""XLNet checkpoints (arXiv:1906.08237). D hidden, H heads, K head size.

The published classifier pools over padding too: the very last place, or the mean of all. Ours pools real tokens, so
padding changes no score.
"""

from typing import Any

from torch import Tensor

from harness.models.choices import Pooling, Position
from harness.models.config import EncoderConfig
from harness.models.huggingface.names import Names, activation, read_keys, refuse, renamed

ALLOWED = {
    "attn_type": "bi",
    "bi_data": False,
    "same_length": False,
    "clamp_len": -1,
    "untie_r": True,
    "summary_use_proj": True,
    "summary_proj_to_labels": False,
    "summary_first_dropout": 0,
}
POOLINGS = {"last": Pooling.last, "first": Pooling.cls, "mean": Pooling.mean}
LAYER, ATTENTION, FEED_FORWARD = r"layer\.(\d+)", r"encoder.layers.attentions.\1", r"encoder.layers.feed_forwards.\1"
NAMES = Names(
    prefix=r"transformer\.",
    modules={
        r"": "encoder.embeddings",
        r"word_embedding": "encoder.embeddings.token_embedding",
        rf"{LAYER}\.rel_attn": rf"{ATTENTION}.attention",
        rf"{LAYER}\.rel_attn\.q": rf"{ATTENTION}.attention.query",
        rf"{LAYER}\.rel_attn\.k": rf"{ATTENTION}.attention.key_value#0",
        rf"{LAYER}\.rel_attn\.v": rf"{ATTENTION}.attention.key_value#1",
        rf"{LAYER}\.rel_attn\.r": rf"{ATTENTION}.attention.position",
        rf"{LAYER}\.rel_attn\.o": rf"{ATTENTION}.attention.output",
        rf"{LAYER}\.rel_attn\.layer_norm": rf"{ATTENTION}.norm",
        rf"{LAYER}\.ff\.layer_1": rf"{FEED_FORWARD}.feed_forward.input",
        rf"{LAYER}\.ff\.layer_2": rf"{FEED_FORWARD}.feed_forward.output",
        rf"{LAYER}\.ff\.layer_norm": rf"{FEED_FORWARD}.norm",
        r"sequence_summary\.summary": "pooler.dense",
        r"logits_proj": "head",
    },
    ignored=r"^lm_loss\.",
)
VECTORS = {
    "mask_emb": "mask_embedding",
    "r_w_bias": "content_bias",
    "r_r_bias": "position_bias",
    "r_s_bias": "segment_bias",
}
"""Published parameters that are one vector of all heads with ours."""


KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "d_inner",
    "hidden_dropout_prob": "dropout",
    "classifier_dropout": "summary_last_dropout",
    "initializer_range": "initializer_range",
    "layer_norm_eps": "layer_norm_eps",
    "pad_token_id": "pad_token_id",
}
"""Our key -> key of config.json."""

DEFAULTS = {
    "vocab_size": 32000,
    "d_model": 1024,
    "n_layer": 24,
    "n_head": 16,
    "d_inner": 4096,
    "summary_last_dropout": 0.1,
    "pad_token_id": 5,
}
"""What a config.json means where it is silent, and BERT's value is another."""


def config(config_json: dict[str, Any]) -> EncoderConfig:
    """ValueError names the key that ours cannot express; `mem_len` is left out, for a text is read without the one before."""
    refuse(config_json, ALLOWED)
    config_json = DEFAULTS | config_json
    if config_json.get("d_head") is not None:
        refuse(config_json, {"d_head": config_json["d_model"] // config_json["n_head"]})
    if config_json.get("summary_type", "last") not in POOLINGS:
        raise ValueError(f"summary_type={config_json['summary_type']!r} is none of {', '.join(POOLINGS)}")
    return EncoderConfig(
        **read_keys(config_json, KEYS),
        hidden_act=activation(config_json, "ff_activation", "gelu"),
        attention_probs_dropout_prob=config_json.get("dropout", 0.1),
        pooling=POOLINGS[config_json.get("summary_type", "last")],
        pooler=activation(config_json, "summary_activation", "tanh"),
        position=Position.relative,
        type_vocab_size=0,
        embedding_norm=False,
        attention_bias=False,
    )


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Published names -> those of SequenceClassifier, of what is there; an unknown tensor keeps its published name."""
    return renamed(dict(_unheaded(name, tensor) for name, tensor in state.items()), NAMES)


def _unheaded(name: str, tensor: Tensor) -> tuple[str, Tensor]:
    """Heads side by side: (D, H, K) published as input, heads, features of a head, but output first for `o`."""
    module, dot, kind = name.rpartition(".")
    if kind in VECTORS:
        return f"{module}{dot}{VECTORS[kind]}", tensor.flatten()
    if kind == "seg_embed":
        return f"{module}.segment_embedding", tensor.flatten(1)
    if kind in ("q", "k", "v", "r"):
        return f"{name}.weight", tensor.flatten(1).T.contiguous()
    return (f"{name}.weight", tensor.flatten(1)) if kind == "o" else (name, tensor)
