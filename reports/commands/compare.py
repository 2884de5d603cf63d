"""`python -m reports compare RUN_A RUN_B`: what differs between two runs, without a verdict: it takes replicates for one."""

from datetime import UTC, datetime

from harness.terminal import WIDTH, table, wrapped
from reports.commands import arguments
from reports.comparison import two_runs
from reports.comparison.two_runs import Number
from reports.errors import ReportError
from reports.read import open_store
from reports.reading.store import Run
from reports.writing import formats
from reports.writing.formats import DASH, SHARES

NO_VERDICT = (
    "One run of each is no evidence: a difference of trained or timed numbers may be chance. "
    "`python -m reports` compares arms by their replicates."
)
ORDER = (
    "Numbers are listed by kind: scores and held-out losses, speed and energy, memory, sizes, others. In each kind what "
    "differs most comes first (scores and shares by points, all else by ratio), and what one run lacks last."
)
COLUMNS = ["part", "name", "unit", "a", "b", "change", "change_percent"]
FORMATS = ("text", "md", "csv")
NAME_WIDTH, VALUE_WIDTH = 46, 18
Part = tuple[str, list[str], list[list[str]]]
"""Heading, column heads and rows."""


def main(given: list[str]) -> int:
    """0, and the comparison on stdout; ReportError where a run is not found or both are the same."""
    parser = arguments.Parser("compare", "What differs between two runs: settings, environment, numbers. No verdict.")
    parser.epilog = ORDER
    for name in ("run_a", "run_b"):
        parser.add_argument(name, metavar=name.upper(), help="id, name, or the beginning of the name of a run's folder")
    parser.add_argument("--study", metavar="NAME", action="append", default=[], help="where to search (default: every study)")
    parser.add_argument("--all", action="store_true", help="show numbers that are equal, too")
    parser.add_argument("--format", choices=FORMATS, default="text", help="(default: text, for a terminal)")
    options = parser.parse(given)
    reader = open_store(options.uri)
    first, second = (two_runs.find(reader, name, options.study) for name in (options.run_a, options.run_b))
    if first.run_id == second.run_id:
        raise ReportError(f"{options.run_a!r} and {options.run_b!r} are the same run, {first.run_id}; expected two")
    print(_csv(first, second) if options.format == "csv" else _text(first, second, options.all, options.format == "md"))
    return 0


def _text(first: Run, second: Run, every: bool, markdown: bool) -> str:
    names = [f"{letter}: {_described(run)}" for letter, run in zip("AB", (first, second), strict=True)]
    settings, environment = two_runs.settings(first, second), two_runs.environment(first, second)
    found = two_runs.numbers(first, second)
    shown = [one for one in found if every or one.first != one.second]
    equal = sum(one.first == one.second for one in found)
    hidden = " (--all shows them)" if equal and not every else ""
    parts = [
        (f"Settings that differ: {len(settings)}", ["key", "A", "B"], [list(map(_cell, one)) for one in settings]),
        (f"Environment that differs: {len(environment)}", ["key", "A", "B"], [list(map(_cell, one)) for one in environment]),
        (
            f"Numbers that differ: {len(found) - equal}; equal: {equal}{hidden}",
            ["metric", "A", "B", "change"],
            [_number(one) for one in shown],
        ),
    ]
    if markdown:
        return "\n\n".join([*(f"- {formats.escape(name)}" for name in names), *map(_markdown, parts), NO_VERDICT])
    return "\n\n".join(["\n".join(names), *map(_terminal, parts), wrapped(NO_VERDICT, 0)])


def _described(run: Run) -> str:
    at = datetime.fromtimestamp(run.started / 1000, UTC)
    return f"{run.name} ({run.run_id}, {run.status}, {at:%Y-%m-%d %H:%M} UTC)"


def _cell(text: str | None) -> str:
    return DASH if text is None else text


def _number(one: Number) -> list[str]:
    unit = one.metric.unit
    values = [DASH if value is None else formats.value(value, unit) for value in (one.first, one.second)]
    if one.change is None:
        return [one.metric.name, *values, DASH]
    points = unit in SHARES or one.percent is None
    return [one.metric.name, *values, formats.difference(one.change, unit) if points else formats.percent(one.percent)]


def _markdown(part: Part) -> str:
    heading, head, rows = part
    lines = [[formats.escape(text) for text in row] for row in rows]
    return f"## {heading}" + (f"\n\n{formats.table(head, lines)}" if rows else "")


def _terminal(part: Part) -> str:
    """Not wider than WIDTH: long texts are cut, in the middle, where both ends tell values apart."""
    heading, head, rows = part
    room = (WIDTH - NAME_WIDTH) // 2 - 2 if len(head) == 3 else VALUE_WIDTH
    lines = [tuple(_cut(text, room if column else NAME_WIDTH) for column, text in enumerate(row)) for row in rows]
    return heading + ("\n\n" + table(tuple(head), lines, "l" + ("ll" if len(head) == 3 else "rrr")) if rows else "")


def _cut(text: str, width: int) -> str:
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[:half]}…{text[-half:]}"


def _csv(first: Run, second: Run) -> str:
    lines: list[dict[str, object]] = []
    for part, rows in (("setting", two_runs.settings(first, second)), ("environment", two_runs.environment(first, second))):
        lines += [{"part": part, "name": key, "a": a, "b": b} for key, a, b in rows]
    for one in two_runs.numbers(first, second):
        line = {"part": "number", "name": one.metric.name, "unit": one.metric.unit, "a": one.first, "b": one.second}
        lines.append(line | {"change": one.change, "change_percent": one.percent})
    return formats.csv_file(lines, COLUMNS).decode().rstrip("\n")
