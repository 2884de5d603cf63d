"""Folders of prepared data that several processes share."""

import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from harness import checksums, paths


def write_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Creates `folder` with what `fill` writes, unless it exists and none of its files has changed since.

    It is filled under a lock as a temporary folder and renamed when it is complete, so that no reader finds a part of it. One
    with a torn file is kept aside, which is printed, and made again.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.tmp")
    with FileLock(f"{folder}.lock"):
        if folder.exists() and _is_whole(folder):
            return
        shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
        paths.made(temporary)
        try:
            fill(temporary)
            checksums.seal(temporary)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    torn = checksums.broken_seal(folder)
    if torn is not None:
        moved = checksums.aside(folder)
        folder.rename(moved)
        print(f"{folder / torn} is torn or has changed: the folder is kept as {moved.name}, and made again", flush=True)
    return torn is None
