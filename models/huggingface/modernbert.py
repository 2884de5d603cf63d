"""ModernBERT (arXiv:2412.13663)."""

from torch import Tensor

from models.config import EncoderConfig, NormPlace, Pooling, Position
from models.huggingface.names import Names, activation, refuse, renamed

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


def config(config_json: dict) -> EncoderConfig:
    """ValueError naming a key that ours cannot express."""
    refuse(config_json, {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_dropout": 0.0})
    return EncoderConfig(
        vocab_size=config_json.get("vocab_size", 50368),
        max_position_embeddings=config_json.get("max_position_embeddings", 8192),
        hidden_size=config_json.get("hidden_size", 768),
        num_hidden_layers=config_json.get("num_hidden_layers", 22),
        num_attention_heads=config_json.get("num_attention_heads", 12),
        feed_forward_size=config_json.get("intermediate_size", 1152),
        gated_feed_forward=True,
        hidden_act=activation(config_json, "hidden_activation", "gelu"),
        feed_forward_bias=config_json.get("mlp_bias", False),
        attention_bias=config_json.get("attention_bias", False),
        attention_window=config_json.get("local_attention", 128) // 2 * 2,
        global_layer_every=_global_layer_every(config_json),
        position=Position.rotary,
        rotary_theta=_theta(config_json, "sliding_attention"),
        rotary_global_theta=_theta(config_json, "full_attention"),
        type_vocab_size=0,
        pad_token_id=config_json.get("pad_token_id", 50283) or 0,
        norm_place=NormPlace.pre,
        norm_bias=config_json.get("norm_bias", False),
        layer_norm_eps=config_json.get("norm_eps", 1e-5),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=config_json.get("initializer_range", 0.02),
        pooling=Pooling(config_json.get("classifier_pooling", "cls")),
        pooler=activation(config_json, "classifier_activation", "gelu"),
        pooler_bias=config_json.get("classifier_bias", False),
        pooler_norm=True,
        classifier_dropout=config_json.get("classifier_dropout", 0.0),
    )


def _global_layer_every(config_json: dict) -> int:
    """Distance between layers that see everything."""
    kinds = config_json.get("layer_types")
    if kinds is None:
        return config_json.get("global_attn_every_n_layers", 3)
    seeing = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"]
    every = seeing[1] if len(seeing) > 1 else len(kinds)
    if seeing != list(range(0, len(kinds), every)):
        raise ValueError(f"layer_types={kinds} cannot be expressed: only full_attention in layers 0, n, 2n, ... can")
    return every


def _theta(config_json: dict, kind: str) -> float:
    old_key, default = THETA[kind]
    rope = (config_json.get("rope_parameters") or {}).get(kind) or {}
    refuse(rope, {"rope_type": "default"})
    refuse(config_json, {"rope_scaling": None})
    return rope.get("rope_theta") or config_json.get(old_key) or default


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names."""
    return renamed(state, NAMES)
