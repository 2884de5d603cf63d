"""A small file system of its own, which is filled."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(folder: Path, size: int) -> Iterator[Path]:
    """A new folder on a disk of so many bytes; skips the test where none can be mounted."""
    folder.mkdir()
    ended = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True)
    if ended.returncode:
        pytest.skip(f"a file system cannot be mounted here: {ended.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def free(disk: Path) -> int:
    """Bytes that are left."""
    facts = os.statvfs(disk)
    return facts.f_bavail * facts.f_frsize


def fill(disk: Path, leave: int) -> Path:
    """Fills the disk but for so many bytes."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free(disk) - leave))
    return filler
