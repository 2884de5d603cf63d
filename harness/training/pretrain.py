"""Pretraining on running text: objective, budget, evaluation on held-out text, and checkpoints to resume from."""

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness import checksums, paths
from harness.checkpoints import huggingface, native
from harness.checkpoints import teacher as teachers
from harness.config.schema import PretrainConfig, RunConfig
from harness.corpus import prepare
from harness.corpus.sequences import Corpus, Sequences
from harness.hardware.device import Machine
from harness.seeds import derive
from harness.tracking.run_log import RunLog
from harness.training import gradients, resume
from harness.training.distributed import ALONE, Ranks, not_empty
from harness.training.loop import Limit, Position, Step, Training, compile_ahead, train
from harness.training.masked_lm_eval import MaskedLMEval
from harness.training.optimiser import make_optimiser
from harness.training.parts_eval import PartsEval
from harness.training.pretrain_callbacks import CostCurves, Evaluation, Keeping, Saving
from harness.training.sharding import Collected, weights_of
from models.config import EncoderConfig
from models.heads import build_classifier
from models.neighbour_heads import look_at_neighbours
from models.objectives.base import Objective, PretrainBatch, Vocabulary
from models.objectives.build import OBJECTIVES
from models.objectives.build import build as build_objective
from models.objectives.config import ObjectiveName

if TYPE_CHECKING:
    from harness.measure.memory import Baseline


CountFlops = Callable[[Objective, PretrainBatch, int], int]
"""FLOPs of forward and backward over a batch of sequences of so many tokens."""


def pretrain(
    config: RunConfig,
    corpus: Corpus,
    machine: Machine,
    run_log: RunLog,
    identity: str,
    memory: "Baseline",
    count_flops: CountFlops,
    ranks: Ranks = ALONE,
) -> Objective:
    """Trains from the newest checkpoint, or from the start, to the end of the budget, and saves the weights.

    `identity` names the training that checkpoints belong to. Returns the trained objective. DivergedError at a loss that is
    not finite. Of several ranks the first one evaluates and writes.
    """
    options, shape = config.pretrain, config.model
    objective = build(config, corpus.vocabulary()).to(machine.device)
    steps = steps_of(config, corpus, objective, count_flops, ranks)
    machine.prepare(objective)  # after Steps has counted FLOPs, for which operators run one by one
    weights = weights_of(objective, machine, ranks)
    optimiser = make_optimiser(weights.trained, options)

    checkpoints = run_log.folder / paths.CHECKPOINTS
    position = resume.load(checkpoints, identity, weights.trained, optimiser)
    masked_lm = MaskedLMEval(options, shape, corpus, machine)
    parts = PartsEval(options, corpus, machine)

    def measure() -> dict[str, float]:
        return masked_lm.measure(objective) | parts.measure(objective) if ranks.first else {}

    evaluation = Evaluation(measure, options.evaluations, steps.limit, position, memory, run_log)
    saving = Saving(
        lambda at: resume.save(checkpoints, identity, at, weights.trained, optimiser, ranks),
        options.checkpoint_every_s,
        steps.limit,
        ranks,
    )
    tokenizer = prepare.folder_of(config.output, corpus.key) / native.TOKENIZER
    keeping = Keeping(lambda folder: save_weights(folder, objective, shape, tokenizer), options.keep, run_log.folder, ranks)
    training = Training(
        model=weights.trained,
        loss=weights.trained,
        next_step=steps.next_step,
        limit=steps.limit,
        planned_steps=steps.planned(position),
        phase="pretrain",
        config=options,
        seed=seed_of(config),
        ranks=ranks,
        callbacks=(
            CostCurves(evaluation, run_log),
            Collected(evaluation, weights),
            Collected(keeping, weights),
            saving,  # a point is kept before its checkpoint
        ),
    )
    if machine.compiles:
        with memory.leave_out():
            compile_ahead(training, position, machine)
    memory.start()
    train(training, optimiser, position, machine, run_log)

    peak = max(evaluation.peak_bytes, memory.peak() or 0) or None
    peaks = ranks.gathered(peak)
    weights.collect()
    if not ranks.first:
        return objective
    scores = evaluation.scores or measure()
    if ranks.count > 1:
        run_log.value("pretrain/device_peak_memory_bytes", max(peaks) if peaks else None)
        peak = sum(peaks) if peaks else None
    for key, value in (scores | costs(position, peak)).items():
        run_log.value(key, value)
    gradients.write_medians(run_log, training.phase)
    save_weights(run_log.folder / paths.WEIGHTS, objective, shape, tokenizer)
    return objective


