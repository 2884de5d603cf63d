"""What a session has measured so far, kept in its folder: an interrupted session resumes at its round."""

import contextlib
import importlib.metadata
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness import paths, versions
from harness.checksums import TornError
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.measure.records import Launch, from_json, to_json
from harness.tracking import run_log

COUNTED = "counted.json"
"""In the folder of a launch: what counts of it, of several tries the least disturbed one."""

Shapes = dict[str, list[str]]
"""Name of each timed shape -> keys of the data whose throughput it measures."""


class KeptSession:
    """The folder of a session."""

    def __init__(self, output: str, name: str) -> None:
        self.folder = paths.session_folder(output, name)
        self.state: dict[str, Any] = run_log.read_json(self.folder / paths.SESSION)

    @property
    def rounds(self) -> int:
        """Rounds in which every variant was launched that had not failed."""
        return self.state.get("rounds", 0)

    @property
    def failed(self) -> dict[str, str]:
        """Name of a shape -> why one of its launches failed."""
        return self.state.get("failed", {})

    def begin(self, shapes: Shapes, conditions: dict[str, str]) -> None:
        """Makes the folder of a new session; FileExistsError for a name that another one has."""
        self.folder.mkdir(parents=True)
        paths.made(self.folder)
        self._write({"shapes": shapes, "conditions": conditions, "rounds": 0, "failed": {}, "done": False})

    def end_round(self, rounds: int, failed: dict[str, str]) -> None:
        """So many rounds are complete."""
        self._write(self.state | {"rounds": rounds, "failed": failed})

    def finish(self) -> None:
        """Everything was added to the runs."""
        self._write(self.state | {"done": True})

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No other command resumes the session."""
        with FileLock(self.folder / paths.LOCK, timeout=0):
            yield

    def _write(self, state: dict[str, Any]) -> None:
        self.state = state
        run_log.write_json(self.folder / paths.SESSION, state)


def unfinished(output: str, shapes: Shapes, conditions: dict[str, str]) -> KeptSession | None:
    """The newest session under the same conditions that has all of these shapes and that no command holds, if there is one."""
    for path in sorted((Path(output).absolute() / "sessions").glob(f"*/{paths.SESSION}"), reverse=True):
        kept = _whole(output, path.parent.name)
        if kept is None:
            continue
        has_all = all({*keys} <= {*kept.state["shapes"].get(name, [])} for name, keys in shapes.items())
        if kept.state["done"] or kept.state["conditions"] != conditions or not has_all:
            continue
        with contextlib.suppress(Timeout), kept.held():
            return kept
    return None


def _whole(output: str, name: str) -> KeptSession | None:
    """The session; None where one of its files is torn: it is set aside, because a round without a launch pairs nothing."""
    folder = paths.session_folder(output, name)
    try:
        for path in folder.glob(f"*/*/{COUNTED}"):
            run_log.read_json(path)
        return KeptSession(output, name)
    except TornError as error:
        run_log.set_aside(folder / paths.SESSION, f"{error}: the session is not resumed")
        return None


def conditions(config: RunConfig) -> dict[str, str]:
    """What must not change within a session: the machine, and the code that measures."""
    return {
        "machine": os.uname().nodename,
        "device": facts.device_name(config.hardware),
        "torch": importlib.metadata.version("torch"),
        "versions": json.dumps({part: versions.VERSIONS[part] for part in ("models", "measure")}),
    }


def write(folder: Path, launches: dict[str, Launch]) -> None:
    """Keeps what counts of a launch, by key of the data."""
    run_log.write_json(folder / COUNTED, {key: to_json(launch) for key, launch in launches.items()})


def read(folder: Path) -> dict[str, Launch]:
    """What counts of a launch; empty where the variant was not launched, or failed."""
    return {key: from_json(Launch, launch) for key, launch in run_log.read_json(folder / COUNTED).items()}
