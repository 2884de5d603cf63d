"""A sweep on many machines, simulated: the order of runs and the limits of failures of a real one, on a clock that is counted.

Simulated are runs and their locks: how long they take, which fail, whose worker is killed, which command crashes with its runs.
A command that has ended or crashed is called again, as a user or a batch system does, until none is left that can finish.
"""

import heapq
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from harness.config.execution import SweepConfig
from harness.errors import InputError
from harness.study.schedule import LOOKS_AGAIN_S, End, Failures, Order
from harness.tracking.run_log import State
from harness.tracking.trackers import EVERY_S
from models.ranges import Range

CALLS_AT_START, CALLS_AT_END = 4, 11
"""Calls of the tracking store as a run begins and ends, counted for a fine-tuning; between them comes one every EVERY_S."""

MINUTE_S = 60.0


MOST_STEPS = 5_000_000
"""Events, and runs that a call of the command reads, after which a simulation is given up: about a minute."""


def _setting(default: float | None, meaning: str, **bounds: float) -> Any:
    return field(default=default, metadata={"meaning": meaning, "range": Range(**({"at_least": 0} | bounds))})


@dataclass(frozen=True)
class Setting:
    """What is simulated; each field says what it means and its range. Durations are log-normal."""

    runs: int = _setting(1000, "of the sweep", at_least=1, limit=1e6)
    workers: int = _setting(10, "runs at once, of all commands together", at_least=1, limit=1e6)
    commands: int = _setting(
        1, "calls of the same command at once on one shared folder, such as one a machine", at_least=1, limit=1e4
    )
    minutes: float = _setting(5.0, "median time of a run", above=0)
    spread: float = _setting(0.5, "standard deviation of the logarithm of that time", limit=10)
    pretrainings: int = _setting(0, "of the runs, on which all others depend")
    failing: float = _setting(0.0, "share of the runs that fail whenever they run", below=1)
    killed: float = _setting(0.0, "chance that the worker of a run is killed", below=1)
    retries: int = _setting(0, "times that its command runs such a run again at once, as sweep.retries")
    crash_hours: float | None = _setting(None, "mean hours between two crashes of a command; without it none crashes", above=0)
    restart_minutes: float = _setting(5.0, "until a command that crashed, stopped or left runs open is called again")
    look_ms: float = _setting(50.0, "time of a command for each run that it starts or skips")
    lease_seconds: float = _setting(
        90.0, "for which the runs of a crashed command stay locked (90 is usual on NFS, 0 on one machine)"
    )
    seed: int = _setting(0, "of the simulation")


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


@dataclass
class Outcome:
    """What came of it."""

    makespan_s: float = 0.0
    bound_s: float = 0.0  # that no order can beat: all work on all workers, and the longest run after its pretraining
    finished: int = 0
    failing: int = 0  # always fail, or need one that does
    lost: int = 0  # should have finished and have not
    doubled: int = 0  # finished more than once
    killed: int = 0
    crashes: int = 0
    wasted_s: float = 0.0  # work of workers that were killed
    calls: int = 0  # of the command, the first ones included
    breaks: int = 0  # of them stopped by failures in a row
    looks: int = 0  # at folders
    store_calls: float = 0.0
    peak_looks: float = 0.0  # a second, over the busiest minute
    peak_store_calls: float = 0.0
    cpu_s: float = 0.0  # of this process


class _Command:
    """One call of the command, which ends or crashes."""

    def __init__(self, number: int, workers: int, runs: list[Run]) -> None:
        self.number, self.workers = number, workers
        self.order, self.failures = Order(runs), Failures(SweepConfig())
        self.running: dict[int, tuple[Run, float]] = {}  # by place, with the time of its start
        self.looking, self.started, self.stopped, self.alive = 0, 0, False, True
        self.free_at = 0.0  # when it can look at the next run

    @property
    def has_room(self) -> bool:
        return not self.stopped and len(self.running) + self.looking < self.workers


