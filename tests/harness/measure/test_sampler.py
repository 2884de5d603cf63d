"""The sampler: sees what is held for a while, sleeps in between, and ends with its block."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from child_processes import wait_for

from harness.measure import memory
from harness.measure.memory import Sampler, resident_bytes

ROOT = Path(__file__).resolve().parents[3]
MB = 1_000_000


HOLDS = f"""
import time
import numpy as np
from harness.measure.memory import EVERY_S, Sampler, resident_bytes
before = resident_bytes()
with Sampler() as sampler:
    held = np.ones(25 * {MB})
    readings = sampler.readings
    while sampler.readings < readings + 2:
        time.sleep(EVERY_S)
    del held
print(sampler.peak - before)
"""


@pytest.mark.long
def test_what_is_held_for_a_while_is_seen_after_it_is_free():
    """In a process of its own: of a long one that holds much else, the system may take pages back meanwhile."""
    if resident_bytes() is None:
        pytest.skip("this system does not say how much is resident")
    done = subprocess.run([sys.executable, "-c", HOLDS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) == pytest.approx(200 * MB, rel=0.1)


@pytest.mark.long
def test_it_sleeps_between_readings():
    started = time.perf_counter()
    with Sampler(lambda: 1, every_s=0.02) as sampler:
        wait_for(lambda: sampler.readings >= 10)
    assert sampler.readings <= (time.perf_counter() - started) / 0.02 + 2


def test_the_highest_reading_is_the_peak():
    readings = iter([3, 7, *[5] * 1000])
    with Sampler(lambda: next(readings), every_s=0.005) as sampler:
        wait_for(lambda: sampler.readings > 3)
    assert sampler.peak == 7


def test_the_gpu_of_the_process_is_read_also_where_it_is_not_the_first(monkeypatch):
    """The current GPU is that of a thread: in a new one it is the first."""
    asked = []
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device=None: asked.append(device) or len(asked))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 9)
    monkeypatch.setattr(memory, "nvidia_smi", lambda *query: None)
    machine = SimpleNamespace(is_cuda=True, device=torch.device("cuda", 1))
    baseline = SimpleNamespace(is_paused=False, start=lambda: None, peak=lambda: 9, sampled=lambda sampler: sampler.peak)
    with memory.peak_memory(machine, baseline) as peak:
        wait_for(lambda: len(asked) > 2)
    assert {*asked} == {machine.device}
    assert peak.sampled == len(asked)


def test_a_system_that_says_nothing_gives_no_number():
    with Sampler(lambda: None) as sampler:
        pass
    assert sampler.peak is None


def fail_under_watch() -> None:
    with Sampler():
        assert any(thread.name == "memory sampler" for thread in threading.enumerate())
        raise ZeroDivisionError


def test_its_thread_ends_with_the_block_even_if_that_fails():
    with pytest.raises(ZeroDivisionError):
        fail_under_watch()
    assert not any(thread.name == "memory sampler" for thread in threading.enumerate())
