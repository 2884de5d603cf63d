"""What pretraining asks and how it is measured: new masks every epoch, and an evaluation without dropout."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from numbered_words import config_on, read, words

from harness.config.schema import HardwareConfig, ModelConfig, PretrainConfig
from harness.corpus import sequences
from harness.hardware.device import Machine
from harness.models.losses import IGNORED
from harness.models.objectives.base import Objective, PretrainBatch
from harness.models.objectives.config import ObjectiveName
from harness.training.distributed import Ranks
from harness.training.held_out import HeldOut
from harness.training.loop import Position
from harness.training.pretrain import build
from harness.training.pretrain_steps import Steps

pytestmark = pytest.mark.long

LENGTH, ROWS = 32, 4
SHAPE = ModelConfig(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=LENGTH,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


class Pretraining(NamedTuple):
    """The parts of a pretraining before its first step."""

    options: PretrainConfig
    objective: Objective
    sequences: sequences.Sequences
    steps: Steps
    held_out: HeldOut


@pytest.fixture
def pretraining(tmp_path: Path) -> Callable[..., Pretraining]:
    """A pretraining on a text of 300 numbered words, ready to begin."""

    def make(shape: ModelConfig = SHAPE, **keys) -> Pretraining:
        keys = {"objective": ObjectiveName.mlm, "steps": 2, "length": LENGTH, "batch_size": ROWS, "probe_steps": 2} | keys
        config = config_on(tmp_path, words(0, 300), words(0, 200), 300, model=shape, pretrain=PretrainConfig(**keys))
        corpus, options = read(config), config.pretrain
        objective = build(config, corpus.vocabulary())
        text = sequences.Sequences(corpus, "train", options.length, None, config.seed)
        held_out = HeldOut(options, shape, corpus, Machine(HardwareConfig(threads=1)))
        steps = Steps(options, objective, [text], config.seed)
        return Pretraining(options, objective, text, steps, held_out)

    return make


def masks_by_text(data: PretrainBatch) -> dict[tuple[int, ...], list[int]]:
    """The clean text of every sequence -> the places in it that are predicted."""
    used = data.targets != IGNORED
    clean = data.inputs.input_ids.scatter(1, data.positions, data.targets)
    rows = zip(clean.tolist(), data.positions, used, strict=True)
    return {tuple(text): places[here].tolist() for text, places, here in rows}


@dataclass(frozen=True)
class Counting(Ranks):
    """A rank without the others, which are said to predict as many tokens."""

    def counted(self, number: float) -> int:
        return round(number) * self.count


def epochs(made: Pretraining) -> list[dict[tuple[int, ...], list[int]]]:
    """What each of the first two passes over the training text predicts."""
    count = len(made.sequences)
    return [masks_by_text(made.steps.batch(Position(rows=epoch * count), [range(count)])) for epoch in (0, 1)]


def test_a_sequence_gets_other_masks_in_the_next_epoch(pretraining):
    first, second = epochs(pretraining())
    assert first.keys() == second.keys()
    assert len(first) >= 8
    assert all(first[text] != second[text] for text in first)


def test_static_masks_are_the_same_in_every_epoch_and_those_of_the_first(pretraining):
    dynamic, static = epochs(pretraining()), epochs(pretraining(static_masks=True))
    assert static[0] == static[1] == dynamic[0]


def test_each_rank_reads_its_rows_alone_and_together_they_are_the_batch(pretraining, monkeypatch):
    made = pretraining(accumulation=2)
    (first, second), read = made.steps.next_step(Position()).micro_batches, []
    ranks = [Steps(made.options, made.objective, [made.sequences], 0, Counting(rank, 2)) for rank in (0, 1)]
    batch = made.sequences.batch
    monkeypatch.setattr(made.sequences, "batch", lambda ids, epochs: read.append(len(ids)) or batch(ids, epochs))
    for rank, steps in enumerate(ranks):
        parts = steps.next_step(Position()).micro_batches
        for whole, part in zip((first, second), parts, strict=True):
            assert torch.equal(part.targets, whole.targets[rank : rank + 1])
            assert torch.equal(part.inputs.input_ids, whole.inputs.input_ids[rank : rank + 1])
            assert part.total_sequences == whole.total_sequences == ROWS
            assert part.total_predictions == 2 * sum(one.predictions for one in parts)
    assert read == [2, 2]
    assert first.total_predictions == first.predictions + second.predictions


@pytest.mark.parametrize("objective", [ObjectiveName.mlm, ObjectiveName.clm], ids=["own head", "probe"])
def test_two_evaluations_of_a_model_with_dropout_agree(pretraining, objective: ObjectiveName):
    """Between two steps the model is in training mode; the evaluation must draw nothing and drop nothing."""
    dropping = replace(SHAPE, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    made, still, found = pretraining(dropping, objective=objective), pretraining(objective=objective), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        found.append(made.held_out.masked(made.objective.train()))
    assert found[0] == found[1]
    assert found[0] == still.held_out.masked(still.objective)  # of the same weights without any dropout


def test_evaluation_masks_15_percent_of_the_held_out_text_whatever_the_training_masks(pretraining):
    """The held-out text has the words below 200 alone; every sequence of 32 has 30 words, of which 15 % are 4 or 5."""
    made = pretraining(mask_rate=0.4)
    held_out = made.held_out._texts
    batches = [made.held_out._masked(held_out, ids, "pinned") for ids in held_out.first(len(held_out), 8)]
    targets = torch.cat([batch.targets for batch in batches])
    words = targets[targets != IGNORED] - 5
    assert len(words) > 0
    assert int(words.max()) < 200
    texts = [tuple(text) for batch in batches for text in masks_by_text(batch)]
    ids = torch.arange(len(held_out)).numpy()
    assert set(texts) == {tuple(row) for row in held_out.batch(ids, 0 * ids).input_ids.tolist()}
    places = sum(sum(piece >= 5 for piece in text) for text in texts)
    assert len(words) / places == pytest.approx(0.15, abs=0.02)
