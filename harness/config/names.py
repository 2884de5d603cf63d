"""Names of studies and of the folder of all results, which become paths and addresses."""

import contextlib
import os
import re
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from harness import paths
from harness.errors import InputError
from harness.redact import hidden

LONGEST = 120
"""Most bytes of the name of a study: file systems take 255, with what is added to it."""

UNUSABLE = "%?#"
"""Characters with a meaning in the address of a SQLite store."""


def refuse_study(study: str) -> None:
    """InputError for a name that cannot be a folder of its own in `output`."""
    if not study or any(character in study for character in "/\\\0"):
        raise InputError(f"study={study!r} must be a name without slashes: it becomes a folder")
    if not study.isprintable() or study != study.strip():
        raise InputError(f"study={study!r} must be a name on one line, without spaces around it: it becomes a folder")
    if study.startswith(".") or study.lower() in paths.RESERVED:
        taken = ", ".join(sorted(paths.RESERVED))
        raise InputError(f"study={study!r} must be another name: none that begins with a dot, and none of {taken}")
    if len(study.encode()) > LONGEST:
        raise InputError(f"study={study[:20]!r}... has {len(study.encode())} bytes: it must be at most {LONGEST}")


def refuse_label(key: str, text: str) -> None:
    """InputError for a part of the name of an arm or a run that does not fit on one line of a terminal."""
    if not text.isprintable():
        raise InputError(f"{key}={text!r} must be text on one line: it is part of the names of runs")


def refuse_address(uri: str | None) -> None:
    """InputError for an address of a store without a scheme, or whose host or port none can be."""
    if uri is None:
        return
    expected = "must be an address such as http://HOST:5000 or sqlite:////FOLDER/mlflow.db"
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", uri):
        raise InputError(f"tracking.uri={hidden(uri)!r} {expected}")
    try:
        parts = urlsplit(uri)
        lacks = "no host" if parts.scheme.startswith("http") and not parts.hostname else None
        lacks = "no file" if parts.scheme == "sqlite" and not parts.path.strip("/") else lacks
        _ = parts.port
    except ValueError as error:
        lacks = str(error)
    if lacks:
        raise InputError(f"tracking.uri={hidden(uri)!r} {expected} ({lacks})")


def refuse_output(output: str) -> None:
    """InputError for a folder of results that cannot be made or written to; nothing is written."""
    if not output or not output.isprintable() or any(character in output for character in UNUSABLE):
        raise InputError(f"output={output!r} must be a folder without {' '.join(UNUSABLE)} and line breaks in its path")
    folder = Path(output).absolute()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folder.lstat()  # raises for a name that is too long
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise InputError(f"output={output!r} must be a folder: {existing} is none")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"output={output!r} must be a folder that can be written to: {existing} cannot be")
    try:
        tempfile.TemporaryDirectory(dir=existing).cleanup()  # permissions say nothing of a full disk or a special file system
    except OSError as error:
        raise InputError(f"output={output!r} must be a folder that can be written to: {existing}: {error.strerror}") from error
