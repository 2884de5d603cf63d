"""The SQLite file of the default tracking store, and the refusal of files that are not a store of ours."""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from harness import paths
from harness.errors import InputError

DEFAULT = "mlflow.db"
"""Name of the store in `output`."""

TABLES = {"experiments", "runs", "tags", "params", "metrics", "latest_metrics", "alembic_version"}
"""Some of the tables that a complete store has."""


class BrokenStoreError(RuntimeError):
    """The file of a tracking store cannot be read, or is incomplete."""


def path_of(uri: str) -> Path | None:
    """The file of a SQLite store; None for any other."""
    match = re.fullmatch(r"sqlite(?:\+\w+)?:///([^?]*)(?:\?.*)?", uri, re.DOTALL)
    return Path(match[1]) if match else None


def refuse_foreign(path: Path) -> None:
    """InputError for a file that is neither a complete store of MLflow nor a broken one of ours: it may be anything.

    Ours is mlflow.db in an `output` of ours.
    """
    if not os.path.lexists(path) or path.is_dir():
        return
    if not path.is_file():
        raise InputError(
            f"{path} is not a file: expected a tracking store of MLflow, or the name of a file that does not exist"
        )
    if reason := fault(path, whole=False):
        refuse_unless_ours(path, reason)


def refuse_unless_ours(path: Path, reason: str) -> None:
    """InputError for a file that is not the store of an `output` of ours."""
    if path.is_symlink() or path.name != DEFAULT or not paths.is_ours(path.parent):
        raise InputError(
            f"{path} {reason}; it was not made by the harness, and stays unchanged: "
            "expected a tracking store of MLflow, or the name of a file that does not exist"
        )


def fault(path: Path, whole: bool = True) -> str | None:
    """What is wrong with the content of the file; None for a complete store. BrokenStoreError where it cannot be read.

    Without `whole`, its tables alone are looked at, which takes no time.
    """
    try:
        with read_only(path) as connection:
            tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
            if missing := TABLES - tables:
                return f"is not a complete tracking store: it lacks the tables {', '.join(sorted(missing))}"
            if not whole:
                return None
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            return None if verdict == "ok" else f"is corrupt: {verdict.splitlines()[-1]}"
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return None
        raise BrokenStoreError(f"{path} cannot be read: {error}") from error
    except sqlite3.DatabaseError as error:
        return f"is corrupt: {error}"


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing."""
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10)) as connection:
        yield connection
