"""One run: skipped where it has finished, else its worker is started, followed, watched and ended."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness import paths, plateau, processes, tags
from harness.hardware import facts
from harness.processes.ending import Watch
from harness.study import end, leftovers, other_devices, pieces, run_folder, workers
from harness.study.end import End
from harness.study.order import LOOKS_AGAIN_S
from harness.study.pieces import FoundPieces, Pieces
from harness.study.plan import PlannedRun
from harness.study.progress import Progress
from harness.study.screen import Screen
from harness.study.watchdog import Watchdog
from harness.terminal import console
from harness.tracking import run_log
from harness.tracking.states import State
from harness.tracking.trackers import TrackedRun, Trackers

POLL_S = 0.5
"""Seconds between two reads of a worker's log."""

SOON_S = 5.0
"""Seconds that are waited for the worker of a killed command before it is said."""


@dataclass(frozen=True)
class Command:
    """What the runs of one command share."""

    trackers: Trackers
    are_busy: Callable[[], bool]  # whether other processes use the CPUs
    pieces: FoundPieces = field(default_factory=FoundPieces)
    screen: Screen | None = None
    workers: int = 1  # runs at once
    interrupted: threading.Event = field(default_factory=threading.Event)  # by which runs in other threads end


def run_unless_done(item: PlannedRun, label: str, command: Command, again: bool = False) -> tuple[End, bool] | None:
    """The end of the run, and whether it ran now; a run that has a result already is skipped.

    None if another command runs it; when it is tried `again`, after it has waited a little for that.
    """
    try:
        item.folder.mkdir(parents=True, exist_ok=True)
        with _held(item, label, again) as is_free:
            if not is_free:
                return None
            _wait_for_worker(item.folder, label)
            done, record = _result_to_keep(item, label), run_log.read_json(item.folder / run_log.RECORD)
            command.pieces.learn(item, record)
            if done is None:
                return _run(item, label, command), True
            console.plain(f"{label}: {done} already, skipped (rerun=true runs it again)")
            _warn(item, label)
            its_study = replace(item.config, study=record["tags"][tags.STUDY])  # that of the command that ran it
            command.trackers.send(its_study, lambda backend: backend.agree(record, item.folder))
            return End(done), False
    except BrokenPipeError:  # of our own output
        raise
    except OSError as error:  # a full disk, a folder that may not be written to: the next run may have more luck
        console.problem(f"{label}: failed: {error}")
        return End(State.failed, f"{type(error).__name__}: {error}"), True


@contextlib.contextmanager
def _held(item: PlannedRun, label: str, again: bool) -> Iterator[bool]:
    """Whether this command may run it: it holds the run's lock, which the system takes from a process that ends.

    Within a budget of time it waits for that as long as it takes: what comes next depends on how this run ends.
    """
    lock, waits = FileLock(item.folder / paths.LOCK), item.config.sweep.budget_minutes is not None
    try:
        lock.acquire(timeout=LOOKS_AGAIN_S if again else 0)
    except Timeout:
        if not again:
            console.plain(f"{label}: another process runs it; waiting{'' if waits else ', other runs go first'}")
        if not waits:
            yield False
            return
        lock.acquire()
    try:
        yield True
    finally:
        lock.release()


def _wait_for_worker(folder: Path, label: str) -> None:
    """Until no worker of an earlier command, which was killed, writes into the folder: it may live a moment longer."""
    for seconds in (SOON_S, -1):
        try:
            with FileLock(folder / paths.WORKER_LOCK, timeout=seconds):
                return
        except Timeout:
            console.problem(f"{label}: a worker of an earlier command still writes to {folder}; waiting")


def _result_to_keep(item: PlannedRun, label: str) -> State | None:
    """The state of a run that has a result; None where it is to run."""
    result = run_log.result(item.folder)
    if result is None:
        return None
    if not all(folder.is_dir() for folder in item.needs_weights):
        key = "pretrain.keep" if item.inputs.data is None else "finetune.keep"
        console.plain(f"{label}: finished without its weights, which {key} asks for: runs again")
        return None
    return None if item.config.rerun else State(result["status"])


