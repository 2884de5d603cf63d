"""Stale files in the folder of results, which no run needs any more.

Only files of the harness count: those with its mark, or next to what only it writes, such as the record of a run or the plan of
a study. Links, and what is behind them, never do.
"""

import contextlib
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness import paths, records
from harness.records import CorruptError
from harness.tracking import run_log

STORE_TEMPORARY = re.compile(r"\.mlflow\.db\.making-[0-9a-f]{32}(-\w+)?(\.lock)?")

CACHED = re.compile(r"(corpus-)?[0-9a-f]{8,64}")
"""Name of a folder of prepared data or text, which others add to."""

OF_REPORT = re.compile(r"\.writing[-.]\w+")
"""Name of the folder of a half-written report."""

SETTLED_S = 3600.0
"""Seconds without a change after which the process of a temporary file, maybe on another machine, has ended."""


@dataclass(frozen=True)
class Leftover:
    """One file or folder, its size in bytes, and why nothing needs it."""

    path: Path
    size: int
    why: str


def find(output: Path) -> list[Leftover]:
    """Everything below the folder that no run needs; a folder once, not what is in it."""
    root = output.absolute()
    whys = {}
    for place, why in (*_cache(root), *_old_sessions(root), *_checkpoints(root), *_temporary(root)):
        if not any(above in whys for above in place.parents) and not paths.is_linked(place, root):
            whys[place] = why
    return [Leftover(path, size_of(path), why) for path, why in sorted(whys.items())]


def remove(leftover: Leftover) -> bool:
    """Removes it; whether it has gone, by this or meanwhile."""
    if leftover.path.is_dir() and not leftover.path.is_symlink():
        shutil.rmtree(leftover.path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            leftover.path.unlink(missing_ok=True)
    return not os.path.lexists(leftover.path)


def _runs(root: Path) -> list[Path]:
    """Folders of runs: they have a record, or a plan names them."""
    records = [path.parent for path in paths.matching(root, f"*/*/{run_log.RECORD}") if paths.is_record(path)]
    planned = [path.parent / name for path in root.glob(f"*/{paths.PLAN}") for name in paths.planned(path)]
    return [path for path in sorted({*records, *planned}) if path.is_dir() and not paths.is_linked(path, root)]


def _sessions(root: Path) -> list[Path]:
    """Folders of timing sessions."""
    folders = (path for path in sorted(paths.sessions_folder(str(root)).glob("*")) if not paths.is_linked(path, root))
    stated = {"shapes", "conditions", "rounds"}
    return [
        path for path in folders if (path / paths.MARK).is_file() or stated <= {*paths.object_or_empty(path / paths.SESSION)}
    ]


def _cache(root: Path) -> Iterator[tuple[Path, str]]:
    """Prepared data and text that no config or record of a run names."""
    used = "\n".join(texts_of_runs(root).values())
    for path in sorted((root / "cache").glob("*")):
        if not CACHED.match(path.name) or not path.is_dir() or path.is_symlink() or not (path / paths.MARK).is_file():
            continue
        if path.name not in used and path.name.removeprefix("corpus-") not in used:
            yield from ((one, "unused data") for one in (path, path.with_name(f"{path.name}.lock")) if one.exists())


def texts_of_runs(root: Path) -> dict[Path, str]:
    """Folder of a run -> its record and config as text, which name all that the run reads."""
    texts: dict[Path, str] = defaultdict(str)
    for name in (run_log.RECORD, "config.yaml"):
        for path in paths.matching(root, f"*/*/{name}"):
            if path.is_file():
                texts[path.parent] += f"{paths.read(path, paths.LARGEST_RECORD).decode(errors='replace')}\n"
    return texts


def _old_sessions(root: Path) -> Iterator[tuple[Path, str]]:
    """Launches of sessions that nothing resumes: what they measured is in the folders of the runs."""
    for path in _sessions(root):
        try:
            state = records.read_or(path / paths.SESSION, dict[str, Any], {})
        except CorruptError:
            yield path, "corrupt"
            continue
        if state.get("done", True):
            yield path, "launches of a finished timing session"


def _checkpoints(root: Path) -> Iterator[tuple[Path, str]]:
    """A run that has a result is not resumed."""
    for folder in _runs(root):
        with contextlib.suppress(CorruptError):  # such a run is made again
            if run_log.finished(folder) and (folder / paths.CHECKPOINTS).is_dir():
                yield folder / paths.CHECKPOINTS, "checkpoints of a finished run"


def _temporary(root: Path) -> Iterator[tuple[Path, str]]:
    """What processes left that were killed while they wrote, in the folders of the harness."""
    studies = {path.parent for path in root.glob(f"*/{paths.PLAN}") if paths.planned(path)}
    written_whole = (*studies, root / "audit", root / "reports", *root.glob("cache/*"))
    places = [
        *root.glob(".probe-*"),
        *(path for path in root.glob("cache/.*") if (path / paths.MARK).is_file()),
        *(path for folder in (*_runs(root), *_sessions(root)) for path in paths.below(folder)),
        *(path for folder in written_whole for path in folder.glob(".*.json.*")),
    ]
    named = [path for path in places if paths.TEMPORARY.fullmatch(path.name)]
    named += [path for path in root.glob(".*") if STORE_TEMPORARY.fullmatch(path.name)]
    for path in root.glob("reports/*/.writing*"):
        if (path / paths.MARK).is_file() or (OF_REPORT.fullmatch(path.name) and (path.parent / "report.md").is_file()):
            named.append(path)
    for path in named:
        parts = paths.TEMPORARY.fullmatch(path.name)
        has_ended = parts is not None and not psutil.pid_exists(int(parts["process"]))
        if has_ended or (path.exists() and time.time() - path.stat().st_mtime > SETTLED_S):
            yield path, "temporary file of a killed process"


def size_of(path: Path) -> int:
    """Bytes, of a folder those of all its files."""
    files = paths.below(path) if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_symlink() or not file.is_dir())
