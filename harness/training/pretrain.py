"""Pretraining on running text: the objective, its budget, the held-out measure, and checkpoints to go on from."""

import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from harness import paths
from harness.checkpoints import huggingface, native
from harness.checkpoints import teacher as teachers
from harness.config.schema import PretrainConfig, RunConfig
from harness.corpus import prepare
from harness.corpus.sequences import Corpus, Sequences
from harness.hardware.device import Machine
from harness.measure import flops, size
from harness.measure.memory import PeakMemory
from harness.seeds import derive
from harness.tracking.run_log import Journal
from harness.training import checkpoints
from harness.training.heldout import HeldOut
from harness.training.loop import LOG_EVERY, Limit, Position, Step, Training, compile_ahead, make_optimiser, train
from models.config import EncoderConfig
from models.heads import build_classifier
from models.objectives.build import PAIRS
from models.objectives.build import build as build_objective
from models.objectives.config import ObjectiveName
from models.objectives.question import Objective, Question, Vocabulary


def seed_of(config: RunConfig) -> int:
    """The seed of all that a pretraining draws."""
    return config.seed if config.pretrain.seed is None else config.pretrain.seed


def limit_of(budget: PretrainConfig) -> Limit:
    """The one budget that is given."""
    given = {"tokens": budget.tokens, "step": budget.steps, "flops": budget.flops, "seconds": budget.seconds}
    ((unit, total),) = ((unit, total) for unit, total in given.items() if total is not None)
    return Limit(unit, total)