def _run(item: PlannedRun, label: str, command: Command) -> End:
    """Starts a worker, which resumes from the checkpoint of an earlier one if there is one."""
    leftovers.remove_temporary(item.folder)
    record = None if item.config.rerun else run_folder.resumable(item.folder, item.config)
    if record is None:
        record = _new_record(item, label, command)
    tracked = TrackedRun(command.trackers, item.config, record, item.folder)
    retries = 0
    watchdog, busy = Watchdog(item.config.sweep, item.folder), command.are_busy()
    ended = end.WITH_ITS_COMMAND
    try:
        while True:
            with Progress(label, command.screen, alone=command.workers == 1) as progress:

                def follow(entries: list[dict[str, Any]], shown: Progress = progress) -> None:
                    shown.show(entries)
                    tracked.add(entries)
                    if command.interrupted.is_set():
                        raise KeyboardInterrupt

                ended = _work(item, busy, watchdog, follow)
                smaller = command.pieces.smaller(item, record) if ended.state is State.out_of_memory else None
                retries += (killed := ended.state is State.killed)
                again = _next(item, smaller, retries if killed else None)
                progress.end(ended.state.text, _metrics(item), _explained(item, ended, again), tried_again=bool(again))
            if not again:
                break
            if killed:
                record[tags.RETRIES] = [*record.get(tags.RETRIES, []), ended.reason]
                leftovers.remove_temporary(item.folder)
                _wait_for_worker(item.folder, label)
            else:
                record |= _pieces(smaller)
            run_folder.try_again(item.folder, record)
            tracked.forget(repeated=killed)
        command.pieces.learn(item, record)
        _warn(item, label)
    finally:
        try:
            run_folder.write_end(item.folder, record, ended)
        finally:
            tracked.end(ended.state)
    return ended


def _new_record(item: PlannedRun, label: str, command: Command) -> dict[str, Any]:
    """That of a run which begins anew, in its folder; a pretraining begins with what one on other devices has left."""
    record = run_folder.record(item.config, item.inputs, item.lifted) | _pieces(command.pieces.first(item))
    run_folder.prepare(item.folder, item.config, record)
    if (
        item.inputs.data is None
        and not item.config.rerun
        and (other := other_devices.take_over(item.folder, item.config, record))
    ):
        console.plain(f"{label}: resumes what {other.name} left on other devices")
    return record


def _pieces(found: Pieces) -> dict[str, Pieces]:
    return {tags.PIECES: found} if found else {}


def _metrics(item: PlannedRun) -> dict[str, float]:
    result = run_log.result(item.folder)
    return result["metrics"] if result else {}


def _next(item: PlannedRun, smaller: Pieces | None, retry: int | None) -> str:
    """What is tried next, of a run that was killed this retry; empty where it has ended."""
    if retry is not None:
        most = item.config.sweep.retries
        return f"retry {retry} of {most}" if retry <= most else ""
    return "" if smaller is None else pieces.text(smaller)


def _explained(item: PlannedRun, ended: End, again: str) -> str:
    """Why it did not finish, and what is tried next."""
    log = os.path.relpath(item.folder / run_log.LOG)
    return f"{ended.reason}; again, {again}" if again else f"{ended.reason} (see {log})"


def _warn(item: PlannedRun, label: str) -> None:
    """Says so where a pretraining has finished that has not learned as it should."""
    result = run_log.result(item.folder)
    if result and (warning := plateau.warning(result["metrics"], run_folder.read(item.folder)["parameters"])):
        console.problem(f"{label}: warning: {warning}")


def _work(item: PlannedRun, busy: bool, watchdog: Watchdog, follow: Callable[[list[dict[str, Any]]], object]) -> End:
    """Runs the worker to its end, or ends it where the watchdog complains; it ends with this process."""
    reader, watch = run_log.Reader(item.folder), Watch()
    threads = facts.threads(item.config.hardware)
    complaint = None
    log = item.folder / run_log.LOG
    with log.open("w") as file:
        worker = processes.start(workers.MODULE, [str(item.folder)], threads, file, passive=busy and threads > 1)
        try:
            while worker.poll() is None and complaint is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(POLL_S)
                follow(reader.new_entries())
                complaint = watchdog.complaint()
        finally:
            processes.end(worker)
    follow(reader.new_entries())
    return end.of_worker(watch.ending(worker.returncode, log), run_log.result(item.folder), complaint)
