"""A sweep on many machines, simulated: the order of runs and the limits of failures of a real one, on a clock that is counted.

Simulated are runs and their locks: how long they take, which fail, whose worker is killed, which command crashes with its runs.
A command that has ended or crashed is called again, as a user or a batch system does, until none is left that can finish.
"""

import heapq
import random
from dataclasses import dataclass
from itertools import count

from harness.config.schema import SweepConfig
from harness.study.schedule import LOOKS_AGAIN_S, End, Failures, Order
from harness.tracking.run_log import State

MOST_STEPS = 200_000
"""Events, and runs that a call of the command reads, after which a simulation has no end."""


@dataclass(frozen=True)
class Setting:
    """What is simulated. Durations of runs are log-normal."""

    runs: int
    workers: int  # runs at once, of all commands together
    commands: int = 1  # calls of the same command at once on one shared folder, such as one a machine
    minutes: float = 5.0  # median time of a run
    pretrainings: int = 0  # of the runs, on which all others depend
    failing: float = 0.0  # share of the runs that fail whenever they run
    killed: float = 0.0  # chance that the worker of a run is killed
    retries: int = 0  # times that its command runs such a run again at once, as sweep.retries
    crash_hours: float | None = None  # mean time between two crashes of a command; without it none crashes
    restart_minutes: float = 5.0  # until a command that crashed, stopped or left runs open is called again
    lease_seconds: float = 90.0  # for which the runs of a crashed command stay locked
    seed: int = 0


@dataclass(eq=False)
class Run:
    """A run on the simulated machines, with its folder."""

    place: int
    needs: "Run | None"
    seconds: float
    fails: bool
    holder: int | None = None  # the command that runs it
    free_at: float = 0.0  # when the lock of a command that crashed ends
    finishes: int = 0

    @property
    def never_finishes(self) -> bool:
        """Whether it, or the pretraining that it needs, fails whenever it runs."""
        return self.fails or (self.needs is not None and self.needs.fails)


@dataclass
class Outcome:
    """What came of it."""

    finished: int = 0
    failing: int = 0  # always fail, or need one that does
    lost: int = 0  # should have finished and have not
    doubled: int = 0  # finished more than once
    killed: int = 0
    crashes: int = 0
    calls: int = 0  # of the command, the first ones included
    breaks: int = 0  # of them stopped by failures in a row


class _Command:
    """One call of the command, which ends or crashes."""

    def __init__(self, number: int, workers: int, runs: list[Run]) -> None:
        self.number, self.workers = number, workers
        self.order, self.failures = Order(runs), Failures(SweepConfig())
        self.running: dict[int, Run] = {}  # by place
        self.waiting, self.started, self.stopped, self.alive = 0, 0, False, True


class Simulation:
    """Commands over one folder of runs."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._chance = setting, random.Random(setting.seed)
        self._events: list[tuple] = []  # (time, tie-breaker, method, arguments)
        self._ties = count()
        self._now, self._outcome, self._steps = 0.0, Outcome(), 0
        self._runs: list[Run] = []
        for place in range(setting.runs):
            is_pretraining = place < setting.pretrainings or not setting.pretrainings
            needs = None if is_pretraining else self._runs[self._chance.randrange(setting.pretrainings)]
            seconds = 60 * setting.minutes * self._chance.lognormvariate(0.0, 0.5)
            self._runs.append(Run(place, needs, seconds, self._chance.random() < setting.failing))

    def run(self) -> Outcome:
        """Simulates it to its end."""
        setting, outcome = self._setting, self._outcome
        for number in range(setting.commands):
            self._call(number, setting.workers // setting.commands + (number < setting.workers % setting.commands))
        while self._events:
            self._now, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)
            self._steps += 1
            assert self._steps <= MOST_STEPS
        possible = [run for run in self._runs if not run.never_finishes]
        outcome.finished = sum(run.finishes > 0 for run in self._runs)
        outcome.failing = setting.runs - len(possible)
        outcome.lost = sum(run.finishes == 0 for run in possible)
        outcome.doubled = sum(run.finishes > 1 for run in self._runs)
        return outcome

    def _at(self, when: float, act: object, *arguments: object) -> None:
        heapq.heappush(self._events, (when, next(self._ties), act, arguments))

    def _call(self, number: int, workers: int) -> None:
        self._outcome.calls += 1
        self._steps += len(self._runs)
        command = _Command(number, workers, self._runs)
        if self._setting.crash_hours is not None:
            self._at(self._now + self._chance.expovariate(1 / (3600 * self._setting.crash_hours)), self._crash, command)
        self._fill(command)

    def _fill(self, command: _Command) -> None:
        """Starts what can start; a command with nothing to do ends, and is called again where that helps."""
        while not command.stopped and len(command.running) + command.waiting < command.workers:
            ready = command.order.take()
            if ready is None:
                break
            self._look(command, ready.run, ready.again)
        if command.alive and not command.running and not command.waiting:
            command.alive = False
            is_open = any(run.finishes == 0 and not run.never_finishes for run in self._runs)
            if command.started and is_open:  # one that could start nothing would go on without end
                self._outcome.breaks += command.stopped
                self._at(self._now + 60 * self._setting.restart_minutes, self._call, command.number, command.workers)

    def _look(self, command: _Command, run: Run, again: bool) -> None:
        """Starts it or puts it off; one that is tried again is looked at a while later."""
        if command.failures.has(run.needs):
            command.failures.ends[run.place] = None
            command.order.end(run)
            return
        command.waiting += 1
        self._at(self._now + LOOKS_AGAIN_S * again, self._looked, command, run)

    def _looked(self, command: _Command, run: Run) -> None:
        if not command.alive:
            return
        command.waiting -= 1
        if run.finishes:
            command.order.end(run)
        elif run.holder is None and run.free_at <= self._now:
            self._start(command, run)
        else:
            command.order.put_off(run)
        self._fill(command)

    def _start(self, command: _Command, run: Run, retries: int = 0) -> None:
        run.holder, command.running[run.place] = command.number, run
        command.started += 1
        is_killed = self._chance.random() < self._setting.killed
        seconds = run.seconds * (self._chance.random() if is_killed or run.fails else 1.0)
        self._at(self._now + seconds, self._end, command, run, is_killed, retries)

    def _end(self, command: _Command, run: Run, is_killed: bool, retries: int) -> None:
        if not command.alive:
            return  # the command crashed
        self._leave(command, run)
        self._outcome.killed += is_killed
        if is_killed and retries < self._setting.retries:
            self._start(command, run, retries + 1)
            return
        end = End(State.killed) if is_killed else End(State.failed, f"run {run.place}") if run.fails else End(State.finished)
        run.finishes += end.state is State.finished
        command.stopped |= command.failures.add(run, end, ran=True) is not None
        command.order.end(run)
        self._fill(command)

    def _leave(self, command: _Command, run: Run) -> None:
        del command.running[run.place]
        run.holder = None

    def _crash(self, command: _Command) -> None:
        if not command.alive:
            return
        self._outcome.crashes += 1
        command.alive = False
        for run in list(command.running.values()):
            self._leave(command, run)
            run.free_at = self._now + self._setting.lease_seconds
        self._at(self._now + 60 * self._setting.restart_minutes, self._call, command.number, command.workers)
