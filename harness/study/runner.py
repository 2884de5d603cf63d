"""One run: skipped where it has finished, else its worker is started, followed, watched and ended; in this thread or others."""

import contextlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock, Timeout

from harness import paths, processes, tags
from harness.config.schema import SweepConfig
from harness.hardware import facts, load
from harness.processes.ending import INVALID, Ending, Watch
from harness.study import WORKER, micro_batches, run_folder
from harness.study.micro_batches import FittingMicroBatches
from harness.study.plan import PlannedRun
from harness.study.progress import RunProgress, Screen
from harness.study.schedule import INTERRUPTED, LOOKS_AGAIN_S, End
from harness.terminal import console
from harness.tracking import run_log
from harness.tracking.run_log import Record, Result, State
from harness.tracking.trackers import TrackedRun, Trackers

POLL_S = 0.5
"""Seconds between two reads of a worker's log."""

SOON_S = 5.0
"""Seconds that are waited for the worker of a killed command before it is said."""

LEAVES_S = 3.0
"""Longest wait for the runs of an interrupted command, which end their workers."""

BUSY_CPUS = 0.5
"""CPUs that other processes keep busy from which on the threads of a worker sleep while they wait for each other."""

LONGEST_STEP_S = 30.0
"""Maximum seconds that one poll counts: a suspended machine or a stopped command did not let the worker work."""

Outcome = tuple[End, bool]
"""How a run ended, and whether it ran now."""


class LoadCheck:
    """Whether other processes keep the CPUs busy, over the time since the last check, which is made where no run is at work."""

    def __init__(self) -> None:
        self._load, self.is_busy = load.ForeignLoad(), False

    def check(self) -> bool:
        """Whether they use BUSY_CPUS, which is said when it begins; False where OMP_WAIT_POLICY says what threads do.

        A process that forks workers ends with the thread that has started it, so that the main thread calls this.
        """
        if "OMP_WAIT_POLICY" in os.environ:
            return False
        cpus, was_busy = self._load.foreign_cpus() or 0.0, self.is_busy
        self._load.start()
        self.is_busy = cpus > BUSY_CPUS
        if self.is_busy:
            processes.server(WORKER, passive=True)
        if self.is_busy and not was_busy:
            console.plain(f"Machine busy (other processes use {cpus:.1f} CPUs): times are noisier")
        return self.is_busy


@dataclass(frozen=True)
class Command:
    """State that the runs of one command share."""

    trackers: Trackers
    load: LoadCheck
    screen: Screen | None = None
    workers: int = 1  # runs at once
    micro_batches: FittingMicroBatches = field(default_factory=FittingMicroBatches)
    peaks: dict[str, float] = field(default_factory=dict)  # hardware -> FLOP/s of its fastest matrix product
    interrupted: threading.Event = field(default_factory=threading.Event)  # by which the threads of runs end


class Runner:
    """Runs in threads, each of which follows the worker of one run."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._ended: queue.Queue[tuple[PlannedRun, Outcome | BaseException | None]] = queue.Queue()
        self._threads: dict[int, threading.Thread] = {}

    @property
    def running(self) -> int:
        """Runs that were started and whose outcome was not taken."""
        return len(self._threads)

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Where this thread is interrupted, waits a little for the others; what they start ends with this process anyway."""
        if kind is not None:
            self._command.interrupted.set()
            end = time.monotonic() + LEAVES_S
            for thread in self._threads.values():
                thread.join(max(0.0, end - time.monotonic()))

    def start(self, run: PlannedRun, again: bool) -> None:
        """Starts it; `again`: nothing else is left, so that it may wait a little for another command."""
        if not self._threads:
            self._command.load.check()
        self._threads[id(run)] = threading.Thread(target=self._run, args=(run, again), name=run.title, daemon=True)
        self._threads[id(run)].start()

    def _run(self, run: PlannedRun, again: bool) -> None:
        try:
            self._ended.put((run, run_to_end(run, self._command, again)))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._ended.put((run, error))

    def wait(self) -> tuple[PlannedRun, Outcome | None]:
        """(run, outcome) of the next one that ends, None where another command holds it; raises what the run raised."""
        run, outcome = self._ended.get()
        del self._threads[id(run)]
        if isinstance(outcome, BaseException):
            raise outcome
        return run, outcome


