"""What a terminal shows of a report: the arms in one table that fits, and its answer in words."""

import textwrap
from collections.abc import Sequence

from msgspec.structs import replace

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.overall import Overall
from harness.comparison.section import HEADLINE
from harness.comparison.verdicts import Verdict
from harness.document import DASH, Cell, Screen, Table
from harness.errors import some_of, unknown
from harness.metrics import Direction
from harness.reports.chapters import overview
from harness.reports.writing import concise, findings, formats, tables
from harness.reports.writing.answer import OUTCOMES, sentences
from harness.reports.writing.formats import escape

MOST_COSTS, MOST_ARMS, LONGEST_NAME = 3, 20, 24
ALL = "all"
"""In place of names of columns: every column and every arm."""
MARKS = {
    "▲": "better",
    "▼": "worse",
    "≈": "equivalent within the margin",
    "=": "equal",
    "~": "inconclusive",
    "△▽": "single run: not evidence",
    "–": "no verdict",
}
"""Signs of a change -> what they say."""
ROUNDS = "timing rounds"
WARNED = "† Training warning: see the report."
"""In place of the report's note, which names its chapters."""
ARROWS = {Direction.HIGHER: " ↑", Direction.LOWER: " ↓"}


def screen(comparison: Comparison, asked: Sequence[str] = ()) -> Screen | None:
    """Scores and the first costs in which the arms differ, or the `asked` columns, by a part of their name.

    None without a baseline or a metric; InputError for a column that no run has.
    """
    measured, said = findings.parts(comparison), sentences(comparison)
    if not measured or not said:
        return None
    over, names = measured[0]
    outcomes = [name for name in names if name in OUTCOMES]
    costs = [name for name in names if name not in outcomes]
    differing = [name for name in costs if len({_value(over, label, name) for label in over.labels}) > 1] or costs
    chosen, labels = differing[:MOST_COSTS], over.labels
    if ALL in asked:
        chosen = costs
    elif asked:
        chosen = [name for word in asked for name in _named(word, costs, names)]
    elif len(labels) > MOST_ARMS:
        labels = _first(over, [*outcomes, *costs][0])
    columns = [*outcomes, *dict.fromkeys(chosen)]
    body = [_column(over, labels, name) for name in columns]
    short, say = concise.short_names(over.labels), concise.shortener(over.labels)
    table = Table(
        ["arm", *(_head(over, name, names[name]) for name in columns)],
        [[_name(short[label]), *cells] for label, cells in zip(labels, zip(*body, strict=True), strict=True)],
    )
    same = [f"{names[name]} {_value(over, labels[0], name)}" for name in costs if name not in (*differing, *columns)]
    notes = [*_legend(over, table, columns), *([f"Equal for all arms: {', '.join(same)}."] if same else [])]
    notes += [
        *_open(comparison, outcomes),
        *findings.unpaired(comparison),
        *findings.unfinished(comparison),
        *findings.selected(comparison),
    ]
    notes += [f"Names leave out what all arms share: {shared}."] if (shared := concise.shared_parts(over.labels)) else []
    notes += [f"Baseline: {comparison.baseline} ({text})."] if (text := findings.unnamed(comparison)) else []
    if len(labels) < len(over.labels):
        notes.insert(0, f"The best {len(labels)} of {len(over.labels)} arms; the report has all.")
    more = [names[name] for name in differing if name not in columns]
    noise = findings.without_evidence([effect for effect in findings.effects(comparison) if effect.metric in columns])
    return Screen(say(said[0]), table, [*map(say, notes)], more, bool(asked), [*noise])


def _open(comparison: Comparison, outcomes: list[str]) -> list[str]:
    """`Inconclusive: albert (needs 8 seeds, 2 min more)`: what would give the first of them a verdict."""
    reasons = [
        f"{escape(effect.label)} ({why})"
        for effect in findings.effects(comparison)
        if effect.metric in outcomes[:1] and effect.said_with is Verdict.INCONCLUSIVE and effect.change.evidence
        if (why := tables.lacking(effect.change, effect.change.evidence, effect.unit))
    ]
    return [f"Inconclusive: {some_of(reasons, MOST_COSTS)}."] if reasons else []


