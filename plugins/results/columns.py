"""Columns of a table as those of a frame, by their names or by flags.

`columns=arm=NAME` says which column is the arm, or any other of `NAMES`. `columns=seed=s1+s2+s3` reads a table that has a
column of values for each seed (or arm, task or metric), by the names of these columns. `columns=path={arm}/seed{seed}`
takes names from the end of the path of each file or folder of a run.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
from pyarrow import compute, types

from harness.errors import InputError, on_one_line, some_of
from harness.plugins.judge.frame import said_by_name
from harness.plugins.judge.results import Asked
from harness.records import shipped
from harness.terminal import counted

NAMES = shipped(__file__, dict[str, str])
"""Column of a frame -> names by which a column of a file is known to be it."""

GENERIC = ("value", "score")
"""Names of a column of values that do not say which metric it is: a flag may."""
NUMBERS = ("value", "items", "error")
METRIC, FINISHED = "metrics.", "finished"
PREFIX = re.compile(r"^(params|tags|config|metrics)\.")
"""Where a tool keeps what a column of its runs has."""

LISTED = 20
"""Columns in a line."""

Row = dict[str, Any]
"""A run: texts by names, numbers by `metrics.NAME`, whether it `finished`; what is named as a column of a frame is that."""


def stated(path: Path, asked: Asked) -> dict[str, str]:
    """Arm, task and seed by flags, and what `columns=path=PATTERN` takes from the path; InputError where it ends otherwise."""
    flags = {own: value for own in ("arm", "task", "seed") if (value := getattr(asked, own)) is not None}
    if (pattern := asked.columns.get("path")) is None:
        return flags
    parts = re.split(r"\{(\w+)\}", pattern)  # text, name, text, ..., name, text
    groups = [f"(?P<{part}>[^/]+?)" if place % 2 else re.escape(part) for place, part in enumerate(parts)]
    if (match := re.search(f"(?:^|/){''.join(groups)}$", path.absolute().as_posix())) is None:
        raise InputError(f"{on_one_line(str(path))!r} does not match columns=path={pattern}: expected such a path")
    return flags | match.groupdict()


def chosen(names: Sequence[str], asked: Asked, known: Mapping[str, str], where: Path) -> dict[str, list[str]]:
    """Column of a frame -> columns of a file: those of `columns=` and `metric=`, else the one with its name, if not `known`.

    InputError, which lists the columns, for one that is missing, and for two that have the name.
    """
    there = f"the columns of {on_one_line(str(where))} are {some_of([*map(on_one_line, names)], LISTED)}"
    result = {own: [name] if name in names else name.split("+") for own, name in asked.columns.items() if own != "path"}
    is_wide = any(len(parts) > 1 for parts in result.values())
    if asked.metric and asked.metric in names and not is_wide and not {"value", "metric"} & {*result}:
        result["value"] = [asked.metric]
    taken = [name for parts in result.values() for name in parts]
    values = [own for own, parts in result.items() if own == "value" or len(parts) > 1]
    if not {*result} <= {*NAMES} or not {*taken} <= {*names} or len(values) > 1:
        raise InputError(
            f"columns={','.join(f'{own}={name}' for own, name in asked.columns.items())}: expected NAME=COLUMN with a NAME of "
            f"{', '.join(NAMES)}, and COLUMN+COLUMN for at most one NAME; {there}"
        )
    for own in [own for own in NAMES if own not in {*result, *known} and not (own == "value" and values)]:
        fitting = [name for name in names if re.fullmatch(NAMES[own], PREFIX.sub("", name.casefold())) and name not in taken]
        if len(fitting) > 1 or (not fitting and own in ("arm", "task", "value")):
            which = f"{' and '.join(fitting)} may each be" if fitting else "no column is known to be"
            wide = own if own != "value" else "metric" if fitting else "seed"
            by_flag = f", {own}=TEXT, columns=path=.../{{{own}}}/..." if own != "value" else ""
            by_column = f"columns={wide}=A+B where each {wide} has a column of values"
            raise InputError(f"{which} the {own}: expected columns={own}=NAME{by_flag}, or {by_column}; {there}")
        result |= {own: fitting} if fitting else {}
    return result


def frame(table: pyarrow.Table, chosen: Mapping[str, list[str]], asked: Asked) -> pd.DataFrame:
    """The columns of the table as those of a frame.

    Without a column for it, the metric is that of the flag, or has the name of the column of values. A gap in one of several
    columns of values is not a row.
    """
    wide = next((own for own, names in chosen.items() if len(names) > 1), None)
    named = None if wide else PREFIX.sub("", chosen["value"][0])
    metric = (asked.metric if wide or "value" in asked.columns or named in GENERIC else None) or named
    parts = []
    for name in chosen[wide or "value"]:
        columns = {own: names[0] for own, names in chosen.items() if own != wide} | {"value": name}
        part = pyarrow.table({own: _typed(table, column, own in NUMBERS) for own, column in columns.items()})
        part = part.filter(compute.is_valid(part["value"])) if wide else part
        parts.append(part.to_pandas().assign(**({wide: PREFIX.sub("", name)} if wide else {})))
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return rows if "metric" in rows or metric is None else rows.assign(metric=metric)


def _typed(table: pyarrow.Table, name: str, is_number: bool) -> pyarrow.ChunkedArray:
    """Numbers as float64, also those that are text with a decimal point, and true as 1; texts once each."""
    column = table[name]
    if not (is_number and types.is_primitive(column.type)):
        column = compute.utf8_trim_whitespace(column.cast(pyarrow.string()))
        if not is_number:
            return column.dictionary_encode()
    if len(column) and str(column[0].as_py()).lower() in ("true", "false"):
        column = column.cast(pyarrow.bool_()).cast(pyarrow.int8())
    try:
        return column.cast(pyarrow.float64())
    except pyarrow.ArrowInvalid as error:
        text = re.search("'.*'", on_one_line(str(error))) or [str(error)]
        raise InputError(
            f"the column {on_one_line(name)} has {text[0]}, which is not a number: expected digits and a decimal point, "
            "without currency signs or thousands separators, such as 1200.5"
        ) from error


def say_other_metrics(read: Mapping[str, list[str]], names: Sequence[str], asked: Asked, where: Path) -> None:
    """A line on stderr, if a table has more metrics than the one that was chosen by its name and not by a flag."""
    if asked.metric or "value" not in read or "metric" in read or "value" in asked.columns:
        return
    others = [name for name in names if [name] not in read.values() and any(said_by_name(name))]
    if others:
        listed = some_of([*map(on_one_line, others)], LISTED)
        print(f"{on_one_line(str(where))}: read {read['value'][0]}, not {listed}: metric=NAME reads another", file=sys.stderr)


def say_unfinished(count: int, where: Path) -> None:
    """A line on stderr, if any runs are left out."""
    if count:
        print(f"{on_one_line(str(where))}: left out {counted(count, 'run')} that did not finish", file=sys.stderr)


def of_runs(rows: Sequence[Row], asked: Asked, where: Path, every: bool = False) -> pd.DataFrame | None:
    """Runs as rows of a frame, of the metrics that flags name, or of `every` one; None without runs.

    A run without the metric, or without what `columns=arm=` names, has no row; nor has one that did not finish, which a line on
    stderr says. InputError where flags name no metric.
    """
    if not rows:
        return None
    names = [*dict.fromkeys(name for row in rows for name in row)]
    metrics = [name for name in names if name.startswith(METRIC)]
    columns = {**{own: own for own in NAMES if own in names}, **asked.columns}
    if not {"metric", "value"} & {*columns} and not any("+" in name for name in columns.values()):
        picked = metrics if every and asked.metric is None else [f"{METRIC}{asked.metric}"]
        if not {*picked} <= {*metrics}:
            listed = some_of([on_one_line(name.removeprefix(METRIC)) for name in metrics], LISTED)
            expected = f"metric=NAME, or columns=metric={METRIC}A+{METRIC}B, of {listed}"
            raise InputError(f"{on_one_line(str(where))} has several metrics: expected {expected}")
        columns["metric" if len(picked) > 1 else "value"] = "+".join(picked)
    of = chosen(names, replace(asked, columns=columns), {}, where)
    needed = {*of["arm"]}, {*(of.get("value") or max(of.values(), key=len))}
    finished = [row for row in rows if row.get(FINISHED, True)]
    say_unfinished(len(rows) - len(finished), where)
    kept = [row for row in finished if all(names & row.keys() for names in needed)]
    used = [name for parts in of.values() for name in parts]
    return frame(pyarrow.table({name: [row.get(name) for row in kept] for name in used}), of, asked)
