"""Finds the folder of a run, by its path, its name, or its id in the tracking store."""

import difflib
import re
from pathlib import Path

from harness import paths
from harness.errors import InputError
from harness.tracking import run_log, trackers

LISTED = 3
"""Names that an error lists."""


def is_id(run: str) -> bool:
    """Whether the text has the form of a run id."""
    return re.fullmatch(r"[0-9a-f]{32}", run) is not None


def folder_of(run: str, key: str, output: str, uri: str | None) -> Path:
    """The run's folder; InputError, naming `key`, if there is none."""
    if Path(run).is_dir():
        return Path(run).absolute()
    if not is_id(run):
        return _named(run, key, output)
    try:
        attempt = trackers.backend("mlflow").attempt_of(run, uri, output)
    except InputError as error:
        raise InputError(f"{key}={run!r} cannot be looked up: {error}") from error
    for folder, record in run_log.all_records(output).items() if attempt else ():
        if record.get("attempt") == attempt:
            return folder
    raise InputError(f"{key}={run!r} has no folder below output={output!r}: it ran elsewhere or was rerun")


def _named(run: str, key: str, output: str) -> Path:
    """The run whose folder begins with this name, `base-sst2-1` or `STUDY/base-sst2-1`; InputError for none and for several."""
    folders = [path.parent for path in paths.matching(output, f"*/*/{run_log.RECORD}")]
    names = {f"{folder.parent.name}/{folder.name}": folder for folder in folders}
    found = [name for name in names if run and (name.startswith(run) or name.partition("/")[2].startswith(run))]
    found = [name for name in found if not name.partition("/")[2].startswith("replicate-")] or found  # timed again, no weights
    exact = [name for name in found if run in (name, name.partition("/")[2])]
    if len(exact or found) == 1:
        return names[(exact or found)[0]]
    if found:
        saved = {name: (names[name] / paths.WEIGHTS).is_dir() for name in found}
        first = sorted(found, key=lambda name: saved[name], reverse=True)[:LISTED]
        listed = ", ".join(name + " with weights" * saved[name] for name in first) + ", ..." * (len(found) > LISTED)
        raise InputError(f"{key}={run!r} is ambiguous ({len(found)} runs: {listed}): give a longer prefix or the run id")
    near = difflib.get_close_matches(run, [*names, *(folder.name for folder in folders)], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(
        f"{key}={run!r} is neither a folder nor the id of a run in the tracking store, nor a name below output={output!r}{hint}"
    )


def weights_folder(run: str, key: str, output: str, uri: str | None) -> Path:
    """The folder of a run's weights; InputError if there is no such run, it has not finished, or it saved no weights."""
    folder = folder_of(run, key, output, uri)
    if (folder / paths.SHAPE).is_file():
        return folder
    if not (folder / paths.WEIGHTS / paths.SHAPE).is_file():
        if (folder / "config.json").is_file():
            raise InputError(f"{key}={run!r} is a folder of published weights, not a run: set model.init_from={run}")
        if (folder / run_log.RECORD).is_file() and run_log.finished(folder) is None:
            raise InputError(f"{key}={run!r} has not finished: `python -m harness status` says why and how to complete it")
        raise InputError(
            f"{key}={run!r}: {folder} has no {paths.WEIGHTS}/: expected a finished pretraining, or a "
            "fine-tuning with finetune.keep=last"
        )
    return folder / paths.WEIGHTS
