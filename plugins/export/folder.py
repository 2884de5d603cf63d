"""The folder that an export writes: new or empty, and whole or not at all."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness import paths
from harness.errors import InputError, writing


def refuse_filled(out: Path) -> None:
    """InputError, naming the key `to` of a command, for a file, or a folder that is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"to={str(out)!r} already exists; expected a new or empty folder")


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """As `paths.whole`; InputError, naming the key `to`, for a folder that cannot be written."""
    with writing(out), paths.whole(out) as building:
        yield building
