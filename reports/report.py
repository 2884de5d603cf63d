"""A report as its options name it: what is read, what is made of it, and how it is written."""

import contextlib
import os
import shutil
from collections.abc import Container, Iterator
from pathlib import Path

import psutil

from harness import document, paths
from harness.errors import InputError, writing
from harness.reports import render
from harness.reports.chapters.added import added
from harness.reports.options import Compared, Report
from harness.reports.read import StudyRuns
from harness.reports.read import read as read_store
from harness.reports.reading import store
from harness.reports.reading.store import Packed, Reader
from harness.reports.reading.study import Options, Study
from harness.reports.reading.untrusted import LARGEST_JSON
from harness.reports.render import Files
from harness.terminal import still_line


def default_out(study: str, output: str = "multirun") -> Path:
    """The default folder of a study's report; relative if `output` is."""
    return Path(output, "reports", paths.report_folder(output, study).name)


def audit_of(options: Compared, runs: StudyRuns) -> bytes | None:
    """The audit that the options name, else the last one in the folder of runs; None without one. InputError for a missing
    one.
    """
    if options.audit is None and isinstance(runs.reader.output, Packed):
        return runs.reader.output.audit
    path = options.audit or paths.audit_file(str(runs.reader.output or options.output))
    try:
        return paths.read(path, LARGEST_JSON) if options.audit or path.exists() else None
    except (FileNotFoundError, InputError) as error:
        raise InputError(f"audit={str(path)!r}: expected the file that `python -m harness audit` wrote") from error


def write(files: dict[str, bytes], out: Path) -> None:
    """Writes complete files only, and removes what a process that was killed here left; InputError where `out` cannot be."""
    scratch = out / f".writing.{os.getpid()}"  # the name by which `python -m harness clean` takes it for what it is
    with writable(out):
        for old in out.glob(".writing.*[0-9]"):
            is_ours = (old / paths.MARK).is_file() and not old.is_symlink()
            if is_ours and old != scratch and old.suffix[1:].isdecimal() and not psutil.pid_exists(int(old.suffix[1:])):
                shutil.rmtree(old, ignore_errors=True)
        try:
            paths.made(scratch)
            for name, content in files.items():
                path = paths.named(scratch, *name.split("/"))
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            for name in files:
                (out / name).parent.mkdir(exist_ok=True)
                os.replace(Path(scratch, name), out / name)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def writable(out: Path) -> Iterator[None]:
    """Makes the folder; InputError where what the block does there fails, unless the disk is full."""
    with writing(out, "a folder with space for it"):
        out.mkdir(parents=True, exist_ok=True)
        yield


def read(options: Report, reader: Reader | None = None) -> StudyRuns:
    """The runs that the options name, of their store or of `reader`; InputError where the store has no answer, or for a wrong
    target or format.
    """
    for chapter in added():
        if chapter.check:
            chapter.check([*options.target])  # a wrong one is refused before the store is read
    render.formats(options.format)
    return read_store(reader or options.address, options.study, options.where)


def rendered(options: Report, runs: StudyRuns, pictures: Container[str] | None = None) -> Files:
    """Content of all files of the report, the one to open first; with these pictures alone where they are named."""
    with runs.reader.guarded():
        study = Study(
            runs.compared(options.baseline, options.along),
            lambda metric, some: store.read_history(runs.reader, some, metric),
            Options(
                options.target,
                options.with_wnli,
                options.all_pairs,
                options.random_tasks,
                options.columns,
                audit_of(options, runs),
            ),
            output=runs.reader.output,
            forkable=runs.reader.forkable,
            trials=runs.trials,
        )
        return render.render(study, options.format, pictures)


def report(options: Report) -> Path:
    """Path of the first file that was written; InputError, with nothing written, where the store has no answer."""
    return next(iter(_written(options)))


def _written(options: Report) -> dict[Path, bytes]:
    """Path -> content."""
    runs = read(options)
    out, files = options.to or default_out(runs.study, options.output), rendered(options, runs)
    write(files, out)
    return {out / name: content for name, content in files.items()}


def main(options: Report) -> int:
    """Prints the table, the answer and, last, the path of the page or of the first file; returns 0."""
    with still_line("writing the report: some seconds, a minute for hundreds of runs"):
        files = _written(options)
    for path, content in files.items():
        if path.name == document.FILE and (shown := document.first_screen(document.read(content).screen)):
            print(shown, end="\n\n")
        if path.name == "overview.tex":
            print(f"{path}: the table of all arms, for \\input")
    print(next((path for path in files if path.suffix == ".html"), next(iter(files))))
    return 0