class Watchdog:
    """Counts the time of one run, and the time since its folder last changed: when its worker must end."""

    def __init__(self, config: SweepConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._last = time.monotonic()
        self._ran_s = self._silent_s = 0.0
        self._seen: object = None

    def complaint(self) -> str | None:
        """Why the worker must end, with the key that says so; None while it may continue. To be called every few seconds."""
        now, seen = time.monotonic(), []
        for path in paths.below(self._folder):  # a working worker changes its log, its curves, its checkpoints
            with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
                facts = path.stat()
                seen.append((path.name, facts.st_size, facts.st_mtime_ns))
        step, self._last = min(now - self._last, LONGEST_STEP_S), now
        self._ran_s += step
        self._silent_s = self._silent_s + step if seen == self._seen else 0.0
        self._seen = seen
        longest, silent = self._config.timeout_minutes, self._config.silent_minutes
        if longest is not None and self._ran_s > 60 * longest:
            return f"it ran for more than {longest:g} min (sweep.timeout_minutes)"
        if silent is not None and self._silent_s > 60 * silent:
            return f"no progress for {silent:g} min (sweep.silent_minutes)"
        return None


def run_to_end(run: PlannedRun, command: Command, again: bool) -> Outcome | None:
    """How the run ended, and whether it ran now; a run that has a result already is skipped.

    None where another command runs it; when it is tried `again`, after it has waited a little for that.
    """
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        with _locked(run, again) as is_ours:
            if not is_ours:
                return None
            _wait_for_worker(run)
            result, record = run_log.result(run.folder), run_log.record(run.folder) or Record()
            command.micro_batches.learn(run, record)
            if result is not None and not all(folder.is_dir() for folder in run.needs_weights):
                key, result = "pretrain.keep" if run.inputs.is_pretraining else "finetune.keep", None
                console.plain(f"{run.label}: finished, but its weights were not kept ({key}): running again")
            if result is None or run.config.rerun:
                return _start_workers(run, command), True
            console.plain(f"{run.label}: {result['status']} already, skipped (rerun=true runs it again)")
            said, is_shared = run_log.said_of(result), run.inputs.is_pretraining  # whose comparisons other commands make
            if said and (is_shared or result["status"] != State.finished):
                console.problem(f"{run.label}: warning: {said}")
            its_study = replace(run.config, study=record["tags"][tags.STUDY])  # that of the command that ran it
            command.trackers.send(its_study, lambda backend: backend.sync_if_stale(record, run.folder))
            return End(State(result["status"])), False
    except BrokenPipeError:  # of our own output
        raise
    except OSError as error:  # a full disk, a folder that may not be written to: the next run may have more luck
        console.problem(f"{run.label}: failed: {error}")
        return End(State.failed, f"{type(error).__name__}: {error}"), True


@contextlib.contextmanager
def _locked(run: PlannedRun, again: bool) -> Iterator[bool]:
    """Whether this command may run it: it holds the run's lock, which the system takes from a process that ends.

    Within a budget of time it waits for that as long as it takes: what comes next depends on how this run ends.
    """
    lock, waits = FileLock(run.folder / paths.LOCK), run.config.sweep.budget_minutes is not None
    try:
        lock.acquire(timeout=LOOKS_AGAIN_S if again else 0)
    except Timeout:
        if not again:
            console.plain(f"{run.label}: another process runs it; waiting{'' if waits else ', other runs go first'}")
        if not waits:
            yield False
            return
        lock.acquire()
    try:
        yield True
    finally:
        lock.release()


def _wait_for_worker(run: PlannedRun) -> None:
    """Until no worker of an earlier command, which was killed, writes into the folder: it may live a moment longer."""
    for seconds in (SOON_S, -1):
        try:
            with FileLock(run.folder / paths.WORKER_LOCK, timeout=seconds):
                return
        except Timeout:
            console.problem(f"{run.label}: a worker of an earlier command still writes to {run.folder}; waiting")


def _start_workers(run: PlannedRun, command: Command) -> End:
    """The end of the run's worker, or of the last one where others follow: it was killed, or ran out of memory.

    A worker resumes from the checkpoint of an earlier one if there is one.
    """
    run_folder.remove_temporary(run.folder)
    record = None if run.config.rerun else run_folder.resumable(run.folder, run.config.pretrain.keep)
    if record is None:
        record = run_folder.new_record(run.config, run.inputs, run.lifted)
        if pieces := command.micro_batches.first(run):
            record[tags.PIECES] = pieces
        if peak := command.peaks.get(str(run.config.hardware)):
            record[tags.PEAK] = peak
        record["tags"] |= {tags.SAME_AS: run.same_as} if run.same_as else {}
        run_folder.prepare(run.folder, run.config, record)
        resumes = run.inputs.is_pretraining and not run.config.rerun  # the same pretraining on other devices
        if resumes and (other := run_folder.take_over(run.folder, run.config, record)):
            console.plain(f"{run.label}: resuming {other.name}, begun on other devices")
    tracked = TrackedRun(command.trackers, run.config, record, run.folder)
    watchdog, ended, retries = Watchdog(run.config.sweep, run.folder), INTERRUPTED, 0
    try:
        while True:
            ended = INTERRUPTED
            with RunProgress(run.label, command.screen, alone=command.workers == 1) as progress:
                ending, complaint = _follow(run, command, tracked, progress, watchdog)
                result = run_log.result(run.folder)
                ended = end_of(ending, result, complaint)
                smaller = command.micro_batches.smaller(run, record) if ended.state is State.out_of_memory else None
                again = "" if smaller is None else micro_batches.text(smaller)
                if ended.state is State.killed and retries < run.config.sweep.retries:
                    retries += 1
                    again = f"retry {retries} of {run.config.sweep.retries}"
                then = f"; again, {again}" if again else f" (see {os.path.relpath(run.folder / run_log.LOG)})"
                progress.end(ended.state.text, result, ended.reason + then, tried_again=bool(again))
            if not again:
                break
            if smaller is None:
                record[tags.RETRIES] = [*record.get(tags.RETRIES, []), ended.reason]
                run_folder.remove_temporary(run.folder)
                _wait_for_worker(run)
            else:
                record[tags.PIECES] = smaller
            if not any(run.folder.glob(f"{paths.CHECKPOINTS}/step-*")):  # the curves of its training begin anew
                (run.folder / run_log.LINES).unlink(missing_ok=True)
            run_folder.write(run.folder, record)
            tracked.forget()
        command.micro_batches.learn(run, record)
        if result is not None and (peak := result["metrics"].get(tags.PEAK)):
            command.peaks[str(run.config.hardware)] = peak
    finally:
        try:
            lines = list(ended.lines)
            record[tags.END] = {"state": ended.state, "reason": ended.reason, "lines": lines, "time": run_log.now_ms()}
            run_folder.write(run.folder, record)
        finally:
            tracked.end(ended.state)
    return ended


def _follow(
    run: PlannedRun, command: Command, tracked: TrackedRun, progress: RunProgress, watchdog: Watchdog
) -> tuple[Ending, str | None]:
    """(end of a worker's process, complaint for which it was ended if any); it also ends with this command."""
    log, reader, watch, complaint = run.folder / run_log.LOG, run_log.Reader(run.folder), Watch(), None

    def show() -> None:
        entries = reader.new_entries()
        progress.show(entries)
        tracked.add(entries)

    threads = facts.threads(run.config.hardware)
    with log.open("w") as output:
        worker = processes.start(WORKER, [str(run.folder)], threads, output, command.load.is_busy and threads > 1)
        try:
            while complaint is None and worker.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(POLL_S)
                show()
                if command.interrupted.is_set():
                    raise KeyboardInterrupt
                complaint = watchdog.complaint()
        finally:
            processes.end(worker)
    show()
    return watch.ending(worker.wait(), log), complaint


def end_of(ending: Ending, result: Result | None, complaint: str | None) -> End:
    """From the end of the worker's process, the result that it left, and the complaint for which it was ended, if any."""
    if result is not None:  # it was written whole, whatever happened after
        state = State(result["status"])
        return End(state) if state is State.finished else End(state, run_log.said_of(result) or ending.last_line, ending.lines)
    if complaint is not None:
        return End(State.timeout, complaint, ending.lines)
    if ending.code == INVALID:
        return End(State.invalid, ending.last_line, ending.lines)
    state = State.killed if ending.code < 0 and not ending.crashed else State.failed
    state = State.out_of_memory if ending.out_of_memory else state
    return End(state, ending.reason.removeprefix("out of memory: "), ending.lines)
