"""ModernBERT (arXiv:2412.13663)."""

from torch import Tensor

from harness.models.choices import NormPlace, Pooling, Position
from harness.models.config import EncoderConfig
from harness.models.huggingface.names import ConfigJson, Names, activation, read_keys, refuse, renamed

NAMES = Names(
    prefix=r"model\.",
    modules={
        r"embeddings\.tok_embeddings": "encoder.embeddings.token_embedding",
        r"embeddings\.norm": "encoder.embeddings.norm",
        r"layers\.(\d+)\.attn\.Wqkv": r"encoder.layers.attentions.\1.attention.query_key_value",
        r"layers\.(\d+)\.attn\.Wo": r"encoder.layers.attentions.\1.attention.output",
        r"layers\.(\d+)\.attn_norm": r"encoder.layers.attentions.\1.norm",
        # The half that goes through the non-linearity comes first there and here.
        r"layers\.(\d+)\.mlp\.Wi": r"encoder.layers.feed_forwards.\1.feed_forward.input",
        r"layers\.(\d+)\.mlp\.Wo": r"encoder.layers.feed_forwards.\1.feed_forward.output",
        r"layers\.(\d+)\.mlp_norm": r"encoder.layers.feed_forwards.\1.norm",
        r"final_norm": "encoder.layers.norm",
        r"head\.dense": "pooler.dense",
        r"head\.norm": "pooler.norm",
        r"classifier": "head",
    },
    ignored=r"^decoder\.",
)
THETA = {"full_attention": ("global_rope_theta", 160000.0), "sliding_attention": ("local_rope_theta", 10000.0)}
"""Kind of layer -> the older key of its theta, and its default."""


KEYS = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_position_embeddings",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "feed_forward_size": "intermediate_size",
    "feed_forward_bias": "mlp_bias",
    "attention_bias": "attention_bias",
    "pad_token_id": "pad_token_id",
    "norm_bias": "norm_bias",
    "layer_norm_eps": "norm_eps",
    "initializer_range": "initializer_range",
    "pooler_bias": "classifier_bias",
    "classifier_dropout": "classifier_dropout",
}
"""Our key -> key of config.json."""

DEFAULTS = {
    "vocab_size": 50368,
    "max_position_embeddings": 8192,
    "num_hidden_layers": 22,
    "intermediate_size": 1152,
    "mlp_bias": False,
    "attention_bias": False,
    "pad_token_id": 50283,
    "norm_bias": False,
    "norm_eps": 1e-5,
    "classifier_bias": False,
    "classifier_dropout": 0.0,
}
"""What a config.json means where it is silent, and BERT's value is another."""


def config(config_json: ConfigJson) -> EncoderConfig:
    """ValueError naming a key that ours cannot express."""
    refuse(config_json, {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_dropout": 0.0})
    return EncoderConfig(
        **read_keys(DEFAULTS | config_json, KEYS),
        gated_feed_forward=True,
        hidden_act=activation(config_json, "hidden_activation", "gelu"),
        attention_window=config_json.get("local_attention", 128) // 2 * 2,
        global_layer_every=_global_layer_every(config_json),
        position=Position.rotary,
        rotary_theta=_theta(config_json, "sliding_attention"),
        rotary_global_theta=_theta(config_json, "full_attention"),
        type_vocab_size=0,
        norm_place=NormPlace.pre,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pooling=Pooling(config_json.get("classifier_pooling", "cls")),
        pooler=activation(config_json, "classifier_activation", "gelu"),
        pooler_norm=True,
    )


def _global_layer_every(config_json: ConfigJson) -> int:
    """Distance between layers that see everything."""
    kinds = config_json.get("layer_types")
    if kinds is None:
        return config_json.get("global_attn_every_n_layers", 3)
    seeing = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"]
    every = seeing[1] if len(seeing) > 1 else len(kinds)
    if seeing != list(range(0, len(kinds), every)):
        raise ValueError(f"layer_types={kinds} cannot be expressed: only full_attention in layers 0, n, 2n, ... can")
    return every


def _theta(config_json: ConfigJson, kind: str) -> float:
    old_key, default = THETA[kind]
    rope = (config_json.get("rope_parameters") or {}).get(kind) or {}
    refuse(rope, {"rope_type": "default"})
    refuse(config_json, {"rope_scaling": None})
    return rope.get("rope_theta") or config_json.get(old_key) or default


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names."""
    return renamed(state, NAMES)
