"""Results of other tools: files and folders that readers, found by entry points, turn into one frame, read like a store."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from harness import extensions
from harness.errors import InputError

GROUP = "harness.results"


@dataclass(frozen=True)
class Asked:
    """What flags say of results, in place of what their files do not."""

    columns: Mapping[str, str] = field(default_factory=dict)  # name in `harness.comparison.frame.COLUMNS` -> name in the file
    arm: str | None = None
    task: str | None = None
    seed: str | None = None
    metric: str | None = None
    unit: str | None = None
    direction: str | None = None


@dataclass(frozen=True)
class Results:
    """Results that a tool writes, by the path of a file or folder.

    `read` gives the columns of `harness.comparison.frame.COLUMNS` that the tool states, one row a value; None for a path of
    another tool. InputError for what cannot be read, and for what neither the files nor the flags say.
    """

    tool: str
    read: Callable[[Path, Asked], pd.DataFrame | None]


def read(path: Path, asked: Asked) -> pd.DataFrame:
    """The rows of one file or folder; InputError where no tool that is known wrote it."""
    if not path.exists():
        raise InputError(f"{str(path)!r} does not exist: expected a file or folder of results")
    tools = [extensions.load(point, Results) for point in extensions.declared(GROUP).values()]
    for tool in tools:
        if (rows := tool.read(path, asked)) is not None:
            return rows
    raise InputError(f"{str(path)!r} is of no known tool: expected results of {', '.join(tool.tool for tool in tools)}")


def joined(paths: Iterable[Path], asked: Asked) -> pd.DataFrame:
    """The rows of all paths."""
    return pd.concat([read(path, asked) for path in paths], ignore_index=True)
