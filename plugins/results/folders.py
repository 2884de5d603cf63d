"""Shared by readers: files found by their paths, and one frame of their rows."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from harness import paths
from harness.errors import some_of
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results.columns import stated

BEGINNING = 1 << 16
"""Bytes by which a file is told from that of another tool."""
DATE = r"(?P<date>\d{4}-\d\d-\d\dT[\d.-]*\d)"
"""In names of files, when a run began."""
RUN = ["arm", "task", "seed"]
NAMED = 3
"""Names of one list in a line."""


def found(path: Path, places: str, begins: str = "") -> list[tuple[Path, re.Match[str]]]:
    """Files at or below the path, sorted, each with the match of its absolute path and the pattern `places`.

    The content matches `begins`; links are left out.
    """
    below = [path] if path.is_file() else [file for file in paths.below(path) if file.is_file() and not file.is_symlink()]
    named = []
    for file in below:
        if match := re.fullmatch(places, file.absolute().as_posix()):
            with file.open("rb") as content:
                named += [(file, match)] if re.match(begins.encode(), content.read(BEGINNING)) else []
    return named


def results(tool: str, places: str, begins: str, of_file: Callable[[Path], pd.DataFrame]) -> Results:
    """Results whose rows are those `of_file`, of each file that is `found`: with columns for the named groups of `places`, and
    for what flags say of the folder that is its first group.

    With a group `revision` or a column `model_args`, an arm of several is an arm for each; with a column `version`, so is a
    task. With a group `date`, of an arm on a task with a seed the newest rows count, which a line on stderr says.
    """

    def read(path: Path, asked: Asked) -> pd.DataFrame | None:
        files = [(file, match.groupdict() | stated(Path(match[1]), asked)) for file, match in found(path, places, begins)]
        if not files:
            return None
        rows = pd.concat([of_file(file).assign(**names) for file, names in files], ignore_index=True)
        for name, version in (("arm", "revision"), ("arm", "model_args"), ("task", "version")):
            if version in rows:
                several = rows.groupby(name)[version].transform("nunique") > 1
                rows[name] = rows[name].mask(several, rows[name] + "@" + rows[version].astype(str))
        if "revision" in rows:
            rows["arm"] = rows["arm"].str.replace("__", "/")
        if "date" in rows:
            older = rows["date"] < rows.groupby(RUN, dropna=False)["date"].transform("max")
            if names := [" ".join(map(str, run)) for run in rows.loc[older, RUN].drop_duplicates().itertuples(index=False)]:
                print(f"{tool}: only the newest of several results counts, for {some_of(names, NAMED)}", file=sys.stderr)
            rows = rows[~older]
        return rows

    return Results(tool, read)
