"""What is measured: inputs that span the data or are the same each time, and models that a step can train."""

import numpy as np
import pytest
import torch

from harness.config.choices import UNTRAINED, TaskKind
from harness.config.schema import HardwareConfig, MeasureConfig, ModelConfig, RunConfig, TaskConfig
from harness.hardware.device import Machine
from harness.measure import subject
from harness.measure.subject import BATCHES, Subject
from harness.tasks.prepared import Prepared, Split
from harness.training.measured_steps import TrainingSteps


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    lengths = np.arange(3, 43)
    total = int(lengths.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    split = Split(np.ones(total, np.int32), np.zeros(total, np.uint8), starts, np.zeros(40, np.int64), np.arange(40))
    return Prepared("key", 50, 0, "rows", 0, split, split)


def test_throughput_batches_span_all_lengths(prepared, machine):
    batches = subject.sample_batches(prepared.validation, 0, MeasureConfig(batch_size=4, throughput_batches=3), machine)
    assert len(batches) == 3
    assert batches[0].input_ids.shape[1] < batches[1].input_ids.shape[1] < batches[2].input_ids.shape[1] == 42
    every = MeasureConfig(batch_size=4, throughput_batches=1000)
    assert len(subject.sample_batches(prepared.validation, 0, every, machine)) == 10


def test_measured_text_is_unpadded_and_the_same_each_time(machine):
    first, second = (subject.texts(50, 128, machine) for _ in range(2))
    assert first.input_ids.shape == (1, 128)
    assert first.attention_mask is None
    assert torch.equal(first.input_ids, second.input_ids)
    assert 0 <= first.input_ids.min() <= first.input_ids.max() < 50


def config_of(kind: TaskKind = TaskKind.classification) -> RunConfig:
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return RunConfig(
        model=ModelConfig(vocab_size=90, **shape),
        task=TaskConfig(name="own", kind=kind, labels=[] if kind is TaskKind.regression else ["no", "yes"]),
        measure=MeasureConfig(length=12, batch_size=4, throughput_batches=3),
        hardware=HardwareConfig(threads=1),
    )


def test_a_subject_with_data_is_measured_on_them_and_one_without_on_random_ids(prepared, machine):
    config = config_of()
    real, random = Subject(config, machine, prepared), Subject(config, machine)
    assert [batch.tokens for batch in real.batches()] == [
        batch.tokens
        for batch in subject.sample_batches(prepared.validation, 0, MeasureConfig(batch_size=4, throughput_batches=3), machine)
    ]
    assert [tuple(batch.input_ids.shape) for batch in random.batches()] == [(4, 12)] * BATCHES
    assert (real.vocab_size, random.vocab_size) == (50, 90)
    assert real.text(200).input_ids.max() < 50 <= random.text(200).input_ids.max()


@pytest.mark.parametrize("kind", [kind for kind in TaskKind if kind not in UNTRAINED], ids=lambda kind: kind.value)
def test_heads_of_all_kinds_take_a_training_step(kind, machine):
    config = config_of(kind)
    model = subject.build(config, machine)
    before = model.head.weight.clone()
    assert TrainingSteps(config, model, machine).run(2) > 0
    assert not torch.equal(before, model.head.weight)
