"""`python -m reports compare RUN_A RUN_B`: what differs between two runs, without a verdict, which needs replicates."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness import metrics, tags
from harness.comparison import arms
from harness.comparison.labels import typed
from harness.comparison.launches import SHARED
from harness.comparison.runs import Run
from harness.comparison.section import RESULTS
from harness.document import DASH, Block, Bullets, Section, in_terminal, markdown
from harness.errors import InputError, some_of
from harness.metrics import Compared, Metric
from harness.plugins.decide.options import Compare
from harness.reports.read import connect
from harness.reports.reading import folders, store
from harness.reports.reading.store import Reader
from harness.reports.writing import formats
from harness.reports.writing.formats import SHARES
from harness.reports.writing.shown import SHOWN
from harness.terminal import counted

ENVIRONMENT_TAGS = (tags.HARDWARE, tags.GIT_COMMIT, tags.GIT_DIRTY)
LISTED = 5
"""Runs that an error lists."""
GROUPS = ("eval", "pretrain", "inference", "train_step", "finetune", "model")
"""In the order in which numbers are listed, and then the others."""
TIMES = ("s", "ms", "tokens/s", "samples/s", "pairs/s", "J", "J/token")
"""Units of what compares only where it was measured side by side."""


@dataclass(frozen=True)
class Number:
    """A result of one or both runs, in base units; None where a run lacks it."""

    metric: Metric
    first: float | None
    second: float | None
    change: float | None  # second minus first; None where they do not compare

    @property
    def percent(self) -> float | None:
        """The change, of the size of the first; None where that is 0."""
        return None if self.change is None or not self.first else 100 * self.change / abs(self.first)


Setting = tuple[str, str | None, str | None]
"""Key, and its value in both runs; None where a run lacks it."""


def find(reader: Reader, text: str, studies: Iterable[str] = ()) -> Run:
    """The run of this id or name, or the only one whose id or folder's name begins like this, after `STUDY/` or a path.

    If several attempts share a folder's name, the newest. InputError where no run or more than one is meant, with
    names to choose from.
    """
    numbers_of = reader.studies()
    names = list(studies) or [name for name in [Path(text).parent.name] if name in numbers_of]
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
        meant = list(
            {(run.tags.get(tags.STUDY), folders.name_of(run) or run.run_id): run for run in fitting}.values()
        )  # the newest of each folder
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise InputError(f"{text!r} is ambiguous ({len(meant)} runs): {_listed(meant)}; give a longer prefix or the run id")
    if text in numbers_of:
        raise InputError(
            f"{text!r} is a study; compare takes two runs. Two studies in one table: python -m reports study=A study=B; "
            "one tested against the other: python -m reports gate study=B against=A max_drop=1%"
        )
    where = f"study {' or '.join(map(repr, names))}" if names else "the tracking store"
    newest = sorted((run for run in runs if not run.is_aa_replicate), key=lambda run: -run.started)
    raise InputError(
        f"no run {text!r} in {where}; expected an id, a name, or the beginning of a folder's name, such as "
        f"{_listed(newest) or 'none: there are no runs'}"
    )


def _listed(runs: list[Run]) -> str:
    of_folders = ((folders.name_of(run), run) for run in runs)
    return some_of([f"{run.tags.get(tags.STUDY)}/{name}" if name else run.run_id for name, run in of_folders], LISTED)


def differing(first: Run, second: Run) -> dict[str, list[Setting]]:
    """What differs in settings, seeds among them, without names and places of results; and in hardware, code and versions."""
    runs = (first, second)
    facts = {
        "settings": [{key: value for key, value in run.params.items() if not arms.within(key, arms.NAMES)} for run in runs],
        "environment": [
            {key: value for key, value in run.params.items() if key.startswith("environment.")}
            | {tag: run.tags[tag] for tag in ENVIRONMENT_TAGS if tag in run.tags}
            for run in runs
        ],
    }
    return {part: [(key, a.get(key), b.get(key)) for key in arms.varying((a, b))] for part, (a, b) in facts.items()}


def numbers(first: Run, second: Run) -> list[Number]:
    """All results that at least one has: those of the overview, then by group; what does not compare is last in its group.

    Times compare where one session has launched both side by side, and never what the clock of each training says alone; scores
    and losses compare on one task.
    """
    side_by_side = first.session != "" and first.session == second.session
    every = []
    for name in RESULTS:
        metric, a, b = metrics.get(name), first.metrics.get(name), second.metrics.get(name)
        is_shared = name in SHARED and (metric.unit in TIMES or name.endswith("/mfu"))
        compares = metric.compared is not Compared.OWN_CLOCK and (side_by_side or not is_shared)
        compares = compares and (first.task == second.task or not name.startswith("eval/"))
        if a is not None or b is not None:
            every.append(Number(metric, a, b, None if a is None or b is None or not compares else b - a))
    leading = {name: place for place, name in enumerate(main_results(first))}

    def place(one: Number) -> tuple[int, int, str, bool]:
        group = one.metric.name.partition("/")[0]
        return leading.get(one.metric.name, len(leading)), (*GROUPS, group).index(group), group, one.change is None

    return sorted(every, key=place)


def main_results(run: Run) -> dict[str, str]:
    """Metric -> its title, of those that a report opens with."""
    titles = SHOWN.overview | {name: metrics.get(name).title for name in SHOWN.overview_of_pretrainings}
    return {metrics.judged_by(name, run.metrics.get): title for name, title in titles.items()}


NO_VERDICT = (
    "Single runs are not evidence: verdicts need 3 seeds of each arm (python -m reports). "
    "–: missing, or times that were not taken side by side."
)
COLUMNS = ["part", "name", "unit", "a", "b", "change", "change_percent"]
WIDTHS = (46, 25, 25, 25)
"""Maximum characters of the columns on a terminal."""


def main(options: Compare) -> int:
    """0, and the comparison on stdout; InputError where a run is not found or both are the same."""
    reader = connect(options.address)
    with reader.guarded():
        first, second = (find(reader, name, options.study) for name in (options.run_a, options.run_b))
        if first.run_id == second.run_id:
            raise InputError(f"{options.run_a!r} and {options.run_b!r} are the same run, {first.run_id}; expected two")
        shown = _csv(first, second) if options.format == "csv" else _text(first, second, options.all, options.format == "md")
    print(shown)
    return 0


def _text(first: Run, second: Run, every: bool, is_markdown: bool) -> str:
    results, titles = numbers(first, second), main_results(first)
    names = [
        f"{letter}: {run.name} ({run.run_id}, {run.status}, {formats.date(run.started)})"
        for letter, run in {"A": first, "B": second}.items()
    ]
    main = [_row(one, titles[one.metric.name]) for one in results if one.metric.name in titles]
    said = "; ".join(f"{title.partition(', ')[0]} {change}" for title, *_, change in main if change != DASH)
    parts = {"Main results": main}
    for part, settings in differing(first, second).items():
        shown = _rounded if part == "environment" else typed
        parts[f"{part.capitalize()}: {counted(len(settings), 'difference')}"] = [
            [DASH if text is None else shown(text) for text in row] for row in settings
        ]
    heading = f"{counted(len(results), 'number')}{'; --all lists them' * (not every)}"
    parts[heading] = [_row(one, one.metric.name) for one in results if every]
    blocks: list[Block] = [
        Bullets([*map(formats.escape, names)]),
        f"B against A: {said or 'no main result compares'}.",
        NO_VERDICT,
    ]
    for heading, rows in parts.items():  # long texts are cut in the middle, where both ends tell values apart
        cells = [[*map(formats.escape, row if is_markdown else map(_cut, row, WIDTHS))] for row in rows]
        of_numbers = any(len(row) > 3 for row in rows)
        head = ["metric", "A", "B", "change"] if of_numbers else ["key", "A", "B"]
        blocks.append(Section(heading, [formats.table(head, cells, 1 if of_numbers else 3)] if rows else []))
    return "\n\n".join(text for block in blocks for text in (markdown if is_markdown else in_terminal)(block))


def _rounded(text: str) -> str:
    """Four significant digits of what is measured, such as the load of the machine; anything else unchanged."""
    return f"{float(text):.4g}" if re.fullmatch(r"\d+\.\d{4,}", text) else text


def _row(number: Number, title: str) -> list[str]:
    """Title with the unit, both values, and the change."""
    unit, both = number.metric.unit, (number.first, number.second)
    scale = formats.scaling(unit, max(filter(None, both), key=abs, default=0.0))[:2]
    values = [DASH if value is None else formats.value(value, unit, scale=scale) for value in both]
    return [", ".join(filter(None, [title, scale[1]])), *values, _change(number)]


def _change(number: Number) -> str:
    if number.change is None:
        return DASH
    in_units = number.metric.unit in SHARES or number.percent is None
    return formats.difference(number.change, number.metric.unit) if in_units else formats.percent(number.percent)


def _cut(text: str, width: int) -> str:
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[:half]}…{text[-half:]}"


def _csv(first: Run, second: Run) -> str:
    lines: list[dict[str, object]] = []
    for part, rows in differing(first, second).items():
        lines += [{"part": part.removesuffix("s"), "name": key, "a": a, "b": b} for key, a, b in rows]
    for number in numbers(first, second):
        named: dict[str, object] = {"part": "number", "name": number.metric.name, "unit": number.metric.unit}
        both = {"a": number.first, "b": number.second}
        lines.append(named | both | {"change": number.change, "change_percent": number.percent})
    return formats.csv_file(lines, COLUMNS).decode().rstrip("\n")