def seed_of(config: RunConfig) -> int:
    """The seed of a pretraining: pretrain.seed, or that of the run."""
    return config.seed if config.pretrain.seed is None else config.pretrain.seed


def build(config: RunConfig, vocabulary: Vocabulary) -> Objective:
    """The objective, randomly initialised, or with the encoder of the published weights that `model.init_from` names."""
    options, seed = config.pretrain, seed_of(config)
    distilled = options.objective is ObjectiveName.distillation
    teacher = teachers.load(Path(options.teacher)) if distilled else None
    objective = build_objective(options, pretrained_shape(options, config.model), vocabulary, seed, teacher)
    if options.neighbour_heads:
        look_at_neighbours(objective.encoder, seed)
    if config.model.init_from is not None:
        classifier = build_classifier(config.model, 1, seed_of(config))
        huggingface.load_weights(config, classifier)
        objective.encoder.load_state_dict(classifier.encoder.state_dict())
    return objective


def steps_of(config: RunConfig, corpus: Corpus, objective: Objective, count_flops: CountFlops, ranks: Ranks = ALONE) -> "Steps":
    """The steps of the pretraining on the training part of the text."""
    options, seed = config.pretrain, seed_of(config)
    pairs = OBJECTIVES[options.objective].segment_pairs
    return Steps(options, objective, Sequences(corpus, "train", options.length, pairs, seed), seed, count_flops, ranks)


