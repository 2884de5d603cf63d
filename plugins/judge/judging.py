"""Verdicts on results of any tool: the command `python -m reports judge`, and `reports.judge` for a data frame."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path

import pandas as pd

from harness import extensions, metrics, paths, tags
from harness.comparison import overall
from harness.comparison.compare import Comparison
from harness.comparison.overall import Overall
from harness.comparison.paired import grouped
from harness.comparison.section import HEADLINE, RESULTS, results_of
from harness.document import first_screen, in_terminal
from harness.errors import InputError, some_of, unknown
from harness.plugins.judge import frame, results
from harness.plugins.judge.frame import NAMED
from harness.plugins.judge.options import Files, Judge
from harness.plugins.judge.ranks import ranks_section
from harness.plugins.judge.results import ResultsReader
from harness.reports import render, report
from harness.reports.read import GROUP, StudyRuns, read
from harness.reports.reading.sqlite_reader import SqliteReader
from harness.reports.reading.store import Folders, Output, Packed, Reader
from harness.reports.reading.study import Options, Study
from harness.reports.screen import ALL, screen
from harness.reports.writing.tables import COLUMNS, Line, measured, score_title
from harness.terminal import wrapped


@dataclass(frozen=True)
class Verdicts:
    """Verdicts on every arm against the baseline, in each score; all other metrics are with the first score."""

    comparisons: tuple[Comparison, ...]  # one a score
    output: Output
    options: Options

    @property
    def table(self) -> pd.DataFrame:
        """One row per arm, task and metric, and over several tasks: means, changes, intervals, p and verdicts, in base
        units.
        """
        lines = [line for one in self.comparisons for line in _lines(one)]
        return pd.DataFrame(lines).reindex(columns=[name for name in COLUMNS if name not in ("conditions", "model", "scale")])

    @property
    def text(self) -> str:
        """What the command prints."""
        return "\n\n".join(map(self._text, self.comparisons))

    def _text(self, comparison: Comparison) -> str:
        notes = self.output.notes.get(comparison.study, ()) if isinstance(self.output, Packed) else ()
        shown = ["\n".join(map(wrapped, [comparison.study, *notes]))]
        by_design = grouped((section.design, section) for section in comparison.sections)
        for sections in by_design.values():  # means over tasks need one design
            tasks = [wrapped(f"On {some_of(list(dict.fromkeys(one.task for one in sections)), NAMED)}:")] * (len(by_design) > 1)
            shown += [*tasks, first_screen(screen(replace(comparison, sections=tuple(sections)), (ALL,)))]
        if self.options.all_pairs or self.options.random_tasks:
            shown += in_terminal(ranks_section(comparison, self.options.random_tasks))
        return "\n\n".join(filter(None, shown))

    def __str__(self) -> str:
        return self.text

    def files(self, formats: str = render.DEFAULT) -> dict[str, dict[str, bytes]]:
        """Study -> its report, by the names of its files."""
        studies = (Study(one, options=self.options, output=self.output) for one in self.comparisons)
        return {study.comparison.study: render.render(study, formats) for study in studies}


def _lines(comparison: Comparison) -> Iterator[Line]:
    every = overall.of_tasks(comparison)
    places = {section.task: Overall(comparison, (section,)) for section in every.sections}
    places |= {f"mean of {len(places)} tasks": every} if len(places) > 1 else {}
    names = [HEADLINE, *results_of(comparison.runs)[len(RESULTS) :]]
    for (place, over), name in product(places.items(), names):
        scores = {score_title(section) for section in over.sections}
        metric = metrics.get(name)
        title = metric.title if name != HEADLINE else scores.pop() if len(scores) == 1 else "score"
        for label in over.labels:
            if spread := over.spread(label, name):
                line = measured(metric, spread, over.change(label, name)) | {"task": place, "arm": label, "metric": title}
                yield line | {"unit": metric.unit.replace("score", "share")}


def verdicts(reader: Reader, baselines: Sequence[str], options: Options) -> Verdicts:
    """Verdicts on all scores in results of other tools, or on the newest study of a store; InputError without the baseline."""
    of_tools = isinstance(reader, ResultsReader)
    found = [StudyRuns(reader, study, reader.runs(study)) for study in reader.studies()] if of_tools else [read(reader)]
    return Verdicts(tuple(one.compared(baselines) for one in found), reader.output, options)


def judge(
    rows: pd.DataFrame,
    baseline: str | None = None,
    unpaired: bool = False,
    all_pairs: bool = False,
    random_tasks: bool = False,
    **said: str,
) -> Verdicts:
    """Verdicts on results of any tool: one row per value, with the columns of `harness.plugins.judge.frame.COLUMNS`.

    `arm`, `task`, `metric` and `value` are needed, `seed`, `item`, `unit`, `direction` and others say more; `said` gives one of
    them for all rows, such as task="rte". Units and directions of well-known metrics need not be said. Each arm is compared
    with `baseline`, by default `base`: paired by seed where arms share seeds, unless `unpaired`. `all_pairs` adds ranks and
    groups of all arms; `random_tasks`: over tasks as a sample of others. InputError (harness.errors) for values that do not
    compare.
    """
    if unknown_names := said.keys() - {*frame.COLUMNS}:
        raise unknown("column", min(unknown_names), frame.COLUMNS, "")
    rows = rows.assign(**{name: value for name, value in said.items() if name not in rows})
    found = frame.checked(rows, said.get("unit"), said.get("direction"))
    options = Options(all_pairs=all_pairs, random_tasks=random_tasks)
    return verdicts(ResultsReader(found, "results", independent=unpaired), [baseline] if baseline else [], options)


def own_store(path: Path) -> Reader | None:
    """A reader of an archive or a tracking store of this tool; None for any other path."""
    kinds = [extensions.load(point, Folders) for name, point in extensions.declared(GROUP).items() if name != "results"]
    if reader := next(filter(None, (kind.read(path) for kind in kinds)), None):
        return reader
    with contextlib.suppress(InputError):  # what reads the results says so
        store = SqliteReader(path)
        newest = store.newest([*store.studies().values()], {})
        return store if newest and tags.LIFTED in newest[1].tags else None
    return None


def main(options: Judge) -> int:
    """0, and the tables on stdout; InputError for what cannot be read or compared."""
    render.formats(options.format)
    asked = results.asked_of(options, options.arm)
    reader = own_store(options.paths[0]) if len(options.paths) == 1 else None
    typed = [name for name in ("arm", "unpaired", *(one.name for one in fields(Files))) if getattr(options, name)]
    if reader and typed:
        raise InputError(f"{typed[0]} has no effect on a store of this tool, only on results of other tools: leave it out")
    if reader is None:
        found = results.checked((results.rows_of(path, asked) for path in options.paths), asked)
        name = " + ".join(path.resolve().name for path in options.paths)
        reader = ResultsReader(found, name, max(int(path.stat().st_mtime * 1000) for path in options.paths), options.unpaired)
    with reader.guarded():
        judged = verdicts(reader, options.baseline, Options(all_pairs=options.all_pairs, random_tasks=options.random_tasks))
    print(judged.text)
    if options.to:
        reports = judged.files(options.format)
        for study, files in reports.items():
            to = options.to / paths.report_folder("", study.rpartition(": ")[2]).name if len(reports) > 1 else options.to
            report.write(files, to)
            print(f"report: {to / next(iter(files))}")
    return 0
