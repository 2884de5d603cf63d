"""DeBERTa checkpoints, model_type deberta (arXiv:2006.03654) and deberta-v2, which v3 uses too (arXiv:2111.09543)."""

import re

from torch import Tensor

from models.config import EncoderConfig, Position
from models.huggingface import activation

SAME = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
)
"""Keys that have one name and one meaning in both."""

SIZES = {
    "deberta": {
        "vocab_size": 50265,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
    "deberta-v2": {
        "vocab_size": 128100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
    },
}
"""What a config.json of each model_type means where it is silent."""

DEFAULTS = {"type_vocab_size": 0, "layer_norm_eps": 1e-7}
"""The same for both, where BERT's value is another."""

ELSEWHERE = ("lm_predictions.", "mask_predictions.", "cls.", "lm_head.", "deberta.embeddings.position_")
"""Tensors of pretraining heads, and a table of positions that published checkpoints hold and do not use."""

LAYER = {
    "attention.self.q_bias": "attentions.{}.attention.query.bias",
    "attention.self.v_bias": "attentions.{}.attention.value.bias",
    "attention.self.pos_proj.": "attentions.{}.attention.position_key.",
    "attention.self.pos_q_proj.": "attentions.{}.attention.position_query.",
    "attention.self.query_proj.": "attentions.{}.attention.query.",
    "attention.self.key_proj.": "attentions.{}.attention.key.",
    "attention.self.value_proj.": "attentions.{}.attention.value.",
    "attention.self.pos_key_proj.": "attentions.{}.attention.position_key.",
    "attention.self.pos_query_proj.": "attentions.{}.attention.position_query.",
    "attention.output.dense.": "attentions.{}.attention.output.",
    "attention.output.LayerNorm.": "attentions.{}.norm.",
    "intermediate.dense.": "feed_forwards.{}.feed_forward.input.",
    "output.dense.": "feed_forwards.{}.feed_forward.output.",
    "output.LayerNorm.": "feed_forwards.{}.norm.",
}
"""Beginnings of names in a layer, theirs and ours with the number of the layer left open."""

OUTSIDE = {
    "deberta.embeddings.word_embeddings.": "encoder.embeddings.token_embedding.",
    "deberta.embeddings.token_type_embeddings.": "encoder.embeddings.type_embedding.",
    "deberta.embeddings.LayerNorm.": "encoder.embeddings.norm.",
    "deberta.encoder.rel_embeddings.": "encoder.layers.relative.embedding.",
    "deberta.encoder.LayerNorm.": "encoder.layers.relative.norm.",
    "pooler.dense.": "pooler.dense.",
    "classifier.": "head.",
}
"""Beginnings of names outside the layers."""


def config(given: dict) -> EncoderConfig:
    """Ours for a config.json; ValueError naming the key for what ours cannot express."""
    family = given.get("model_type")
    if family not in SIZES:
        raise ValueError(f"model_type={family} is none of {', '.join(SIZES)}")
    later = family == "deberta-v2"
    values = {**DEFAULTS, **SIZES[family], **{key: given[key] for key in SAME if given.get(key) is not None}}
    farthest, buckets = given.get("max_relative_positions", -1), given.get("position_buckets", -1) if later else -1
    ours = EncoderConfig(
        **values,
        position=Position.disentangled,
        max_relative_distance=farthest if farthest > 0 else values.get("max_position_embeddings", 512),
        position_buckets=buckets if buckets > 0 else None,
        share_position_projections=later and given.get("share_att_key", False),
        norm_relative_embeddings=later and "layer_norm" in given.get("norm_rel_ebd", "none").lower(),
        hidden_act=activation(given, "hidden_act", "gelu"),
        pooler=activation(given, "pooler_hidden_act", "gelu"),
        classifier_dropout=given.get("cls_dropout"),
    )
    _refuse(given, ours, later)
    return ours


def _refuse(given: dict, ours: EncoderConfig, later: bool) -> None:
    terms = given.get("pos_att_type") or []
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    expressible = {
        "relative_attention": given.get("relative_attention", False),
        "position_biased_input": not given.get("position_biased_input", True),
        "pos_att_type": sorted(term.strip() for term in terms) == ["c2p", "p2c"],
        "share_att_key": not later or ours.share_position_projections or ours.position_buckets is not None,
        "talking_head": not given.get("talking_head", False),
        "conv_kernel_size": given.get("conv_kernel_size", 0) <= 0,
        "embedding_size": given.get("embedding_size", ours.hidden_size) == ours.hidden_size,
        "attention_head_size": given.get("attention_head_size", ours.head_size) == ours.head_size,
        "pooler_hidden_size": given.get("pooler_hidden_size", ours.hidden_size) == ours.hidden_size,
        "pooler_dropout": given.get("pooler_dropout", 0) == 0,
    }
    for key, fine in expressible.items():
        if not fine:
            raise ValueError(f"{key}={given.get(key, 'left out')} has no counterpart here")


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Published names -> ours, of a bare encoder or of a classifier; ValueError for a name that is neither's."""
    translated = {}
    for name, value in state.items():
        full = f"deberta.{name}" if name.startswith(("embeddings.", "encoder.")) else name
        if full.startswith(ELSEWHERE):
            continue
        fused = re.fullmatch(r"deberta\.encoder\.layer\.(\d+)\.attention\.self\.in_proj\.weight", full)
        if fused:
            translated.update(_unfused(f"encoder.layers.attentions.{fused[1]}.attention", value, config))
        else:
            translated[_renamed(full)] = value
    return translated


def _renamed(name: str) -> str:
    layer = re.match(r"deberta\.encoder\.layer\.(\d+)\.", name)
    known = {f"{layer[0]}{old}": f"encoder.layers.{new.format(layer[1])}" for old, new in LAYER.items()} if layer else OUTSIDE
    for old, new in known.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    raise ValueError(f"{name} is no tensor of a DeBERTa classifier")


def _unfused(attention: str, weight: Tensor, config: EncoderConfig) -> dict[str, Tensor]:
    """(3 D, D) with query, key and value of one head after those of another -> three (D, D)."""
    parts = weight.view(config.num_attention_heads, 3, config.head_size, config.hidden_size).unbind(1)
    names = ("query", "key", "value")
    return {f"{attention}.{name}.weight": part.flatten(0, 1).contiguous() for name, part in zip(names, parts, strict=True)}
