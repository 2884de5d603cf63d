"""`python -m reports compare RUN_A RUN_B`: what differs between two runs, without a verdict: it takes replicates for one."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness import metrics, tags
from harness.comparison import arms
from harness.comparison.launches import SHARED
from harness.comparison.runs import Run
from harness.comparison.section import RESULTS
from harness.document import DASH, Section, markdown
from harness.metrics import Compared, Direction, Metric
from harness.reports.errors import ReportError, some_of
from harness.reports.options import Compare
from harness.reports.read import open_store
from harness.reports.reading import folders, store
from harness.reports.reading.store import Reader
from harness.reports.writing import formats
from harness.reports.writing.formats import SHARES
from harness.terminal import WIDTH, table, wrapped

ENVIRONMENT_TAGS = (tags.HARDWARE, tags.GIT_COMMIT, tags.GIT_DIRTY)
ENVIRONMENT = "environment."
SHOWN = 5
"""Runs that an error lists."""
KINDS = ("score", "speed", "memory", "size", "other")
"""In the order in which numbers are listed."""
OF_UNITS = {
    "score": ("score", "loss", "nats", "bits/byte"),
    "speed": ("s", "ms", "tokens/s", "samples/s", "pairs/s", "J", "J/token"),
    "size": ("parameters", "FLOP", "operators"),
}
OF_ENDING = {"weights_bytes": "size", "_bytes": "memory", "bytes_forward": "memory", "_accuracy": "score", "mfu": "speed"}
"""How the names of bytes and shares end -> kind, the first that fits."""


@dataclass(frozen=True)
class Number:
    """A result of one or both runs, in base units; None where a run lacks it."""

    metric: Metric
    first: float | None
    second: float | None
    compares: bool = True

    @property
    def change(self) -> float | None:
        """Second minus first; None where they do not compare."""
        if self.first is None or self.second is None or not self.compares:
            return None
        return self.second - self.first

    @property
    def percent(self) -> float | None:
        """The change, of the size of the first; None where that is 0."""
        return None if self.change is None or not self.first else 100 * self.change / abs(self.first)


Setting = tuple[str, str | None, str | None]
"""Key, and its value in both runs; None where a run lacks it."""


def find(reader: Reader, text: str, studies: Iterable[str] = ()) -> Run:
    """The run of this id or name, or the only one whose id or folder's name begins like this; a folder's path will do.

    Of several attempts that share a folder's name the newest. ReportError where no run or more than one is meant, with
    names to choose from.
    """
    names, numbers_of = list(studies), reader.studies()
    searched = [store.number_of(numbers_of, name) for name in names] or list(numbers_of.values())
    runs = [run for number in searched for run in store.runs_of(reader, number)]
    beginning = Path(text).name
    rules = (
        lambda run: run.run_id == text,
        lambda run: run.name == text and not run.is_aa_replicate,
        lambda run: run.run_id.startswith(beginning) or (folders.name_of(run) or "").startswith(beginning),
    )
    for fits in rules if beginning else ():
        fitting = sorted(filter(fits, runs), key=lambda run: run.started)
        meant = list({folders.name_of(run) or run.run_id: run for run in fitting}.values())  # the newest of each folder
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise ReportError(f"{text!r} could be any of {len(meant)} runs: {_listed(meant)}; expected an id or more of a name")
    where = f"study {' or '.join(map(repr, names))}" if names else "the tracking store"
    newest = sorted((run for run in runs if not run.is_aa_replicate), key=lambda run: -run.started)
    raise ReportError(
        f"no run {text!r} in {where}; expected an id, a name, or the beginning of a folder's name, such as "
        f"{_listed(newest) or 'none: there are no runs'}"
    )


def _listed(runs: list[Run]) -> str:
    return some_of([f"{run.run_id} ({folders.name_of(run) or run.name})" for run in runs], SHOWN)


def differing_settings(first: Run, second: Run) -> list[Setting]:
    """The settings that differ, seeds among them, without names and places of results."""
    return [setting for setting in _differing(first.params, second.params) if not arms.within(setting[0], arms.NAMES)]


def differing_environment(first: Run, second: Run) -> list[Setting]:
    """What differs in hardware, code and versions."""
    both = [
        {key: value for key, value in run.params.items() if key.startswith(ENVIRONMENT)}
        | {tag: run.tags[tag] for tag in ENVIRONMENT_TAGS if tag in run.tags}
        for run in (first, second)
    ]
    return _differing(*both)


def _differing(first: dict[str, str], second: dict[str, str]) -> list[Setting]:
    return [(key, first.get(key), second.get(key)) for key in arms.varying((first, second))]


def numbers(first: Run, second: Run) -> list[Number]:
    """All results that at least one of them has: by kind, in each what differs most first, what one run lacks last.

    Scores and shares differ by points, all else by the logarithm of its ratio, so that half is as far as twice. Times compare
    where one session has launched both side by side, and never what the clock of each training says alone.
    """
    side_by_side = first.session != "" and first.session == second.session
    every = [
        Number(
            metric := metrics.get(name),
            first.metrics.get(name),
            second.metrics.get(name),
            metric.compared is not Compared.OWN_CLOCK and (side_by_side or name not in SHARED or kind_of(metric) != "speed"),
        )
        for name in RESULTS
    ]
    return sorted(
        (number for number in every if (number.first, number.second) != (None, None)),
        key=lambda number: (KINDS.index(kind_of(number.metric)), number.change is None, -_distance(number)),
    )


def kind_of(metric: Metric) -> str:
    """One of KINDS."""
    if metric.unit in ("bytes", "share"):
        return next((kind for ending, kind in OF_ENDING.items() if metric.name.endswith(ending)), "other")
    if metric.direction is Direction.NEITHER and metric.unit != "parameters":
        return "other"
    return next((kind for kind, units in OF_UNITS.items() if metric.unit in units), "other")


def _distance(number: Number) -> float:
    """How far both values are apart, comparable within a kind; 0 where one is missing."""
    if not number.change:
        return 0.0
    if number.metric.unit in SHARES:
        return abs(number.change)
    first, second = number.first or 0.0, number.second or 0.0
    return abs(math.log(second / first)) if first > 0 and second > 0 else math.inf


NO_VERDICT = (
    "One run of each is no evidence: a difference of trained or timed numbers may be chance. Times have one only where both "
    "were launched side by side in one session. "
    "`python -m reports` compares arms by their replicates."
)
COLUMNS = ["part", "name", "unit", "a", "b", "change", "change_percent"]
NAME_WIDTH, VALUE_WIDTH = 46, 18
Part = tuple[str, list[str], list[list[str]]]
"""Heading, column heads and rows."""


def main(options: Compare) -> int:
    """0, and the comparison on stdout; ReportError where a run is not found or both are the same."""
    reader = open_store(options.address)
    with reader.guarded():
        first, second = (find(reader, name, options.study) for name in (options.run_a, options.run_b))
        if first.run_id == second.run_id:
            raise ReportError(f"{options.run_a!r} and {options.run_b!r} are the same run, {first.run_id}; expected two")
        shown = _csv(first, second) if options.format == "csv" else _text(first, second, options.all, options.format == "md")
    print(shown)
    return 0


def _text(first: Run, second: Run, every: bool, markdown: bool) -> str:
    names = []
    for letter, run in zip("AB", (first, second), strict=True):
        at = datetime.fromtimestamp(run.started / 1000, UTC)
        names.append(f"{letter}: {run.name} ({run.run_id}, {run.status}, {at:%Y-%m-%d %H:%M} UTC)")
    texts = {"Settings that differ": differing_settings(first, second)}
    texts["Environment that differs"] = differing_environment(first, second)
    parts = [
        (f"{title}: {len(rows)}", ["key", "A", "B"], [[DASH if text is None else text for text in row] for row in rows])
        for title, rows in texts.items()
    ]
    results = numbers(first, second)
    equal = sum(number.first == number.second for number in results)
    hidden = " (--all shows them)" if equal and not every else ""
    different = [_number(number) for number in results if every or number.first != number.second]
    title = f"Numbers that differ: {len(results) - equal}; equal: {equal}{hidden}"
    parts.append((title, ["metric", "A", "B", "change"], different))
    if markdown:
        return "\n\n".join([*(f"- {formats.escape(name)}" for name in names), *map(_markdown, parts), NO_VERDICT])
    return "\n\n".join(["\n".join(names), *map(_terminal, parts), wrapped(NO_VERDICT, 0)])


def _number(number: Number) -> list[str]:
    unit = number.metric.unit
    values = [DASH if value is None else formats.value(value, unit) for value in (number.first, number.second)]
    if number.change is None:
        return [number.metric.name, *values, DASH]
    points = unit in SHARES or number.percent is None
    return [number.metric.name, *values, formats.difference(number.change, unit) if points else formats.percent(number.percent)]


def _markdown(part: Part) -> str:
    heading, head, rows = part
    lines = [[formats.escape(text) for text in row] for row in rows]
    return "\n\n".join(markdown(Section(heading, [formats.table(head, lines)] if rows else [])))


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
    for part, rows in (("setting", differing_settings(first, second)), ("environment", differing_environment(first, second))):
        lines += [{"part": part, "name": key, "a": a, "b": b} for key, a, b in rows]
    for number in numbers(first, second):
        named: dict[str, object] = {"part": "number", "name": number.metric.name, "unit": number.metric.unit}
        both = {"a": number.first, "b": number.second}
        lines.append(named | both | {"change": number.change, "change_percent": number.percent})
    return formats.csv_file(lines, COLUMNS).decode().rstrip("\n")
