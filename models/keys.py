"""Which keys of a config the model reads that is built from it, and what the weights of one shape can become (models/derive.py
carries that out); without torch, so that a command can refuse early.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from enum import Enum
from typing import Any

from harness.models.config import NOT_NULL, OF_FOREIGN, OF_HEADS, Body, EncoderConfig, Position, class_of

NEEDS: dict[str, dict[str, Any]] = {field.name: field.metadata.get("needs", {}) for field in fields(EncoderConfig)}
"""Key -> other keys with the values that it needs to be read."""


def keys_read(config: EncoderConfig) -> frozenset[str]:
    """Keys that the encoder, its classifiers or its masked-LM head read, or that limit the length of a text."""
    return frozenset(key for key in NEEDS if not unmet(config, key))


RULED = {
    "embedding_width": ("embedding_size", "embedding_fraction"),
    "depth": ("num_hidden_layers", "depth_fraction"),
    "groups": ("num_hidden_groups",),
    "token_scale": ("embedding_scale",),
    "head_width": ("head_size",),
    "product_scale": ("base_head_size", "attention_scale"),
    "feed_forward_width": ("intermediate_size", "feed_forward_size"),
    "windows": ("attention_window", "global_layer_every"),
}
"""Derived key -> the keys that it follows from."""


def built(config: EncoderConfig) -> dict[str, Any]:
    """The values that a model is built from: derived ones in place of their keys, without keys that nothing reads.

    Two configs with equal values are one model under two names.
    """
    read = {key: getattr(config, key) for key in keys_read(config)}
    sees_all = 2 * (config.longest_text - 1)  # a window of that width
    windows = [window if (window or sees_all) < sees_all else None for window in map(config.window_of, range(config.depth))]
    if config.encoder is not None:
        return read
    follows = {name: windows if name == "windows" else getattr(config, name) for name in RULED}
    follows = {name: follows[name] for name, keys in RULED.items() if read.keys() & {*keys}}
    stated = {"classifier_dropout": config.hidden_dropout_prob, "rotary_global_theta": config.rotary_theta}
    unread = [*(key for keys in RULED.values() for key in keys)]
    unread += ["sharing"] if config.groups == config.depth else []
    unread += ["global_tokens"] if not any(windows) else []
    return {key: stated.get(key) if value is None else value for key, value in read.items() if key not in unread} | follows


def unmet(config: EncoderConfig, key: str) -> dict[str, Any]:
    """Conditions of the key that this config does not meet."""
    missing = {}
    if config.encoder is not None and key not in OF_FOREIGN:
        return {"encoder": (None,)}
    for other, values in NEEDS[key].items():
        value = getattr(config, other)
        if value is None if values is NOT_NULL else value not in values:
            missing[other] = values
    if config.attention is not None and key in OF_HEADS:
        missing |= {} if key in getattr(class_of("attention", config.attention), "reads", OF_HEADS) else {"attention": (None,)}
    return missing


def refuse_unread(config: EncoderConfig, changed: Iterable[str]) -> None:
    """ValueError for the first changed key that the model does not read, as the variant would differ in name only.

    Keys of other sections are ignored.
    """
    for key in changed:
        missing = unmet(config, key) if key in NEEDS else {}
        if missing:
            reasons = " and ".join(_reason(other, values, getattr(config, other)) for other, values in missing.items())
            raise ValueError(f"model.{key}={typed(getattr(config, key))} has no effect in this model: it needs {reasons}")


def _reason(key: str, allowed: Any, now: object) -> str:
    if allowed is NOT_NULL:
        return f"a model.{key} (now null)"
    return f"model.{key}={' or '.join(sorted(map(typed, allowed)))} (now {typed(now)})"


def typed(value: Any) -> str:
    """A plain value as it is typed on the command line."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list):
        return f"[{','.join(map(typed, value))}]"
    return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)


