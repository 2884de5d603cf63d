"""Which keys of a config the model reads that is built from it; without torch, so that a command can refuse early."""

from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from typing import Any

from harness.models.added import class_of
from harness.models.config import NOT_NULL, OF_HEADS, EncoderConfig

NEEDS: dict[str, dict[str, Any]] = {field.name: field.metadata.get("needs", {}) for field in fields(EncoderConfig)}
"""Key -> other keys with the values that it needs to be read."""


def keys_read(config: EncoderConfig) -> frozenset[str]:
    """All that the encoder, its classifiers and its masked-LM head read, or that limits the length of a text."""
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
"""What follows -> the keys that it follows from."""


def built(config: EncoderConfig) -> dict[str, Any]:
    """What a model is built from: what follows from its keys in place of these, without what nothing reads.

    Two configs are one model under two names where this is equal.
    """
    read = {key: getattr(config, key) for key in keys_read(config)}
    sees_all = 2 * (config.longest_text - 1)  # a window of that width
    windows = [window if (window or sees_all) < sees_all else None for window in map(config.window_of, range(config.depth))]
    follows = {name: windows if name == "windows" else getattr(config, name) for name in RULED}
    follows = {name: follows[name] for name, keys in RULED.items() if read.keys() & {*keys}}
    stated = {"classifier_dropout": config.hidden_dropout_prob, "rotary_global_theta": config.rotary_theta}
    unread = [*(key for keys in RULED.values() for key in keys)]
    unread += ["sharing"] if config.groups == config.depth else []
    unread += ["global_tokens"] if not any(windows) else []
    values = {key: stated.get(key) if value is None else value for key, value in read.items() if key not in unread}
    return values | follows


def unmet(config: EncoderConfig, key: str) -> dict[str, Any]:
    """What the key needs and this config does not have."""
    missing = {other: values for other, values in NEEDS[key].items() if not _is_met(getattr(config, other), values)}
    if config.attention is not None and key in OF_HEADS:
        missing |= {} if key in getattr(class_of("attention", config.attention), "reads", OF_HEADS) else {"attention": (None,)}
    return missing


def _is_met(value: object, allowed: Any) -> bool:
    return value is not None if allowed is NOT_NULL else value in allowed


def refuse_unread(config: EncoderConfig, changed: Iterable[str]) -> None:
    """ValueError for the first of the changed keys that the model does not read: it would be another variant by name alone.

    Keys that are not of the encoder are left out.
    """
    for key in changed:
        missing = unmet(config, key) if key in NEEDS else {}
        if missing:
            reasons = " and ".join(_reason(other, values, getattr(config, other)) for other, values in missing.items())
            raise ValueError(f"model.{key}={typed(getattr(config, key))} is read by nothing in this model: it needs {reasons}")


def _reason(key: str, allowed: Any, now: object) -> str:
    if allowed is NOT_NULL:
        return f"a model.{key} (now null)"
    return f"model.{key}={' or '.join(sorted(map(typed, allowed)))} (now {typed(now)})"


def typed(value: object) -> str:
    """As on the command line."""
    if isinstance(value, Enum):
        return str(value.value)
    return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
