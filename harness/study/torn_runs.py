"""Planned runs whose folders have a torn file: it is kept aside, and what it belongs to is made again."""

from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from harness import checksums, tags
from harness.errors import InputError
from harness.study import run_folder
from harness.study.plan import PlannedRun
from harness.terminal import console
from harness.tracking import run_files, run_log


def set_aside(planned: Sequence[PlannedRun]) -> None:
    """Renames what is torn, and prints it, so that these runs run again; another process may be at work in a folder.

    The weights of a pretraining are read only where a run that is not finished starts from them.
    """
    for item in planned:
        if item.inputs.data is not None:
            _check(item.folder, weights=False)
    used = {item.needs.folder for item in planned if item.needs and not (item.folder / run_log.RESULT).exists()}
    for item in planned:
        if item.inputs.data is None:
            _check(item.folder, weights=item.folder in used)


def _check(folder: Path, weights: bool) -> None:
    """InputError for a folder that is a link: a run would empty what it names, which may be anywhere."""
    if folder.is_symlink() or folder.parent.is_symlink():
        raise InputError(
            f"{folder} is reached by a link, which is not followed: move the folder to its place, or set study or output"
        )
    if not (folder / run_log.RECORD).exists() and not (folder / run_log.RESULT).exists():
        return
    try:
        with FileLock(folder / ".lock", timeout=0):
            _set_aside(folder, weights)
    except Timeout:  # it is being run
        return


def _set_aside(folder: Path, weights: bool) -> None:
    torn = run_files.torn(folder, weights)
    if torn:
        names = ", ".join(f"{name} {why}" for name, why in torn.items())
        console.problem(f"{folder}: {names}: kept as *{checksums.ASIDE}, and the run is made again")
        _rename(folder, {*torn, run_log.RECORD, run_log.RESULT})
    elif not _is_timed(folder) and run_files.is_timing_torn(folder):
        console.problem(f"{folder}: {run_files.TIMING} {run_files.CHANGED}: kept as *{checksums.ASIDE}, and timed again")
        _rename(folder, {run_files.TIMING})


def _rename(folder: Path, names: set[str]) -> None:
    for path in (folder / name for name in names):
        if path.exists() or path.is_symlink():
            path.rename(checksums.aside(path))


def _is_timed(folder: Path) -> bool:
    return tags.SESSION in run_folder.read(folder)["tags"]