class Simulation:
    """Commands over one folder of runs."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._chance = setting, random.Random(setting.seed)
        self._runs = self._made()
        self._events: list[tuple] = []
        self._ties = count()
        self._looks, self._calls, self._rate = Counter(), Counter(), Counter()  # by minute; the last one: its changes
        self._now, self._outcome, self._steps = 0.0, Outcome(), 0

    def _made(self) -> list[Run]:
        setting, chance = self._setting, self._chance
        made: list[Run] = []
        for place in range(setting.runs):
            needs = made[chance.randrange(setting.pretrainings)] if place >= setting.pretrainings > 0 else None
            seconds = 60 * setting.minutes * chance.lognormvariate(0.0, setting.spread)
            made.append(Run(place, needs, seconds, chance.random() < setting.failing))
        return made

    def run(self) -> Outcome:
        """Simulates it to its end; InputError where that is too far away, as where nearly all work is lost."""
        began, setting = time.process_time(), self._setting
        for number in range(setting.commands):
            share = setting.workers // setting.commands + (number < setting.workers % setting.commands)
            self._call(number, share)
        while self._events:
            self._now, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise InputError(self._given_up())
        self._sum_up()
        self._outcome.cpu_s = time.process_time() - began
        return self._outcome

    def _given_up(self) -> str:
        done, all_runs = sum(run.finishes > 0 for run in self._runs), len(self._runs)
        return (
            f"given up: {done:,} of {all_runs:,} runs have finished after {self._outcome.calls:,} calls of the command and "
            f"{self._outcome.looks:,} looks at runs; expected fewer runs or commands, or less that is killed or crashes"
        )

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
        while command.has_room and (found := command.order.take()) is not None:
            self._look(command, found.run, found.again)
        if command.alive and not command.running and not command.looking:
            command.alive = False
            self._outcome.makespan_s = max(self._outcome.makespan_s, self._now)
            if command.started and self._is_open():  # one that could start nothing would go on without end
                self._outcome.breaks += command.stopped
                self._at(self._now + 60 * self._setting.restart_minutes, self._call, command.number, command.workers)

    def _is_open(self) -> bool:
        return any(run.finishes == 0 and not _never_finishes(run) for run in self._runs)

    def _look(self, command: _Command, run: Run, again: bool) -> None:
        """Takes the time of its command for one run after the other; for one that is tried again it waits beside them."""
        if command.failures.has(run.needs):
            command.failures.skip(run)
            command.order.end(run)
            return
        self._looks[self._minute()] += 1
        self._outcome.looks += 1
        command.looking += 1
        if again:
            self._at(self._now + LOOKS_AGAIN_S, self._looked, command, run)
        else:
            command.free_at = max(self._now, command.free_at) + self._setting.look_ms / 1000
            self._at(command.free_at, self._looked, command, run)

    def _looked(self, command: _Command, run: Run) -> None:
        if not command.alive:
            return
        command.looking -= 1
        if run.finishes:
            command.order.end(run)
        elif run.holder is None and run.free_at <= self._now:
            self._start(command, run)
        else:
            command.order.put_off(run)
        self._fill(command)

    def _start(self, command: _Command, run: Run, retries: int = 0) -> None:
        run.holder, command.running[run.place] = command.number, (run, self._now)
        command.started += 1
        is_killed = self._chance.random() < self._setting.killed
        takes = run.seconds * (self._chance.random() if is_killed or run.fails else 1.0)
        self._calls[self._minute()] += CALLS_AT_START
        self._rate[self._minute()] += 1
        self._at(self._now + takes, self._end, command, run, is_killed, retries)

    def _end(self, command: _Command, run: Run, is_killed: bool, retries: int) -> None:
        if not command.alive:
            return  # the command crashed
        self._leave(command, run, is_killed)
        if is_killed and retries < self._setting.retries:
            self._outcome.killed += 1
            self._start(command, run, retries + 1)
            return
        end = End(State.killed) if is_killed else End(State.failed, f"run {run.place}") if run.fails else End(State.finished)
        run.finishes += end.state is State.finished
        self._outcome.killed += is_killed
        command.stopped |= command.failures.add(run, end, ran=True) is not None
        command.order.end(run)
        self._fill(command)

    def _leave(self, command: _Command, run: Run, is_wasted: bool) -> None:
        _, began = command.running.pop(run.place)
        run.holder = None
        self._calls[self._minute()] += CALLS_AT_END
        self._rate[self._minute() + 1] -= 1
        self._outcome.wasted_s += (self._now - began) * is_wasted

    def _crash(self, command: _Command) -> None:
        if not command.alive:
            return
        self._outcome.crashes += 1
        command.alive = False
        for run, _ in list(command.running.values()):
            self._leave(command, run, is_wasted=True)
            run.free_at = self._now + self._setting.lease_seconds
        self._at(self._now + 60 * self._setting.restart_minutes, self._call, command.number, command.workers)

    def _minute(self) -> int:
        return int(self._now / MINUTE_S)

    def _sum_up(self) -> None:
        setting, outcome, runs = self._setting, self._outcome, self._runs
        possible = [run for run in runs if not _never_finishes(run)]
        longest = max((run.seconds + (run.needs.seconds if run.needs else 0.0) for run in possible), default=0.0)
        outcome.bound_s = max(sum(run.seconds for run in possible) / setting.workers, longest)
        outcome.finished = sum(run.finishes > 0 for run in runs)
        outcome.failing = len(runs) - len(possible)
        outcome.lost = sum(run.finishes == 0 for run in possible)
        outcome.doubled = sum(run.finishes > 1 for run in runs)
        minutes, running = sorted({*self._rate, *self._calls}), 0  # between two of them the load stays
        for minute, following in pairwise([*minutes, self._minute() + 2]):
            running += self._rate[minute]
            steady = running * MINUTE_S / EVERY_S
            outcome.store_calls += self._calls[minute] + steady * (following - minute)
            outcome.peak_store_calls = max(outcome.peak_store_calls, (self._calls[minute] + steady) / MINUTE_S)
        outcome.peak_looks = max(self._looks.values(), default=0) / MINUTE_S


def _never_finishes(run: Run) -> bool:
    return run.fails or (run.needs is not None and run.needs.fails)
