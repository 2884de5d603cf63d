"""DeBERTa checkpoints, model_type deberta (arXiv:2006.03654) and deberta-v2, which v3 uses too (arXiv:2111.09543)."""

import re
from typing import Any

import torch
from torch import Tensor

from harness.models.choices import Activation, Position, PositionTerms
from harness.models.config import EncoderConfig
from harness.models.huggingface.bert import KEYS, MASKED
from harness.models.huggingface.names import (
    ConfigJson,
    Layout,
    Names,
    activation,
    activation_name,
    read_keys,
    renamed,
    unrenamed,
    written_keys,
)

DEFAULTS = {
    "deberta": {"vocab_size": 50265},
    "deberta-v2": {
        "vocab_size": 128100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
    },
}
"""What a config.json of each model_type means where it is silent, and BERT's value is another."""

TERMS = {
    ("c2p", "p2c"): PositionTerms.both,
    ("c2p",): PositionTerms.content_to_position,
    ("p2c",): PositionTerms.position_to_content,
}
"""`pos_att_type`, sorted -> ours."""

LAYER, ATTENTION, FEED_FORWARD = r"encoder\.layer\.(\d+)", r"encoder.layers.attentions.\1", r"encoder.layers.feed_forwards.\1"
COMMON = {
    r"embeddings\.word_embeddings": "encoder.embeddings.token_embedding",
    r"embeddings\.token_type_embeddings": "encoder.embeddings.type_embedding",
    r"embeddings\.LayerNorm": "encoder.embeddings.norm",
    r"encoder\.rel_embeddings": "encoder.layers.relative.embedding",
    r"encoder\.LayerNorm": "encoder.layers.relative.norm",
    rf"{LAYER}\.attention\.self\.query_proj": f"{ATTENTION}.attention.query",
    rf"{LAYER}\.attention\.self\.key_proj": f"{ATTENTION}.attention.key",
    rf"{LAYER}\.attention\.self\.value_proj": f"{ATTENTION}.attention.value",
    rf"{LAYER}\.attention\.output\.dense": f"{ATTENTION}.attention.output",
    rf"{LAYER}\.attention\.output\.LayerNorm": f"{ATTENTION}.norm",
    rf"{LAYER}\.intermediate\.dense": f"{FEED_FORWARD}.feed_forward.input",
    rf"{LAYER}\.output\.dense": f"{FEED_FORWARD}.feed_forward.output",
    rf"{LAYER}\.output\.LayerNorm": f"{FEED_FORWARD}.norm",
}
FIRST = {
    rf"{LAYER}\.attention\.self\.pos_proj": f"{ATTENTION}.attention.position_key",
    rf"{LAYER}\.attention\.self\.pos_q_proj": f"{ATTENTION}.attention.position_query",
}
LATER = {
    rf"{LAYER}\.attention\.self\.pos_key_proj": f"{ATTENTION}.attention.position_key",
    rf"{LAYER}\.attention\.self\.pos_query_proj": f"{ATTENTION}.attention.position_query",
}
HEADS = {r"pooler\.dense": "pooler.dense", r"classifier": "head"}
LAYOUTS = {
    "deberta": Layout("deberta.", COMMON | FIRST, HEADS, MASKED, "cls.predictions"),
    "deberta-v2": Layout("deberta.", COMMON | LATER, HEADS, MASKED, "cls.predictions"),
}
NAMES = Names(
    prefix=r"deberta\.",
    modules=COMMON | FIRST | LATER | HEADS,
    # heads of pretraining and of spans, and a table of positions that published checkpoints hold and do not use
    ignored=r"^(lm_predictions|mask_predictions|cls|lm_head|qa_outputs)\.|^embeddings\.position_",
)
BIASES = {"query": "q_bias", "value": "v_bias"}
"""Of the first DeBERTa, whose three matrices are one; keys have none."""


def config(config_json: ConfigJson) -> EncoderConfig:
    """Ours for a config.json; ValueError naming the key for what ours cannot express."""
    family = config_json["model_type"]
    later = family == "deberta-v2"
    values = {"type_vocab_size": 0, "layer_norm_eps": 1e-7} | DEFAULTS[family] | read_keys(config_json, KEYS)
    farthest, buckets = config_json.get("max_relative_positions", -1), config_json.get("position_buckets", -1) if later else -1
    ours = EncoderConfig(
        **values,
        position=Position.disentangled,
        max_relative_distance=farthest if farthest > 0 else values.get("max_position_embeddings", 512),
        position_buckets=buckets if buckets > 0 else None,
        share_position_projections=later and config_json.get("share_att_key", False),
        position_terms=TERMS.get(_terms(config_json), PositionTerms.both),
        key_bias=later,
        norm_relative_embeddings=later and "layer_norm" in config_json.get("norm_rel_ebd", "none").lower(),
        hidden_act=activation(config_json, "hidden_act", "gelu"),
        pooler=activation(config_json, "pooler_hidden_act", "gelu"),
        classifier_dropout=config_json.get("cls_dropout"),
        mask_decoder=True,  # pretrained so, though the checkpoint of transformers' masked-LM head knows none
    )
    _refuse(config_json, ours)
    return ours


