"""The SQLite file of a tracking store: made whole or not at all, listed, set aside, and moved with its folder."""

import atexit
import contextlib
import os
import sqlite3
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from harness.errors import present
from harness.tracking.database import BrokenStoreError, fault, path_of, read_only, refuse_foreign, refuse_unless_ours

SCHEME = "sqlite:///"

OF_RUNS_MOVED = "update runs set artifact_uri = ? || substr(artifact_uri, ?) where experiment_id = ? and artifact_uri like ?"

PARTS = ("", "-wal", "-shm")
"""Endings of the files of one database."""


def exists(uri: str) -> bool:
    """False for a SQLite store without a file; only opening other stores shows whether they exist."""
    path = path_of(uri)
    return path is None or path.exists()


def ready(uri: str, make: Callable[[str], object]) -> None:
    """Makes the store where it is a SQLite file that does not exist; `make` creates the schema at an address.

    BrokenStoreError for a corrupt file, InputError for one that is not ours.
    """
    path = path_of(uri)
    if path is None:
        return
    refuse_foreign(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            _make(path, make)
        elif reason := fault(path):
            raise BrokenStoreError(f"{path} {reason}; `python -m harness sync` sets it aside and rebuilds it")


def renewed(uri: str) -> Path | None:
    """Keeps a broken file of ours aside and returns where; None where the store is whole, absent, or no SQLite file.

    InputError for a file that is not ours.
    """
    path = path_of(uri)
    if path is None or not path.exists():
        return None
    refuse_foreign(path)
    with FileLock(f"{path}.lock"):
        if (reason := fault(path)) is None:
            return None
        refuse_unless_ours(path, reason)
        return set_aside(path)


def _make(path: Path, make: Callable[[str], object]) -> None:
    """Writes a temporary file and renames it: a killed process or a full disk leaves no partial store."""
    for old in path.parent.glob(f".{path.name}.making*"):
        old.unlink()
    temporary = path.with_name(f".{path.name}.making-{uuid.uuid4().hex}")
    atexit.register(temporary.unlink, missing_ok=True)  # Ctrl-C ends the thread that makes it
    make(f"{SCHEME}{temporary}")
    with contextlib.closing(sqlite3.connect(temporary)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=WAL")
    for ending in PARTS[1:]:
        temporary.with_name(temporary.name + ending).unlink(missing_ok=True)
    temporary.replace(path)


def set_aside(path: Path) -> Path:
    """Renames the file of a store, with all its parts, and returns the new name."""
    aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    for ending in PARTS:
        part = path.with_name(path.name + ending)
        if part.exists():
            part.rename(aside.with_name(aside.name + ending))
    return aside


def studies(uri: str) -> dict[str, str]:
    """Name -> number of each study in a SQLite store, the newest first. BrokenStoreError where it cannot be read."""
    path = present(path_of(uri))
    query = "select name, experiment_id from experiments where lifecycle_stage = 'active' order by experiment_id desc"
    try:
        with read_only(path) as connection:
            return {name: str(number) for name, number in connection.execute(query)}
    except sqlite3.DatabaseError as error:
        raise BrokenStoreError(f"{path} cannot be read: {error}; `python -m harness sync` rebuilds it") from error


def follow_the_folder(uri: str, artifacts: Path) -> None:
    """Sets the addresses of files in a store whose folder has been moved or copied.

    MLflow keeps absolute addresses: after a move they name the old place. `artifacts` is the folder of this store's files.
    BrokenStoreError where the store cannot be changed.
    """
    path, here = path_of(uri), artifacts.absolute().as_uri()
    if path is None:
        return
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection, connection:
            for number, old in connection.execute("select experiment_id, artifact_location from experiments").fetchall():
                parent, _, name = (old or "").rstrip("/").rpartition("/")
                is_ours = parent.startswith("file:") and parent.rpartition("/")[2] == artifacts.name
                if is_ours and parent != here and (artifacts / name).is_dir():
                    new = f"{here}/{name}"
                    connection.execute("update experiments set artifact_location = ? where experiment_id = ?", (new, number))
                    connection.execute(OF_RUNS_MOVED, (new, len(old) + 1, number, f"{old}/%"))
    except sqlite3.DatabaseError as error:
        raise BrokenStoreError(f"{path} cannot be changed: {error}") from error
