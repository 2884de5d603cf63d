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
from harness.measure.memory import CLEAR, SLACK, Baseline, peak_memory, refuse_less_than
from harness.measure.records import Peak

pytestmark = pytest.mark.skipif(not CLEAR.exists(), reason="this kernel gives no high-water mark")
MB = 1_000_000


@pytest.fixture
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


@pytest.fixture
def baseline(machine: Machine) -> Baseline:
    return Baseline(machine)


@pytest.mark.long
@pytest.mark.parametrize("make", [lambda: np.ones(25 * MB), lambda: torch.ones(50 * MB)], ids=["numpy", "torch"])
def test_memory_freed_before_the_end_is_seen(machine, make):
    with peak_memory(machine) as peak:
        make().sum()
    assert peak.kernel == pytest.approx(200 * MB, rel=0.1)


def test_a_second_phase_does_not_see_the_first(machine, baseline):
    with peak_memory(machine, baseline) as first:
        np.ones(25 * MB).sum()
    with peak_memory(machine, baseline) as second:
        np.ones(5 * MB).sum()
    assert first.kernel == pytest.approx(200 * MB, rel=0.1)
    assert second.kernel == pytest.approx(40 * MB, rel=0.3)


def test_what_a_phase_leaves_is_part_of_the_next_above_one_baseline_and_of_none_above_its_own(machine, baseline):
    with peak_memory(machine, baseline):
        kept = np.ones(25 * MB)
    with peak_memory(machine, baseline) as next_phase:
        pass
    with peak_memory(machine) as alone:
        pass
    assert next_phase.kernel == pytest.approx(200 * MB, rel=0.1)
    assert next_phase.sampled == pytest.approx(200 * MB, rel=0.1)
    assert alone.kernel < 20 * MB
    del kept


def test_what_is_left_out_is_part_of_the_baseline(machine, baseline):
    with baseline.leave_out():
        kept = np.ones(25 * MB)
    with peak_memory(machine, baseline) as peak:
        np.ones(5 * MB).sum()
    assert peak.kernel == pytest.approx(40 * MB, rel=0.3)
    del kept


def test_what_a_pause_needs_is_not_part_of_the_peak_by_either_instrument(machine, baseline):
    with peak_memory(machine, baseline) as peak:
        np.ones(5 * MB).sum()
        with baseline.paused():
            held = np.ones(25 * MB)
            time.sleep(0.1)
            del held
    assert peak.kernel == pytest.approx(40 * MB, rel=0.3)
    assert peak.sampled < 60 * MB


def test_mark_alone_is_read_without_a_sampler(baseline):
    baseline.start()
    np.ones(25 * MB).sum()
    assert baseline.peak() == pytest.approx(200 * MB, rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize("make", [lambda: np.ones(25 * MB), lambda: torch.ones(50 * MB)], ids=["numpy", "torch"])
def test_a_known_amount_is_seen_within_three_percent_by_the_mark_and_by_the_sampler(machine, make):
    with peak_memory(machine) as peak:
        held = make()
        time.sleep(0.2)
        del held
    assert peak.kernel == pytest.approx(200 * MB, rel=0.03)
    assert peak.sampled == pytest.approx(200 * MB, rel=0.03)


ALLOCATES = """
import json, resource
import numpy as np
from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure.memory import Baseline, peak_memory, resident_bytes
machine = Machine(HardwareConfig(threads=1))
above = Baseline(machine)
baseline = resident_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
with peak_memory(machine, above) as peak:
    np.ones(75_000_000).sum()
print(json.dumps([peak.kernel, baseline, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


@pytest.mark.long
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


@pytest.mark.long
def test_a_run_logs_both_instruments(sweep):
    results = json.loads((sweep.folder("base") / "result.json").read_text())["metrics"]
    for phase in ("inference", "finetune"):
        kernel, sampled = results[f"{phase}/peak_memory_bytes"], results[f"{phase}/sampled_peak_memory_bytes"]
        assert results["model/weights_bytes"] <= kernel + SLACK
        assert 0 < sampled <= kernel + SLACK