def _terms(config_json: ConfigJson) -> tuple[str, ...]:
    terms = config_json.get("pos_att_type") or []
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    return tuple(sorted(term.strip() for term in terms))


def _refuse(config_json: ConfigJson, ours: EncoderConfig) -> None:
    expressible = {
        "relative_attention": config_json.get("relative_attention", False),
        "position_biased_input": not config_json.get("position_biased_input", True),
        "pos_att_type": _terms(config_json) in TERMS,
        "talking_head": not config_json.get("talking_head", False),
        "conv_kernel_size": config_json.get("conv_kernel_size", 0) <= 0,
        "embedding_size": config_json.get("embedding_size", ours.hidden_size) == ours.hidden_size,
        "attention_head_size": config_json.get("attention_head_size", ours.head_width) == ours.head_width,
        "pooler_hidden_size": config_json.get("pooler_hidden_size", ours.hidden_size) == ours.hidden_size,
        "pooler_dropout": config_json.get("pooler_dropout", 0) == 0,
    }
    for key, fine in expressible.items():
        if not fine:
            raise ValueError(f"{key}={config_json.get(key, 'left out')} has no counterpart here")


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names, of a bare encoder or of a classifier."""
    apart: dict[str, Tensor] = {}
    for name, value in state.items():
        apart |= _apart(name, value, config)
    return renamed(apart, NAMES)


def _apart(name: str, value: Tensor, config: EncoderConfig) -> dict[str, Tensor]:
    """The tensor as v2 would call it; (3 D, D) with query, key and value of one head after those of another -> three (D, D)."""
    module, _, kind = name.rpartition(".")
    for part, bias in BIASES.items():
        if kind == bias:
            return {f"{module}.{part}_proj.bias": value}
    if not name.endswith(".in_proj.weight"):
        return {name: value}
    parts = value.view(config.num_attention_heads, 3, config.head_width, config.hidden_size).unbind(1)
    attention = module.removesuffix(".in_proj")
    tensors = {f"{attention}.{part}_proj.weight": rows for part, rows in zip(("query", "key", "value"), parts, strict=True)}
    return {part: rows.flatten(0, 1).contiguous() for part, rows in tensors.items()}


def config_json_of(shape: EncoderConfig, family: str) -> dict[str, Any]:
    """The config.json that comes nearest to a settled shape."""
    config_json = written_keys(shape, KEYS) | {
        "relative_attention": shape.position is Position.disentangled,
        "position_biased_input": False,
        "pos_att_type": next(list(theirs) for theirs, ours in TERMS.items() if ours is shape.position_terms),
        "max_relative_positions": shape.max_relative_distance,
        "hidden_act": activation_name(shape.hidden_act),
        "pooler_hidden_act": activation_name(shape.pooler or Activation.gelu),
        "pooler_hidden_size": shape.hidden_size,
        "pooler_dropout": 0,
        "cls_dropout": shape.classifier_dropout,
    }
    later = {
        "position_buckets": shape.position_buckets or -1,
        "share_att_key": shape.share_position_projections,
        "norm_rel_ebd": "layer_norm" if shape.norm_relative_embeddings else "none",
    }
    return config_json | later if family == "deberta-v2" else config_json


def publish(state: dict[str, Tensor], config: EncoderConfig, family: str) -> tuple[dict[str, Tensor], list[str]]:
    """Under published names, and our names that have none."""
    tensors, homeless = unrenamed(state, LAYOUTS[family])
    return (_together(tensors, config) if family == "deberta" else tensors), homeless


def _together(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """The other way of `_apart`."""
    tensors = {}
    for name, value in state.items():
        projection = re.fullmatch(r"(.+\.self)\.(query|key|value)_proj\.(weight|bias)", name)
        if not projection:
            tensors[name] = value
        elif projection[3] == "bias":
            tensors[f"{projection[1]}.{BIASES[projection[2]]}"] = value
        elif projection[2] == "query":
            parts = [state[f"{projection[1]}.{part}_proj.weight"] for part in ("query", "key", "value")]
            heads = [part.view(config.num_attention_heads, config.head_width, config.hidden_size) for part in parts]
            tensors[f"{projection[1]}.in_proj.weight"] = torch.stack(heads, dim=1).flatten(0, 2)
    return tensors
