"""Folders of prepared data that several processes share."""

from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from harness import paths


def write_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Creates `folder` with what `fill` writes, unless it exists: under a lock, and renamed when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            with paths.whole(folder) as building:
                paths.made(building)
                fill(building)
