"""The parent of all runs: prepares data, runs one worker process after the other, times what has finished, and tracks it.

A worker never talks to MLflow. Where MLflow is unreachable, runs continue, and `python -m harness sync` sends them later.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from harness import extensions, paths
from harness.command import ended_in_order
from harness.comparison import plateau
from harness.config import command_line, resolve
from harness.config.choices import Device, Until
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import device, facts
from harness.redact import redacted
from harness.study import forecast, hypothesis, plan_file, prepare_workers, replicates, run_folder, timing_session
from harness.study.plan import PlannedRun, plan, stages, with_sizes, with_workers
from harness.study.progress import Screen
from harness.study.runner import Command, LoadCheck, Runner
from harness.study.schedule import Failures, Order
from harness.study.tracked_study import Tables, tracked
from harness.terminal import console, counted, live_line
from harness.tracking import run_log
from harness.tracking.run_log import Result, State
from harness.tracking.trackers import Trackers, refuse_foreign_stores

SEARCHES = "harness.searches"
"""The group of entry points with a class of `Searches` of the name `search`."""


class Searches(Protocol):
    """The searches of a command, one of each arm on each task; made of the composed runs."""

    def rounds(self) -> Iterator[tuple[list[RunConfig], str]]:
        """The next trials of all arms, with one budget, and a heading; `take` is to be called with their results."""

    def take(self, results: list[Result | None]) -> None:
        """Takes the results of the trials, None for one that failed."""

    def tuned(self) -> list[RunConfig]:
        """The runs of the command, those with a search with the best settings of their arm on their task."""


def run_study(configs: list[RunConfig]) -> int:
    """Runs everything that is not finished yet; 0 if all runs finished, 1 if one did not.

    A search runs its trials first. InputError, before any run starts, if the data of any of them cannot be used.
    """
    configs = with_workers(configs, facts.cores() if command_line.sweep() is None else 1)
    for config in configs:
        device.refuse_missing(config.hardware)
        if command_line.sweep() is None:  # else it is one job of a sweep, which fails alone
            device.refuse_absent(config.hardware)
    refuse_foreign_stores(configs)
    prepare_workers()
    load, trackers = LoadCheck(), None
    with console.quiet(any(config.sweep.quiet for config in configs)):
        refuse_as_one_command(configs)
        hypothesis.refuse_late(configs)
        if any(config.search.space for config in configs):
            trackers = _opened(configs[0])
            first: list[RunConfig] = []
            in_stages = stages(configs := with_sizes(configs))
            for stage in in_stages:
                if first:  # whose weights the trials of this one start from
                    planned = plan(first)
                    with _begun(planned, trackers):
                        if not run_in_order(planned, trackers, load, times=False):
                            return 1
                first += _tuned(stage, first, trackers, load)
            tuned = {id(config): run for config, run in zip(itertools.chain(*in_stages), first, strict=True)}
            configs = [tuned[id(config)] for config in configs]
        with live_line("preparing data") as line:
            planned = plan(configs, line.show)
        trackers = trackers or _opened(configs[0])
        with _begun(planned, trackers):
            execute = run_in_order if configs[0].sweep.until is Until.seeds else run_in_looks
            all_finished = execute(planned, trackers, load)
        if console.is_quiet():
            for folder in _studies(planned):
                console.result(f"results: {os.path.relpath(folder)} (what happened: {os.path.relpath(folder / console.LOG)})")
        return 0 if all_finished else 1


def _tuned(configs: list[RunConfig], first: list[RunConfig], trackers: Trackers, load: LoadCheck) -> list[RunConfig]:
    """The runs with the best settings of the trials, which run here; `first`: finished ones that they may start from."""
    searches: Searches = extensions.find(SEARCHES, "search", type, "search")(configs)
    trials: list[PlannedRun] = []
    for runs, heading in searches.rounds():
        with live_line("preparing data"):
            folders = [max(plan([*first, config]), key=lambda run: run.place).folder for config in runs]
            planned = [run for run in plan([*first, *runs]) if run.folder in folders or run.inputs.is_pretraining]
        trials += planned
        with _begun(planned, trackers, heading, trials):
            run_in_order(planned, trackers, load)
        searches.take([run_log.result(folder) for folder in folders])
    return searches.tuned()


def conclude(configs: list[RunConfig]) -> int:
    """Ends the study of runs that the jobs of a launcher have run, with its report; 0.

    The arms of a search are what its job has made of them: they are in the report that `python -m reports` writes.
    """
    configs = [config for config in configs if not config.search.space]
    if not configs:
        return 0
    configs = with_workers(configs, 1)
    with console.quiet(any(config.sweep.quiet for config in configs)):
        with live_line("preparing data") as line:
            planned = plan(configs, line.show)
        with console.logged(_studies(planned)), ended_in_order(), tracked(planned, _opened(configs[0])):
            finished = sum(run_log.finished(run.folder) is not None for run in planned)
            console.plain(f"{finished} of {counted(len(planned), 'run')} finished")
        return 0


def _opened(config: RunConfig) -> Trackers:
    with live_line("opening the trackers"):
        return Trackers(config.tracking)


def _studies(planned: list[PlannedRun]) -> list[Path]:
    """Their folders."""
    return sorted({paths.study_folder(run.config.output, run.config.study) for run in planned})


@contextlib.contextmanager
def _begun(
    planned: list[PlannedRun], trackers: Trackers, heading: str = "", trials: Sequence[PlannedRun] = ()
) -> Iterator[None]:
    """Announces the runs, writes the plan, tracks the study.

    `trials`: all of a search so far, if these are of one. Others follow them: no tracker is waited for.
    """
    if any(run.inputs.is_pretraining for run in planned):
        plateau.references()  # refuses a corrupt one before anything runs
    with console.logged(_studies(planned)):
        first = next(iter(replicates.parts(planned).values()))
        _announce(first, heading)
        study = [*{run.folder: run for run in trials}.values()] or planned
        plan_file.write(study if trials else first, is_search=bool(trials))
        for run in planned:
            hypothesis.write(run.config)
        try:
            with ended_in_order(), tracked(study, trackers, waits=not trials):
                yield
        except KeyboardInterrupt:
            done = sum(run_log.result(run.folder) is not None for run in planned)
            left = f"remaining runs: {_status(planned)}" if done < len(planned) else "left to do: the report, after any timing"
            console.problem(f"{done} of {len(planned)} runs have ended; run the same command again to continue; {left}")
            raise


def _announce(planned: list[PlannedRun], heading: str) -> None:
    """Says what is noteworthy of the runs before the first one starts; what cannot be read is set aside."""
    console.plain(plan_file.command(), replaced=True)
    run_folder.set_aside(planned)
    if heading:
        console.plain(heading)
    pretrainings = [run for run in planned if run.inputs.is_pretraining]
    notes = [note for run in planned for note in run.notes]
    on_scale = (resolve.note_on_scale(run.config) for run in pretrainings)
    for note in dict.fromkeys([*notes, *filter(None, on_scale)]):
        (console.problem if note.startswith("warning: ") else console.plain)(note)
    if any(run.drops_weights and run_log.result(run.folder) is None for run in planned):
        console.plain("Sweeps keep no checkpoints (finetune.keep=last does)")
    if len(planned) > 1:
        console.plain(forecast.opening(planned))
    if not heading and (text := replicates.no_study(planned)):
        console.plain(text)


def refuse_as_one_command(configs: list[RunConfig]) -> None:
    """InputError for several runs at once on more cores than there are, on other devices, or within a budget of time."""
    counts = sorted({config.hardware.workers or 1 for config in configs})
    if len(counts) > 1:
        raise InputError(f"hardware.workers={','.join(map(str, counts))} cannot be swept: a command has one number of workers")
    config, count, cores = configs[0], counts[0], facts.cores()
    if len({run.sweep.until for run in configs}) > 1:
        raise InputError("sweep.until cannot be swept: a command has one stopping rule")
    if config.sweep.until is Until.resolved and command_line.sweep() is not None:
        raise InputError("sweep.until=resolved decides which seeds run: leave hydra/launcher out")
    if config.sweep.until is Until.resolved and len({run.label for run in configs}) < 2:
        raise InputError(
            f"sweep.until=resolved compares arms, and {config.label!r} is the only one: sweep a key, or leave it out"
        )
    if count == 1:
        return
    if config.hardware.device is not Device.cpu or config.hardware.devices > 1:
        raise InputError(
            f"hardware.workers={count} divides the cores of a CPU: expected hardware.device=cpu hardware.devices=1; "
            "on a GPU start the same command several times to share the runs"
        )
    if config.sweep.budget_minutes is not None:
        raise InputError(f"hardware.workers={count} cannot be combined with sweep.budget_minutes: leave one out")
    threads = max(run.hardware.threads or 1 for run in configs)
    if count * threads > cores:
        each = f"{counted(threads, 'thread')} each (hardware.threads)"
        raise InputError(f"hardware.workers={count} with {each} need more than the {cores} cores that this process may use")


def run_in_looks(planned: list[PlannedRun], trackers: Trackers, load: LoadCheck) -> bool:
    """Runs the seeds of each interim analysis until every arm is resolved, and times them; whether all of these finished."""
    parts, ran, all_finished = replicates.parts(planned), [], True
    console.plain(replicates.announced(planned))
    for number, (seeds, runs) in enumerate(parts.items(), 1):
        ran += runs
        plan_file.write(ran)
        all_finished &= run_in_order(runs, trackers, load, times=False)
        if any(run_log.result(run.folder) is None for run in ran):
            console.problem(
                f"No verdicts after {counted(seeds, 'seed')}: not all runs have a result; the same command continues"
            )
            return False
        try:
            look = replicates.take(ran, len(parts), trackers)
        except RuntimeError as error:
            console.problem(f"No verdicts after {counted(seeds, 'seed')}: {redacted(str(error))}")
            return False
        console.plain(f"After {counted(seeds, 'seed')}: {'; '.join(f'{arm} {text}' for arm, text in look.arms.items())}")
        if not look.unresolved:
            break
        following = list(parts.values())[number : number + 1]
        reason = replicates.beyond_budget(ran, *following) if following else "a larger sweep.most_seeds continues"
        if reason:
            console.problem(f"Inconclusive after {counted(seeds, 'seed')}: {', '.join(look.unresolved)}; {reason}")
            break
    if planned[0].config.sweep.timing:
        with Screen(len(ran)) as screen:
            timing_session.time_runs(ran, trackers, screen)
    return all_finished


def run_in_order(planned: list[PlannedRun], trackers: Trackers, load: LoadCheck, times: bool = True) -> bool:
    """Runs and times them; whether all finished. A sweep that stops before its end times nothing."""
    config, failures, queue = planned[0].config, Failures(planned[0].config.sweep), replicates.Queue(planned)
    order, screen, workers = Order(_labelled(queue, len(planned))), Screen(len(planned)), config.hardware.workers or 1
    tables = Tables(planned) if times else None
    runner, stop, ended, is_free = Runner(Command(trackers, load, screen, workers)), None, 0, False
    with screen:
        with runner:
            while True:
                ready = order.take() if stop is None and runner.running < workers else None
                if ready is not None and failures.has(ready.run.needs):
                    console.problem(f"{ready.run.label}: skipped: its pretraining did not finish")
                    failures.ends[ready.run.place] = None
                    screen.count(finished=False, ran=False)
                    order.end(ready.run)
                    ended += 1
                elif ready is not None:
                    runner.start(ready.run, ready.again)
                elif runner.running:
                    if times and runner.running < workers and not is_free:  # its time is enough for the imports of timing
                        is_free = True
                        timing_session.prepare(planned)
                    run, outcome = runner.wait()
                    if outcome is None:
                        order.put_off(run)
                        continue
                    end, ran = outcome
                    screen.count(end.state is State.finished, ran)
                    reason = failures.add(run, end, ran)
                    stop = stop or reason
                    order.end(run)
                    ended += 1
                    if tables is not None:
                        tables.end(run, ran)
                else:
                    break
        if stop is None and tables is not None and config.sweep.timing:
            timing_session.time_runs(planned, trackers, screen, tables.show)
        if tables is not None:
            tables.close()
    if left := queue.summary():
        console.problem(f"{left}; remaining runs: {_status(planned)}")
    if stop is not None:
        console.problem(f"Sweep stopped: {stop}. The same command continues it")
    if failures.ends:
        not_started = len(planned) - ended - len(queue.left)
        console.problem(f"{failures.summary(len(planned), not_started)}; why: {_status(planned)}")
    return not failures.ends


def _labelled(queue: replicates.Queue, count: int) -> Iterator[PlannedRun]:
    """The runs, numbered in this order in console lines."""
    for number, run in enumerate(queue, 1):
        run.label = f"[{command_line.place(number, count)}] {run.title}"
        yield run


def _status(planned: list[PlannedRun]) -> str:
    """The command that says what is missing."""
    return plan_file.called(planned[0].config.output, planned[0].config.study)
