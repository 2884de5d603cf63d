"""The files of a run's folder that its worker writes and its supervisor reads, each written atomically or line by line.

- `config.yaml`, `run.json`: config and record, written by the supervisor before the worker starts; it adds how the run ended
- `metrics.jsonl`: stages, curves and results, one entry per line: the worker's, then those of timing from the supervisor
- `result.json`: status and results, of all processes that wrote the log; its existence means that the run is done

Records, results and entries have a checksum each. A result holds those of the other files, a record that of the config.

What is read again is checked: SHAPES has the types of its values, so that no reader checks its own, and `torn` says which files
of a folder are not as they were written.
"""

import enum
import gzip
import itertools
import json
import math
import os
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness import checksums, metrics, paths, tags
from harness.checksums import TornError
from harness.config import command_line
from harness.errors import InputError, on_one_line

Record = dict[str, Any]
"""Content of `run.json`: tags, parameters and inputs of a run, and how it ended."""
Result = dict[str, Any]
"""Content of `result.json`: status, notes on what went wrong, time, metrics, and the steps of those that end a curve."""
Entry = dict[str, Any]
"""A line of `metrics.jsonl`: a stage, a point of a curve, or a result."""


class State(StrEnum):
    """How a run ended. `finished` and `diverged` are results; a run in another state is tried again by the next command."""

    finished = "finished"
    diverged = "diverged"  # the loss was not a finite number, or rose and left a model that has learned nothing
    out_of_memory = "out_of_memory"
    timeout = "timeout"  # it took too long, or said nothing for too long
    killed = "killed"  # by a signal, or with its command
    failed = "failed"
    invalid = "invalid"  # what was asked for cannot be run here

    @property
    def text(self) -> str:
        """As it is read: `out of memory`."""
        return self.value.replace("_", " ")


SUMS = {...: [int]}
"""Name of a file -> its size and checksum."""

SHAPES: dict[str, Any] = {
    "run.json": {
        "attempt?": str,
        "name?": str,
        "started?": int,
        "tags?": {...: str},
        "parameters?": {...: str},
        "inputs?": dict,
        "files?": SUMS,
        f"{tags.END}?": {"state": State, "reason": str},
        f"{tags.RETRIES}?": list,
        f"{tags.PIECES}?": {...: int},
    },
    "result.json": {
        "status": State,
        "notes?": [{"kind": str, "text": str}],
        "time?": int,
        "metrics": {...: float},
        "steps?": {...: int},
        "files?": SUMS,
    },
    "hypothesis.json": {"text": str, "time": int},
    "audit.json": {"claims": [{"source": str, "name": str}]},
    paths.PLAN: {
        ...: {"time": int, "folder": str, "runs": [{"folder": str, "title": str, "timed": bool, "needs": str | None}]}
    },
}
"""Name of a file -> what it holds."""

ENTRY = {"time?": int, "step?": int, "key?": str, "value?": float, "tokens?": int, "stage?": str, "steps?": int, "result?": str}
"""A line of the log."""


def misfit(value: Any, shape: Any, key: str = "") -> str | None:
    """What is wrong with the value, such as `its metrics.eval/score is no number`; None where it has the shape."""
    of = f"its {key}" if key else "its content"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{of} is no list"
        return next(filter(None, (misfit(part, shape[0], f"{key}[{place}]") for place, part in enumerate(value))), None)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{of} is no object"
        named = {name.rstrip("?"): part for name, part in shape.items() if name is not ...}
        missing = [name for name in shape if name is not ... and not name.endswith("?") and name not in value]
        if missing:
            return f"{of} has no {missing[0]}"
        pairs = ((f"{key}.{name}".lstrip("."), part, named.get(name, shape.get(...))) for name, part in value.items())
        return next(filter(None, (misfit(part, of, name) for name, part, of in pairs if of is not None)), None)
    if isinstance(shape, enum.EnumType):
        return None if value in list(shape) else f"{of} is none of {', '.join(shape)}"
    if shape is float:
        return None if type(value) in (int, float) and math.isfinite(value) else f"{of} is no finite number"
    fits = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    return None if fits else f"{of} is of another type"


