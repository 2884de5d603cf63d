"""A report as its options name it: what is read, what is made of it, and how it is written."""

import argparse
import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from reports.commands import COMMANDS, Parser
from reports.errors import ReportError

if TYPE_CHECKING:
    from reports.read import StudyRuns
    from reports.render import Files

GC_THRESHOLDS = (100_000, 50, 50)
"""Thresholds of garbage collection: of what a report makes, nearly all is kept until it is written."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line; ReportError for a wrong option."""
    listed = "; ".join(f"{name}: {text}" for name, (_, text) in COMMANDS.items())
    parser = Parser("", "Compare the arms of a study with its baseline.", f"Commands: {listed}")
    parser.add_argument(
        "--study",
        metavar="NAME",
        action="append",
        default=[],
        help="MLflow experiment to report on; several are joined (default: the newest with a finished run)",
    )
    parser.add_argument("--where", metavar="FILTER", help="which runs, as MLflow filters them: \"tags.task = 'sst2'\"")
    of_baseline = "arm that the others are compared with; of several the first that there is (default: base)"
    parser.add_argument("--baseline", metavar="NAME", action="append", default=[], help=of_baseline)
    parser.add_argument(
        "--along",
        metavar="KEY",
        action="append",
        default=[],
        help="setting that arms may differ in, such as hardware.dtype or a group such as hardware; may be repeated",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to write (default: reports/<study> in --output)")
    of_audit = "verdicts on claims (default: audit/audit.json in --output)"
    parser.add_argument("--audit", metavar="FILE", type=Path, help=of_audit)
    parser.add_argument("--with-wnli", action="store_true", help="count WNLI in the average over GLUE (default: left out)")
    parser.add_argument(
        "--target",
        metavar="METRIC=NUMBER",
        action="append",
        default=[],
        help="quality whose cost is shown, such as pretrain/masked_loss=6.5; may be repeated (default: the baseline's end)",
    )
    formats = "what to write, of md, html, csv, latex, parquet, png (default: %(default)s)"
    parser.add_argument("--format", metavar="NAMES", default="md,html,csv", help=formats)
    return parser.parse(arguments)


def default_out(study: str, output: str = "multirun") -> Path:
    """A folder for each study, with unusual characters of its name replaced."""
    return Path(output, "reports", re.sub(r"[^\w.-]|^\.+", "_", study))


def _last_audit(output: str) -> Path | None:
    path = Path(output, "audit", "audit.json")
    return path if path.is_file() else None


def write(files: dict[str, bytes], out: Path) -> None:
    """Writes complete files only, and removes what a process that was killed here left; ReportError where `out` cannot be."""
    from harness import paths  # a folder `harness` beside would be imported at the beginning

    scratch = out / f".writing.{os.getpid()}"  # the name by which `python -m harness clean` takes it for what it is
    with writable(out):
        for old in out.glob(".writing.*[0-9]"):
            is_ours = (old / paths.MARK).is_file() and not old.is_symlink()
            if is_ours and old != scratch and old.suffix[1:].isdecimal() and not psutil.pid_exists(int(old.suffix[1:])):
                shutil.rmtree(old, ignore_errors=True)
        try:
            paths.made(scratch)
            for name, content in files.items():
                Path(scratch, name).write_bytes(content)
            for name in files:
                os.replace(Path(scratch, name), out / name)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def writable(out: Path) -> Iterator[None]:
    """Makes the folder; ReportError where what the block does there fails."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ReportError(
            f"--out {str(out)!r} cannot be written ({error.strerror}); expected a folder with space for it"
        ) from error


def read(options: argparse.Namespace) -> "StudyRuns":
    """The runs that the options name; ReportError where the store has no answer, or for a wrong target or format."""
    # scipy, pandas and matplotlib take seconds to import: --help does without
    from reports.chapters import cost
    from reports.read import read as read_store
    from reports.render import formats

    cost.parse(options.target)  # a wrong one is refused before the store is read
    formats(options.format)
    return read_store(options.uri, options.study, options.where)


def rendered(options: argparse.Namespace, runs: "StudyRuns") -> "Files":
    """Content of all files of the report, the one to open first."""
    from reports import render
    from reports.comparison.compare import Options, Study
    from reports.read import compare_with_first
    from reports.reading import store

    study = Study(
        compare_with_first(runs, options.baseline, options.along),
        lambda metric, some: store.read_history(runs.reader, some, metric),
        Options(tuple(options.target), options.with_wnli, options.audit or _last_audit(options.output)),
        output=runs.reader.output,
        forkable=runs.reader.forkable,
    )
    return render.render(study, render.formats(options.format))


def report(options: argparse.Namespace) -> Path:
    """Path of the first file that was written; ReportError, with nothing written, where the store has no answer."""
    runs = read(options)
    out, files = options.out or default_out(runs.study, options.output), rendered(options, runs)
    write(files, out)
    return out / next(iter(files))
