"""Expected costs of the runs of a command before the first one starts: parameters, FLOPs, time and memory.

Time and memory of a run are those of a finished replicate on this machine, or of a probe: the run itself for a few steps, in a
worker of its own. A probe's time is extrapolated: its start, then its seconds per step for all steps; evaluation counts a third
of a training step for each example. A probe's memory is raised to that of the longest batch
by formula. What is neither known nor probed is None.
"""

import contextlib
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import processes, tasks
from harness.checkpoints import finetuned, language_model
from harness.comparison.paired import grouped
from harness.config.choices import Keep, KeepBest, TaskKind
from harness.config.conditions import is_only_scored
from harness.corpus import sequences
from harness.errors import present
from harness.hardware import facts
from harness.measure import flops, size
from harness.measure.launch import TIMING, launch
from harness.measure.records import Request
from harness.measure.subject import step_shape
from harness.models.adapt import adapt
from harness.models.heads import on_meta
from harness.plugins.shared import memory_formula, pretraining_heads
from harness.study import WORKER, run_folder, timing_session
from harness.study.forecast import Pace, earlier, is_done, kind_of, memory_of
from harness.study.plan import PlannedRun
from harness.tasks import prepared
from harness.tasks.batches import padded_shapes, step_of_lengths
from harness.tracking import run_log
from harness.tracking.run_log import Entry
from harness.training import finetune, pretrain, pretrain_steps
from harness.training.loop import Position

PROBED_FLOPS = 1e11
"""FLOPs of a probe, some seconds of a CPU; at least FEWEST_STEPS and at most MOST_STEPS."""
FEWEST_STEPS, MOST_STEPS = 2, 6

FORWARD_SHARE = 1 / 3
"""Share of a training step's FLOPs in its forward pass."""

POLL_S = 0.1


@dataclass(frozen=True)
class Work:
    """The computation of a run, known before it starts."""

    parameters: int
    steps: int  # 0 without training, and for a budget in seconds
    flops: float | None  # forward and backward of all steps; None for a budget in seconds
    seconds: float | None = None  # the budget, where it is one of time
    batches: tuple[tuple[int, int], ...] = ()  # rows and tokens of each row, of a fine-tuning


@dataclass(frozen=True)
class Group:
    """Runs that differ in seeds only, with their expected costs."""

    runs: list[PlannedRun]
    work: Work
    pace: Pace | None

    @property
    def open(self) -> list[PlannedRun]:
        """Runs that the command would run."""
        return [run for run in self.runs if not is_done(run)]


def groups(planned: list[PlannedRun], probing: Callable[[PlannedRun, Work], Pace | None] | None = None) -> list[Group]:
    """In the order of the first run of each; `probing` gives the pace of those that no finished run tells."""
    paces = earlier({run.config.output for run in planned})
    result = []
    for kind, runs in grouped((kind_of(run), run) for run in planned).items():
        pace, needed = paces.get(kind), work(runs[0])
        if pace is None and probing and not all(map(is_done, runs)):
            pace = probing(runs[0], needed)
        result.append(Group(runs, needed, pace))
    return result


def work(run: PlannedRun) -> Work:
    """What one run computes, counted on its own data."""
    config, options = run.config, run.config.pretrain
    if run.inputs.is_pretraining:
        corpus = sequences.read(config.output, run.inputs.text)
        objective = pretrain.build(config, corpus.vocabulary())
        parameters = size.of_objective(objective)["model/params_total"]
        if options.seconds is not None:
            return Work(parameters, 0, None, options.seconds)
        end = pretrain_steps.steps_of(config, corpus, objective).end(Position())
        return Work(parameters, end.step, end.flops)
    if config.task.kind is TaskKind.minimal_pairs:
        shapes = pretraining_heads.shapes(config.model, language_model.objective_of(config))
        return Work(size.of_objective(shapes)["model/params_total"], 0, 0)
    model = on_meta(config.model, tasks.num_outputs(config.task), tasks.kind_of(config.task).head())
    parameters = size.sizes(model)["model/params_total"]
    if not config.finetune.enabled:
        return Work(parameters, 0, 0)
    if config.finetune.seconds is not None:
        return Work(parameters, 0, None, config.finetune.seconds)
    split = present(prepared.read(config, run.inputs.rows).train)
    steps = config.finetune.planned_steps(len(split))
    adapt(model, config.finetune)
    teacher, answers = None, 0
    if config.finetune.teacher is not None:
        loaded = finetuned.load_finetuned(Path(config.finetune.teacher))[0]
        if config.finetune.hidden_weight:
            teacher = loaded
        else:  # its answers are computed once
            answers = finetune.flops_of_answers(loaded, split, config.finetune.eval_batch_size)
    cost = flops.of_training(model, teacher)
    padded = tuple(padded_shapes(split, config.finetune.batch_size, config.seed, steps, step_of_lengths(config.hardware)))
    return Work(parameters, steps, answers + sum(cost(*shape) for shape in padded), batches=padded)


def probe(run: PlannedRun, needed: Work, passive: bool = False) -> Pace | None:
    """Runs a few steps of it in a worker; None where the worker fails, which the run itself will say.

    `passive`: its threads sleep while they wait for each other, as those of a run on a busy machine.
    """
    steps = FEWEST_STEPS
    if needed.flops and needed.steps:
        steps = min(MOST_STEPS, needed.steps, max(FEWEST_STEPS, int(PROBED_FLOPS / (needed.flops / needed.steps))))
    Path(run.config.output).mkdir(parents=True, exist_ok=True)
    with _scratch(run.config.output) as folder:
        seen = _run_shortened(run, Path(folder), steps, passive)
    return None if seen is None else _extrapolated(run, needed, *seen)


