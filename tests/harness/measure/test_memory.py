"""Peak memory: what was held at the worst moment is seen, even if it is free again at the end."""

import numpy as np
import pytest
import torch

from harness.config import HardwareConfig
from harness.hardware import Machine
from harness.measure.memory import CLEAR, PeakMemory
from harness.measure.size import count
from models.config import EncoderConfig
from models.heads import build_classifier

pytestmark = pytest.mark.skipif(not CLEAR.exists(), reason="this kernel gives no high-water mark")
MB = 1_000_000


@pytest.fixture
def memory() -> PeakMemory:
    return PeakMemory(Machine(HardwareConfig(threads=1)))


@pytest.mark.parametrize("make", [lambda: np.ones(25 * MB), lambda: torch.ones(50 * MB)], ids=["numpy", "torch"])
def test_memory_freed_before_the_end_is_seen(memory, make):
    assert memory.of(lambda: make().sum()) == pytest.approx(200 * MB, rel=0.1)


def test_a_second_phase_does_not_see_the_first(memory):
    first = memory.of(lambda: np.ones(25 * MB).sum())
    second = memory.of(lambda: np.ones(5 * MB).sum())
    assert first == pytest.approx(200 * MB, rel=0.1)
    assert second == pytest.approx(40 * MB, rel=0.3)


def test_what_a_phase_leaves_is_part_of_the_next(memory):
    kept = []
    memory.of(lambda: kept.append(np.ones(25 * MB)))
    assert memory.of(lambda: None) == pytest.approx(200 * MB, rel=0.1)


def test_peak_is_at_least_the_weights(memory):
    built = []
    config = EncoderConfig(num_hidden_layers=1)
    peak = memory.of(lambda: built.append(build_classifier(config, 2, seed=0)))
    assert peak >= 4 * count(built[0])
