"""The one kind of error that a user sees: one line, no traceback."""

import difflib
from collections.abc import Iterable


class ReportError(Exception):
    """What was given, what was expected and the valid choices."""


def unknown(kind: str, name: str, choices: Iterable[str], near: list[str] | None = None) -> ReportError:
    """The error for a name that does not exist: it lists the choices and the nearest of them.

    `near` are better suggestions than those by spelling.
    """
    names = list(choices)
    near = difflib.get_close_matches(name, names, n=1) if near is None else near
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ReportError(f"unknown {kind} {name!r}{hint}; choices: {', '.join(names) or 'none'}")
