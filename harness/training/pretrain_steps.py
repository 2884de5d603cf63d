"""The steps of a pretraining: its budget, the size of every batch, and its data."""

import itertools
from dataclasses import replace

import numpy as np

from harness.config.resolve import seed_of_pretraining
from harness.config.schema import PretrainConfig, RunConfig
from harness.corpus.sequences import Corpus, Sequences
from harness.data.seeds import derive
from harness.errors import present
from harness.measure import flops
from harness.models.objectives.base import Objective, PretrainBatch
from harness.models.objectives.build import Phases
from harness.training.distributed import ALONE, Ranks, not_empty
from harness.training.loop import Limit, Position, Step


def steps_of(config: RunConfig, corpus: Corpus, objective: Objective | Phases, ranks: Ranks = ALONE) -> "Steps":
    """The steps of the pretraining on the training part of the text."""
    options, seed = config.pretrain, seed_of_pretraining(config)
    sequences = [Sequences(corpus, "train", present(options.length), phase.segment_pairs, seed) for phase in objective.phases]
    return Steps(options, objective, sequences, seed, ranks)


def limit_of(options: PretrainConfig) -> Limit:
    """The one budget that is set."""
    budgets = {"tokens": options.tokens, "step": options.steps, "flops": options.flops, "seconds": options.seconds}
    ((unit, total),) = ((unit, total) for unit, total in budgets.items() if total is not None)
    return Limit(unit, total)


class BatchSizes:
    """Sequences per step: the batch grows along the ramp, and the last one of each phase is cut to the rest of its budget."""

    def __init__(self, options: PretrainConfig, *flops_per_sequence: float) -> None:
        self._options, self.limit, self.flops_per_sequence = options, limit_of(options), flops_per_sequence
        shares = itertools.accumulate(options.shares[:-1])
        self._ends = [*(self.limit.total * share for share in shares), self.limit.total]  # of the phases

    def phase(self, position: Position) -> int:
        """Number of the phase of the next step."""
        return sum(self.limit.done(position) >= end for end in self._ends[:-1])

    def left(self, position: Position) -> float:
        """What the phase still has of its budget."""
        return self._ends[self.phase(position)] - self.limit.done(position)

    def rows(self, position: Position) -> int:
        """Sequences of the next step."""
        options, done = self._options, self.limit.done(position)
        rows = options.batch_size
        if options.ramp_from is not None:
            share = min(1.0, done / self.limit.total / options.ramp_fraction)
            rows = round(options.ramp_from + (options.batch_size - options.ramp_from) * share)
        flops = self.flops_per_sequence[self.phase(position)]
        per_sequence = {"tokens": present(options.length), "flops": flops}.get(self.limit.unit)
        return rows if per_sequence is None else max(1, min(rows, -int(-self.left(position) // per_sequence)))

    def planned_steps(self, position: Position) -> int:
        """Number of the last step; 0 for a budget in seconds."""
        if self.limit.unit == "seconds":
            return 0
        return int(self.limit.total) if self.limit.unit == "step" else self.end(position).step

    def end(self, position: Position) -> Position:
        """Last step of a training that resumes at the position; ValueError for a budget in seconds."""
        if self.limit.unit == "seconds":
            raise ValueError("the last step of a budget in seconds is unknown")
        options, ahead = self._options, replace(position)
        while not self.limit.reached(ahead):
            rows = self.rows(ahead)
            tokens = rows * present(options.length)
            step = Step([], rows, tokens, tokens, rows * self.flops_per_sequence[self.phase(ahead)])
            equal = 1  # steps from this one on that are like it: all but the last ones of a phase are, after the ramp
            if options.ramp_from is None or self.limit.done(ahead) >= self.limit.total * options.ramp_fraction:
                equal = max(1, int(self.left(ahead) / self.limit.size(step)) - 1)
            ahead.advance(step, equal)
        return ahead


class Steps:
    """The data of every step. It depends only on the position, so a resumed training continues with the same data.

    `phase` is the number of that phase whose step was last asked for.
    """

    def __init__(
        self,
        options: PretrainConfig,
        objective: Objective | Phases,
        sequences: list[Sequences],
        seed: int,
        ranks: Ranks = ALONE,
    ) -> None:
        self._options, self._objectives, self._sequences, self._seed = options, objective.phases, sequences, seed
        self._ranks, per_sequence = ranks, []
        for number, one in enumerate(self._objectives):
            self.phase = number
            first = self.batch(Position(), [range(options.batch_size)])
            per_sequence.append(flops.of_objective(one, first, present(options.length)) / len(first))
        self._sizes = BatchSizes(options, *per_sequence)
        self.limit, self.planned, self.end = self._sizes.limit, self._sizes.planned_steps, self._sizes.end

    def next_step(self, position: Position) -> Step:
        """The next batch, as micro-batches; with several ranks, each reads its rows of every one."""
        options, rows, self.phase = self._options, self._sizes.rows(position), self._sizes.phase(position)
        size = -(-options.batch_size // options.accumulation)
        micro_batches, weights = self._own(position, [range(rows)[start : start + size] for start in range(0, rows, size)])
        tokens = rows * present(options.length)  # there is no padding
        return Step(micro_batches, rows, tokens, tokens, rows * self._sizes.flops_per_sequence[self.phase], weights)

    def _own(self, position: Position, pieces: list[range]) -> tuple[list[PretrainBatch], list[float]]:
        """The rows of each piece that this rank trains on, with the totals of all ranks; a weight of 0 where it has none."""
        shares = [self._ranks.share(len(piece)) for piece in pieces]
        weights = [float(share.stop > share.start) for share in shares]
        own = [piece[not_empty(share)] for piece, share in zip(pieces, shares, strict=True)]
        batch, ends = self.batch(position, own), itertools.accumulate(map(len, own))
        parts = [batch.micro_batch(slice(end - len(piece), end)) for piece, end in zip(own, ends, strict=True)]
        predictions = sum(part.predictions * weight for part, weight in zip(parts, weights, strict=True))
        total, rows = max(1, self._ranks.counted(predictions)), sum(map(len, pieces))
        return [replace(part, total_predictions=total, total_sequences=rows) for part in parts], weights

    def batch(self, position: Position, pieces: list[range]) -> PretrainBatch:
        """The next sequences, with their masks, the same for all variants of one seed."""
        chosen, sequences = np.concatenate([np.asarray(piece) for piece in pieces]), self._sequences[self.phase]
        ids, epochs = (numbers[chosen] for numbers in sequences.chosen(position.rows, pieces[-1].stop))
        mask_epochs = np.zeros_like(epochs) if self._options.static_masks else epochs
        numbers = zip(ids.tolist(), mask_epochs.tolist(), strict=True)
        seeds = [derive(self._seed, "mask", number, epoch) for number, epoch in numbers]
        return replace(self._objectives[self.phase].make_batch(sequences.batch(ids, epochs), seeds), phase=self.phase)
