"""Peak memory: what was held at the worst moment is seen, even if it is free again at the end."""

import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure.memory import CLEAR, SLACK, Peak, PeakMemory, refuse_less_than
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


@pytest.mark.parametrize("make", [lambda: np.ones(25 * MB), lambda: torch.ones(50 * MB)], ids=["numpy", "torch"])
def test_a_known_amount_is_seen_within_three_percent_by_the_mark_and_by_the_sampler(memory, make):
    def hold() -> None:
        held = make()
        time.sleep(0.2)
        del held

    peak = memory.both(hold)
    assert peak.kernel == pytest.approx(200 * MB, rel=0.03)
    assert peak.sampled == pytest.approx(200 * MB, rel=0.03)


def test_what_is_held_for_a_moment_is_seen_by_the_mark_at_least_as_by_the_sampler(memory):
    peak = memory.both(lambda: np.ones(25 * MB).sum())
    assert peak.kernel == pytest.approx(200 * MB, rel=0.03)
    assert peak.sampled <= peak.kernel + SLACK


ALLOCATES = """
import json, resource
import numpy as np
from harness.config import HardwareConfig
from harness.hardware import Machine
from harness.measure.memory import PeakMemory, resident_bytes
memory = PeakMemory(Machine(HardwareConfig(threads=1)))
baseline = resident_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
peak = memory.of(lambda: np.ones(75_000_000).sum())
print(json.dumps([peak, baseline, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


def test_mark_agrees_with_what_the_system_says_of_a_fresh_process():
    clock = shutil.which("time")
    command = [*([clock, "-v"] if clock else []), sys.executable, "-c", ALLOCATES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, baseline, before, highest = json.loads(done.stdout)
    assert highest > before, "the process took more before it was measured than while it was"
    assert peak == pytest.approx(highest - baseline, rel=0.02)
    assert peak == pytest.approx(600 * MB, rel=0.03)
    if clock:
        (line,) = (line for line in done.stderr.splitlines() if "Maximum resident set size" in line)
        assert int(line.split()[-1]) * 1024 == pytest.approx(highest, rel=0.02)


def test_a_peak_below_the_weights_is_an_error_with_both_numbers():
    with pytest.raises(RuntimeError, match=r"peak of 5 bytes, but the weights alone are 9000000 bytes"):
        refuse_less_than(9_000_000, Peak(5, 5))
    for right in (Peak(9_000_000, 5), Peak(None, None)):
        assert refuse_less_than(9_000_000, right) is right


def test_a_cell_logs_both_instruments(sweep):
    told = json.loads((sweep.folder("base") / "result.json").read_text())["metrics"]
    for phase in ("inference", "finetune"):
        kernel, sampled = told[f"{phase}/peak_memory_bytes"], told[f"{phase}/sampled_peak_memory_bytes"]
        assert told["model/weights_bytes"] <= kernel + SLACK
        assert 0 < sampled <= kernel + SLACK
