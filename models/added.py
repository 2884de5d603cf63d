"""Classes of other packages: model.attention=NAME chooses the entry point `attention.NAME` of the group `harness.encoders`.

Without torch, so that a command can refuse early.
"""

from collections.abc import Callable
from typing import Any

from harness import extensions
from harness.errors import InputError, unknown

GROUP = "harness.encoders"


def refuse_unknown(key: str, name: str) -> None:
    """InputError where no installed package adds this attention, feed_forward or layers; nothing is imported."""
    names = {point.removeprefix(f"{key}.") for point in extensions.names(GROUP) if point.startswith(f"{key}.")}
    if name not in names:
        raise unknown(key, name, names, f"model.{key}")


def class_of(key: str, name: str) -> Callable[..., Any]:
    """The class; InputError where it cannot be imported, or is no module that counts its FLOPs."""
    refuse_unknown(key, name)
    point = extensions.declared(GROUP)[f"{key}.{name}"]
    loaded = extensions.load(point, type)
    if not all(callable(getattr(loaded, method, None)) for method in ("forward", "flops")):
        raise InputError(f"{GROUP}: {point.name} = {point.value} must be a torch.nn.Module with forward and flops(length)")
    return loaded