RECORD = "run.json"
"""Tags, parameters and inputs of a run, and how it ended: sent to MLflow before it starts, and read by its worker."""

LOG = "log.txt"
"""What the worker of a run prints."""

ARTIFACTS = (
    *("config.yaml", "environment.json", "predictions*.parquet", "submission/*.tsv", "timing.json.gz", "parameters.json"),
    *("result.json", LOG),
)
"""Patterns of the files that are tracked with a run."""

LINES, RESULT = "metrics.jsonl", "result.json"

UNCHECKED = ("config.yaml", RESULT, "log.txt")
"""Tracked files without a checksum in the result: the record has that of the config, and the log has not ended yet."""


def artifacts(folder: Path) -> list[Path]:
    """Files of the run's folder that are tracked with it, as far as they exist; links are not followed."""
    files = (path for pattern in ARTIFACTS for path in sorted(folder.glob(pattern)))
    return [path for path in files if path.is_file() and not paths.is_linked(path, folder.parent)]


def write_json(path: Path, value: Any) -> None:
    """Writes the file atomically."""
    with paths.replaced(path) as temporary, temporary.open("w") as file:
        json.dump(value, file, indent=1, allow_nan=False)


def read(path: Path) -> dict[str, Any]:
    """The content of the file, without its checksum; TornError for a torn one, and for one that holds anything but it should.

    FileNotFoundError where there is none.
    """
    content = checksums.read(path)
    if path.name in SHAPES and (wrong := misfit(content, SHAPES[path.name])):
        raise TornError(f"{path} is torn: {wrong}")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty where there is none."""
    return read(path) if path.exists() else {}


def read_or_set_aside(path: Path) -> dict[str, Any]:
    """As `read_json`, of a file that can be made anew: a torn one is kept aside, which is printed, as if there were none."""
    try:
        return read_json(path)
    except TornError as error:
        set_aside(path, str(error))
        return {}


def set_aside(path: Path, why: str) -> None:
    """Renames the file to a free name that says so, and prints why."""
    aside = checksums.aside(path)
    path.rename(aside)
    print(f"{why}; {path.name} is kept as {aside.name}", flush=True)


def now_ms() -> int:
    """Milliseconds since the epoch, as MLflow counts time."""
    return int(time.time() * 1000)


class RunLog:
    """Writes the log of a run. Points that an earlier process wrote stay; a resumed process that repeats them adds nothing."""

    def __init__(self, folder: Path, writes: bool = True) -> None:
        """A log that does not write is that of a process beside the one that does."""
        self.folder, written = folder, Reader(folder)
        entries = written.new_entries() if writes else []
        self._steps = {entry["key"]: entry["step"] for entry in entries if "key" in entry}
        self._values: dict[str, float] = {entry["result"]: entry["value"] for entry in entries if "result" in entry}
        path = folder / LINES if writes else Path(os.devnull)
        self._lines = open(path, "a", buffering=1, opener=paths.not_a_link)  # noqa: SIM115 - `close` closes it
        if writes:
            self._lines.truncate(written.offset)  # an incomplete last line is what a killed process left

    def stage(self, name: str, steps: int = 0) -> None:
        """Marks the start of a stage of so many steps; 0 if their number is not known."""
        self._write({"stage": name, "steps": steps})

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None:
        """One point of a curve, by default at the current time; KeyError or ValueError as `metrics.check` raises them."""
        point = {"step": step, "key": key, "value": metrics.check(key, value), "tokens": tokens}
        if step <= self._steps.get(key, -1):
            return
        self._steps[key] = step
        self._write(point if time_ms is None else point | {"time": time_ms})

    def sample(self, key: str, step: int, value: float, time_ms: int) -> None:
        """One of several values that a curve may have at one step, for example repeated measurements of one length."""
        self._write({"step": step, "key": key, "value": metrics.check(key, value), "time": time_ms})

    def value(self, key: str, value: float | None) -> None:
        """One result, which replaces an earlier one of this name; None is left out, and reports show a dash."""
        if value is not None:
            self._values[key] = metrics.check(key, value)
            self._write({"result": key, "value": self._values[key]})

    def values(self, values: Mapping[str, float | None]) -> None:
        """Several results by name."""
        for key, value in values.items():
            self.value(key, value)

    def close(self) -> None:
        """Closes the file; another process may continue the log."""
        self._lines.close()

    def finish(self, status: str, time_ms: int | None = None, notes: Sequence[Mapping[str, str]] = ()) -> None:
        """Writes `result.json`, with the time at which the run ended, by default the current one, and what went wrong."""
        self.close()
        steps = {key: step for key, step in self._steps.items() if key in self._values}
        result = {"status": status, "time": time_ms or now_ms(), "metrics": self._values, "steps": steps, "notes": [*notes]}
        files = [path.relative_to(self.folder).as_posix() for path in artifacts(self.folder)]
        result["files"] = checksums.of_files(self.folder, [LINES, *(name for name in files if name not in UNCHECKED)])
        write_json(self.folder / RESULT, checksums.with_checksum(result))

    def _write(self, entry: Entry) -> None:
        self._lines.write(_line({"time": now_ms(), **entry}))


def _line(entry: Entry) -> str:
    """One line, with the checksum of what is before it."""
    text = json.dumps(entry, allow_nan=False)
    return f'{text[:-1]}, "{checksums.KEY}": {zlib.crc32(text.encode())}}}\n'


def _entries(lines: bytes, path: Path) -> list[Entry]:
    """The entries of whole lines, without their checksums; TornError for one that was not written so."""
    entries = []
    for line in lines.splitlines():
        try:
            entry = json.loads(line)
            if wrong := misfit(entry, ENTRY):
                raise TornError(f"{path} is torn: of a line, {wrong}")
        except (ValueError, RecursionError) as error:
            raise TornError(f"{path} is torn: a line is no entry of a log") from error
        checksum = entry.pop(checksums.KEY, None)
        if checksum is not None and checksum != zlib.crc32(json.dumps(entry).encode()):
            raise TornError(f"{path} is torn: the checksum of a line does not match")
        entries.append(entry)
    return entries


class Reader:
    """Reads the log of a run: entries of `metrics.jsonl` since the last call, without an incomplete last line."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LINES
        self.offset = 0  # bytes that were read

    def new_entries(self) -> list[Entry]:
        """Entries that were completed since the last call; TornError for lines that are none."""
        if not self._path.exists():
            return []
        try:
            with paths.opened(self._path, paths.LARGEST_LOG) as file:
                file.seek(self.offset)
                text = file.read()
        except InputError as error:
            raise TornError(f"{self._path} is torn: {error}") from error
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        return _entries(whole, self._path)


