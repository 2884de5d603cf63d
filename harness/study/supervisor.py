"""The parent of all runs: prepares data, starts a worker process for each run, follows its log, and tracks it.

A worker never talks to MLflow. Where MLflow is unreachable, runs continue, and `python -m harness sync` sends them later.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness import paths, plateau, processes, tags
from harness.config import recipe
from harness.config.schema import RunConfig
from harness.hardware import facts, load
from harness.live_line import live_line
from harness.measure.records import Launch
from harness.processes.ending import Watch
from harness.study import run_folder, workers
from harness.study.plan import PlannedRun, plan
from harness.study.progress import Progress
from harness.study.timing import summary
from harness.study.timing.session import Session, Timed, has_timing, is_measured
from harness.study.tracked_study import tracked
from harness.tracking import run_log
from harness.tracking.trackers import TrackedRun, Trackers

LOG = "log.txt"
"""In the folder of a run: what its worker prints."""

POLL_S = 0.5
"""Seconds between two reads of a worker's log."""

SOON_S = 5.0
"""Seconds that are waited for the worker of a killed command before it is said."""

BUSY_CPUS = 0.5
"""CPUs that other processes keep busy from which on the threads of a worker sleep while they wait for each other."""


class Neighbours:
    """Other processes of the machine, over the time since the last look: before each run, so the load of the one before it."""

    def __init__(self) -> None:
        self._load, self._were_busy = load.ForeignLoad(), False

    def are_busy(self) -> bool:
        """Whether they keep BUSY_CPUS busy, which is said when it begins; False where OMP_WAIT_POLICY says what threads do."""
        if "OMP_WAIT_POLICY" in os.environ:
            return False
        foreign = self._load.foreign_cpus() or 0.0
        self._load.start()
        busy = foreign > BUSY_CPUS
        if busy and not self._were_busy:
            print(f"other processes keep {foreign:.1f} CPUs busy: threads sleep while they wait for each other", flush=True)
        self._were_busy = busy
        return busy


def run_study(configs: list[RunConfig]) -> int:
    """Runs everything that is not finished yet; 0 if all runs finished, 1 if one failed or diverged.

    InputError, before any run starts, if the data of any of them cannot be used.
    """
    workers.prepare()
    neighbours = Neighbours()
    with live_line("preparing data"):
        planned = plan(configs)
    pretrainings = [item for item in planned if item.inputs.data is None]
    if pretrainings:
        plateau.references()  # refuses a torn one before anything runs
    notes = [*(item.note for item in planned), *(recipe.note_on_scale(item.config) for item in pretrainings)]
    for note in dict.fromkeys(filter(None, notes)):
        print(note, flush=True)
    if any(item.drops_weights and run_log.result(item.folder) is None for item in planned):
        print("fine-tuned weights are not kept in a sweep; finetune.keep=last keeps them", flush=True)
    with live_line("opening the trackers"):
        trackers = Trackers(planned[0].config)
    failed: list[PlannedRun] = []
    with _terminated_as_interrupt(), tracked(planned, trackers):
        for number, item in enumerate(planned, 1):
            label = f"[{number}/{len(planned)}] {item.title}"
            if item.needs in failed:
                print(f"{label}: skipped: its pretraining failed", flush=True)
                failed.append(item)
            elif not _run_unless_done(item, label, neighbours, trackers):
                failed.append(item)
        _time(planned, trackers)
    return 1 if failed else 0


def _run_unless_done(item: PlannedRun, label: str, neighbours: Neighbours, trackers: Trackers) -> bool:
    """Runs it unless it has finished already; whether it has finished afterwards."""
    item.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(item.folder / paths.LOCK, timeout=0))
        except Timeout:
            print(f"{label}: another process runs it; waiting", flush=True)
            stack.enter_context(FileLock(item.folder / paths.LOCK))
        _wait_for_worker(item.folder, label)
        result = run_log.result(item.folder)
        if result is not None and not all(folder.is_dir() for folder in item.needs_weights):
            key = "pretrain.keep" if item.inputs.data is None else "finetune.keep"
            print(f"{label}: finished without its weights, which {key} asks for: runs again", flush=True)
        elif result is not None and not item.config.rerun:
            print(f"{label}: {result['status']} already, skipped (rerun=true runs it again)", flush=True)
            _warn(item, label)
            record = run_folder.read(item.folder)
            its_study = replace(item.config, study=record["tags"][tags.STUDY])  # that of the command that ran it
            trackers.send(its_study, lambda backend: backend.agree(record, item.folder))
            return result["status"] == "finished"
        return _run(item, label, neighbours.are_busy(), trackers) == "finished"


