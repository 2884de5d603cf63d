"""Classes of other packages: model.attention=NAME chooses the entry point `attention.NAME` of the group `harness.encoders`.

Nothing is imported where no such key is set.
"""

from collections.abc import Callable
from typing import Any

from harness import extensions
from harness.errors import InputError, unknown

GROUP = "harness.encoders"


def class_of(key: str, name: str) -> Callable[..., Any]:
    """The class; InputError where no package adds it, or it cannot be imported, or is no module that counts its FLOPs."""
    points = {
        point.removeprefix(f"{key}."): of for point, of in extensions.declared(GROUP).items() if point.startswith(f"{key}.")
    }
    if name not in points:
        raise unknown(key, name, points, f"model.{key}")
    point = points[name]
    loaded = extensions.load(point, type)
    if not all(callable(getattr(loaded, method, None)) for method in ("forward", "flops")):
        raise InputError(f"{GROUP}: {point.name} = {point.value} must be a torch.nn.Module with forward and flops(length)")
    return loaded
