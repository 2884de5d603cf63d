"""The files of a run's folder that its worker writes and its supervisor reads, each written atomically or line by line.

- `config.yaml`, `run.json`: config and record, written by the supervisor before the worker starts; it adds how the run ended
- `metrics.jsonl`: stages, curves and results, one entry per line: the worker's, then those of timing from the supervisor
- `result.json`: status and results, of all processes that wrote the log; its existence means that the run is done

They are typed where they are read (`Record`, `Entry`, `Result`), so that no reader checks them again.
"""

import gzip
import itertools
import json
import os
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from harness import metrics, paths, records, tags
from harness.config import command_line
from harness.errors import InputError, on_one_line
from harness.records import CorruptError


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
        """The state in words: `out of memory`."""
        return self.value.replace("_", " ")


Number = int | float


class RunEnd(TypedDict):
    """How a run ended."""

    state: State
    reason: str
    lines: NotRequired[list[str]]  # the last ones of its log
    time: NotRequired[int]


Record = TypedDict(
    "Record",
    {
        "attempt": str,
        "name": str,
        "started": int,  # ms since 1970
        "inputs": dict[str, Any],
        "training": str,
        "tags": dict[str, str],
        "parameters": dict[str, str],
        "end": RunEnd,
        "retries": list[str],
        "pieces": dict[str, int],
        "hardware/peak_flops_per_s": Number,
    },
    total=False,
)
"""Content of `run.json`."""


class Result(TypedDict):
    """Content of `result.json`."""

    status: State
    metrics: dict[str, Number]
    time: NotRequired[int]  # ms since 1970
    steps: NotRequired[dict[str, int]]  # of the metrics that end a curve
    notes: NotRequired[list[dict[str, str]]]  # `kind` and `text` of what went wrong


class Entry(TypedDict, total=False):
    """A line of `metrics.jsonl`: a stage, a part of one, a point of a curve, or a result."""

    time: int
    step: int
    key: str
    value: Number
    tokens: int
    stage: str
    steps: int
    part: str
    result: str


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


def artifacts(folder: Path) -> list[Path]:
    """Files of the run's folder that are tracked with it, as far as they exist; links are not followed."""
    files = (path for pattern in ARTIFACTS for path in sorted(folder.glob(pattern)))
    return [path for path in files if path.is_file() and not paths.is_linked(path, folder.parent)]


def record(folder: Path) -> Record | None:
    """The record of a run; None where there is none. CorruptError for one that cannot be read."""
    return records.read(folder / RECORD, Record) if (folder / RECORD).exists() else None


def now_ms() -> int:
    """Milliseconds since the epoch, as MLflow counts time."""
    return int(time.time() * 1000)


class RunLog:
    """Writes the log of a run. Points that an earlier process wrote stay; a resumed process that repeats them adds nothing."""

    def __init__(self, folder: Path, writes: bool = True) -> None:
        """`writes`: only one process writes the log."""
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

    def part(self, name: str) -> None:
        """Marks what runs between two steps of a stage."""
        self._write({"part": name})

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None:
        """One point of a curve, by default at the current time; KeyError or ValueError as `metrics.check` raises them."""
        point: Entry = {"step": step, "key": key, "value": metrics.check(key, value), "tokens": tokens}
        if step <= self._steps.get(key, -1):
            return
        self._steps[key] = step
        self._write(point if time_ms is None else {**point, "time": time_ms})

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
        records.write(self.folder / RESULT, result)

    def _write(self, entry: Entry) -> None:
        self._lines.write(json.dumps({"time": now_ms(), **entry}, allow_nan=False) + "\n")


