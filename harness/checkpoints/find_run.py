"""Where a run of ours lies: by its folder, or by its id in the tracking store."""

import json
import re
from pathlib import Path

from harness import paths
from harness.errors import InputError


def is_id(given: str) -> bool:
    """Whether it reads like the id of a run in the tracking store."""
    return re.fullmatch(r"[0-9a-f]{32}", given) is not None


def folder_of(given: str, key: str, output: str, uri: str | None) -> Path:
    """The run's folder; InputError, naming `key`, where there is none."""
    if Path(given).is_dir():
        return Path(given).absolute()
    if not is_id(given):
        raise InputError(f"{key}={given!r} is neither a folder nor the id of a run in the tracking store")
    from harness.tracking.mlflow_store import MlflowException, attempt_of

    try:
        attempt = attempt_of(given, uri, output)
    except MlflowException as error:
        raise InputError(f"{key}={given!r} cannot be looked up: {str(error).splitlines()[0]}") from error
    for path in sorted(Path(output).absolute().glob("*/*/run.json")) if attempt else ():
        if json.loads(path.read_text()).get("attempt") == attempt:
            return path.parent
    raise InputError(f"{key}={given!r} has no folder below output={output!r}: it ran elsewhere, or again since")


def weights_folder(given: str, key: str, output: str, uri: str | None) -> Path:
    """The folder of a run's weights; InputError where there is no such run or it left none."""
    folder = folder_of(given, key, output, uri)
    if (folder / paths.SHAPE).is_file():
        return folder
    if not (folder / paths.WEIGHTS / paths.SHAPE).is_file():
        raise InputError(f"{key}={given!r}: {folder} has no {paths.WEIGHTS}/: expected a finished pretraining")
    return folder / paths.WEIGHTS