def result(folder: Path) -> Result | None:
    """The result of a run; None if it has none yet. TornError for a torn one."""
    return read_json(folder / RESULT) or None


def said_of(result: Result | None) -> str:
    """What went wrong in a training, as one line; empty where nothing did, or there is no result."""
    return "; ".join(note["text"] for note in (result or {}).get("notes", []))


def finished(folder: Path) -> Result | None:
    """The result of a run that has finished; None for any other. TornError for a torn one."""
    ended = result(folder)
    return ended if ended and ended["status"] == State.finished else None


def drop_later(folder: Path, file: str) -> None:
    """Takes out of the log and the result of a run what was added with this file after it had ended."""
    ended = read(folder / RESULT)
    text = (folder / LINES).read_bytes()
    entries = list(itertools.takewhile(lambda entry: entry["time"] <= ended["time"], _entries(text, folder / LINES)))
    size = sum(map(len, text.splitlines(keepends=True)[: len(entries)]))
    if size == len(text):
        return
    before = {entry["result"] for entry in entries if "result" in entry}
    for part in ("metrics", "steps"):
        ended[part] = {key: value for key, value in ended[part].items() if key in before}
    ended["files"] = {name: sums for name, sums in ended["files"].items() if name != file}
    ended["files"][LINES] = [size, checksums.of_file(folder / LINES, size)]
    write_json(folder / RESULT, checksums.with_checksum(ended))  # it holds for the longer log as well
    os.truncate(folder / LINES, size)


