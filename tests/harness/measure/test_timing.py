"""Throughput: padding is counted apart, and a rate counts all texts of a call."""

import pytest
import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure import subject as subjects
from harness.measure import timing
from harness.measure.latency import Reference
from harness.measure.subject import Subject
from harness.models.batch import Batch


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


def test_padded_tokens_are_all_places_of_a_batch_and_tokens_the_real_ones(machine):
    batches = [Batch(torch.ones(3, 8, dtype=torch.long), tokens=15), Batch(torch.ones(2, 5, dtype=torch.long), tokens=10)]
    work = timing.throughput(lambda batch: torch.ones(100, 100) @ torch.ones(100, 100), batches, machine, Reference(machine))
    passes = work.samples // 5
    assert (work.tokens, work.padded_tokens, work.samples) == (passes * 25, passes * 34, passes * 5)
    assert work.tokens_per_s == pytest.approx(passes * 25 / work.seconds)


@pytest.mark.long
@pytest.mark.parametrize(("size", "length", "texts"), [(1, 8, 16), (1, 128, 1), (4, 32, 4)])
def test_rate_of_a_point_counts_the_tokens_of_all_texts_of_a_call(compose, machine, monkeypatch, size, length, texts):
    """A short text is timed in a batch of about measure.batch_size * measure.length tokens, a longer one alone."""
    (config,) = compose("scale=tiny", "task=bag", "measure.length=32", "measure.batch_size=4", "model.vocab_size=99")
    monkeypatch.setattr(timing, "repeated", lambda *arguments: [2.0, 3.0])
    subject = Subject(config, machine)
    point = timing.point(subjects.build(config, machine), subject, size, length, None)
    assert point.tokens_per_s == pytest.approx(2 * texts * length / 0.005)
