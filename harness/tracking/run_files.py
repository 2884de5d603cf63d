"""Whether the files of a run's folder are as they were written."""

import gzip
import json
import zlib
from pathlib import Path

from harness import checksums, paths
from harness.checksums import TornError
from harness.tracking import run_log

CHANGED = "is torn or has changed since it was written"

LINK = "is a link, which is not followed"

TIMING = "timing.json.gz"


def torn(folder: Path, weights: bool = False) -> dict[str, str]:
    """Name -> what is wrong, of each file that another run or the report must not read; empty for a whole folder.

    With `weights`, the content of its weights is read too; without, only their size.
    """
    if links := _links(folder):
        return links
    found = _record(folder) | _result(folder)
    for place in (paths.WEIGHTS, *(path.relative_to(folder).as_posix() for path in folder.glob(f"{paths.KEPT}/tokens-*"))):
        if (folder / place / checksums.FILE).exists() and checksums.broken_seal(folder / place, weights):
            found[place] = CHANGED
    return found


def _links(folder: Path) -> dict[str, str]:
    """A copied folder may name any file of this machine by a link: what it holds would be tracked, or overwritten."""
    return {path.relative_to(folder).as_posix(): LINK for path in (folder, *paths.below(folder)) if path.is_symlink()}


def _record(folder: Path) -> dict[str, str]:
    try:
        record = run_log.read(folder / run_log.RECORD)
    except FileNotFoundError:
        return {run_log.RECORD: "is missing"} if (folder / run_log.RESULT).exists() else {}
    except TornError:
        return {run_log.RECORD: CHANGED}
    name = checksums.fault(folder, record.get("files", {}))
    return {name: CHANGED} if name else {}


def _result(folder: Path) -> dict[str, str]:
    try:
        result = run_log.result(folder)
    except TornError:
        return {run_log.RESULT: CHANGED}
    if result is None:
        return _log(folder)
    name = checksums.fault(folder, result.get("files", {}), growing=run_log.LINES)
    return {name: CHANGED} if name else {}


def _log(folder: Path) -> dict[str, str]:
    """Of a run that has not ended."""
    try:
        run_log.Reader(folder).new_entries()
    except TornError:
        return {run_log.LINES: CHANGED}
    return {}


def is_timing_torn(folder: Path) -> bool:
    """Whether launches that were never added to the result, because the command was killed, cannot be read."""
    try:
        with gzip.open(folder / TIMING) as file:
            json.load(file)
    except FileNotFoundError:
        return False
    except (OSError, EOFError, zlib.error, ValueError):
        return True
    return False
