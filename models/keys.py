"""Which keys of a config the model reads that is built from it; without torch, so that a command can refuse early."""

from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from typing import Any

from models.config import NOT_NULL, EncoderConfig

NEEDS: dict[str, dict[str, Any]] = {field.name: field.metadata.get("needs", {}) for field in fields(EncoderConfig)}
"""Key -> other keys with the values that it needs to be read."""


def keys_read(config: EncoderConfig) -> frozenset[str]:
    """All that the encoder, its classifiers and its masked-LM head read, or that limits the length of a text."""
    return frozenset(key for key in NEEDS if not unmet(config, key))


def unmet(config: EncoderConfig, key: str) -> dict[str, Any]:
    """What the key needs and this config does not have."""
    return {other: values for other, values in NEEDS[key].items() if not _is_met(getattr(config, other), values)}


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
