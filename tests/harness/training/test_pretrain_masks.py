"""What pretraining asks and how it is measured: new masks every epoch, and an evaluation without dropout."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.config.choices import CorpusSource
from harness.config.schema import CorpusConfig, HardwareConfig, ModelConfig, PretrainConfig, RunConfig, TokenizerConfig
from harness.corpus import prepare, sequences
from harness.hardware.device import Machine
from harness.tracking.run_log import Journal
from harness.training.loop import Position
from harness.training.pretrain import Pretraining
from models.objectives.config import ObjectiveName
from models.objectives.question import IGNORED, Question

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


@pytest.fixture
def pretraining(tmp_path: Path) -> Callable[..., Pretraining]:
    """A pretraining on a text of 300 numbered words, ready to begin."""
    (tmp_path / "a.txt").write_text(" ".join(f"w{number}" for number in range(300)))
    (tmp_path / "b.txt").write_text(" ".join(f"w{number}" for number in range(200)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(300))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    files = {"files": [str(tmp_path / "a.txt")], "validation_files": [str(tmp_path / "b.txt")]}
    journals: list[Journal] = []

    def make(shape: ModelConfig = SHAPE, **keys) -> Pretraining:
        keys = {"objective": ObjectiveName.mlm, "steps": 2, "length": LENGTH, "batch_size": ROWS, "probe_steps": 2} | keys
        config = RunConfig(
            model=shape,
            corpus=CorpusConfig(name="own", source=CorpusSource.files, **files),
            tokenizer=TokenizerConfig(vocab_file=str(tmp_path / "vocab.txt")),
            pretrain=PretrainConfig(**keys),
            output=str(tmp_path / "out"),
        )
        folder = tmp_path / f"run{len(journals)}"
        folder.mkdir()
        journals.append(Journal(folder))
        corpus = sequences.read(config.output, prepare.prepare(config))
        return Pretraining(config, corpus, Machine(HardwareConfig(threads=1)), journals[-1], identity="a" * 64)

    yield make
    for journal in journals:
        journal.finish("finished")


def masks_by_text(question: Question) -> dict[tuple[int, ...], list[int]]:
    """The clean text of every sequence -> the places in it that are predicted."""
    used = question.targets != IGNORED
    clean = question.batch.input_ids.scatter(1, question.places, question.targets)
    rows = zip(clean.tolist(), question.places, used, strict=True)
    return {tuple(text): places[here].tolist() for text, places, here in rows}


def epochs(made: Pretraining) -> list[dict[tuple[int, ...], list[int]]]:
    """What each of the first two passes over the training text predicts."""
    count = len(made.sequences)
    return [masks_by_text(made.question(Position(rows=epoch * count), count)) for epoch in (0, 1)]


def test_a_sequence_gets_other_masks_in_the_next_epoch(pretraining):
    first, second = epochs(pretraining())
    assert first.keys() == second.keys()
    assert len(first) >= 8
    assert all(first[text] != second[text] for text in first)


def test_static_masks_are_the_same_in_every_epoch_and_those_of_the_first(pretraining):
    dynamic, static = epochs(pretraining()), epochs(pretraining(static_masks=True))
    assert static[0] == static[1] == dynamic[0]


@pytest.mark.parametrize("objective", [ObjectiveName.mlm, ObjectiveName.clm], ids=["own head", "probe"])
def test_two_evaluations_of_a_model_with_dropout_agree(pretraining, objective: ObjectiveName):
    """Between two steps the model is in training mode; the evaluation must draw nothing and drop nothing."""
    dropping = replace(SHAPE, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    made, still, found = pretraining(dropping, objective=objective), pretraining(objective=objective), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        found.append(made.held_out.measure(made.objective.train()))
    assert found[0] == found[1]
    assert found[0] == still.held_out.measure(still.objective)  # of the same weights without any dropout