def _scratch(output: str) -> "tempfile.TemporaryDirectory[str]":
    """A folder that is removed; `python -m harness clean` knows by its name what a killed process has left."""
    return tempfile.TemporaryDirectory(prefix=".probe-", suffix=f".{os.getpid()}", dir=output)


def _run_shortened(run: PlannedRun, folder: Path, steps: int, passive: bool) -> tuple[float, dict[str, float]] | None:
    """Seconds of the worker, and its results up to the end of its training."""
    config, inputs = run.config, replace(run.inputs, pretrained=None)
    last: str | None = "inference/peak_memory_bytes"
    if inputs.is_pretraining:
        budget: dict[str, Any] = {"tokens": None, "flops": None, "seconds": None, "steps": steps, "evaluations": 1, "keep": []}
        config, last = replace(config, pretrain=replace(config.pretrain, **budget)), None
    elif config.finetune.enabled:
        short = replace(config.finetune, max_steps=steps, seconds=None, keep=Keep.none, keep_best=KeepBest.none, submit=False)
        config, last = replace(config, finetune=short), "finetune/samples_per_s"
    elif is_only_scored(config):
        last = "eval/score"
    run_folder.prepare(folder, config, run_folder.new_record(config, inputs, run.lifted))
    began, reader = time.monotonic(), run_log.Reader(folder)
    results: dict[str, float] = {}
    with (folder / "log.txt").open("w") as log:
        threads = facts.threads(config.hardware)
        worker = processes.start(WORKER, [str(folder)], threads, log, passive=passive and threads > 1)
        try:
            while worker.poll() is None and last not in results:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(POLL_S)
                results |= _results(reader.new_entries())
            seconds = time.monotonic() - began
        finally:
            processes.end(worker)
    results |= _results(reader.new_entries())
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    ended = last in results if last else worker.returncode == 0
    return (seconds, results | {"steps": float(steps)}) if ended else None


def _results(entries: list[Entry]) -> dict[str, float]:
    return {entry["result"]: entry["value"] for entry in entries if "result" in entry}


def _extrapolated(run: PlannedRun, needed: Work, seconds: float, results: dict[str, float]) -> Pace:
    phase = "pretrain" if run.inputs.is_pretraining else "finetune"
    trained = results.get(f"{phase}/duration_s", 0.0)
    source, memory = f"a probe of {results['steps']:.0f} steps", memory_of(results)
    if not trained:
        return Pace(seconds, memory, "a probe")
    whole = trained * needed.steps / results["steps"] if needed.seconds is None else needed.seconds
    if phase == "finetune" and run.config.finetune.teacher is not None and needed.flops:  # some of whose work is done once
        whole = trained * needed.flops / results["finetune/flops"]
    if run.inputs.is_pretraining:
        evaluation = results.get("pretrain/evaluation_s", 0.0)
        overhead = seconds - trained - evaluation
        return Pace(overhead + whole + evaluation * run.config.pretrain.evaluations, memory, source)
    data = prepared.read(run.config, run.inputs.rows)
    examples = sum(len(split) for split in (data.validation, *data.more.values()))
    evaluation = FORWARD_SHARE * examples / results["finetune/samples_per_s"]

    def needs(batches: Sequence[tuple[int, int]]) -> int:
        rows, length = max(batches, key=math.prod)
        shape, options = replace(step_shape(run.config, 1), batch_size=rows, length=length), run.config.finetune
        return memory_formula.parts(shape, run.config.hardware, options.activation_checkpointing).total or 1

    if memory and needed.batches:
        memory *= needs(needed.batches) / needs(needed.batches[: int(results["steps"])])
    return Pace(seconds - trained + whole + evaluation, memory, source)


@dataclass(frozen=True)
class Timing:
    """The timing session of a command: how often what is launched, and what one launch took."""

    variants: int
    replicates: int
    rounds: tuple[int, int]  # fewest and most
    launch_s: float | None

    def seconds(self) -> tuple[float, float] | None:
        """Seconds of all launches, with the fewest and with the most rounds; None where no launch was probed."""
        launches = self.variants + self.replicates
        fewest, most = self.rounds
        return None if self.launch_s is None else (launches * fewest * self.launch_s, launches * most * self.launch_s)


def of_session(planned: list[PlannedRun], probing: bool) -> Timing | None:
    """None where nothing is left to time."""
    timed = [run for run in planned if run.is_to_be_timed and run.config.sweep.timing]
    untimed = [
        run
        for run in timed
        if run.config.sweep.retime
        or not is_done(run)
        or (timing_session.is_measured(run) and not timing_session.has_timing(run))
    ]
    if not untimed:
        return None
    baselines = timing_session.baselines(timed, untimed)  # launched twice, also where an earlier session has timed them
    shapes = {timing_session.shape_key(run): run for run in (*untimed, *baselines)}
    settings = [run.config.measure for run in shapes.values()]
    rounds = max(measure.min_rounds for measure in settings), max(measure.rounds for measure in settings)
    replicates, launch_s = len({timing_session.shape_key(run) for run in baselines}), None
    if probing:
        run = next(iter(shapes.values()))
        with _scratch(run.config.output) as folder:
            for _ in range(2):  # the first waits for the import of the libraries, which a session does once
                began = time.monotonic()
                outcome = launch(run.config, Request(TIMING, 0, (run.inputs.rows,)), Path(folder))
            launch_s = time.monotonic() - began if outcome.code == 0 else None
    return Timing(len(shapes), replicates, rounds, launch_s)
