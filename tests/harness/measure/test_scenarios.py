"""Servers under load: the simulation has the waits of queueing theory, and the real server agrees with it."""

import time

import numpy as np
import pytest

from harness.config.choices import Scenario
from harness.config.schema import HardwareConfig, MeasureConfig
from harness.hardware.device import Machine
from harness.measure import scenarios
from harness.metrics import METRICS
from harness.study.timing_session import of_load


@pytest.mark.long
def test_a_simulated_server_waits_as_theory_says_of_random_arrivals_and_equal_times():
    """Mean wait of an M/D/1 queue: share * time / (2 * (1 - share)) (Pollaczek and Khinchine)."""
    for share in (0.3, 0.7):
        arrivals = np.random.default_rng(1).exponential(0.010 / share, size=200_000).cumsum()
        waits = np.array(scenarios.simulate(arrivals, 1, lambda texts: 10.0)) - 10.0
        assert waits.mean() == pytest.approx(share * 10.0 / (2 * (1 - share)), rel=0.05)


def test_texts_that_wait_share_a_batch_of_at_most_so_many():
    seen = []

    def takes(texts: list[int]) -> float:
        seen.append(texts)
        return 100.0

    arrivals = np.array([0.0, 0.01, 0.02, 0.03, 0.5])
    assert scenarios.simulate(arrivals, 2, takes) == pytest.approx([100, 190, 180, 270, 100])
    assert seen == [[0], [1, 2], [3], [4]]


@pytest.mark.long
def test_a_real_server_answers_every_text_once_and_no_sooner_than_it_can():
    seen = []

    def answer(texts: list[int]) -> float:
        seen.extend(texts)
        time.sleep(0.002)
        return 2.0

    arrivals = np.array([0.0, 0.001, 0.002, 0.05, 0.051])
    latencies = scenarios.serve(arrivals, 2, answer)
    assert seen == [0, 1, 2, 3, 4]
    assert min(latencies) >= 2.0


@pytest.mark.long
def test_a_busy_server_delays_no_text_of_its_client():
    """A client in a thread would wait for the interpreter, 5 ms a text."""
    batches = []

    def answer(texts: list[int]) -> float:
        batches.append(texts)
        ends = time.perf_counter() + 0.6
        while time.perf_counter() < ends:
            pass
        return 600.0

    scenarios.serve(np.linspace(0.0, 0.05, 201), 201, answer)
    assert [text for texts in batches for text in texts] == [*range(201)]
    assert len(batches) == 2  # the first texts, and all that came meanwhile


def test_a_client_that_ends_early_is_an_error_and_no_wait(monkeypatch, tmp_path):
    (tmp_path / "client.py").write_text("")
    monkeypatch.setattr(scenarios.load_client, "__file__", str(tmp_path / "client.py"))
    with pytest.raises((EOFError, ConnectionResetError)):
        scenarios.serve(np.array([0.0]), 1, lambda texts: 1.0)


@pytest.mark.parametrize("asked", [[Scenario.server], [Scenario.offline, Scenario.single_stream]])
def test_only_the_scenarios_that_are_asked_for_are_measured_and_each_metric_is_declared(asked):
    settings = MeasureConfig(length=16, load=asked, load_texts=20, batch_size=4)
    texts, lengths = scenarios.random_texts(99, settings), []

    def call(batch):
        lengths.append(batch.input_ids.shape)
        time.sleep(0.001)

    times = scenarios.measure(call, texts, 0, settings, Machine(HardwareConfig(threads=1)))
    values = of_load([times, times])
    assert values.keys() <= METRICS.keys()
    names = {name.removeprefix("load/").split("_latency")[0].removesuffix("_samples_per_s") for name in values}
    assert names == ({"server", "simulated_server"} if asked == [Scenario.server] else {"offline", "single_stream"})
    assert max(rows for rows, _ in lengths) == 4
    assert all(len(one) == 20 for one in times.latencies_ms.values())
    if asked == [Scenario.server]:
        assert 0 < times.samples_per_s["server"] <= 0.5 * 4 / 0.001
    assert all(value > 0 for value in values.values())


def test_random_texts_have_all_lengths_up_to_the_measured_one():
    settings = MeasureConfig(length=8, load_texts=500)
    texts = scenarios.random_texts(50, settings)
    assert sorted(set(texts.lengths.tolist())) == list(range(1, 9))
    assert len(texts) == 500
    assert 0 <= texts.ids.min() <= texts.ids.max() < 50


def test_a_client_asks_at_random_moments(monkeypatch):
    """Gaps of Poisson arrivals have a standard deviation of their mean; equal steps have none."""
    seen = []
    monkeypatch.setattr(scenarios, "serve", lambda arrivals, most, answer: seen.append(arrivals) or [1.0] * len(arrivals))
    settings = MeasureConfig(length=16, load=[Scenario.server], load_texts=400, batch_size=4)
    times = scenarios.measure(
        lambda batch: None, scenarios.random_texts(99, settings), 0, settings, Machine(HardwareConfig(threads=1))
    )
    gaps = np.diff(seen[0])
    assert gaps.mean() == pytest.approx(1 / times.samples_per_s["server"], rel=0.2)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.2)