def _wait_for_worker(folder: Path, label: str) -> None:
    """Returns when no worker writes into the folder: that of a command that was killed may live a moment longer."""
    for seconds in (SOON_S, -1):
        try:
            with FileLock(folder / paths.WORKER_LOCK, timeout=seconds):
                return
        except Timeout:
            print(f"{label}: a worker of an earlier command still writes to {folder}; waiting", flush=True)


def _run(item: PlannedRun, label: str, busy: bool, trackers: Trackers) -> str:
    """Starts a worker, which resumes from the checkpoint of an earlier one if there is one; returns the status of the run."""
    record = None if item.config.rerun else run_folder.resumable(item.folder, item.config)
    if record is None:
        record = run_folder.record(item.config, item.inputs, item.lifted)
        run_folder.prepare(item.folder, item.config, record)
    tracked = TrackedRun(trackers, item.config, record, item.folder)
    status = "killed"
    try:
        with Progress(label) as progress:
            status, reason = _work(item, busy, lambda entries: (progress.show(entries), tracked.add(entries)))
            result = run_log.result(item.folder)
            progress.end(status, result["metrics"] if result else {}, f"{reason} (see {item.folder / LOG})")
            _warn(item, label)
    finally:
        tracked.end(status)
    return status


def _warn(item: PlannedRun, label: str) -> None:
    """Says so where a pretraining has finished that has not learned as it should."""
    result = run_log.result(item.folder)
    if result and (warning := plateau.warning(result["metrics"], run_folder.read(item.folder)["parameters"])):
        print(f"{label}: warning: {warning}", flush=True)


def _time(planned: list[PlannedRun], trackers: Trackers) -> None:
    """Times the finished runs that have no timing yet, and adds it to them; a failed launch leaves a run without."""
    for item in planned:
        if is_measured(item) and not has_timing(item) and (item.folder / summary.FILE).exists():
            _add_timing(item, *summary.read(item.folder), trackers)  # an earlier command was killed while it added this
    session = Session(planned)
    session.run()
    for item, timed in session.replicates:
        if timed.failed is None:
            _track_replicate(item, timed, session.name, trackers)
    for item, timed in session.runs:
        if timed.failed is None:
            _add_timing(item, session.name, timed.launches[item.inputs.data], trackers)


def _add_timing(item: PlannedRun, session: str, launches: list[Launch], trackers: Trackers) -> None:
    """Adds launches to a finished run: to its folder, then in MLflow. The record of the run names the session last."""
    with FileLock(item.folder / paths.LOCK):
        if not is_measured(item) or has_timing(item):  # meanwhile another command ran it again, or timed it
            return
        record, result = run_folder.read(item.folder), run_log.result(item.folder)
        record["tags"][tags.SESSION] = session
        reader = run_log.Reader(item.folder)
        reader.new_entries()
        log = summary.write(item.folder, session, launches, result["metrics"].get("model/flops_forward"))
        log.finish(result["status"], result["time"])
        entries = reader.new_entries()
        trackers.send(item.config, lambda backend: backend.add(record, item.folder, entries))
        run_log.write_json(item.folder / run_folder.RECORD, record)


def _track_replicate(item: PlannedRun, timed: Timed, session: str, trackers: Trackers) -> None:
    """Tracks a second timing of the baseline as a run of its own, without training."""
    number = "2" if timed.is_aa_replicate else "1"  # the first one of a baseline that another session timed
    folder = item.folder.with_name(f"replicate-{session}-{number}-{item.folder.name}")
    record = run_folder.record(item.config, item.inputs, item.lifted)
    record["name"] += " (A/A replicate)"
    record["tags"] |= {tags.SESSION: session, tags.REPLICATE: "true", tags.ROLE: tags.ROLE_REPLICATE}
    run_folder.prepare(folder, item.config, record)
    summary.write(folder, session, timed.launches[item.inputs.data]).finish("finished")
    tracked = TrackedRun(trackers, item.config, record, folder)
    tracked.add(run_log.Reader(folder).new_entries())
    tracked.end("finished")


def _work(item: PlannedRun, busy: bool, follow: Callable[[list[dict[str, Any]]], object]) -> tuple[str, str]:
    """Runs the worker to its end: the status of the run and why the worker ended. The worker ends with this process."""
    reader, watch = run_log.Reader(item.folder), Watch()
    threads = facts.threads(item.config.hardware)
    with (item.folder / LOG).open("w") as log:
        worker = processes.start(workers.MODULE, [str(item.folder)], threads, log, passive=busy and threads > 1)
        try:
            while worker.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(POLL_S)
                follow(reader.new_entries())
        finally:
            processes.end(worker)
    follow(reader.new_entries())
    result = run_log.result(item.folder)
    status = result["status"] if worker.returncode == 0 and result else "failed"
    return status, watch.ending(worker.returncode, item.folder / LOG).reason


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the study as Ctrl-C does, so that runs get an end state."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
