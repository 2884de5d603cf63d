"""Launches by hand: pairing by round, the reference taken out, the floor and what may be said above it."""

import math

import pytest

from harness import metrics
from harness.comparison import by_launch, launches
from harness.comparison.launches import LATENCY, REFERENCE
from harness.comparison.paired import Difference, t_quantile
from harness.comparison.verdicts import Verdict
from harness.metrics import THROUGHPUT, Compared


def history(values: dict[int, float], reference: dict[int, float] | None = None, metric: str = LATENCY) -> launches.History:
    return {metric: values, REFERENCE: dict.fromkeys(values, 1.0) if reference is None else reference}


def ratio(rounds: int, log: float, interval: tuple[float, float] | None) -> Difference:
    """The mean log ratio of so many rounds, with this interval."""
    error = (interval[1] - interval[0]) / 2 / t_quantile(rounds - 1) if interval else None
    return Difference(rounds, log, error, freedom=rounds - 1, independent=rounds)


def test_change_is_the_geometric_mean_of_the_rounds_that_both_have():
    result = by_launch.compared(LATENCY, history({0: 10.0, 1: 10.0, 4: 1.0}), history({0: 20.0, 1: 5.0, 3: 99.0}))
    assert (result.n, result.mean) == (2, pytest.approx(0))
    half = 12.7062 * math.log(2) / 1  # t(0.975, 1) * sd / sqrt(2); sd of +-log 2 is log 2 * sqrt(2)
    assert result.interval == pytest.approx((-half, half), rel=1e-5)


def test_slow_machine_is_taken_out_of_times_and_rates():
    slow = {0: 1.0, 1: 3.0, 2: 2.0}
    before = history(dict.fromkeys(slow, 10.0))
    times = history({step: 10.0 * factor * 1.1 for step, factor in slow.items()}, slow)
    rates = history({step: 10.0 / factor * 1.1 for step, factor in slow.items()}, slow, THROUGHPUT)
    assert by_launch.compared(LATENCY, before, times).interval == pytest.approx((math.log(1.1), math.log(1.1)))
    assert by_launch.compared(THROUGHPUT, before | {THROUGHPUT: before[LATENCY]}, rates).mean == pytest.approx(math.log(1.1))


def test_throughput_has_a_reference_of_its_own_where_it_was_recorded():
    own = {"timing/throughput_reference_ms": {0: 2.0, 1: 4.0}}
    rates = history({0: 10.0, 1: 5.0}, {0: 1.0, 1: 1.0}, THROUGHPUT)
    doubled = rates | own | {THROUGHPUT: {0: 20.0, 1: 10.0}}
    assert by_launch.compared(THROUGHPUT, rates | own, doubled).mean == pytest.approx(math.log(2))
    first, second = by_launch.corrected(rates | own, THROUGHPUT).values()
    assert first == pytest.approx(second)
    first, second = by_launch.corrected(rates, THROUGHPUT).values()
    assert first - second == pytest.approx(math.log(2))


def test_round_without_its_reference_is_not_paired():
    assert by_launch.compared(LATENCY, history({0: 1.0}), history({0: 1.0}, reference={})) is None
    assert by_launch.compared(LATENCY, history({0: 1.0}), {}) is None


def test_floor_is_the_larger_end_by_size():
    assert by_launch.noise_floor(ratio(5, -0.01, (-0.03, 0.01))) == 0.03
    assert by_launch.noise_floor(ratio(5, 0.01, (-0.01, 0.03))) == 0.03
    assert by_launch.noise_floor(ratio(1, 0.01, None)) is None
    assert by_launch.noise_floor(None) is None


@pytest.mark.parametrize(
    ("log", "interval", "floor", "verdict"),
    [
        (0.05, (0.03, 0.07), 0.02, Verdict.WORSE),
        (-0.05, (-0.07, -0.03), 0.02, Verdict.BETTER),
        (0.05, (0.03, 0.07), 0.06, Verdict.WORSE),  # the t test over rounds decides
        (-0.05, (-0.07, -0.03), 0.05, Verdict.BETTER),
        (0.05, (-0.01, 0.11), 0.02, Verdict.INCONCLUSIVE),
        (0.05, None, 0.02, Verdict.DIRECTION_WORSE),
        (0.01, None, 0.02, Verdict.INCONCLUSIVE),
        (0.50, (0.49, 0.51), None, Verdict.OPEN),
        (0.50, None, None, Verdict.OPEN),
        (0.50, (0.49, 0.51), 0.23, Verdict.OPEN),  # the floor is above 25 %
        (0.50, (0.49, 0.51), 0.22, Verdict.WORSE),
        (0.01, (-0.01, 0.03), 0.02, Verdict.SAME),
        (0.01, (-0.01, 0.03), 0.06, Verdict.SAME),  # the tests over rounds decide, whatever the floor
        (0.01, (-0.07, 0.09), 0.02, Verdict.INCONCLUSIVE),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_difference_needs_an_interval_without_zero_and_a_floor_that_supports_a_verdict(log, interval, floor, verdict):
    rounds = 5 if interval else 1
    assert launches.evidence(metrics.get(LATENCY), ratio(rounds, log, interval), floor).verdict() is verdict


def test_more_throughput_is_better():
    assert launches.evidence(metrics.get(THROUGHPUT), ratio(5, 0.05, (0.04, 0.06)), 0.01).verdict() is Verdict.BETTER


def test_disturbed_rounds_and_drift():
    result = {launches.FOREIGN_CPUS: {0: 0.5, 1: 0.6, 2: 0.0}, REFERENCE: {0: 2.0, 1: 3.0}}
    assert launches.disturbed(result) == [1]
    assert launches.drift_percent([result, {REFERENCE: {0: 2.5}}]) == pytest.approx(50)
    assert launches.drift_percent([{}]) is None


def test_every_declared_time_and_rate_is_judged_by_launch_or_only_shown():
    apart = {"pretrain/evaluation_s", "hardware/peak_flops_per_s", "inference/peak_flops_per_s"}  # of no arm's own work
    timed = {name for name, metric in metrics.METRICS.items() if metric.unit in ("s", "ms", "tokens/s", "samples/s", "FLOP/s")}
    by_step = {name for name in timed if name.startswith((metrics.LAUNCHES, metrics.LENGTHS, metrics.BATCHES))}
    own = [name for name, metric in metrics.METRICS.items() if metric.compared is Compared.OWN_CLOCK]
    assert timed - by_step - apart <= {*launches.JUDGED, *own, *launches.SHOWN}
    assert {*launches.JUDGED, *own, *launches.SHOWN, *launches.JUDGED.values()} <= set(metrics.METRICS)
