"""The search by latency: on times that follow the FLOPs with noise, and what is kept of it."""

import math
import random
from dataclasses import replace

import pytest
from variant_files import variant

from harness import metrics
from harness.comparison import by_launch
from harness.config.choices import MatchBy, MatchOn
from harness.config.resolve import Found, resolve, with_vocabulary
from harness.errors import InputError
from harness.plugins.costs import match

NOISE = 0.01


def launch(ms: float, reference_ms: float = 4.0) -> dict[str, float]:
    """What one launch says: its latency in ms, and that of the reference workload."""
    return {metrics.LATENCY: ms, by_launch.REFERENCE: reference_ms}


@pytest.fixture
def runs(compose, tmp_path):
    (base,) = compose("match=latency", "scale=tiny", "task=bag", f"output={tmp_path}")
    deep = replace(base.model, **vars(variant("base", "tiny", num_hidden_layers=4)))
    return [base, replace(base, model=deep, model_name="deep", arm="deep", overrides=["model=deep"])]


def resolved(config):
    return with_vocabulary(resolve(config, Found()), 2000, 0)


@pytest.fixture
def timed(monkeypatch):
    """Launches that take as long as 1e9 FLOP/s would, and 5 ms, within NOISE, on a machine that others use by turns.

    The number of them so far.
    """
    count, stream = [0], random.Random(0)

    def ms(config):
        count[0] += 1
        busy = stream.choice([1.0, 2.0])
        true = 5 + match.counted_cost(MatchOn.flops, config, config.model) / 1e6
        return launch(true * busy * (1 + stream.gauss(0, NOISE)), 4.0 * busy)

    monkeypatch.setattr(match, "_launch", ms)
    return count


@pytest.mark.long
def test_a_shape_as_fast_as_the_baseline_is_found_within_the_noise(runs, timed):
    base, deep = (resolved(one) for one in match.resized(runs, resolved))
    assert deep.label == "deep (latency as base)"
    true = [5 + match.counted_cost(MatchOn.flops, one, one.model) / 1e6 for one in (base, deep)]
    assert true[1] / true[0] == pytest.approx(1, abs=0.04)
    matched = deep.matched
    assert matched["published"] / matched["target"] == pytest.approx(2, abs=0.1)
    assert 0 < matched["half_width"] < 0.05
    assert abs(match.miss(matched)) <= max(deep.match.tolerance, matched["half_width"])
    assert f"(± {100 * matched['half_width']:.1f} % over 5 rounds)" in match.note(deep)
    assert timed[0] <= 2 * 5 * (1 + match.MOST_TRIED)


@pytest.mark.parametrize(("half_widths", "tried"), [(0.9, 1), (1.5, 2)])
def test_a_shape_counts_as_equally_fast_only_within_its_own_noise(half_widths, tried, runs, monkeypatch):
    """The first shape is so many half intervals away; the second one is as fast as the baseline."""
    ratios = [match.Ratio(away * 0.02, 0.02, 1.0) for away in (half_widths, 0.0)]
    monkeypatch.setattr(match, "latency_ratio", lambda baseline, variant: ratios.pop(0))
    base, deep = runs
    _, found = match.nearest_by_latency(match.Ladder(deep.model, MatchBy.intermediate_size), base, deep, 8)
    assert (2 - len(ratios), found.log) == (tried, pytest.approx(half_widths * 0.02 if tried == 1 else 0.0))


def test_what_was_timed_once_is_not_timed_again(runs, timed):
    """A killed command goes on with the shapes that its search found."""
    first = match.resized(runs, resolved)
    launches = timed[0]
    assert match.resized(runs, resolved) == first
    assert timed[0] == launches > 0


@pytest.mark.long
def test_a_corrupt_file_of_shapes_is_kept_aside_and_they_are_timed_again(runs, timed, tmp_path):
    match.resized(runs, resolved)
    (kept,) = tmp_path.rglob(match.SHAPES_FILE)
    kept.write_text("{")
    launches = timed[0]
    match.resized(runs, resolved)
    assert timed[0] > launches
    assert kept.with_name(f"{match.SHAPES_FILE}.corrupt").read_text() == "{"


def test_noise_beyond_the_tolerance_is_refused_and_nothing_kept(runs, monkeypatch, tmp_path):
    stream = random.Random(1)
    monkeypatch.setattr(match, "_launch", lambda config: launch(10 * (1 + stream.uniform(0, 3))))
    with pytest.raises(
        InputError, match=r"the latency of deep is known only within ± \d+ % after 5 rounds|cannot have the cost"
    ):
        match.resized(runs, resolved)
    assert not list(tmp_path.rglob("match.json"))


def test_the_launches_of_a_round_come_in_changing_order(runs, monkeypatch):
    order: list[str] = []
    monkeypatch.setattr(match, "_launch", lambda config: order.append(config.model_name) or launch(1.0))
    match.latency_ratio(*runs)
    assert order == ["base", "deep", "deep", "base", "base", "deep", "deep", "base", "base", "deep"]


@pytest.mark.slow
def test_real_launches(runs):
    ratio = match.latency_ratio(*(replace(resolved(one), match=replace(one.match, rounds=3)) for one in runs))
    assert 0.7 < math.exp(ratio.log) < 6
