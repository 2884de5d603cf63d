"""Folders of prepared data that several processes share."""

import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def write_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Creates `folder` with what `fill` writes, unless it exists.

    It is filled under a lock as a temporary folder and renamed when it is complete, so that no reader finds a part of it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.tmp")
    with FileLock(f"{folder}.lock"):
        if folder.exists():
            return
        shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
        temporary.mkdir()
        try:
            fill(temporary)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
