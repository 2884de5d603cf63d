"""What readers share: files by their paths, JSON of a known shape, and which of several files counts."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pandas as pd

from harness import paths
from harness.errors import InputError, on_one_line, some_of
from harness.reports.reading.untrusted import LARGEST_JSON, json_of

MOST_FILES = 1 << 16
"""Files of results in one folder."""
BEGINNING = 1 << 10
"""Bytes by which a file is told from that of another tool."""
NAMED = 3
"""Names of one list in a line."""

Shape = TypeVar("Shape")


def found(path: Path, places: str, begins: str = "") -> list[tuple[Path, re.Match[str]]]:
    """Files at or below the path, sorted, each with the match of its absolute path and the pattern `places`.

    The content matches `begins`; links are left out. InputError for more than MOST_FILES.
    """
    below = [path] if path.is_file() else [file for file in paths.below(path) if file.is_file() and not file.is_symlink()]
    matches = ((file, re.fullmatch(places, file.absolute().as_posix())) for file in below)
    named = [(file, match) for file, match in matches if match and re.match(begins, _beginning(file) if begins else "")]
    if len(named) > MOST_FILES:
        raise InputError(f"{on_one_line(str(path))!r} has {len(named):,} files of results: expected at most {MOST_FILES:,}")
    return named


def _beginning(file: Path) -> str:
    with file.open("rb") as content:
        return content.read(BEGINNING).decode(errors="replace")


def shaped(file: Path, shape: type[Shape], tool: str) -> Shape:
    """The JSON of a file as this shape; InputError for another."""
    return json_of(paths.read(file, LARGEST_JSON), shape, on_one_line(str(file)), f"what {tool} writes")


def newest(parts: Iterable[pd.DataFrame], tool: str) -> pd.DataFrame:
    """The rows of several files, oldest first; of an arm's task with a seed, those of the newest, and a line on stderr."""
    rows = pd.concat([part.assign(file=number) for number, part in enumerate(parts)], ignore_index=True)
    last = rows.groupby(names := ["arm", "task", "seed"], dropna=False)["file"].transform("max")
    if len(older := rows.loc[rows["file"] < last, names].drop_duplicates().dropna(axis=1)):
        several = [" ".join(row) for row in older.astype(str).itertuples(index=False)]
        print(f"{tool}: of several results the newest counts, of {some_of(several, NAMED)}", file=sys.stderr)
    return rows[rows["file"] == last].drop(columns="file")