def _name(label: str) -> Cell:
    """The arm; one with a long name has several lines."""
    first, *others = textwrap.wrap(escape(label).replace("+", "+ "), LONGEST_NAME, break_long_words=False)
    return Cell(first.replace("+ ", "+"), change="\n".join(others).replace("+ ", "+"))


def _named(word: str, costs: list[str], names: dict[str, str]) -> list[str]:
    """The costs whose name or key has the word."""
    found = [name for name in costs if word.casefold() in f"{names[name]} {name}".casefold()]
    if not found:
        raise unknown("column", word, [ALL, *(names[name] for name in costs)], "columns")
    return found


def _value(over: Overall, label: str, name: str) -> str:
    spread = over.spread(label, name)
    return DASH if spread is None else formats.value(spread.mean, metrics.get(name).unit)


def _first(over: Overall, name: str) -> list[str]:
    """The baseline and the best of the other arms, as many as are shown, in the order of the study."""
    best = sorted(over.labels, key=lambda label: _merit(over, label, name), reverse=True)
    kept = {over.comparison.baseline, *best[: MOST_ARMS - 1]}
    return [label for label in over.labels if label in kept]


def _merit(over: Overall, label: str, name: str) -> float:
    """More is better."""
    value, sign = overview.cell(over, label, name).value, -1 if metrics.get(name).direction is Direction.LOWER else 1
    return float("-inf") if value is None else sign * value


def _head(over: Overall, name: str, text: str) -> str:
    """`accuracy ↑`, `latency, ms ↓`: the arrow says what is better."""
    unit = _unit(over, name)[1]
    if name == HEADLINE:
        text = findings.score_head(over)
    return f"{text}{', ' * bool(unit)}{unit}{ARROWS.get(metrics.get(name).direction, '')}"


def _unit(over: Overall, name: str) -> tuple[float, str]:
    """What the values of a column are divided by, and its unit: those of the first arm that has one."""
    spreads = (over.spread(label, name) for label in over.labels)
    return formats.scaling(metrics.get(name).unit, next(spread.mean for spread in spreads if spread))[:2]


def _column(over: Overall, labels: list[str], name: str) -> list[Cell]:
    """Values in the unit of the column, each above its change; the best one is marked."""
    scale, merits = _unit(over, name), [_merit(over, label, name) for label in labels]
    differs = metrics.get(name).direction in ARROWS and min(merits) < max(merits)
    cells = [overview.cell(over, label, name, scale) for label in labels]
    return [replace(cell, best=differs and merit == max(merits)) for cell, merit in zip(cells, merits, strict=True)]


def _legend(over: Overall, table: Table, columns: list[str]) -> list[str]:
    """What the signs of the table say, of those that it has."""
    cells = [cell for row in table.rows for cell in row]
    marks = [f"{sign} {words}" for sign, words in MARKS.items() if any(cell.change.endswith(tuple(sign)) for cell in cells)]
    signs = [f"Changes from {escape(over.comparison.baseline)}: {', '.join(marks)}."] if marks else []
    scattered = [name for index, name in enumerate(columns, 1) if any("±" in row[index].text for row in table.rows)]
    spread = {any(over.by_round(label, name) for label in over.labels) for name in scattered}
    over_what = [text for is_time, text in ((False, "seeds"), (True, ROUNDS)) if is_time in spread]
    signs += [f"±: standard deviation over {' (times: over '.join(over_what)}{')' * (len(over_what) > 1)}."] if spread else []
    lacks = any(" of " in cell.text and overview.SOME_TASKS[0] not in cell.text for row in table.rows for cell in row[1:])
    signs += ["In brackets: tasks with results."] if lacks else []
    noted = [WARNED if note == overview.NOTES[overview.WARNED] else note for note in overview.noted(table)]
    return [*([" ".join(signs)] if signs else []), *noted]
