"""GLUE by protocol: what each paper would print of the same weights, the clean numbers, and where the difference comes from.

It needs no further runs: each run records the scores, statistic, average and selection of its protocol.
"""

import ast
import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

import msgspec
import numpy as np

from harness.comparison.paired import grouped
from harness.comparison.section import HEADLINE, Row
from harness.document import DASH, Block, Cell, Section
from harness.plugins.protocols.optimism import optimism, scores
from harness.records import shipped
from harness.reports.chapters import Added, tasks
from harness.reports.reading.predictions import predictions
from harness.reports.reading.study import Study
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import POINTS, Chapter, escape

TEXTS = shipped(__file__, dict[str, str])
MEANINGS = TEXTS["meanings"].splitlines()
STATISTICS: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "median": median, "best": max}
TITLE = "GLUE by protocol"
CLEAN = ("same runs, plain", "plain", "difference")
CAUSES = ("tasks", "scores", "statistic", "setting", "epoch", "rest", "all")


@dataclass(frozen=True)
class Protocol:
    """The runs of one model under one protocol. A place is a task, or TASK/SPLIT."""

    label: str
    name: str
    named: list[str]  # the places that its average is of
    rows: dict[str, Row]  # by task
    plain: "Protocol | None"  # the clean one of the same model

    @property
    def places(self) -> list[str]:
        """The named ones that ran, here and under plain: a staged start may have run a further task."""
        both = [self, *([self.plain] if self.plain else [])]
        return [place for place in self.named if all(one.row_of(place) for one in both)]

    def row_of(self, place: str) -> Row | None:
        return self.rows.get(place.partition("/")[0])

    def scores(self, row: Row, place: str, own: bool = True) -> list[str]:
        """SCORE or SPLIT/SCORE: their mean is the number of the place. The headline unless they are the protocol's own."""
        params, split = row.first.params, place.partition("/")[2]
        stated = names(params["protocol.scores"]) if own and not split else []
        return stated or [f"{split}/{params['task.headline']}".removeprefix("/")]

    def number(self, place: str, own: bool = True, statistic: str | None = None) -> float:
        """By its own scores and statistic, unless stated otherwise; NaN where the task did not run or has no such score."""
        row = self.row_of(place)
        if row is None:
            return math.nan
        parts = [score.rpartition("/") for score in self.scores(row, place, own)]
        metrics = [f"eval/{name}_{split}".removesuffix("_") for split, _, name in parts]
        of_seeds = [fmean(run.metrics[name] for name in metrics) for run in row.runs if run.metrics.keys() >= {*metrics}]
        return STATISTICS[statistic or row.first.params["protocol.statistic"]](of_seeds or [math.nan])

    def average(self, places: Sequence[str] = (), own: bool = True, statistic: str | None = None) -> float:
        """Over these places, by default its own that ran."""
        return fmean([self.number(place, own, statistic) for place in places or self.places] or [math.nan])


def chapter(study: Study) -> Chapter:
    """Empty where no run names a protocol."""
    found = [one for label in study.comparison.labels if (one := protocol_of(study, label))]
    every = [one for one in found if isinstance(one, Protocol)]
    damaged = [one for one in found if isinstance(one, str)]
    if not every:
        return Chapter([Section(TITLE, [*damaged])] if damaged else [])
    places = [*dict.fromkeys(place for one in every for place in one.named if one.row_of(place))]
    table = formats.table(["arm", *places, "average", *CLEAN], [numbers(one, places) for one in every])
    notes = [tables.SELECTED_NOTE] if any(tables.SELECTED in cell.text for row in table.rows for cell in row) else []
    notes += [TEXTS["part"]] if any(one.places != one.named for one in every) else []
    by_model = grouped((one.label.replace(f"protocol={one.name}", "").strip(), one) for one in every)
    spreads = [sentence for model, of_model in by_model.items() for sentence in spread(model, of_model)]
    blocks: list[Block] = [TEXTS["intro"], table, *notes, *damaged, *spreads]
    parts = [[escape(one.label), *causes(study, one, one.plain)] for one in every if one.plain]
    blocks += [TEXTS["causes"], formats.table(["arm", *CAUSES], parts), *formats.bullets(MEANINGS)] if parts else []
    return Chapter([Section(TITLE, blocks)])


def names(text: str) -> list[str]:
    """As a run records a list of names; ValueError, SyntaxError, TypeError, MemoryError or RecursionError for another text."""
    return msgspec.convert(ast.literal_eval(text), list[str])


def protocol_of(study: Study, label: str) -> Protocol | str | None:
    """None for an arm without one; a sentence for one whose protocol cannot be read, or that ran under other conditions."""
    rows = {section.task: row for section in study.comparison.selected_tasks if (row := section.row_of(label))}
    params = next((row.first.params for row in rows.values() if row.first.params.get("protocol_name")), None)
    if params is None:
        others = (row for section in study.comparison.tasks if (row := section.row_of(label)))
        is_named = any(row.first.params.get("protocol_name") for row in others)
        return TEXTS["elsewhere"].format(label=escape(label)) if is_named else None
    if key := next(filter(None, map(damaged_key, rows.values())), None):
        return TEXTS["damaged"].format(label=escape(label), key=key)
    name = params["protocol_name"]
    of_plain = label.replace(f"protocol={name}", "protocol=plain")
    plain = protocol_of(study, of_plain) if of_plain != label else None
    return Protocol(label, name, names(params["protocol.average"]), rows, plain if isinstance(plain, Protocol) else None)


