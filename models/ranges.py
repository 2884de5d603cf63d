"""Ranges of the numbers in a config, beside their fields, and the one check of all of them."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

MOST = 1e9
"""Limit of a number that states none: more than any run uses, and few enough for every library."""

LARGEST_SEED = 2**32 - 1
"""The largest seed that every library takes."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """What a number may be; `limit` refuses absurd values and is named only where one exceeds it."""

    above: float = -math.inf
    at_least: float = -math.inf
    below: float = math.inf
    at_most: float = math.inf
    limit: float = MOST

    def has(self, number: float) -> bool:
        """Whether the number is finite and within the range."""
        inside = self.above < number < self.below and self.at_least <= number <= self.at_most
        return inside and abs(number) <= self.limit  # nothing is true of nan

    def expected(self, number: float) -> str:
        """What is expected in place of this number, such as `at least 0 and below 1`."""
        if math.inf > abs(number) > self.limit:
            return f"at most {self.limit:.15g}"
        if (self.at_least, self.at_most) == (0, 1):
            text = "between 0 and 1"
        else:
            bounds = {"above": self.above, "at least": self.at_least, "below": self.below, "at most": self.at_most}
            text = " and ".join(f"{name} {bound:.15g}" for name, bound in bounds.items() if math.isfinite(bound))
        return text if abs(number) < math.inf else f"a finite number{text and ' '}{text}"


def number(default: Any, *, needs: dict[str, Any] | None = None, **bounds: float) -> Any:
    """A field with a number of this range, or None; `needs`: other keys that it is read with (models/keys.py)."""
    return field(default=default, metadata={"range": Range(**bounds), "needs": needs or {}})


def numbers(*, count: int | None = None, different: bool = False, **bounds: float) -> dict[str, Any]:
    """Metadata of a field with a list of numbers of this range, `count` of them unless None, no two the same if `different`."""
    return {"range": Range(**bounds), "count": count, "different": different}


def refuse_out_of_range(config: Any, prefix: str = "") -> None:
    """ValueError for the first number of a dataclass, or of those below it, that is not finite or not in its range.

    The error names its key, which begins with the prefix.
    """
    for key, value, metadata in _values(config, prefix):
        allowed = metadata.get("range", Range())
        if isinstance(value, list):
            _refuse_list(key, value, metadata, allowed)
        elif not allowed.has(value):
            raise ValueError(f"{key}={value} must be {allowed.expected(value)}")


def _refuse_list(key: str, values: list[float], metadata: Any, allowed: Range) -> None:
    wrong = [value for value in values if not (isinstance(value, (int, float)) and allowed.has(value))]
    count, different = metadata.get("count"), metadata.get("different")
    if wrong or (count is not None and len(values) != count) or (different and len(set(values)) < len(values)):
        which = f"{count} numbers" if count else "different numbers" if different else "numbers"
        example = next((value for value in wrong if isinstance(value, (int, float))), 0)  # a list may have another one in it
        joint = ", each " if count else " of " if different else " "
        raise ValueError(f"{key}={values} must be {which}{joint}{allowed.expected(example)}")


def _values(config: Any, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """(key, value, metadata of its field) of every number and list of numbers."""
    kind: Any = type(config)
    for name, metadata in _fields(kind):
        value = getattr(config, name)
        if (isinstance(value, (int, float)) and not isinstance(value, bool)) or "count" in metadata:
            yield prefix + name, value, metadata
        elif is_dataclass(type(value)):
            yield from _values(value, f"{prefix}{name}.")


@functools.cache
def _fields(kind: Any) -> list[tuple[str, Any]]:
    """Names and metadata; a sweep reads those of each class thousands of times."""
    return [(one.name, one.metadata) for one in fields(kind)]
