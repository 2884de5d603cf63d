"""Warm-up until steady, on series whose truth is known, and on a real call that is slow at first."""

import itertools
import math
import random
import time
from collections.abc import Iterator

import pytest

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure.latency import time_ms
from harness.measure.warmup import MAXIMUM, MINIMUM, SEGMENT, STRETCH, last_change, until_steady

SEEDS = range(20)
CLOSE = 3
"""Calls around a true change within which it is found."""


def noisy(levels: Iterator[float], seed: int, sigma: float = 0.02, held_up: float = 0.05) -> Iterator[float]:
    """Times around the levels; now and then one that something else held up."""
    draw = random.Random(seed)
    for level in levels:
        yield level * math.exp(draw.gauss(0, sigma)) * (draw.uniform(1.5, 5) if draw.random() < held_up else 1.0)


def starting_slowly(calls: int) -> Iterator[float]:
    return itertools.chain(itertools.repeat(20.0, calls), itertools.repeat(10.0))


@pytest.mark.parametrize("calls", [SEGMENT, 8, 12])
def test_slow_start_is_cut_where_it_ends(calls):
    for seed in SEEDS:
        taken = until_steady(noisy(starting_slowly(calls), seed))
        assert taken.steady
        assert abs(last_change(taken.raw_ms) - calls) <= CLOSE
        assert taken.calls - calls >= STRETCH - CLOSE


def test_constant_times_end_at_the_minimum():
    assert until_steady(itertools.repeat(7.0)).calls == MINIMUM
    ends = [until_steady(noisy(itertools.repeat(7.0), seed)).calls for seed in SEEDS]
    assert sum(calls == MINIMUM for calls in ends) >= 0.8 * len(ends)


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_times_that_never_settle_end_at_the_maximum_and_say_so(factor):
    taken = until_steady(10 * factor**call for call in itertools.count())
    assert (taken.calls, taken.steady, len(taken.raw_ms)) == (MAXIMUM, False, MAXIMUM)


def test_one_call_that_is_held_up_is_no_new_level():
    times = [10.0] * 40
    times[30] = 90.0
    assert last_change(times) == 0


def test_change_below_two_percent_is_none():
    assert last_change([10.0] * 20 + [10.15] * 20) == 0
    assert last_change([10.0] * 20 + [10.5] * 20) == 20


def test_last_of_several_levels_counts():
    assert last_change([40.0] * 10 + [20.0] * 10 + [10.0] * 20) == 20


@pytest.mark.long
def test_real_calls_are_timed_and_the_slow_ones_left_behind():
    pauses = itertools.chain(itertools.repeat(0.02, SEGMENT), itertools.repeat(0.002))
    calls = []
    machine = Machine(HardwareConfig(threads=1))
    taken = until_steady(time_ms(lambda: calls.append(time.sleep(next(pauses))), machine) for _ in range(MAXIMUM))
    assert taken.calls == len(calls) == len(taken.raw_ms) >= SEGMENT + STRETCH - CLOSE
    assert min(taken.raw_ms[:SEGMENT]) >= 20
    assert min(taken.raw_ms[SEGMENT:]) >= 2
