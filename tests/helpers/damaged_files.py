"""Damaged files of users, for fuzz tests: read, or one line that names the file or its key; never a traceback."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from fuzzing import ALL, changed, places
from hypothesis import strategies as st

from harness.errors import InputError


@dataclass(frozen=True)
class Kind:
    """A file of users: its sound content, what reads it, and files beside it."""

    name: str
    content: bytes
    read: Callable[[Path], object]
    beside: tuple[tuple[str, bytes], ...] = ()


noise = st.binary(max_size=8)

odd = st.sampled_from(
    [b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b'"', b"'", b"[" * 300, b"{" * 300, b"9" * 5000, b"\n\n", b"\xe2\x80\xa8"]
)

damages = st.lists(st.tuples(places, places, st.one_of(noise, odd, st.none())), min_size=1, max_size=3)


def damaged(content: bytes, drawn: list[tuple[float, float, bytes | None]]) -> bytes:
    """Parts of the content replaced, or, with None, all that follows cut off."""
    for begin, length, replacement in drawn:
        at = int(begin * len(content))
        rest = b"" if replacement is None else replacement + content[at + int(length * 9) :]
        content = content[:at] + rest
    return content


def refusal(kind: Kind, path: Path) -> str | None:
    try:
        kind.read(path)
    except InputError as error:
        return str(error)
    return None


def answered(kind: Kind, content: bytes, folder: Path) -> None:
    """Reads the content from a file; InputError must be one line that names the file or a key."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, beside in (*kind.beside, (kind.name, content)):
        (folder / name).write_bytes(beside)
    line = refusal(kind, folder / kind.name)
    named = (kind.name, str(folder), "corpus 'own'", "task 'own'", "task.")
    assert line is None or ("\n" not in line and any(name in line for name in named)), line
    assert sorted(path.name for path in folder.iterdir()) == sorted({kind.name, *dict(kind.beside)})


def examples(kind: str, share: int) -> int:
    """Of one kind, so that all kinds together have ALL."""
    return max(1, int(os.environ.get("FUZZ_EXAMPLES", ALL)) // share)


def bytes_of(kind: Kind, folder: Path) -> Callable:
    return lambda drawn: answered(kind, damaged(kind.content, drawn), folder)


def values_of(kind: Kind, folder: Path) -> Callable:
    def check(drawn: list[tuple[float, object]]) -> None:
        value = yaml.safe_load(kind.content) if kind.name.endswith("yaml") else json.loads(kind.content)
        for place, new in drawn:
            value = changed(value, place, new)
        answered(kind, json.dumps(value).encode(), folder)  # JSON is YAML, too

    return check
