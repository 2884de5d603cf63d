"""One run: skipped where it has finished, else its worker is started, followed, watched and ended."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness import paths, plateau, processes, tags
from harness.hardware import facts
from harness.processes.ending import Watch
from harness.states import State
from harness.study import end, run_folder, workers
from harness.study.end import End
from harness.study.plan import PlannedRun
from harness.study.progress import Progress
from harness.study.watchdog import Watchdog
from harness.tracking import run_log
from harness.tracking.trackers import TrackedRun, Trackers

POLL_S = 0.5
"""Seconds between two reads of a worker's log."""

SOON_S = 5.0
"""Seconds that are waited for the worker of a killed command before it is said."""


def run_unless_done(item: PlannedRun, label: str, are_busy: Callable[[], bool], trackers: Trackers) -> tuple[End, bool]:
    """The end of the run, and whether it ran now; a run that has a result already is skipped.

    `are_busy` says whether other processes use the CPUs.
    """
    try:
        item.folder.mkdir(parents=True, exist_ok=True)
        with _locked(item.folder, label):
            done = _result_to_keep(item, label)
            if done is None:
                return _run(item, label, are_busy(), trackers), True
            print(f"{label}: {done} already, skipped (rerun=true runs it again)", flush=True)
            _warn(item, label)
            record = run_folder.read(item.folder)
            its_study = replace(item.config, study=record["tags"][tags.STUDY])  # that of the command that ran it
            trackers.send(its_study, lambda backend: backend.agree(record, item.folder))
            return End(done), False
    except BrokenPipeError:  # of our own output
        raise
    except OSError as error:  # a full disk, a folder that may not be written to: the next run may have more luck
        print(f"{label}: failed: {error}", flush=True)
        return End(State.failed, f"{type(error).__name__}: {error}"), True


@contextlib.contextmanager
def _locked(folder: Path, label: str) -> Iterator[None]:
    """No other command runs this one, and no worker of an earlier command writes into its folder."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder / paths.LOCK, timeout=0))
        except Timeout:
            print(f"{label}: another process runs it; waiting", flush=True)
            stack.enter_context(FileLock(folder / paths.LOCK))
        for seconds in (SOON_S, -1):  # that of a command that was killed may live a moment longer
            try:
                with FileLock(folder / paths.WORKER_LOCK, timeout=seconds):
                    break
            except Timeout:
                print(f"{label}: a worker of an earlier command still writes to {folder}; waiting", flush=True)
        yield


def _result_to_keep(item: PlannedRun, label: str) -> State | None:
    """The state of a run that has a result; None where it is to run."""
    result = run_log.result(item.folder)
    if result is None:
        return None
    if not all(folder.is_dir() for folder in item.needs_weights):
        key = "pretrain.keep" if item.inputs.data is None else "finetune.keep"
        print(f"{label}: finished without its weights, which {key} asks for: runs again", flush=True)
        return None
    return None if item.config.rerun else State(result["status"])


def _run(item: PlannedRun, label: str, busy: bool, trackers: Trackers) -> End:
    """Starts a worker, which resumes from the checkpoint of an earlier one if there is one."""
    record = None if item.config.rerun else run_folder.resumable(item.folder, item.config)
    if record is None:
        record = run_folder.record(item.config, item.inputs, item.lifted)
        run_folder.prepare(item.folder, item.config, record)
    tracked = TrackedRun(trackers, item.config, record, item.folder)
    ended = end.WITH_ITS_COMMAND
    try:
        with Progress(label) as progress:
            ended = _work(item, busy, lambda entries: (progress.show(entries), tracked.add(entries)))
            result = run_log.result(item.folder)
            reason = f"{ended.reason} (see {os.path.relpath(item.folder / run_log.LOG)})"
            progress.end(ended.state.text, result["metrics"] if result else {}, reason)
            _warn(item, label)
    finally:
        try:
            end.write(item.folder, record, ended)
        finally:
            tracked.end(ended.state)
    return ended


def _warn(item: PlannedRun, label: str) -> None:
    """Says so where a pretraining has finished that has not learned as it should."""
    result = run_log.result(item.folder)
    if result and (warning := plateau.warning(result["metrics"], run_folder.read(item.folder)["parameters"])):
        print(f"{label}: warning: {warning}", flush=True)


def _work(item: PlannedRun, busy: bool, follow: Callable[[list[dict[str, Any]]], object]) -> End:
    """Runs the worker to its end, or ends it where it takes too long; it ends with this process."""
    reader, watch, watchdog = run_log.Reader(item.folder), Watch(), Watchdog(item.config.sweep, item.folder)
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
