"""The one kind of error that reports tell a person about: one line, no traceback."""

import difflib
from collections.abc import Iterable


class ReportError(Exception):
    """What was given, what was expected and the valid choices, in words for the person who asked."""


def unknown(kind: str, given: str, choices: Iterable[str]) -> ReportError:
    """The error for a name that does not exist: it lists the choices and the nearest of them."""
    names = list(choices)
    near = difflib.get_close_matches(given, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ReportError(f"unknown {kind} {given!r}{hint}; choices: {', '.join(names) or 'none'}")
