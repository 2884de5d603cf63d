"""A wrong input is reported in one line: the value, what was expected, and which key to change."""

import difflib
import errno
import re
from collections.abc import Iterable


class InputError(ValueError):
    """A wrong input; its text is the one line that the user reads, and the exit code is 2."""


def unknown(kind: str, name: object, choices: Iterable[str], key: str, near: list[str] | None = None) -> InputError:
    """The error for a name that is not among `choices`: nearest name, all choices, and the key to change.

    `near` are better suggestions than those by spelling.
    """
    known = sorted(on_one_line(str(choice)) for choice in choices)
    if near is None:
        near = difflib.get_close_matches(str(name), known, n=1)
    hint = f" did you mean {' or '.join(map(repr, near))}?" if near else ""
    return InputError(f"unknown {kind} {str(name)!r};{hint} choices for `{key}`: {', '.join(known) or 'none'}")


def on_one_line(text: str) -> str:
    """The text, with what a terminal would not print, such as a line break, as Python writes it."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def is_disk_full(error: BaseException) -> bool:
    """Whether an error says that there is no space; of `tokenizers`, `safetensors` and numpy it lacks the system's number."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return re.search(r"No space left on device|\(os error 28\)|\d+ requested and \d+ written", str(error)) is not None
