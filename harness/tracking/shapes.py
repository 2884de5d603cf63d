"""What the files of runs and studies hold that is read again, as the types of their values, so that no reader checks its own.

A shape is a type, a list of the shape of every entry, an enumeration of names, or the shapes of keys: those that end in `?`
may be missing, `...` is any other key.
"""

import enum
import math
from typing import Any

from harness import paths, tags
from harness.tracking.states import State

SUMS = {...: [int]}
"""Name of a file -> its size and checksum."""

SHAPES: dict[str, Any] = {
    "run.json": {
        "attempt?": str,
        "name?": str,
        "started?": int,
        "tags?": {...: str},
        "parameters?": {...: str},
        "inputs?": dict,
        "files?": SUMS,
        f"{tags.END}?": {"state": State, "reason": str},
        f"{tags.RETRIES}?": list,
        f"{tags.PIECES}?": {...: int},
    },
    "result.json": {"status": State, "time?": int, "metrics": {...: float}, "steps?": {...: int}, "files?": SUMS},
    paths.PLAN: {
        ...: {"time": int, "folder": str, "runs": [{"folder": str, "title": str, "timed": bool, "needs": str | None}]}
    },
}
"""Name of a file -> what it holds."""


def misfit(value: Any, shape: Any, key: str = "") -> str | None:
    """What is wrong with the value, such as `its metrics.eval/score is no number`; None where it has the shape."""
    of = f"its {key}" if key else "its content"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{of} is no list"
        return next(filter(None, (misfit(one, shape[0], f"{key}[{place}]") for place, one in enumerate(value))), None)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{of} is no object"
        named = {name.rstrip("?"): one for name, one in shape.items() if name is not ...}
        missing = [name for name in shape if name is not ... and not name.endswith("?") and name not in value]
        if missing:
            return f"{of} has no {missing[0]}"
        pairs = ((f"{key}.{name}".lstrip("."), one, named.get(name, shape.get(...))) for name, one in value.items())
        return next(filter(None, (misfit(one, of, name) for name, one, of in pairs if of is not None)), None)
    if isinstance(shape, enum.EnumType):
        return None if value in list(shape) else f"{of} is none of {', '.join(shape)}"
    if shape is float:
        return None if type(value) in (int, float) and math.isfinite(value) else f"{of} is no finite number"
    fits = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    return None if fits else f"{of} is of another type"
