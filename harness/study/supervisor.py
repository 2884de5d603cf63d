"""The parent of all cells: prepares data, starts a fresh worker for each cell, watches its journal, and keeps the books.

A worker never talks to the tracking store, and a store that is away never stops a run: `python -m harness.sync` tells it later.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness import metrics, processes
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.study import identity as cells
from harness.study.plan import Planned, plan
from harness.study.progress import Progress
from harness.study.timing import summary
from harness.study.timing.session import Session, Timed
from harness.tracking import run_log

LOOK_EVERY_S = 0.5
TELL_EVERY_S = 10.0
"""Seconds between looks at the journal, and between calls to the tracking store while a worker measures or trains."""


def run_study(configs: list[RunConfig]) -> int:
    """Runs every cell that is not finished yet; 0 when all ended well, 1 when one failed or diverged.

    InputError, before any run exists, when the data of any of them cannot be used.
    """
    planned = plan(configs)
    failed: list[Planned] = []
    with _terminated_as_interrupt():
        session = Session(planned)
        session.run()
        for item, timed in session.twins:
            _tell_twin(item, timed, session.name)
        for number, item in enumerate(planned, 1):
            label = f"[{number}/{len(planned)}] {item.title}"
            if item.needs in failed:
                print(f"{label}: not run, for its pretraining did not end well", flush=True)
                failed.append(item)
            elif not _run_unless_done(item, label, session):
                failed.append(item)
    return 1 if failed else 0


def _run_unless_done(item: Planned, label: str, session: Session) -> bool:
    """Whether the cell is finished afterwards."""
    item.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(item.folder / ".lock", timeout=0))
        except Timeout:
            print(f"{label}: another process runs it; waiting", flush=True)
            stack.enter_context(FileLock(item.folder / ".lock"))
        ended = run_log.result(item.folder)
        if ended is not None and not item.config.rerun:
            print(f"{label}: {ended['status']} already, skipped (rerun=true runs it again)", flush=True)
            return ended["status"] == "finished"
        return _run(item, label, session) == "finished"


def _run(item: Planned, label: str, session: Session) -> str:
    cell = None if item.config.rerun else cells.to_resume(item.folder)
    if cell is None:
        cell, timed = cells.describe(item.config, item.inputs), session.of(item)
        if timed is not None:
            cell["tags"][metrics.SESSION_TAG] = session.name
        cells.lay_out(item.folder, item.config, cell)
        if timed is not None:
            summary.log(item.folder, session.name, timed.launches).close()
    told = Told(item, cell)
    status = "killed"
    try:
        with Progress(label) as progress:
            status = _work(item, lambda entries: (progress.show(entries), told.entries(entries)))
            result = run_log.result(item.folder)
            progress.end(status, result["metrics"] if result else {}, _why(item.folder / "log.txt"))
    finally:
        told.end(status)
    return status


def _tell_twin(item: Planned, timed: Timed, session: str) -> None:
    """Keeps the baseline's second timing as a cell of its own, which has nothing else."""
    if timed.failed is not None or not timed.launches:
        return
    folder = item.folder.with_name(f"again-{session}-{timed.number}-{item.folder.name}")
    cell = cells.describe(item.config, item.inputs)
    cell["name"] += " (timed again)"
    cell["tags"] |= {metrics.SESSION_TAG: session, metrics.TWIN_TAG: "true"}
    cells.lay_out(folder, item.config, cell)
    summary.log(folder, session, timed.launches).finish("finished")
    told = Told(replace(item, folder=folder), cell)
    told.entries(run_log.Reader(folder).new_entries())
    told.end("finished")


def _why(log: Path) -> str:
    return f"{processes.last_line(log)} (see {log})"


def _work(item: Planned, see: Callable[[list[dict[str, Any]]], object]) -> str:
    """Runs the worker to its end and returns the cell's status; the worker is ended when this process is."""
    reader = run_log.Reader(item.folder)
    with (item.folder / "log.txt").open("w") as log:
        worker = processes.start("harness.study.worker", [str(item.folder)], facts.threads(item.config.hardware), log)
        try:
            while worker.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(LOOK_EVERY_S)
                see(reader.new_entries())
        finally:
            processes.end(worker)
    see(reader.new_entries())
    result = run_log.result(item.folder)
    return result["status"] if worker.returncode == 0 and result else "failed"


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """A polite end (SIGTERM) takes the way of Ctrl-C, so that the books are closed."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Told:
    """What the tracking store has been told of one cell; says so once when the store is away, and goes on without it."""

    def __init__(self, item: Planned, cell: dict[str, Any]) -> None:
        self._folder, self._pending, self._last = item.folder, [], time.monotonic()
        self._tracker, self._run_id = None, ""
        with self._or_without():
            from harness.tracking.mlflow_store import Tracker

            tracker = Tracker(item.config.tracking.uri, item.config.output, item.config.study)
            tracker.reap()
            self._run_id = tracker.open(cell)
            self._tracker = tracker

    def entries(self, entries: list[dict[str, Any]]) -> None:
        """Keeps entries and passes them on now and then."""
        self._pending += entries
        if self._tracker and time.monotonic() - self._last > TELL_EVERY_S:
            self._flush()

    def end(self, status: str) -> None:
        """Passes on the rest and closes the run with its end state."""
        self._flush()
        if self._tracker:
            with self._or_without():
                self._tracker.close(self._run_id, self._folder, status)

    def _flush(self) -> None:
        self._last = time.monotonic()
        if self._tracker:
            with self._or_without():
                self._tracker.log(self._run_id, self._pending)
                self._pending = []

    @contextlib.contextmanager
    def _or_without(self) -> Iterator[None]:
        from harness.tracking.mlflow_store import MlflowException

        try:
            yield
        except (MlflowException, OSError) as error:
            self._tracker = None
            reason = str(error).splitlines()[0][:200]
            print(
                f"the tracking store is away ({reason}); the run goes on, `python -m harness.sync` tells it later", flush=True
            )