OF_HEAD = (
    *("pooling", "vector_pooling", "pooler", "pooler_norm", "pooler_bias", "classifier_bias", "classifier_dropout"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
"""Keys of the head, which is new, and of parts without weights."""

UNSHAPED = ("vocab_size", "pad_token_id", "initializer_range", "init")
"""Keys that no tensor depends on here: the tokenizer's, and initial values."""

OWN_ATTENTION = (Position.disentangled, Position.relative)
BY_HEAD = (*OWN_ATTENTION, Position.alibi, Position.bucketed)
"""Positions whose layers have tensors of their own, and those that differ from head to head."""

KEYS = {
    "tokens that are seen": ("attention_window", "global_tokens", "global_layer_every", "causal"),
    "layers": ("num_hidden_layers", "depth_fraction", "num_hidden_groups", "sharing"),
    "heads": ("num_attention_heads", "head_size"),
    "feed-forward": ("hidden_act", "gated_feed_forward", "intermediate_size", "feed_forward_size"),
    "positions": ("position", "max_position_embeddings", "rotary_theta", "position_buckets", "max_relative_distance"),
    "types": ("type_vocab_size",),
    "embeddings": ("embedding_size", "embedding_fraction"),
}
"""Kind of change -> its keys, in the order in which changes are carried out; for the first kind the tensors are the same."""


def refuse_underived(source: EncoderConfig, target: EncoderConfig, layers: Sequence[int] | None = None) -> None:
    """ValueError naming the keys in which the shapes differ and that cannot derive."""
    keys = [field.name for field in fields(EncoderConfig) if field.name not in (*OF_HEAD, *UNSHAPED)]
    different = [key for key in keys if getattr(source, key) != getattr(target, key)]
    derivable = {key for keys in KEYS.values() for key in keys}
    problems = [f"model.{key}" for key in different if key not in derivable]
    smaller = {
        "num_hidden_layers": (target.depth, source.depth),
        "num_attention_heads": (target.num_attention_heads, source.num_attention_heads),
        "intermediate_size": (target.feed_forward_width, source.feed_forward_width),
        "embedding_size": (target.embedding_width, source.embedding_width),
        "type_vocab_size": (target.type_vocab_size, source.type_vocab_size),
    }
    problems += [
        f"model.{key} above that of the weights ({here} > {there})" for key, (here, there) in smaller.items() if here > there
    ]
    factorises, relative = target.embedding_width != source.embedding_width, source.position is Position.relative
    fewer_heads = target.num_attention_heads != source.num_attention_heads
    increasing = layers is not None and list(layers) == sorted(set(layers)) and set(layers) <= {*range(source.depth)}
    refused = {
        f"model.body={source.body.value}": bool(different) and source.body is not Body.transformer,
        f"model.head_size={target.head_width} (that of the weights is {source.head_width})": (
            target.head_width != source.head_width
        ),
        "model.embedding_size of a table that is factorised already": (
            factorises and source.embedding_width != source.hidden_size
        ),
        "model.embedding_size where token vectors are scaled (position=sinusoidal, embedding_scale)": (
            factorises and (source.token_scale, target.token_scale) != (1, 1)
        ),
        "model.embedding_size=1, of which a norm leaves nothing": target.embedding_width < min(2, source.embedding_width),
        "model.embedding_size with position=relative, whose queries are embedded, too": factorises and relative,
        f"model.num_attention_heads with position={target.position.value}, which differs from head to head": (
            fewer_heads and target.position in BY_HEAD
        ),
        "model.num_attention_heads with model.global_tokens, whose own projections stay whole": (
            fewer_heads and bool(source.global_tokens)
        ),
        f"model.position={target.position.value} from {source.position.value}: their layers have other tensors": (
            target.position is not source.position and bool({target.position, source.position} & {*OWN_ATTENTION})
        ),
        "model.causal with position=relative, which has tensors for pairs of texts unless it is causal": (
            target.causal != source.causal and relative
        ),
        "model.gated_feed_forward without feed_forward_bias": (
            target.gated_feed_forward and not source.gated_feed_forward and not target.feed_forward_bias
        ),
        "model.gated_feed_forward=false": source.gated_feed_forward and not target.gated_feed_forward,
        f"model.type_vocab_size={target.type_vocab_size}": target.type_vocab_size not in (0, source.type_vocab_size),
        f"model.keep_layers={layers and [*layers]}: expected {target.depth} of 0 to {source.depth - 1}, in order": (
            layers is not None and not (increasing and len(layers) == target.depth)
        ),
    }
    problems += [problem for problem, holds in refused.items() if holds]
    if problems:
        raise ValueError(f"cannot derive from these weights: {'; '.join(problems)}")


def spaced(depth: int, number: int) -> list[int]:
    """So many layers, evenly spaced from the first to the last."""
    return [round(place * (depth - 1) / max(1, number - 1)) for place in range(number)]


def with_own_head_size(shape: EncoderConfig, changes: dict[str, Any]) -> EncoderConfig:
    """The shape with changes; the size of a head stays if their number changes."""
    if changes.get("num_attention_heads", shape.num_attention_heads) != shape.num_attention_heads:
        changes = {"head_size": shape.head_width, **changes}
    return replace(shape, **changes)