class Reader:
    """Reads the log of a run: entries of `metrics.jsonl` since the last call, without an incomplete last line."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LINES
        self.offset = 0  # bytes that were read

    def new_entries(self) -> list[Entry]:
        """Entries that were completed since the last call; CorruptError for lines that are none."""
        if not self._path.exists():
            return []
        try:
            with paths.opened(self._path, paths.LARGEST_LOG) as file:
                file.seek(self.offset)
                text = file.read()
        except InputError as error:
            raise CorruptError(f"{self._path} is corrupt: {error}") from error
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        return [records.decoded(line, Entry, self._path) for line in whole.splitlines()]


def result(folder: Path) -> Result | None:
    """The result of a run; None if it has none yet. CorruptError for one that cannot be read."""
    return records.read(folder / RESULT, Result) if (folder / RESULT).exists() else None


def said_of(result: Result | None) -> str:
    """What went wrong in a training, as one line; empty where nothing did, or there is no result."""
    return "; ".join(note["text"] for note in result.get("notes", [])) if result else ""


def shortened(said: str, given: set[str]) -> str:
    """What went wrong without the advice that is in `given`; adds the rest of its advice there."""
    notes = []
    for note in said.split("; "):
        finding, _, advice = note.rpartition(": ")
        notes.append(finding if finding and advice in given else note)
        given.add(advice)
    return "; ".join(notes)


def finished(folder: Path) -> Result | None:
    """The result of a run that has finished; None for any other."""
    ended = result(folder)
    return ended if ended and ended["status"] == State.finished else None


def drop_later(folder: Path) -> None:
    """Removes from the log and the result of a run what was added after its end."""
    ended = records.read(folder / RESULT, Result)
    lines = (folder / LINES).read_bytes().splitlines(keepends=True)
    entries = [records.decoded(line, Entry, folder / LINES) for line in lines]
    before = list(itertools.takewhile(lambda entry: entry["time"] <= ended["time"], entries))
    if len(before) == len(lines):
        return
    names = {entry["result"] for entry in before if "result" in entry}
    ended["metrics"] = {key: value for key, value in ended["metrics"].items() if key in names}
    ended["steps"] = {key: step for key, step in ended.get("steps", {}).items() if key in names}
    records.write(folder / RESULT, ended)  # it holds for the longer log as well
    os.truncate(folder / LINES, sum(map(len, lines[: len(before)])))


def all_records(output: str) -> dict[Path, Record]:
    """Folder -> record of every run below `output`.

    A corrupt one, one behind a link, and one whose names, of which trackers make paths, lead elsewhere: printed and left out.
    """
    by_folder, root = {}, Path(output).absolute()
    for path in paths.matching(root, f"*/*/{RECORD}"):
        try:
            if paths.is_linked(path, root):
                raise InputError(f"{path} is reached by a link, which is not followed")
            record = records.read(path, Record)
            command_line.refuse_study(str(record.get("tags", {}).get(tags.STUDY, "unnamed")))
            if not re.fullmatch(r"[\w-]+", str(record.get("attempt", "unnamed"))):
                raise InputError(f"{path}: attempt={record['attempt']!r} must be a word")
            by_folder[path.parent] = record
        except (CorruptError, InputError) as error:
            what = str(error) if str(path) in str(error) else f"{path}: {error}"
            print(f"{on_one_line(what)}: this run is left out; repeat its command to rerun it", flush=True)
    return by_folder


LINK = "is a link, which is not followed"

TIMING = "timing.json.gz"


def faults(folder: Path) -> dict[str, str]:
    """Name -> what is wrong, of each file that another run or a tracker must not read; empty for a sound folder."""
    links = [path for path in (folder, *paths.below(folder)) if path.is_symlink()]
    if links:  # what they name, which may be any file of this machine, would be tracked or overwritten
        return {path.relative_to(folder).as_posix(): LINK for path in links}
    wrong = {}
    for name, read in ((RECORD, record), (RESULT, result), (LINES, lambda folder: Reader(folder).new_entries())):
        try:
            if read(folder) is None and name == RECORD:
                wrong[name] = "is missing"
        except CorruptError as error:
            wrong[name] = str(error).removeprefix(f"{folder / name} ")
    return wrong


def read_gzip(path: Path) -> bytes:
    """The content of a compressed file; CorruptError for another file, and for one with more bytes than a log has."""
    try:
        with paths.opened(path, paths.LARGEST_LOG) as compressed, gzip.open(compressed) as file:
            content = file.read(paths.LARGEST_LOG + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error, InputError) as error:
        raise CorruptError(f"{path} is corrupt: {error}") from error
    if len(content) > paths.LARGEST_LOG:
        raise CorruptError(f"{path} is corrupt: it holds over {paths.LARGEST_LOG:,} bytes")
    return content
