"""The parent of all runs: prepares data, runs one worker process after the other, times what has finished, and tracks it.

A worker never talks to MLflow. Where MLflow is unreachable, runs continue, and `python -m harness sync` sends them later.
"""

import contextlib
import functools
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import paths, plateau
from harness.config import launched, recipe
from harness.config.choices import Device
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import device, facts, load
from harness.study import forecast, plan_file, side_by_side, torn_runs, workers
from harness.study.budget import Queue
from harness.study.failures import Failures
from harness.study.one_run import Command, run_unless_done
from harness.study.plan import PlannedRun, plan, with_sizes
from harness.study.screen import Screen
from harness.study.search import trials
from harness.study.timing import add as timing
from harness.study.tracked_study import tracked
from harness.terminal import console, counted, live_line
from harness.tracking import run_log
from harness.tracking.states import State
from harness.tracking.trackers import Trackers, refuse_foreign_stores

BUSY_CPUS = 0.5
"""CPUs that other processes keep busy from which on the threads of a worker sleep while they wait for each other."""

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Sent by a batch system or `kill`, by a terminal that is closed, and by Ctrl-\\."""


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
            console.plain(f"other processes keep {foreign:.1f} CPUs busy: threads sleep while they wait for each other")
        self._were_busy = busy
        return busy


def run_study(configs: list[RunConfig]) -> int:
    """Runs everything that is not finished yet; 0 if all runs finished, 1 if one did not.

    A search runs its trials first. InputError, before any run starts, if the data of any of them cannot be used.
    """
    for config in configs:
        device.refuse_missing(config.hardware)
    refuse_foreign_stores(configs)
    workers.prepare()
    neighbours = Neighbours()
    with console.quiet(any(config.sweep.quiet for config in configs)):
        trackers = functools.cache(lambda: _opened(configs[0]))
        refuse_impossible(configs)
        if any(config.search.space for config in configs):

            def run(some: list[RunConfig], heading: str) -> list[dict[str, Any] | None]:
                return _run_trials(some, heading, neighbours, trackers)

            configs = trials.tuned(with_sizes(configs), run)
        with live_line("preparing data"):
            planned = plan(configs)
        code = _run_planned(planned, neighbours, trackers)
        if console.is_quiet():
            for folder in _studies(planned):
                console.result(f"results: {os.path.relpath(folder)} (what happened: {os.path.relpath(folder / console.LOG)})")
        return code


def conclude(configs: list[RunConfig]) -> int:
    """Ends the study of runs that the jobs of a launcher have run, with its report; 0.

    The arms of a search are what its job has made of them: they are in the report that `python -m reports` writes.
    """
    configs = [config for config in configs if not config.search.space]
    if not configs:
        return 0
    with console.quiet(any(config.sweep.quiet for config in configs)):
        with live_line("preparing data"):
            planned = plan(configs)
        with console.logged(_studies(planned)), _ended_as_interrupted(), tracked(planned, _opened(configs[0])):
            states = [run_log.result(item.folder) for item in planned]
            finished = sum(state is not None and state["status"] == State.finished for state in states)
            console.plain(f"{finished} of {counted(len(planned), 'run')} finished")
        return 0


def _opened(config: RunConfig) -> Trackers:
    with live_line("opening the trackers"):
        return Trackers(config)


def _run_trials(
    configs: list[RunConfig], heading: str, neighbours: Neighbours, trackers: Callable[[], Trackers]
) -> list[dict[str, Any] | None]:
    """The results of trials of a search, in their order; those that have finished are not run again."""
    with live_line("preparing data"):
        folders = [plan([config])[-1].folder for config in configs]
        planned = plan(configs)
    _run_planned(planned, neighbours, trackers, heading)
    return [run_log.result(folder) for folder in folders]


def _studies(planned: list[PlannedRun]) -> list[Path]:
    """Their folders."""
    return sorted({paths.study_folder(item.config.output, item.config.study) for item in planned})


def _run_planned(planned: list[PlannedRun], neighbours: Neighbours, opened: Callable[[], Trackers], trials_of: str = "") -> int:
    """0 if all runs finished, 1 if one did not. Others follow the trials of a search, so that no tracker is waited for."""
    if any(item.inputs.data is None for item in planned):
        plateau.references()  # refuses a torn one before anything runs
    trackers = opened()
    with console.logged(_studies(planned)):
        _announce(planned, trials_of)
        plan_file.write(planned)
        try:
            with _ended_as_interrupted(), tracked(planned, trackers, waits=not trials_of):
                return 0 if _run_all(planned, neighbours, trackers) else 1
        except KeyboardInterrupt:
            done = sum(run_log.result(item.folder) is not None for item in planned)
            left = f"run the same command again to continue; what is left: {_status(planned)}"
            console.problem(f"{done} of {len(planned)} runs have ended; {left}")
            raise


def _announce(planned: list[PlannedRun], heading: str) -> None:
    """Says what is noteworthy of the runs before the first one starts; what is torn is set aside."""
    console.plain(plan_file.command(), replaced=True)
    torn_runs.set_aside(planned)
    if heading:
        console.plain(heading)
    pretrainings = [item for item in planned if item.inputs.data is None]
    notes = [*(note for item in planned for note in item.notes), *(recipe.note_on_scale(item.config) for item in pretrainings)]
    for note in dict.fromkeys(filter(None, notes)):
        console.plain(note)
    if any(item.drops_weights and run_log.result(item.folder) is None for item in planned):
        console.plain("fine-tuned weights are not kept in a sweep; finetune.keep=last keeps them")
    if len(planned) > 1:
        console.plain(forecast.opening(planned))


def _are_busy(planned: list[PlannedRun], neighbours: Neighbours) -> Callable[[], bool]:
    """Whether other processes are busy: before each run, or, of runs at once, at the beginning.

    A process that forks workers ends with the thread that has started it, so that this thread starts both kinds of it.
    """
    if planned[0].config.hardware.workers == 1:
        return neighbours.are_busy
    busy = neighbours.are_busy()
    if busy:
        workers.prepare_passive()
    return lambda: busy


def refuse_impossible(configs: list[RunConfig]) -> None:
    """InputError for several runs at once on more cores than there are, on other devices, or within a budget of time."""
    counts = sorted({config.hardware.workers for config in configs})
    if len(counts) > 1:
        raise InputError(f"hardware.workers={','.join(map(str, counts))} cannot be swept: a command has one number of workers")
    config, count, cores = configs[0], counts[0], facts.cores()
    if count == 1:
        return
    if config.hardware.device is not Device.cpu or config.hardware.devices > 1:
        raise InputError(
            f"hardware.workers={count} divides the cores of a CPU: expected hardware.device=cpu hardware.devices=1"
        )
    if config.sweep.budget_minutes is not None:
        raise InputError(f"hardware.workers={count} has no budget of time: leave it out, or sweep.budget_minutes")
    threads = max(one.hardware.threads or 1 for one in configs)
    if count * threads > cores:
        each = f"{counted(threads, 'thread')} each (hardware.threads)"
        raise InputError(f"hardware.workers={count} with {each} need more than the {cores} cores that this process may use")


def _run_all(planned: list[PlannedRun], neighbours: Neighbours, trackers: Trackers) -> bool:
    """Runs and times them; whether all finished. A sweep that stops before its end times nothing."""
    failures, count, queue = Failures(planned[0].config.sweep), planned[0].config.hardware.workers, Queue(planned)
    with Screen(len(planned)) as screen:
        command = Command(trackers, _are_busy(planned, neighbours), screen=screen, workers=count)
        stop, ended = _run_each(queue, planned, command, screen, failures)
        if stop is None and planned[0].config.sweep.timing:
            timing.time_runs(planned, trackers, screen)
    if left := queue.summary():
        console.problem(f"{left}; what is left: {_status(planned)}")
    if stop is not None:
        console.problem(f"the sweep stops: {stop}; the same command again runs what is left, and times what has finished")
    if failures.ends:
        not_started = len(planned) - ended - len(queue.left)
        console.problem(f"{failures.summary(len(planned), not_started)}; why: {_status(planned)}")
    return not failures.ends


def _run_each(
    queue: Queue, planned: list[PlannedRun], command: Command, screen: Screen, failures: Failures
) -> tuple[str | None, int]:
    """Why the sweep stops, if it does, and how many runs have ended or were skipped."""
    labels: dict[int, str] = {}
    stops: list[str] = []

    def labelled() -> Iterator[PlannedRun]:
        for number, item in enumerate(queue, 1):
            labels[id(item)] = f"[{launched.place(number, len(planned))}] {item.title}"
            yield item

    def run(item: PlannedRun, again: bool) -> side_by_side.Outcome | None:
        return run_unless_done(item, labels[id(item)], command, again)

    def needs_what_failed(item: PlannedRun) -> bool:
        return failures.has(item.needs)

    def may_continue() -> bool:
        return not stops

    ended = 0
    last = functools.partial(timing.prepare, planned)  # a free worker's time is enough for its imports
    follow = (run, needs_what_failed, may_continue, command.interrupted, last)
    outcomes = side_by_side.outcomes(labelled(), command.workers, *follow)
    with contextlib.closing(outcomes):
        for item, outcome in outcomes:
            ended += 1
            if outcome is None:
                console.problem(f"{labels[id(item)]}: skipped: its pretraining did not finish")
                failures.skip(item)
                screen.count(finished=False, ran=False)
                continue
            end, ran = outcome
            screen.count(end.state is State.finished, ran)
            stop = failures.add(item, end, ran)
            stops += [stop] if stop is not None else []
    return (stops[0] if stops else None), ended


def _status(planned: list[PlannedRun]) -> str:
    """The command that says what is missing."""
    study, output = planned[0].config.study, planned[0].config.output
    return shlex.join(["python", "-m", "harness", "status", study, *([] if output == "multirun" else ["--output", output])])


@contextlib.contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """What else ends a command ends the study as Ctrl-C does, so that runs get an end state and the terminal its cursor back.

    A signal that is ignored, as SIGHUP under `nohup`, stays so.
    """

    def interrupt(number: int, frame: object) -> None:
        console.leave_lost_terminal()
        raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN}
    for one in before:
        signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
