"""A wrong input is reported in one line: what was given, what was expected, which key to change."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something the user gave cannot be used; its text is the one line they read, and the exit code is 2."""


def unknown(kind: str, given: object, choices: Iterable[str], key: str, near: list[str] | None = None) -> InputError:
    """The error for a name that is not among `choices`: nearest name, all choices, and the key to change.

    `near` is what may be meant, where that is known better than from the spelling.
    """
    names = sorted(str(choice) for choice in choices)
    if near is None:
        near = difflib.get_close_matches(str(given), names, n=1)
    hint = f" did you mean {' or '.join(map(repr, near))}?" if near else ""
    return InputError(f"unknown {kind} {str(given)!r};{hint} choices for `{key}`: {', '.join(names) or 'none'}")
