"""Declarations of config fields: role, range, when a key is read; and the one check of all ranges."""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any

MOST = 1e9
"""Limit of a number that states none: more than any run uses, and few enough for every library."""

LARGEST_SEED = 2**32 - 1
"""The largest seed that every library takes."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """The range of a number; `limit` refuses absurd values and is named only if one exceeds it."""

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


class Role(Enum):
    """How a key affects the results of a run; keys without a role have that of their section."""

    arm = "arm"  # what is compared
    condition = "condition"  # must agree between compared runs
    seed = "seed"  # distinguishes the seeds of an arm
    name = "name"  # names runs, or says where results go and how a command ends
    place = "place"  # where content is; the hash of the content is recorded
    neutral = "neutral"  # no effect on results
    derived = "derived"  # follows from the tokenizer, or only adds files; compared runs may differ in it


class Refused(Enum):
    """Where a key that no run of a command reads is an error."""

    swept = "swept"  # where the command sweeps it, because it would name arms that are equal
    typed = "typed"  # and where the command sets it
    everywhere = "everywhere"  # and where a file gives it another value than its default


@dataclass(frozen=True)
class When:
    """A condition under which a key is read."""

    holds: Callable[[Any, Any], object]  # of the config of the run, and of the section that has the key
    why: str  # what no run does where it does not hold, such as `pretrains`
    choice: str  # what makes it hold; `{section}` is the name of the section
    refused: Refused = Refused.typed


ALWAYS: tuple[When, ...] = ()
"""A key that is read even where its section is not."""


def option(
    default: Any,
    read: When | tuple[When, ...] | None = None,
    *,
    role: Role | None = None,
    needs: dict[str, Any] | None = None,
    earlier: Any = "",
    count: int | None = None,
    different: bool = False,
    **bounds: float,
) -> Any:
    """A field that declares more about its key than a default, which for a section is its class.

    `role`, `read`: None for those of its section. `needs`: other keys of an encoder that it is read with (models/keys.py).
    `earlier`: the value of records that lack the key, `...` for the default; empty for a key that all records have.
    Bounds are those of a number that is not None, or of each number of a list, which has `count` of them unless None, and no
    two the same if `different`.
    """
    stated = {"role": role, "needs": needs or {}, "earlier": earlier, "count": count, "different": different}
    stated["read"] = (read,) if isinstance(read, When) else read
    if bounds:
        stated["range"] = Range(**bounds)
    if isinstance(default, list | type):
        return field(default_factory=default if isinstance(default, type) else default.copy, metadata=stated)
    return field(default=default, metadata=stated)


count = functools.partial(option, at_least=1)
"""A field of how many there are: 1 or more."""

added = functools.partial(option, earlier=...)
"""A field of a key that records of earlier versions lack, whose runs have its default."""

positive = functools.partial(option, above=0)
"""A field of a number above 0."""

not_negative = functools.partial(option, at_least=0)
"""A field of a number that is 0 or more."""

share = functools.partial(option, above=0, at_most=1)
"""A field of a share, which may be the whole."""

proper_share = functools.partial(option, above=0, below=1)
"""A field of a share that is not the whole."""

any_seed = functools.partial(option, at_least=0, limit=LARGEST_SEED)
"""A field of a seed."""

_ROLES = (Role.place, Role.name, Role.condition, Role.neutral)
place, naming, condition, neutral = (functools.partial(option, role=role) for role in _ROLES)
"""Fields of these roles."""


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
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number or (isinstance(value, list) and {"range", "count"} <= metadata.keys()):
            yield prefix + name, value, metadata
        elif is_dataclass(type(value)):
            yield from _values(value, f"{prefix}{name}.")


@functools.cache
def _fields(kind: Any) -> list[tuple[str, Any]]:
    """Names and metadata; a sweep reads those of each class thousands of times."""
    return [(one.name, one.metadata) for one in fields(kind)]