def damaged_key(row: Row) -> str | None:
    """The first recorded key that is missing or has a text that this chapter cannot read."""
    params = row.first.params
    is_searched = params.get("tuned.selected_on") == "validation"
    for key, read in READERS.items():
        try:
            if (is_searched or not key.startswith("tuned.")) and not read(params[key]) and key in NEVER_EMPTY:
                return key
        except (LookupError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return key
    return None


READERS: dict[str, Callable[[str], object]] = {
    "protocol.average": names,
    "protocol.scores": names,
    "protocol.statistic": STATISTICS.__getitem__,
    "task.headline": str,
    "tuned.scores": functools.partial(msgspec.json.decode, type=list[float | None]),
    "tuned.settings": functools.partial(msgspec.json.decode, type=dict[str, Any]),
}
"""Key of a run -> what reads its text."""
NEVER_EMPTY = ("protocol.average", "task.headline")


def numbers(one: Protocol, places: list[str]) -> list[Cell | str]:
    """Its row: its label, the number of each place, the average, and CLEAN."""
    rows, clean = [*one.rows.values()], one.plain.average() if one.plain else math.nan
    part = "" if one.places == one.named else f" ({len(one.places)} of {len(one.named)})"
    averages = [points(one.average(), rows, part), points(one.average(own=False, statistic="mean"), rows), points(clean)]
    cells = [points(one.number(place), [row] if (row := one.row_of(place)) else []) for place in places]
    return [escape(one.label), *cells, *averages, signed(one.average() - clean)]


def points(value: float, rows: Sequence[Row] = (), part: str = "") -> Cell:
    """`62.1 (5 of 8) §`, marked where a row was selected on the rows that it reports; a dash where it is unknown."""
    mark = tables.selection_mark(run for row in rows for run in row.runs)
    return Cell(DASH) if math.isnan(value) else Cell(f"{formats.plain(POINTS * value, 1)}{part}{mark}", value, "score")


def signed(value: float, half: float = 0.0) -> Cell:
    """`+1.2 [+0.8, +1.6]`, without an interval where it is exact; a dash where it is unknown."""
    text = formats.difference(value, "score", [value - half, value + half] if half else None)
    return Cell(DASH) if math.isnan(value) else Cell(text.removesuffix(" points"), value, "score")


def spread(model: str, of_model: list[Protocol]) -> list[str]:
    """What a point between two papers is worth, by the most protocols that average the same tasks; empty for one alone."""
    averages = [(tuple(sorted(one.places)), (value, one.name)) for one in of_model if not math.isnan(value := one.average())]
    alike = max(grouped(averages).values(), key=len, default=[])
    if len(alike) < 2:
        return []
    alike.sort()
    sizes = {"low": alike[0][0], "high": alike[-1][0], "sd": stdev(value for value, _ in alike)}
    shown = {name: f"{POINTS * size:.1f}" for name, size in sizes.items()}
    return [TEXTS["spread"].format(model=escape(model), count=len(alike), lowest=alike[0][1], highest=alike[-1][1], **shown)]


def causes(study: Study, one: Protocol, plain: Protocol) -> list[Cell]:
    """The difference from plain by CAUSES."""
    rows = [(place, row) for place in one.places if (row := one.row_of(place))]
    settings = [setting_optimism(study, row, one.scores(row, place)) for place, row in rows] or [(math.nan, 0.0)]
    printed, of_mean, clean = one.average(), one.average(statistic="mean"), plain.average()
    known = [
        plain.average(one.places) - clean,
        of_mean - one.average(own=False, statistic="mean"),
        printed - of_mean,
        fmean(value for value, _ in settings),
        fmean([epoch_gain(study, row) for _, row in rows] or [math.nan]),
    ]
    half = math.hypot(*(half for _, half in settings)) / len(settings)
    cells = [signed(value, half * (cause == "setting")) for cause, value in zip(CAUSES, known, strict=False)]
    return [*cells, signed(printed - clean - float(np.nansum(known))), signed(printed - clean)]


def setting_optimism(study: Study, row: Row, reported: list[str]) -> tuple[float, float]:
    """And half of its interval. 0 where the reported rows selected no setting; NaN without predictions of two trials, and for
    scores that `optimism.scores` does not have.
    """
    run, of_rows = row.first, [score for score in reported if "/" not in score]
    if run.params.get("tuned.selected_on") != "validation" or not of_rows:
        return 0.0, 0.0
    fixed = run.facts.keys() - json.loads(run.params["tuned.settings"]).keys()
    trials = [trial for trial in study.trials if all(trial.facts.get(key) == run.facts[key] for key in fixed)]
    tried = json.loads(run.params["tuned.scores"])  # another grid may have been searched before, in the same study
    trials = [trial for trial in trials if trial.metrics.get(HEADLINE) in tried]
    known = [table for trial in trials if trial.task == run.task and (table := predictions(trial, study.output))]
    if len(known) < 2:
        return math.nan, 0.0
    try:
        labels, predicted = known[0]["label"].to_numpy(), np.stack([table["prediction"].to_numpy() for table in known])
        selected_by, *of = (scores(name, labels, predicted) for name in (run.params["task.headline"], *of_rows))
    except (KeyError, ValueError):  # of other kinds of tasks, or of a score that has no weights of rows
        return math.nan, 0.0
    value, half = (len(of) / len(reported) * each for each in optimism(selected_by, of, len(labels)))
    return value, half


def epoch_gain(study: Study, row: Row) -> float:
    """Headline of the selected epoch minus that of the last, mean over seeds; 0 where the reported rows selected no epoch."""
    if row.first.params.get("finetune.keep_best") != "validation":
        return 0.0
    curves = [curve for run in row.runs if (curve := study.curve(HEADLINE).get(run.run_id))]
    return fmean([max(curve.values()) - curve[max(curve)] for curve in curves] or [math.nan])


CHAPTER = Added(chapter, before=tasks.chapter, order=3)
