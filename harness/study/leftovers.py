"""Files below the folder of all results that no run needs any more."""

import contextlib
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness import paths
from harness.checksums import TornError
from harness.study.status import is_held
from harness.tracking import run_log
from harness.tracking.states import State

TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)")
"""Name of a file or folder while a process writes it: a dot, its later name, the process id."""

STORE_TEMPORARY = ".mlflow.db.making*"
SETTLED_S = 3600.0
"""Seconds without a change after which a temporary file of another machine is one of a process that has ended."""


@dataclass(frozen=True)
class Leftover:
    """One file or folder, its size in bytes, and why nothing needs it."""

    path: Path
    size: int
    why: str


def remove_temporary(folder: Path) -> None:
    """Removes what a killed worker left half-written in the folder of a run; to be called under the locks of the run."""
    for path in paths.below(folder):
        if TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def in_use(output: Path) -> str | None:
    """A file below the folder that a running command holds; None where there is none."""
    locks = [*output.glob(f"*/*/{paths.LOCK}"), *output.glob(f"*/*/{paths.WORKER_LOCK}"), paths.timing_lock(str(output))]
    locks += [*output.glob("cache/*.lock"), *output.glob(f"sessions/*/{paths.LOCK}")]
    return next(
        (str(lock.relative_to(output.absolute() if lock.is_absolute() else output)) for lock in locks if is_held(lock)), None
    )


def find(output: Path) -> list[Leftover]:
    """Everything below the folder that no run needs; a folder once, not what is in it."""
    root = output.absolute()
    found: dict[Path, str] = {}
    for place, why in (*_cache(root), *_sessions(root), *_checkpoints(root), *_temporary(root)):
        if not any(above in found for above in place.parents):
            found[place] = why
    return [Leftover(path, _size(path), why) for path, why in sorted(found.items())]


def remove(one: Leftover) -> None:
    """Removes it; it may have gone meanwhile."""
    if one.path.is_dir():
        shutil.rmtree(one.path, ignore_errors=True)
    else:
        one.path.unlink(missing_ok=True)


def _cache(root: Path) -> Iterator[tuple[Path, str]]:
    """Prepared data and text that no config or record of a run names."""
    named = "\n".join(_texts(root))
    texts = paths.text_hashes(str(root))
    for path in (path for path in sorted(texts.parent.glob("*")) if path != texts):
        if path.name.endswith(".tmp"):
            yield path, "torn: its process was killed"
        elif path.suffix != ".lock" and path.name not in named and path.name.removeprefix("corpus-") not in named:
            yield path, "data of no run"
            lock = path.with_name(f"{path.name}.lock")
            if lock.exists():
                yield lock, "data of no run"


def _texts(root: Path) -> Iterable[str]:
    for name in (run_log.RECORD, "config.yaml"):
        for path in root.glob(f"*/*/{name}"):
            yield path.read_text(errors="replace")


def _sessions(root: Path) -> Iterator[tuple[Path, str]]:
    """Launches of sessions that nothing resumes: what they measured is in the folders of the runs."""
    for path in sorted((root / "sessions").glob("*")):
        try:
            state = run_log.read_json(path / paths.SESSION)
        except TornError:
            yield path, "torn"
            continue
        if state.get("done", True):
            yield path, "launches of an old timing session"


def _checkpoints(root: Path) -> Iterator[tuple[Path, str]]:
    """A run that has a result is not resumed."""
    for path in sorted(root.glob(f"*/*/{paths.CHECKPOINTS}")):
        with contextlib.suppress(TornError):  # such a run is made again
            result = run_log.result(path.parent)
            if result is not None and result["status"] == State.finished:
                yield path, "checkpoints to resume a run that has finished"


def _temporary(root: Path) -> Iterator[tuple[Path, str]]:
    """What processes left that were killed while they wrote."""
    for path in sorted(root.glob(STORE_TEMPORARY)):
        if time.time() - path.stat().st_mtime > SETTLED_S:
            yield path, "torn: its process was killed"
    for path in paths.below(root):
        parts = TEMPORARY.fullmatch(path.name)
        if parts and path.exists() and _is_abandoned(path, int(parts["process"])):
            yield path, "torn: its process was killed"


def _is_abandoned(path: Path, process: int) -> bool:
    """No process has that id, or the file is older than any that one could still be writing."""
    return not psutil.pid_exists(process) or time.time() - path.stat().st_mtime > SETTLED_S


def _size(path: Path) -> int:
    """Bytes, of a folder those of all its files."""
    files = paths.below(path) if path.is_dir() else [path]
    return sum(one.lstat().st_size for one in files if not one.is_dir())
