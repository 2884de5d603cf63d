"""GLUE by protocol: what each paper would print of the same weights, the clean numbers, and where the difference comes from.

It needs no further runs: each run records the scores, statistic, average and selection of its protocol.
"""

import ast
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

import msgspec
import numpy as np

from harness.comparison.paired import grouped
from harness.comparison.section import HEADLINE, Row
from harness.document import DASH, Block, Cell, Section
from harness.plugins.protocols.optimism import optimism, scores
from harness.reports.chapters import Added, pretraining
from harness.reports.reading.predictions import predictions
from harness.reports.reading.study import Study
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import POINTS, Chapter, escape

TEXTS = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, str])
STATISTICS: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "median": median, "best": max}
CLEAN = ("same runs, plain", "plain", "difference")
CAUSES = ("tasks", "scores", "statistic", "setting", "epoch", "rest", "all")


@dataclass(frozen=True, eq=False)
class Protocol:
    """The runs of one model under one protocol. A place is a task, or TASK/SPLIT."""

    label: str
    name: str
    named: list[str]  # the places that its average is of
    rows: dict[str, Row]  # by task

    @property
    def places(self) -> list[str]:
        """The named ones that ran."""
        return [place for place in self.named if self.row_of(place)]

    def row_of(self, place: str) -> Row | None:
        return self.rows.get(place.partition("/")[0])

    def scores(self, row: Row, place: str, own: bool = True) -> list[str]:
        """SCORE or SPLIT/SCORE: their mean is the number of the place. The headline unless they are the protocol's own."""
        params, split = row.first.params, place.partition("/")[2]
        stated: list[str] = ast.literal_eval(params["protocol.scores"]) if own and not split else []
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
    models = protocols(study)
    every = [one for of_model in models.values() for one in of_model]
    places = [*dict.fromkeys(place for one in every for place in one.places)]
    numbers, parts, sentences = [], [], []
    for model, of_model in models.items():
        plain = next((one for one in of_model if one.name == "plain"), None)
        for one in of_model:
            cells = [points(one.number(place), one.row_of(place)) for place in places]
            part = "" if one.places == one.named else f" ({len(one.places)} of {len(one.named)})"
            same_runs, clean = one.average(own=False, statistic="mean"), plain.average() if plain else math.nan
            averages = [
                points(one.average(), *one.rows.values(), part=part),
                points(same_runs, *one.rows.values()),
                points(clean),
            ]
            numbers.append([escape(one.label), *cells, *averages, signed(one.average() - clean)])
            parts += [[escape(one.label), *causes(study, one, plain)]] if plain and one is not plain else []
        sentences += spread(model, of_model)
    if not every:
        return Chapter()
    table = formats.table(["arm", *places, "average", *CLEAN], numbers)
    notes = [tables.SELECTED_NOTE] if any(tables.SELECTED in cell.text for row in table.rows for cell in row) else []
    notes += [TEXTS["part"]] if any(one.places != one.named for one in every) else []
    blocks: list[Block] = [TEXTS["intro"], table, *notes, *sentences]
    blocks += [TEXTS["causes"], formats.table(["arm", *CAUSES], parts)] if parts else []
    return Chapter([Section("GLUE by protocol", blocks)])


def protocols(study: Study) -> dict[str, list[Protocol]]:
    """By model, in the order of the study."""
    every = []
    for label in study.comparison.labels:
        rows = {section.task: row for section in study.comparison.selected_tasks if (row := section.row_of(label))}
        params = next((row.first.params for row in rows.values() if row.first.params.get("protocol_name")), None)
        if params:
            name, named = params["protocol_name"], ast.literal_eval(params["protocol.average"])
            every.append((label.replace(f"protocol={name}", "").strip(), Protocol(label, name, named, rows)))
    return grouped(every)


def points(value: float, *rows: Row | None, part: str = "") -> Cell:
    """`62.1 (5 of 8) §`, marked where a row was selected on the rows that it reports; a dash where it is unknown."""
    mark = tables.selection_mark(run for row in rows if row for run in row.runs)
    return Cell(DASH) if math.isnan(value) else Cell(f"{POINTS * value:.1f}{part}{mark}", value, "score")


def signed(value: float, half: float = 0.0) -> Cell:
    """`+1.2 [+0.8, +1.6]`, without an interval where it is exact; a dash where it is unknown."""
    text = formats.difference(value, "score", [value - half, value + half] if half else None)
    return Cell(DASH) if math.isnan(value) else Cell(text.removesuffix(" points"), value, "score")


def spread(model: str, of_model: list[Protocol]) -> list[str]:
    """What a point between two papers is worth, by the most protocols that average the same tasks; empty for one alone."""
    averages = [(tuple(sorted(one.places)), (value, one.name)) for one in of_model if not math.isnan(value := one.average())]
    alike = sorted(max(grouped(averages).values(), key=len, default=[]))
    if len(alike) < 2:
        return []
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
    """And half of its interval. 0 where the reported rows selected no setting; NaN without predictions of two trials."""
    run, of_rows = row.first, [score for score in reported if "/" not in score]
    if run.params.get("tuned.selected_on") != "validation" or not of_rows:
        return 0.0, 0.0
    fixed = run.facts.keys() - json.loads(run.params["tuned.settings"]).keys()
    trials = [trial for trial in study.trials if all(trial.facts.get(key) == run.facts[key] for key in fixed)]
    known = [table for trial in trials if trial.task == run.task and (table := predictions(trial, study.output))]
    if len(known) < 2:
        return math.nan, 0.0
    labels, predicted = known[0]["label"].to_numpy(), np.stack([table["prediction"].to_numpy() for table in known])
    selected_by, *of = (scores(name, labels, predicted) for name in (run.params["task.headline"], *of_rows))
    value, half = (len(of) / len(reported) * each for each in optimism(selected_by, of, len(labels)))
    return value, half


def epoch_gain(study: Study, row: Row) -> float:
    """Headline of the selected epoch minus that of the last, mean over seeds; 0 where the reported rows selected no epoch."""
    if row.first.params.get("finetune.keep_best") != "validation":
        return 0.0
    curves = [curve for run in row.runs if (curve := study.curve(HEADLINE).get(run.run_id))]
    return fmean([max(curve.values()) - curve[max(curve)] for curve in curves] or [math.nan])


CHAPTER = Added(chapter, before=pretraining.tasks, order=3)
