"""Verdicts on results of any tool: the command `python -m reports judge`, and `reports.judge` for a data frame."""

from collections.abc import Iterator

from harness.comparison.compare import Comparison
from harness.document import first_screen
from harness.errors import InputError
from harness.reports import render, report
from harness.reports.chapters import overview
from harness.reports.options import Judge
from harness.reports.read import compare_with_first
from harness.reports.reading import results
from harness.reports.reading.results import Asked, ResultsReader
from harness.reports.reading.study import Study
from harness.terminal import wrapped


def reader_of(options: Judge) -> ResultsReader:
    """The files that the options name; InputError for what cannot be read or compared."""
    if not options.paths:
        raise InputError("judge needs files or folders of results: expected PATH")
    columns = dict(text.partition("=")[::2] for text in options.columns)
    if wrong := [text for text in options.columns if not all(text.partition("="))]:
        raise InputError(f"columns={wrong[0]!r}: expected NAME=COLUMN, such as arm=model")
    asked = {name: getattr(options, name) for name in ("arm", "task", "seed", "metric", "unit", "direction")}
    found = results.read(options.paths, Asked(columns, **asked))
    name = " + ".join(path.name or str(path.resolve().name) for path in options.paths)
    started = max(int(path.stat().st_mtime * 1000) for path in options.paths)
    return ResultsReader(found, name, started, options.unpaired)


def comparisons(reader: ResultsReader, baselines: tuple[str, ...]) -> Iterator[Comparison]:
    """One for each score."""
    for study in reader.studies():
        yield compare_with_first(study, reader.runs(study), reader.output, baselines)


def main(options: Judge) -> int:
    """0, and the tables on stdout; InputError for what cannot be read or compared."""
    render.formats(options.format)
    reader = reader_of(options)
    several = len(reader.studies()) > 1
    for comparison in comparisons(reader, options.baseline):
        print("\n".join(wrapped(note) for note in [comparison.study, *reader.output.notes[comparison.study]]))
        print(f"\n{first_screen(overview.screen(comparison))}\n")
        if options.to:
            to = options.to / comparison.study.rpartition(": ")[2].replace("/", "_") if several else options.to
            files = render.render(Study(comparison, output=reader.output), options.format)
            report.write(files, to)
            print(f"report: {to / next(iter(files))}\n")
    return 0
