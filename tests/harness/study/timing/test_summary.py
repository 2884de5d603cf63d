"""From launches to numbers: what adds up must add up, and nothing is counted twice."""

import time
from dataclasses import replace
from statistics import geometric_mean
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from child_processes import PATIENCE_S
from torch.utils.benchmark import Timer

from harness import metrics
from harness.config.schema import HardwareConfig, MeasureConfig
from harness.hardware.device import Machine
from harness.measure import latency
from harness.measure import timing as measuring
from harness.measure.latency import Clocked
from harness.measure.records import Point
from harness.study import timing_session as timing
from harness.tasks.base import Split
from harness.tasks.batches import collate, evaluation_order
from harness.tracking.run_log import Reader, RunLog, result


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


@pytest.fixture(scope="module")
def split() -> Split:
    lengths = np.arange(3, 43)
    total = int(lengths.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Split(np.ones(total, np.int32), np.zeros(total, np.uint8), starts, np.zeros(40, np.int64), np.arange(40))


class Quiet:
    """A reference workload that takes no time."""

    def clocked(self) -> Clocked:
        return Clocked(1.0, 1.0)


@pytest.mark.parametrize(("microseconds", "passes"), [(1000, 1), (150, 2), (10, measuring.PASSES)])
def test_throughput_is_total_work_over_total_time(machine, split, monkeypatch, microseconds, passes):
    """Rate x time is the work, and the work is the data set: a well-known benchmark is 140 times off here.

    Slow passes are repeated less often; none of them is the first one, in which shapes are new.
    """
    now = [0]
    monkeypatch.setattr(latency.time, "perf_counter_ns", lambda: now[0])
    batches = [collate(split, chosen, 0) for chosen in evaluation_order(split, 8)]

    def call(batch):
        calls.append(batch)
        now[0] += 1000 * microseconds * (batch.tokens + 7)

    calls = []
    measured = measuring.throughput(call, batches, machine, Quiet())
    over = (len(measured.reference_ms) - 1) // len(batches)  # the reference runs after every batch
    assert (over, len(calls)) == (passes, (passes + 1) * len(batches))
    assert (measured.tokens, measured.samples) == (over * len(split.ids), over * len(split))
    assert measured.seconds == pytest.approx(over * sum(batch.tokens + 7 for batch in batches) * microseconds / 1e6)
    assert measured.padded_tokens == over * sum(batch.input_ids.numel() for batch in batches) > measured.tokens


def test_rates_and_padding_fit_together(launch_of):
    launches = [launch_of(0, [1.0, 2.0], seconds=1.0), launch_of(1, [3.0, 4.0], seconds=3.0)]
    found = timing.timing_values(launches)
    assert found["inference/tokens_per_s"] == pytest.approx(geometric_mean([300 / 1.0, 300 / 3.0]))
    assert found["inference/samples_per_s"] == pytest.approx(found["inference/tokens_per_s"] * 20 / 600)
    assert found["inference/padded_tokens_per_s"] * (1 - found["inference/padding_share"]) == pytest.approx(
        found["inference/tokens_per_s"]
    )
    assert found["inference/padding_share"] == pytest.approx(0.25)
    assert found["setup/build_s"] == pytest.approx(0.15)


def percentiles(launch_of, raw_ms: list[float]) -> list[float]:
    found = timing.timing_values([launch_of(0, raw_ms)])
    return [found[f"inference/latency_ms_{name}"] for name in ("min", "p90", "p99")]


def test_quantiles_are_of_all_calls_and_never_cross(launch_of):
    assert percentiles(launch_of, [float(value) for value in range(100, -1, -1)]) == [0.0, 90.0, 99.0]
    assert percentiles(launch_of, [1.0] * 9 + [91.0]) == pytest.approx([1.0, 10.0, 82.9])
    stream = np.random.default_rng(0)
    for size in (1, 2, 30):
        values = percentiles(launch_of, stream.lognormal(size=size).tolist())
        assert values == sorted(values)


def test_without_a_counter_there_is_no_energy(launch_of):
    found = timing.timing_values([launch_of(0, [1.0, 2.0])])
    assert found["inference/energy_j_per_token"] is None


def test_a_run_has_the_values_of_its_session_and_all_units_follow_them(tmp_path, launch_of):
    """What the session divides by its reference workload, and the mean of an arm that was timed twice, are the run's."""
    launches = [launch_of(0, [2.0, 2.0], seconds=1.0), launch_of(1, [4.0, 4.0], seconds=1.0)]
    of_session = {metrics.LATENCY: 2.5, metrics.THROUGHPUT: 400.0}
    timing.write_timing(tmp_path, timing.Timing("session", launches, of_session)).finish("finished")
    found = result(tmp_path)["metrics"]
    assert (found["inference/latency_ms_p50"], found["inference/tokens_per_s"]) == (2.5, 400.0)
    assert found["inference/samples_per_s"] == pytest.approx(400.0 * 20 / 600)
    assert timing.read_timing(tmp_path) == timing.Timing("session", launches, of_session)
    alone = timing.timing_values(launches)
    assert alone["inference/latency_ms_p50"] == pytest.approx(geometric_mean([2.0, 4.0]))


def test_energy_is_joules_over_real_tokens(launch_of):
    launches = [launch_of(number, [1.0, 2.0], joules=30.0) for number in (0, 1)]
    assert timing.timing_values(launches)["inference/energy_j_per_token"] == pytest.approx(60 / 600)


def test_launches_are_read_as_they_were_logged_and_the_worker_finishes_with_their_numbers(tmp_path, launch_of):
    point = Point(batch_size=1, length=64, raw_ms=[5.0, 7.0], tokens_per_s=10.0, peak_memory_bytes=3)
    launches = [launch_of(0, [2.0, 4.0], points=[point]), launch_of(1, [3.0], joules=2.5)]
    timing.write_timing(tmp_path, timing.Timing("session", launches, {})).close()
    assert timing.read_timing(tmp_path) == timing.Timing("session", launches)
    worker = RunLog(tmp_path)
    worker.value("eval/score", 0.5)
    worker.finish("finished")
    known = {key: value for key, value in timing.timing_values(launches).items() if value is not None}
    assert result(tmp_path)["metrics"] == known | {"eval/score": 0.5}


def test_run_log_has_a_point_a_launch_and_every_launch_of_a_length(tmp_path, launch_of):
    point = Point(batch_size=1, length=64, raw_ms=[5.0, 7.0, 6.0], tokens_per_s=10.0, peak_memory_bytes=None)
    launches = [launch_of(n, [2.0 + n, 4.0 + n], points=[point, replace(point, batch_size=8)]) for n in (0, 1)]
    run_log = timing.write_timing(tmp_path, timing.Timing("session", launches))
    entries = [entry for entry in Reader(tmp_path).new_entries() if "key" in entry]
    points = [(entry["key"], entry["step"], entry["value"]) for entry in entries]
    assert [point for point in points if point[0] == "timing/latency_ms"] == [
        ("timing/latency_ms", 0, 3.0),
        ("timing/latency_ms", 1, 4.0),
    ]
    assert points.count(("timing/reference_ms", 0, 5.0)) == points.count(("timing/throughput_reference_ms", 0, 5.0)) == 1
    assert points.count(("scaling/latency_ms", 64, 6.0)) == points.count(("batching/latency_ms", 8, 6.0)) == 2
    assert not any(key == "scaling/peak_memory_bytes" for key, _, _ in points)
    run_log.finish("finished")


def test_a_batch_of_one_text_is_no_second_measurement_of_its_length(tmp_path, launch_of):
    length = Point(batch_size=1, length=64, raw_ms=[5.0], tokens_per_s=10.0, peak_memory_bytes=3)
    size = replace(length, raw_ms=[6.0], of_sizes=True)
    timing.write_timing(tmp_path, timing.Timing("session", [launch_of(0, [2.0], points=[length, size])])).close()
    entries = [entry for entry in Reader(tmp_path).new_entries() if "key" in entry]
    points = {(entry["key"], entry["step"], entry["value"]) for entry in entries if entry["key"].endswith("latency_ms")}
    assert points == {("timing/latency_ms", 0, 2.0), ("scaling/latency_ms", 64, 5.0), ("batching/latency_ms", 1, 6.0)}


def test_utilisation_is_achieved_over_peak_and_left_out_above_one_and_without_a_count(capsys, launch_of):
    launches = [launch_of(0, [2.0, 2.0]), launch_of(1, [2.0, 2.0])]
    assert timing.timing_values(launches, 500_000)["inference/mfu"] == pytest.approx(500_000 / 2e-3 / 1e9)
    assert capsys.readouterr().out == ""
    assert timing.timing_values(launches, 500_000_000)["inference/mfu"] is None
    assert "left out: utilisation above 1" in capsys.readouterr().out
    assert timing.timing_values(launches)["inference/mfu"] is None


def test_the_reference_runs_before_and_after_every_call(machine):
    order: list[str] = []
    reference = SimpleNamespace(clocked=lambda: order.append("reference") or Clocked(1.0, 1.0))
    measured = measuring.latency(lambda: order.append("call"), MeasureConfig(repeats=12), machine, reference)
    assert order == ["reference", *order.count("call") * ["call", "reference"]]
    assert (len(measured.raw_ms), len(measured.reference_ms)) == (12, 13)


@pytest.mark.parametrize(("repeats", "calls"), [(12, 27), (20, 32), (40, 52)])
def test_what_counts_is_of_one_level_and_ends_the_warm_up(machine, monkeypatch, repeats, calls):
    """The first 12 calls are slow: none of them counts, and of those after them no steady one is made in vain."""
    waits = iter([4.0] * 12 + [1.0] * 100)
    monkeypatch.setattr(latency, "clocked", lambda call, machine: Clocked(call(), None))
    between = SimpleNamespace(clocked=lambda: Clocked(1.0, None))
    measured = measuring.latency(lambda: next(waits), MeasureConfig(repeats=repeats), machine, between)
    assert measured.raw_ms == [1.0] * repeats
    assert measured.warm_up.steady
    assert measured.warm_up.calls + repeats == calls == 112 - len([*waits])


def test_slow_calls_are_timed_fewer_times_but_never_fewer_than_the_fewest(machine):
    calls: list[int] = []
    assert len(measuring.repeated(lambda: calls.append(1), 30, 60.0, machine)) == 30
    assert len(calls) == 31
    assert len(measuring.repeated(lambda: time.sleep(0.01), 30, 0.0, machine)) == measuring.FEWEST


@pytest.mark.long
def test_clock_agrees_with_that_of_torch(machine):
    """The same call by both, in turn. The fastest of many is compared: others on the machine only ever add."""
    left, right = torch.randn(256, 256), torch.randn(256, 256)
    ours, theirs = [], []
    timer = Timer("torch.mm(left, right)", globals={"left": left, "right": right, "torch": torch}, num_threads=1)
    ends = time.monotonic() + PATIENCE_S
    while len(ours) < 10 or (not 0.9 < min(ours) / min(theirs) < 1.1 and time.monotonic() < ends):
        ours.append(min(latency.time_ms(lambda: torch.mm(left, right), machine) for _ in range(20)))
        theirs.append(min(timer.timeit(1).median for _ in range(20)) * 1e3)
    assert 0.9 < min(ours) / min(theirs) < 1.1
