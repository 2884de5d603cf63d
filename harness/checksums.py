"""Checksums of files that are read again, so that a torn or changed one is found before its content is used.

CRC-32, as in gzip and zip: it finds accidents of disks and copies, not forgeries, at about 1.5 GB/s on one core.
"""

import json
import zlib
from pathlib import Path
from typing import Any

from harness import paths
from harness.errors import InputError

FILE = "checksums.json"
"""In a folder that is written once: size and checksum of each of its files."""

KEY = "crc32"
"""In a JSON object: the checksum of all other keys."""

ASIDE = ".torn"
"""Ending of the name of what was set aside."""

PART = 1 << 20
"""Bytes that are read at a time."""


class TornError(InputError):
    """A file no longer has the content that was written; the text names it."""


def of_file(path: Path, size: int | None = None) -> int:
    """The checksum of the file, or of its first `size` bytes."""
    left = path.stat().st_size if size is None else size
    crc = 0
    with path.open("rb") as file:
        while left > 0 and (part := file.read(min(PART, left))):
            crc, left = zlib.crc32(part, crc), left - len(part)
    return crc


def of_files(folder: Path, names: list[str]) -> dict[str, list[int]]:
    """Name -> size in bytes and checksum."""
    return {name: [(folder / name).stat().st_size, of_file(folder / name)] for name in names}


def fault(folder: Path, sums: dict[str, list[int]], content: bool = True, growing: str = "") -> str | None:
    """The name of the first file that is missing, a link, or has changed; without `content` only its size counts.

    Of the file `growing`, only the bytes that were there count.
    """
    for name, stated in sums.items():
        if not isinstance(stated, list) or [*map(type, stated)] != [int, int]:
            return name
        size, checksum = stated
        path = paths.named(folder, *name.split("/"))
        if paths.is_linked(path, folder) or not path.is_file():
            return name
        if path.stat().st_size < size if name == growing else path.stat().st_size != size:
            return name
        if content and of_file(path, size) != checksum:
            return name
    return None


def seal(folder: Path) -> None:
    """Writes the checksums of all files in the folder beside them; nothing there may change later."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != FILE)
    (folder / FILE).write_text(json.dumps(with_checksum({"files": of_files(folder, names)}), indent=1))


def broken_seal(folder: Path, content: bool = True) -> str | None:
    """The name of the first file that is not as it was sealed, checksums among them; None for a whole folder."""
    try:
        return fault(folder, read(folder / FILE)["files"], content)
    except (OSError, TornError, KeyError, AttributeError):  # the last two where it holds no sums
        return FILE


def refuse_broken_seal(folder: Path) -> None:
    """TornError where a file of a sealed folder has changed; a folder without checksums is not checked."""
    if (folder / FILE).exists() and (torn := broken_seal(folder)):
        raise TornError(f"{folder / torn} is torn or has changed since it was written")


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """The same object with the checksum of its content, in place of an older one."""
    content = without_checksum(value)
    return {**content, KEY: _of_value(content)}


def without_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """The same object without its checksum."""
    return {key: one for key, one in value.items() if key != KEY}


def parse(text: str | bytes, where: object) -> dict[str, Any]:
    """The object that this JSON holds, without its checksum; TornError where either is wrong. One without it is not checked."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one
        raise TornError(f"{where} is torn: {' '.join(str(error).split())}") from error
    if not isinstance(value, dict):
        raise TornError(f"{where} is torn: it holds no JSON object")
    content = without_checksum(value)
    if KEY in value and value[KEY] != _of_value(content):
        raise TornError(f"{where} is torn: its checksum does not match")
    return content


def read(path: Path) -> dict[str, Any]:
    """The object in this JSON file, without its checksum; TornError for a torn one, FileNotFoundError where there is none."""
    try:
        return parse(paths.read(path, paths.LARGEST_RECORD), path)
    except TornError:
        raise
    except InputError as error:
        raise TornError(f"{path} is torn: {error}") from error


def aside(path: Path) -> Path:
    """A free name beside the file or folder, under which it can be kept."""
    number, target = 1, path.with_name(path.name + ASIDE)
    while target.exists():
        number, target = number + 1, path.with_name(f"{path.name}{ASIDE}-{number + 1}")
    return target


def _of_value(value: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())