def pretrained_shape(options: PretrainConfig, shape: EncoderConfig) -> EncoderConfig:
    """The model while it is pretrained: with the initial values and the dropout of the recipe."""
    deviation, dropout = options.initializer_range, options.dropout
    own = {} if deviation is None else {"initializer_range": deviation}
    own |= {} if dropout is None else {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return replace(shape, **own)


def costs(position: Position, peak_bytes: int | None) -> dict[str, float | None]:
    """Metric name -> cost of the pretraining."""
    return {
        "pretrain/steps": position.step,
        "pretrain/tokens": position.tokens,
        "pretrain/flops": position.flops,
        "pretrain/duration_s": position.seconds,
        "pretrain/evaluation_s": position.paused_seconds,
        "pretrain/tokens_per_s": position.tokens / position.seconds,
        "pretrain/peak_memory_bytes": peak_bytes,
    }


def save_weights(folder: Path, objective: Objective, shape: EncoderConfig, tokenizer: Path) -> None:
    """Encoder, pooler and masked-LM head, which fine-tuning and export use, with shape and tokenizer."""
    kept = ("encoder.", "pooler.", "masked_head.")
    state = {name: tensor.detach().cpu() for name, tensor in objective.named_parameters() if name.startswith(kept)}
    folder.mkdir(exist_ok=True)
    shutil.copyfile(tokenizer, folder / native.TOKENIZER)
    native.save(folder, state, shape)
    checksums.seal(folder)


def limit_of(options: PretrainConfig) -> Limit:
    """The one budget that is set."""
    budgets = {"tokens": options.tokens, "step": options.steps, "flops": options.flops, "seconds": options.seconds}
    ((unit, total),) = ((unit, total) for unit, total in budgets.items() if total is not None)
    return Limit(unit, total)


class BatchSizes:
    """Sequences per step: the batch grows along the ramp, and the last one is cut to the rest of the budget."""

    def __init__(self, options: PretrainConfig, flops_per_sequence: float) -> None:
        self._options, self.limit = options, limit_of(options)
        self.per_sequence = {"tokens": options.length, "flops": flops_per_sequence}.get(self.limit.unit)

    def rows(self, position: Position) -> int:
        """Sequences of the next step."""
        options, done = self._options, self.limit.done(position)
        rows = options.batch_size
        if options.ramp_from is not None:
            share = min(1.0, done / self.limit.total / options.ramp_fraction)
            rows = round(options.ramp_from + (options.batch_size - options.ramp_from) * share)
        if self.per_sequence is None:
            return rows
        return max(1, min(rows, -int(-(self.limit.total - done) // self.per_sequence)))

    def planned_steps(self, position: Position) -> int:
        """Number of the last step; 0 for a budget in seconds."""
        if self.limit.unit == "seconds":
            return 0
        return int(self.limit.total) if self.limit.unit == "step" else self.end(position).step

    def end(self, position: Position) -> Position:
        """Where the training ends that goes on from the position; ValueError for a budget in seconds."""
        if self.limit.unit == "seconds":
            raise ValueError("nobody knows where a budget in seconds ends")
        ahead = replace(position)
        while not self.limit.reached(ahead):
            rows = self.rows(ahead)
            tokens = rows * self._options.length
            ahead.advance(Step([], rows, tokens, tokens, rows * (self.per_sequence or 0)))
        return ahead


class Steps:
    """The data of every step. It depends only on the position, so a resumed training continues with the same data."""

    def __init__(
        self,
        options: PretrainConfig,
        objective: Objective,
        sequences: Sequences,
        seed: int,
        count_flops: CountFlops,
        ranks: Ranks = ALONE,
    ) -> None:
        self._options, self._objective, self._sequences, self._seed = options, objective, sequences, seed
        self._ranks = ranks
        first = self.batch(Position(), [range(options.batch_size)])
        self.flops_per_sequence = count_flops(objective, first, options.length) / len(first)
        self._sizes = BatchSizes(options, self.flops_per_sequence)
        self.limit, self.planned, self.end = self._sizes.limit, self._sizes.planned_steps, self._sizes.end

    def next_step(self, position: Position) -> Step:
        """The next batch, as micro-batches; of several ranks each reads its rows of every one."""
        options, rows = self._options, self._sizes.rows(position)
        size = -(-options.batch_size // options.accumulation)
        micro_batches, weights = self._own(position, [range(rows)[start : start + size] for start in range(0, rows, size)])
        tokens = rows * options.length  # there is no padding
        return Step(micro_batches, rows, tokens, tokens, rows * self.flops_per_sequence, weights)

    def _own(self, position: Position, pieces: list[range]) -> tuple[list[PretrainBatch], list[float]]:
        """The rows of each piece that this rank trains on, with the totals of all ranks; a weight of 0 where it has none."""
        shares = [self._ranks.share(len(piece)) for piece in pieces]
        weights = [float(share.stop > share.start) for share in shares]
        own = [piece[not_empty(share)] for piece, share in zip(pieces, shares, strict=True)]
        batch, ends = self.batch(position, own), itertools.accumulate(map(len, own))
        parts = [batch.micro_batch(slice(end - len(piece), end)) for piece, end in zip(own, ends, strict=True)]
        predictions = sum(part.predictions * weight for part, weight in zip(parts, weights, strict=True))
        totals = {"total_predictions": max(1, self._ranks.counted(predictions)), "total_sequences": sum(map(len, pieces))}
        return [replace(part, **totals) for part in parts], weights

    def batch(self, position: Position, pieces: list[range]) -> PretrainBatch:
        """Those of the next sequences, with their masks, the same for all variants of one seed."""
        chosen = np.concatenate([np.asarray(piece) for piece in pieces])
        ids, epochs = (numbers[chosen] for numbers in self._sequences.chosen(position.rows, pieces[-1].stop))
        mask_epochs = np.zeros_like(epochs) if self._options.static_masks else epochs
        numbers = zip(ids.tolist(), mask_epochs.tolist(), strict=True)
        seeds = [derive(self._seed, "mask", number, epoch) for number, epoch in numbers]
        return self._objective.make_batch(self._sequences.batch(ids, epochs), seeds)
