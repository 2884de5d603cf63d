"""Results of other tools: files and folders that readers, found by entry points, turn into one frame, read like a store."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import pandas as pd

from harness import extensions
from harness.comparison.items import Errors
from harness.errors import InputError, on_one_line, refused_errors, unknown
from harness.plugins.judge import frame
from harness.plugins.judge.frame import Frame
from harness.plugins.judge.options import Files
from harness.plugins.shared.reader import MemoryReader
from harness.reports.reading.store import Folders, Packed
from harness.reports.reading.untrusted import limited_memory

GROUP = "harness.results"


@dataclass(frozen=True)
class Asked:
    """Facts about results given by flags, where files lack them."""

    columns: Mapping[str, str] = field(default_factory=dict)  # name in `frame.COLUMNS` -> name in the file
    arm: str | None = None
    task: str | None = None
    seed: str | None = None
    metric: str | None = None
    unit: str | None = None
    direction: str | None = None


@dataclass(frozen=True)
class Results:
    """Results that a tool writes, by the path of a file or folder.

    `read` gives the columns of `frame.COLUMNS` that the tool states, one row per value; None for a path of
    another tool. InputError for what cannot be read, and for what neither the files nor the flags say.
    """

    tool: str
    read: Callable[[Path, Asked], pd.DataFrame | None]

    def rows(self, path: Path, asked: Asked) -> pd.DataFrame | None:
        """As `read`; InputError for whatever that raises, in limited memory: the content of files of others may be anything."""
        with refused_errors(f"{on_one_line(str(path))!r} cannot be read as results of {self.tool}"), limited_memory():
            return self.read(path, asked)


def _tools() -> list[Results]:
    return [extensions.load(point, Results) for point in extensions.declared(GROUP).values()]


def _read(path: Path, asked: Asked) -> pd.DataFrame | None:
    return next((rows for tool in _tools() if (rows := tool.rows(path, asked)) is not None), None)


def rows_of(path: Path, asked: Asked) -> pd.DataFrame:
    """The rows of a file or folder; InputError where no tool that is known wrote it."""
    if not path.exists():
        raise InputError(f"{str(path)!r} does not exist: expected a file or folder of results")
    if (rows := _read(path, asked)) is None:
        raise InputError(
            f"{str(path)!r} is in no known format: expected results of {', '.join(tool.tool for tool in _tools())}"
        )
    stated = {name: getattr(asked, name) for name in ("arm", "task", "seed") if getattr(asked, name) is not None}
    return rows.assign(**{name: value for name, value in stated.items() if name not in rows})


def checked(parts: Iterable[pd.DataFrame], asked: Asked) -> Frame:
    """All rows as one frame, of one metric where it is asked for; InputError for values that do not compare."""
    rows = pd.concat(parts, ignore_index=True)
    if "document" in rows and (several := rows.groupby(["task", "item"])["document"].transform("nunique") > 1).any():
        task, item = rows.loc[several, ["task", "item"]].iloc[0].map(str)
        raise InputError(
            f"{on_one_line(task)}, doc_id {item.removesuffix('.0')}: doc_hash differs between the results: expected the same "
            "documents, or results without their samples"
        )
    if "split" in rows and len(splits := sorted({*rows["split"].dropna()})) > 1 and not splits[0].isdecimal():
        raise InputError(f"the column split has {splits[:9]}: expected one, or columns=task=NAME")
    if asked.metric is not None and "metric" in rows and (chosen := rows["metric"] == asked.metric).any():
        rows = rows[chosen]
    found = frame.checked(rows, asked.unit, asked.direction)
    if asked.metric is None:
        return found
    names = found.metrics(scores=True) + found.metrics(scores=False)
    if asked.metric not in names:
        raise unknown("metric", asked.metric, names, "metric")
    return found.of(asked.metric)


def asked_of(options: Files, arm: str | None = None) -> Asked:
    """What options say; InputError for columns that are not written NAME=COLUMN."""
    if wrong := [text for text in options.columns if not all(text.partition("="))]:
        raise InputError(f"columns={wrong[0]!r}: expected NAME=COLUMN, such as arm=model")
    said = {one.name: getattr(options, one.name) for one in fields(Files)}
    return Asked(**said | {"columns": dict(text.partition("=")[::2] for text in options.columns), "arm": arm})


class ResultsReader(MemoryReader):
    """A frame as a store: a study for each score, or one where no task has two; other metrics are in the first of them."""

    def __init__(self, found: Frame, name: str, started: int = 0, independent: bool = False) -> None:
        of_studies = found.studies()
        of_studies[0] += found.metrics(scores=False)
        self._runs = {}
        errors, notes = dict[str, Errors](), dict[str, list[str]]()
        for names in of_studies:
            own = found.of(*names)
            study = name if len(of_studies) == 1 else f"{name}: {names[0]}"
            self._runs[study], of_items = frame.runs(own, study, started, independent)
            errors |= of_items
            notes[study] = frame.said(own, independent)
        self.output = Packed(errors=errors, notes=notes)


def _at(path: Path) -> ResultsReader | None:
    """A reader of results in place of a store; None for what no tool wrote, and for a database, which may be a store."""
    rows = None if path.suffix == ".db" or not path.exists() else _read(path, Asked())
    return None if rows is None else ResultsReader(checked([rows], Asked()), path.name)


FOLDERS = Folders(_at)