class Plan:
    """Which sequences each step takes: the batch grows along the ramp, and the last one is cut to what the budget leaves."""

    def __init__(self, budget: PretrainConfig, flops_per_sequence: float) -> None:
        self._budget, self.limit = budget, limit_of(budget)
        self.per_sequence = {"tokens": budget.length, "flops": flops_per_sequence}.get(self.limit.unit)

    def rows(self, position: Position) -> int:
        """Sequences of the next step."""
        budget, done = self._budget, self.limit.done(position)
        rows = budget.batch_size
        if budget.ramp_from is not None:
            share = min(1.0, done / self.limit.total / budget.ramp_fraction)
            rows = round(budget.ramp_from + (budget.batch_size - budget.ramp_from) * share)
        if self.per_sequence is None:
            return rows
        return max(1, min(rows, -int(-(self.limit.total - done) // self.per_sequence)))

    def steps(self, position: Position) -> int:
        """Steps of the whole training from here, 0 where the clock decides."""
        if self.limit.unit == "seconds":
            return 0
        if self.limit.unit == "step":
            return int(self.limit.total)
        passed = replace(position)
        while not self.limit.reached(passed):
            rows = self.rows(passed)
            passed.step, passed.rows = passed.step + 1, passed.rows + rows
            passed.tokens += rows * self._budget.length
            passed.flops += rows * (self.per_sequence or 0)
        return passed.step


class Pauses:
    """Between steps: the curves of what was spent, looks at the held-out text, and checkpoints."""

    def __init__(self, pretraining: "Pretraining", optimiser: torch.optim.Optimizer, position: Position) -> None:
        self._of, self._optimiser = pretraining, optimiser
        self._looked = self._looks(position)
        self._saved = time.monotonic()
        self.peak = 0
        self.last: dict[str, float] = {}

    def _looks(self, position: Position) -> int:
        limit = self._of.plan.limit
        return int(min(1.0, limit.done(position) / limit.total) * self._of.config.pretrain.evaluations)

    def _save_due(self, position: Position) -> bool:
        waited = time.monotonic() - self._saved >= self._of.config.pretrain.checkpoint_every_s
        return waited or self._of.plan.limit.reached(position)

    def due(self, position: Position) -> bool:
        """Whether there is something to do after this step."""
        return position.step % LOG_EVERY == 0 or self._looks(position) > self._looked or self._save_due(position)

    def take(self, position: Position) -> None:
        """Does it."""
        started, of = time.perf_counter(), self._of
        for name in ("tokens", "flops", "seconds"):
            key = {"seconds": "duration_s"}.get(name, name)
            of.journal.curve(f"pretrain/{key}", position.step, getattr(position, name), position.tokens)
        if self._looks(position) > self._looked:
            self._looked = self._looks(position)
            self._look(position)
        position.paused_seconds += time.perf_counter() - started
        if self._save_due(position):
            checkpoints.save(of.checkpoints, of.identity, position, of.objective, self._optimiser)
            self._saved = time.monotonic()

    def _look(self, position: Position) -> None:
        of = self._of
        self.peak = max(self.peak, of.memory.peak() or 0)
        self.last = of.held_out.measure(of.objective)
        for key, value in self.last.items():
            of.journal.curve(key, position.step, value, position.tokens)
        of.memory.start()


class Pretraining:
    """One pretraining in a process of its own."""

    def __init__(self, config: RunConfig, corpus: Corpus, machine: Machine, journal: Journal, identity: str) -> None:
        self.config, self.machine, self.journal, self.identity = config, machine, journal, identity
        self.memory = PeakMemory(machine)
        self.checkpoints = journal.folder / paths.CHECKPOINTS
        self.vocabulary: Vocabulary = corpus.vocabulary()
        self.tokenizer = prepare.folder_of(config.output, corpus.key) / native.TOKENIZER
        self.shape = config.model
        self.seed, told = seed_of(config), config.pretrain
        self.sequences = Sequences(corpus, "train", told.length, PAIRS.get(told.objective), self.seed)
        self.held_out = HeldOut(told, self.shape, corpus, machine)
        self.objective: Objective = build(config, self.shape, self.vocabulary).to(machine.device)
        question = self.question(Position(), told.batch_size)
        self.flops_per_sequence = flops.of_objective(self.objective, question, told.length) / len(question)
        self.plan = Plan(told, self.flops_per_sequence)
        machine.compiled(self.objective)  # behind the count, which runs a copy operator by operator

    def run(self) -> None:
        """From the newest checkpoint, or the beginning, to the end of the budget; DivergedError when the loss does."""
        told = self.config.pretrain
        optimiser = make_optimiser(self.objective, told)
        position = checkpoints.resume(self.checkpoints, self.identity, self.objective, optimiser)
        pauses = Pauses(self, optimiser, position)
        training = Training(
            model=self.objective,
            loss=self.objective,
            next_step=self.next_step,
            limit=self.plan.limit,
            planned_steps=self.plan.steps(position),
            phase="pretrain",
            config=told,
            seed=self.seed,
            pauses=pauses,
        )
        if self.machine.compiles:
            self.memory.leave_out(lambda: compile_ahead(training, position, self.machine))
        self.memory.start()
        train(training, optimiser, position, self.machine, self.journal)
        peak = max(pauses.peak, self.memory.peak() or 0) or None
        self._write(position, pauses.last or self.held_out.measure(self.objective), peak)

    def next_step(self, position: Position) -> Step:
        """What the next step is asked, in pieces that fit."""
        told, rows = self.config.pretrain, self.plan.rows(position)
        question, size = self.question(position, rows), -(-told.batch_size // told.accumulation)
        pieces = [question.cut(slice(start, start + size)) for start in range(0, rows, size)]
        tokens = rows * told.length  # a sequence has no padding
        return Step(pieces, rows, tokens, tokens, rows * self.flops_per_sequence)

    def question(self, position: Position, rows: int) -> Question:
        """The sequences at this position with their masks, the same for every variant of one seed."""
        ids, epochs = self.sequences.chosen(position.rows, rows)
        ages = np.zeros_like(epochs) if self.config.pretrain.static_masks else epochs
        seeds = [derive(self.seed, "mask", number, epoch) for number, epoch in zip(ids.tolist(), ages.tolist(), strict=True)]
        return self.objective.ask(self.sequences.batch(ids, epochs), seeds)

    def _write(self, position: Position, looked: dict[str, float], peak: int | None) -> None:
        values = (
            size.of_objective(self.objective)
            | looked
            | {
                "pretrain/steps": position.step,
                "pretrain/tokens": position.tokens,
                "pretrain/flops": position.flops,
                "pretrain/duration_s": position.seconds,
                "pretrain/evaluation_s": position.paused_seconds,
                "pretrain/tokens_per_s": position.tokens / position.seconds,
                "pretrain/peak_memory_bytes": peak,
            }
        )
        for key, value in values.items():
            self.journal.value(key, value)
        save(self.journal.folder / paths.WEIGHTS, self.objective, self.shape, self.tokenizer)


def build(config: RunConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> Objective:
    """The objective with fresh values, its encoder with those of published weights where some are named."""
    teaching = config.pretrain.objective is ObjectiveName.distillation
    teacher = teachers.load(Path(config.pretrain.teacher)) if teaching else None
    objective = build_objective(config.pretrain, shape, vocabulary, seed_of(config), teacher)
    if config.model.init_from is not None:
        classifier = build_classifier(shape, 1, seed_of(config))
        huggingface.load_weights(config, classifier)
        objective.encoder.load_state_dict(classifier.encoder.state_dict())
    return objective


def save(folder: Path, objective: Objective, shape: EncoderConfig, tokenizer: Path) -> None:
    """Encoder and heads for whoever goes on from here; what only pretraining needs stays behind."""
    kept = ("encoder.", "pooler.", "masked_head.")
    state = {name: tensor.detach().cpu() for name, tensor in objective.named_parameters() if name.startswith(kept)}
    folder.mkdir(exist_ok=True)
    shutil.copyfile(tokenizer, folder / native.TOKENIZER)
    native.save(folder, state, shape)
