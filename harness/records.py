"""JSON files that the harness writes and reads again: replaced whole, and checked against a type where they are read.

A process that is killed, or a full disk, leaves the file before. So nothing here looks for half of a file: one that cannot be
read was changed by someone else, is named, and is set aside by whoever can make it again.
"""

import json
from pathlib import Path
from typing import TypeVar

import msgspec

from harness import paths
from harness.errors import InputError, on_one_line

ASIDE = ".corrupt"
"""Suffix of files that were set aside."""

Content = TypeVar("Content")


class CorruptError(InputError):
    """A file does not hold what the harness writes; the text names it."""


def write(path: Path, value: object) -> None:
    """Replaces the file; ValueError, and the file before, for a number that JSON cannot hold."""
    with paths.replaced(path) as temporary, temporary.open("w") as file:
        json.dump(value, file, indent=1, allow_nan=False)


def decoded(content: bytes, kind: type[Content], where: object) -> Content:
    """The JSON as a value of this type, without keys that the type lacks; CorruptError for any other."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # not UTF-8; nested too deep
        raise CorruptError(f"{where} is corrupt: {on_one_line(str(error))}") from error


def read(path: Path, kind: type[Content]) -> Content:
    """The content of a JSON file; CorruptError where it is not of the type, FileNotFoundError where there is none."""
    try:
        content = paths.read(path, paths.LARGEST_RECORD)
    except InputError as error:
        raise CorruptError(f"{path} is corrupt: {error}") from error
    return decoded(content, kind, path)


def shipped(module: str, kind: type[Content]) -> Content:
    """The content of the YAML file next to a module that has its name."""
    return msgspec.yaml.decode(Path(module).with_suffix(".yaml").read_bytes(), type=kind)


def read_or(path: Path, kind: type[Content], default: Content) -> Content:
    """As `read`; the default where there is no file."""
    return read(path, kind) if path.exists() else default


def read_or_set_aside(path: Path, kind: type[Content]) -> Content:
    """As `read`, of a file that can be made again: empty where there is none, and where a corrupt one is set aside."""
    try:
        return read_or(path, kind, kind())
    except CorruptError as error:
        print(f"{error}; {path.name} is kept as {set_aside(path).name}", flush=True)
        return kind()


def set_aside(path: Path) -> Path:
    """Renames the file or folder to a free name in its folder, which is returned."""
    number, target = 1, path.with_name(path.name + ASIDE)
    while target.exists() or target.is_symlink():
        number, target = number + 1, path.with_name(f"{path.name}{ASIDE}-{number + 1}")
    return path.rename(target)