def records(output: str) -> dict[Path, Record]:
    """Folder -> record of every run below `output`; a torn record, or one behind a link, is printed and left out.

    InputError for a record whose names would lead elsewhere.
    """
    by_folder, root = {}, Path(output).absolute()
    for path in sorted(root.glob(f"*/*/{RECORD}")):
        if paths.is_linked(path, root):
            print(f"{on_one_line(str(path))} is reached by a link, which is not followed: this run is left out", flush=True)
            continue
        try:
            by_folder[path.parent] = read(path)
            _refuse_foreign_names(path, by_folder[path.parent])
        except TornError as error:
            print(f"{on_one_line(str(error))}; this run is left out, the command that ran it makes it again", flush=True)
    return by_folder


def _refuse_foreign_names(path: Path, record: Record) -> None:
    """InputError for a study that cannot be a folder, and for an attempt that is no word; trackers make paths of both."""
    try:
        command_line.refuse_study(str(record.get("tags", {}).get(tags.STUDY, "unnamed")))
        if not re.fullmatch(r"[\w-]+", str(record.get("attempt", "unnamed"))):
            raise InputError(f"attempt={record['attempt']!r} must be a word")
    except InputError as error:
        raise InputError(f"{path}: {error}; correct it, or take this folder away") from error


CHANGED = "is torn or has changed since it was written"

LINK = "is a link, which is not followed"

TIMING = "timing.json.gz"


def torn(folder: Path, weights: bool = False) -> dict[str, str]:
    """Name -> what is wrong, of each file that another run or the report must not read; empty for a whole folder.

    With `weights`, the content of its weights is read too; without, only their size.
    """
    links = [path for path in (folder, *paths.below(folder)) if path.is_symlink()]
    if links:  # what they name, which may be any file of this machine, would be tracked or overwritten
        return {path.relative_to(folder).as_posix(): LINK for path in links}
    faults = {}
    for name in (RECORD, RESULT):
        try:
            if torn_file := checksums.fault(folder, read_json(folder / name).get("files", {}), growing=LINES):
                faults[torn_file] = CHANGED
        except TornError:
            faults[name] = CHANGED
    if not (folder / RESULT).exists():  # nothing has the checksum of the log yet
        try:
            Reader(folder).new_entries()
        except TornError:
            faults[LINES] = CHANGED
    elif not (folder / RECORD).exists():
        faults[RECORD] = "is missing"
    for place in (paths.WEIGHTS, *(path.relative_to(folder).as_posix() for path in folder.glob(f"{paths.KEPT}/tokens-*"))):
        if (folder / place / checksums.FILE).exists() and checksums.broken_seal(folder / place, weights):
            faults[place] = CHANGED
    return faults


def is_timing_torn(folder: Path) -> bool:
    """Whether launches that were never added to the result, because the command was killed, cannot be read."""
    try:
        read_gzip(folder / TIMING)
    except FileNotFoundError:
        return False
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return True
    return False


def read_gzip(path: Path) -> Any:
    """The JSON value in a compressed file; InputError for a value of more bytes than a log has."""
    with paths.opened(path, paths.LARGEST_LOG) as compressed, gzip.open(compressed) as file:
        content = file.read(paths.LARGEST_LOG + 1)
    if len(content) > paths.LARGEST_LOG:
        raise InputError(f"{path} holds over {paths.LARGEST_LOG:,} bytes: expected fewer")
    return json.loads(content)
