"""A wrong input is reported in one line: the value, what was expected, and which key to change."""

import contextlib
import difflib
import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

UNUSABLE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors of the system for a path that cannot be read or written."""

LONGEST = 160
"""Characters of a path in an error."""

FEW = 8
"""Choices that an error lists, if it also names the one that is probably meant."""

MOST = 20
"""Maximum number of mistakes printed together; the rest is counted."""


class InputError(ValueError):
    """A wrong input; its text is the one line that the user reads, and the exit code is 2."""


class SeveralMistakesError(InputError):
    """Several wrong inputs, one of `lines` each."""

    def __init__(self, lines: list[str]) -> None:
        numbered = [f"({number}) {line}" for number, line in enumerate(lines[:MOST], 1)]
        self.shown = numbered + ([f"and {len(lines) - MOST:,} more"] if len(lines) > MOST else [])
        super().__init__(f"{len(lines):,} mistakes: {'; '.join(self.shown)}")
        self.lines = lines


class Mistakes:
    """Collects independent wrong inputs to report them together; with `first_ends`, the first one is raised."""

    def __init__(self, first_ends: bool = False) -> None:
        self._lines: list[str] = []
        self._first_ends = first_ends

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """The block ends with its first mistake, which is kept for later."""
        try:
            yield
        except InputError as error:
            if self._first_ends:
                raise
            self._lines += error.lines if isinstance(error, SeveralMistakesError) else [str(error)]

    def refuse(self) -> None:
        """InputError for what has been collected; nothing without a mistake."""
        lines = list(dict.fromkeys(self._lines))
        if lines:
            raise InputError(lines[0]) if len(lines) == 1 else SeveralMistakesError(lines)


def checked(values: Iterable[Any], check: Callable[[int, Any], Any]) -> list[Any]:
    """`check(row, value)` of every row; InputError for all rows that it refuses."""
    mistakes, results = Mistakes(), []
    for row, value in enumerate(values):
        with mistakes.collected():
            results.append(check(row, value))
    mistakes.refuse()
    return results


def unknown(
    kind: str, name: object, choices: Iterable[str], key: str, near: list[str] | None = None, page: str = ""
) -> InputError:
    """The error for a name that is not among `choices`: nearest name, choices, and the key to change.

    `near` are better suggestions than those by spelling; with one, more than a few choices are left to a `page` of help.
    """
    names = sorted(on_one_line(str(choice)) for choice in choices)
    if near is None:
        near = difflib.get_close_matches(str(name), names, n=1) if re.search(r"\w", str(name)) else []
    hint = f" did you mean {' or '.join(map(repr, near))}?" if near else ""
    of = f"choices for `{key}`" if key else "choices"
    shown = f"all choices: {page}" if near and page and len(names) > FEW else f"{of}: {', '.join(names) or 'none'}"
    return InputError(f"unknown {kind} {str(name)!r};{hint} {shown}")


def some_of(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """`a, b and 3 more`: of more than `most` the first ones."""
    return between.join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def has_half_characters(text: str) -> bool:
    """Whether the text has a half of a surrogate pair alone, which no encoding writes."""
    return any("\ud800" <= character <= "\udfff" for character in text)


@contextlib.contextmanager
def refused_paths(words: Iterable[str]) -> Iterator[None]:
    """InputError for a path that no file system has, such as a name that is too long; with the word that names it, if any."""
    try:
        yield
    except OSError as error:
        if error.errno not in UNUSABLE or error.filename is None:
            raise
        path = os.fsdecode(error.filename)
        values = {word: (word.partition("=")[2] or word).strip("'\"") for word in words}
        named = [word for word, value in values.items() if f"/{value.strip('/')}/" in f"/{path.strip('/')}/"]
        name = on_one_line(max(named, key=lambda word: len(values[word]), default=path))
        short = name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}...{name[-LONGEST // 4 :]}"
        raise InputError(f"{short}: not a usable path ({error.strerror}): expected another path") from error


@contextlib.contextmanager
def refused_errors(what: str, expected: str = "") -> Iterator[None]:
    """InputError, `what (kind of error: reason)expected`, for whatever code or files of others raise in the block."""
    try:
        yield
    except InputError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of a library in Rust
            raise
        reason = on_one_line(" ".join(str(error).split()), 200)
        raise InputError(f"{what} ({type(error).__name__}: {reason}){expected}") from error


@contextlib.contextmanager
def writing(to: object, expected: str = "a folder") -> Iterator[None]:
    """InputError for a `to` that cannot be written, unless the disk is full, which another `to` does not fix."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise
        raise InputError(f"to={str(to)!r} cannot be written ({error.strerror or error}); expected {expected}") from error


def on_one_line(text: str, most: int | None = None) -> str:
    """The text, with what a terminal would not print, such as a line break or an escape, as Python writes it.

    Longer than `most` characters: the beginning and three dots.
    """
    cut = text if most is None or len(text) <= most else f"{text[:most]}..."
    return cut if cut.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in cut)


def is_disk_full(error: BaseException) -> bool:
    """Whether an error says that there is no space; errors of `tokenizers`, `safetensors`, numpy and MLflow have no number."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    said = r"No space left on device|\(os error 28\)|\d+ requested and \d+ written|database or disk is full"
    return re.search(said, str(error)) is not None


NO_MEMORY = ("allocate memory", "not enough memory", "out of memory", "bad_alloc", "MemoryError", "failed to map segment")
"""What torch, Python, C++ and the loader of libraries say when memory is refused."""


def says_no_memory(text: str) -> bool:
    """Whether what was printed, or an error with the name of its class, says that memory was refused."""
    return any(sign in text for sign in NO_MEMORY)


T = TypeVar("T")


def present(value: T | None) -> T:
    """The value, which an earlier check guarantees; ValueError for None."""
    if value is None:
        raise ValueError("a value is missing that an earlier check makes sure of")
    return value
