"""Puts the chapters together: names and content of all files, before anything is written.

Chapters of pictures are made by a second process while this one makes the others: drawing takes half of a report's time.
"""

import contextlib
import gc
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import msgspec

from harness import document, extensions
from harness.document import Document, Picture, is_detail, markdown, without
from harness.errors import InputError, unknown
from harness.processes import end_with_parent
from harness.reports import html
from harness.reports.chapters import added, appendix, chapters
from harness.reports.reading.study import Study
from harness.reports.screen import screen
from harness.reports.writing.concise import concise
from harness.reports.writing.formats import Chapter, csv_file, escape
from harness.reports.writing.tables import COLUMNS, OF_RUN, Line, runs_of, summary


def drawn_chapters() -> list[Callable[[Study], Chapter]]:
    """Chapters of plug-ins: they draw pictures, which takes half of a report's time."""
    return [one.chapter for one in added() if one.before]


Chapters = dict[Callable[[Study], Chapter], Chapter]


def can_fork() -> bool:
    """Whether a forked process is safe and saves time: on Linux, with a second core, and from a process of one thread.

    A lock that another thread holds at the fork, such as that of SQLite's memory, is never released in the forked process.
    """
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


@contextlib.contextmanager
def draw_in_child(study: Study) -> Iterator[Callable[[], Chapters]]:
    """Begins with those chapters in a forked process; what it gives waits for them.

    InputError where that process ends before; errors of a chapter are raised unchanged.
    """
    fork = multiprocessing.get_context("fork")  # the study is inherited: what it reads with cannot be pickled
    received, sent = fork.Pipe(duplex=False)
    process = fork.Process(target=_draw, args=(study, sent, os.getpid()), daemon=True)
    gc.freeze()  # else the first collection there would copy all memory
    process.start()
    gc.unfreeze()
    sent.close()
    try:
        yield lambda: _received(received)
    finally:
        received.close()
        process.kill()
        process.join()


def _draw(study: Study, sent: Connection, parent: int) -> None:
    end_with_parent(parent)
    chapters: list[Chapter] | Exception
    try:
        chapters = [chapter(study) for chapter in drawn_chapters()]
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        chapters = error
    with contextlib.suppress(BrokenPipeError):  # the report has failed elsewhere
        sent.send(chapters)


def _received(received: Connection) -> Chapters:
    try:
        received_chapters = received.recv()
    except EOFError as error:
        raise InputError(
            "the process that draws the pictures was killed, probably for lack of memory; no report was written"
        ) from error
    if isinstance(received_chapters, Exception):
        raise received_chapters
    return dict(zip(drawn_chapters(), received_chapters, strict=True))


LEFT_OUT = """\
*`python -m reports` also writes HTML and CSV, with the tests of all differences, launches in detail, further components, how
to read the signs, and every number.*"""
"""Last paragraph of report.md."""

AS_NAMED = (appendix.reproduce, appendix.conditions)
"""Chapters that have the labels as commands take them."""
Files = dict[str, bytes]
"""Name -> content."""


@dataclass(frozen=True)
class Report:
    """The content that every format renders."""

    study: str
    document: Document
    files: Files  # pictures and tables beside it
    summary: list[Line]  # rows of summary.csv and summary.parquet
    runs: list[Line]  # rows of runs.csv

    @property
    def brief(self) -> str:
        """The report in Markdown, without detail; every chapter of a small study is folded."""
        sections = [without(section, is_detail) for section in self.document.sections if not section.detail]
        paragraphs = [f"# {self.document.title}"]
        for section in sections:
            parts = [*markdown(section)]
            folds = parts and self.document.is_small and section.title
            paragraphs += ["<details><summary>", parts[0], "</summary>", *parts[1:], "</details>"] if folds else parts
        left_out = [LEFT_OUT] if sections != self.document.sections else []
        return "\n\n".join([*paragraphs, *left_out]) + "\n"


def _csv(report: Report) -> Files:
    tables = {name: content for name, content in report.files.items() if name.endswith(".csv")}
    of_arms: dict[object, Line] = {}
    for line in report.summary:
        of_arms.setdefault(line["arm"], {"arm": line["arm"]})[f"{line['task']} {line['metric']}"] = line["mean"]
    wide = list(dict.fromkeys(name for line in of_arms.values() for name in line))
    own = {
        "summary.csv": csv_file(report.summary, list(COLUMNS)),
        "runs.csv": csv_file(report.runs, list(OF_RUN)),
        "arms.csv": csv_file(list(of_arms.values()), wide or ["arm"]),
    }
    return own | tables


@dataclass(frozen=True)
class Format:
    """A format of the report."""

    files: Callable[[Report], Files]  # the one to open first
    of_figures: bool = False  # whether it takes the pictures as this process has drawn them


GROUP = "harness.formats"
FORMATS = {
    "md": Format(
        lambda report: {"report.md": report.brief.encode(), document.FILE: msgspec.json.encode(report.document)} | report.files
    ),
    "html": Format(lambda report: {"report.html": html.page(report.document, report.files)}),
    "csv": Format(_csv),
}
"""Name for `--format` -> a format of this package."""
DEFAULT = "md,html,csv"


def formats(text: str) -> dict[str, Format]:
    """The formats in `md,csv`, by name; InputError for one that neither this package nor a plug-in has."""
    names = dict.fromkeys(name.strip() for name in text.split(","))
    added = extensions.declared(GROUP)
    for name in names:
        if name not in FORMATS and name not in added:
            raise unknown("format", name, [*FORMATS, *added], "format")
    return {name: FORMATS.get(name) or extensions.load(added[name], Format) for name in names}


def render(study: Study, names: str = DEFAULT, pictures: Container[str] | None = None) -> Files:
    """File name -> content, of all files in these formats; with these of the pictures alone where they are named."""
    shown = formats(names)
    if study.forkable and not any(one.of_figures for one in shown.values()) and can_fork():
        with draw_in_child(study) as drawn:
            report = _report(study, drawn)
    else:
        report = _report(study)
    if pictures is not None:
        parts = report.document.sections
        sections = [without(part, lambda block: isinstance(block, Picture) and block.file not in pictures) for part in parts]
        files = {name: content for name, content in report.files.items() if name in pictures or not name.endswith(".svg")}
        report = replace(report, document=msgspec.structs.replace(report.document, sections=sections), files=files)
    return {name: content for one in shown.values() for name, content in one.files(report).items()}


def _report(study: Study, drawn: Callable[[], Chapters] | None = None) -> Report:
    """All chapters; what is `drawn` elsewhere is asked for last."""
    made = {chapter: chapter(study) for chapter in chapters() if drawn is None or chapter not in drawn_chapters()}
    comparison = study.comparison
    lines = summary(comparison)
    made |= drawn() if drawn else {}
    ordered = [made[chapter] for chapter in chapters()]
    title, sections = f"Report: {escape(comparison.study)}", []
    for chapter in chapters():
        parts = made[chapter].sections
        sections += parts if chapter in AS_NAMED else [concise(part, comparison.labels) for part in parts]
    return Report(
        comparison.study,
        Document(title, sections, screen(comparison, study.options.columns), comparison.is_small),
        {name: content for chapter in ordered for name, content in chapter.files.items()},
        [*lines, *(line for chapter in ordered for line in chapter.summary)],
        runs_of(comparison),
    )
