"""Factorial designs found among arms, and effects of which the truth is known."""

import itertools
import math

import numpy as np
import pytest

from harness import tags
from harness.comparison import by_launch
from harness.comparison.compare import compare
from harness.comparison.verdicts import Verdict
from harness.plugins.chapters import effects as factorial

GAINS = {"a": 0.02, "b": 0.01, "c": -0.03}
SETTINGS = {"a": {"model.x": "1", "model.y": "2"}, "b": {"model.z": "True"}, "c": {"model.depth": "1"}}
BASE = {"model.x": "0", "model.y": "0", "model.z": "False"}


@pytest.fixture
def section_of(make_run):
    """A section of arms given as combinations, with scores by a function of the combination and the seed."""

    def made(arms, score, seeds: int = 3, **more):
        runs = []
        for arm in arms:
            settings = BASE | {key: value for name in arm for key, value in SETTINGS[name].items()}
            for seed in range(seeds):
                values = {"eval/score": score(arm, seed), "model/params_total": 1000.0 * 2 ** len(arm)}
                runs.append(make_run("~".join(["base", *arm]), seed, values, settings, **more))
        return compare("s", runs).sections[0]

    return made


EVERY = [arm for size in range(4) for arm in itertools.combinations("abc", size)]


def additive(arm, seed):
    return 0.7 + sum(GAINS[name] for name in arm) + 0.05 * math.sin(seed)  # seeds are luck that all arms share


def effect_of(found: factorial.Design, kind: str, name: str, metric: str = "eval/score"):
    return factorial.changes(found, metric, factorial.effects(found))[f"{kind} {name}"]


def label(name: str) -> str:
    return f"base~{name}"


def test_full_design_has_all_effects_and_additive_ones_do_not_interact(section_of):
    found = factorial.design(section_of(EVERY, additive))
    assert found.factors == (label("b"), label("c"), label("a"))  # of the fewest settings first
    assert found.missing == []
    effects = factorial.effects(found)
    assert [one.kind for one in effects] == ["alone"] * 3 + ["main effect"] * 3 + ["added last"] * 3 + ["interaction"] * 3 + [
        "stacking"
    ]
    for name, gain in GAINS.items():
        for kind in ("alone", "main effect", "added last"):
            assert effect_of(found, kind, label(name)).absolute == pytest.approx(gain)
    for effect in effects[9:]:
        assert effect_of(found, effect.kind, effect.name).absolute == pytest.approx(0, abs=1e-12)


def test_interaction_is_how_much_more_one_gives_beside_the_other(section_of):
    found = factorial.design(section_of(EVERY, lambda arm, seed: additive(arm, seed) - 0.04 * ("a" in arm and "b" in arm)))
    assert effect_of(found, "interaction", f"{label('b')} × {label('a')}").absolute == pytest.approx(-0.04)
    assert effect_of(found, "interaction", f"{label('c')} × {label('a')}").absolute == pytest.approx(0, abs=1e-12)
    assert effect_of(found, "main effect", label("a")).absolute == pytest.approx(0.02 - 0.02)
    assert effect_of(found, "stacking", "all together").absolute == pytest.approx(-0.04)
    assert effect_of(found, "added last", label("a")).absolute == pytest.approx(0.02 - 0.04)


def test_incomplete_design_names_what_is_missing_and_has_no_main_effects(section_of):
    found = factorial.design(section_of([(), ("a",), ("b",), ("c",), ("a", "b", "c"), ("a", "b")], additive))
    assert [sorted(one) for one in found.missing] == [[label("b"), label("c")], [label("a"), label("c")]]
    kinds = [(one.kind, one.name) for one in factorial.effects(found)]
    assert ("added last", label("c")) in kinds
    assert ("added last", label("a")) not in kinds
    assert ("stacking", "all together") in kinds
    assert not any(kind in ("main effect", "interaction") for kind, _ in kinds)


def test_arms_that_combine_nothing_are_left_out(section_of):
    found = factorial.design(section_of([(), ("a",), ("b",), ("c",), ("a", "b")], additive))
    assert set(found.factors) == {label("a"), label("b")}
    assert factorial.design(section_of([(), ("a",), ("b",)], additive)) is None
    assert factorial.design(section_of([("a",), ("b",), ("a", "b"), ()], additive)).section.before.label == "base"


def test_enhancements_are_named_as_such(make_run):
    runs = []
    for arm in ((), ("swiglu",), ("shared",), ("swiglu", "shared")):
        settings = {f"model.{name}": "1" for name in arm} | {f"enhancements.{name}": "True" for name in arm}
        runs.append(make_run("~".join(["base", *arm]), 0, {"eval/score": 0.5}, settings))
    assert set(factorial.design(compare("s", runs).sections[0]).factors) == {"swiglu", "shared"}


def test_changes_of_swept_settings_are_named_by_what_differs_from_the_baseline(make_run):
    runs = [
        make_run(f"base rate={rate} size={size}", 0, {"eval/score": 0.5}, {"model.rate": rate, "model.size": size})
        for rate in ("1", "2")
        for size in ("8", "16")
    ]
    assert set(factorial.design(compare("s", runs, "base rate=1 size=8").sections[0]).factors) == {"rate=2", "size=16"}
    assert set(factorial.design(compare("s", runs, "base rate=2 size=8").sections[0]).factors) == {"rate=1", "size=16"}


def test_changes_that_would_have_one_name_keep_their_labels(make_run):
    labels = {"base x=0 y=0": ("0", "0"), "base x=1 y=0": ("1", "0"), "base x=1": ("0", "1"), "base both": ("1", "1")}
    runs = [make_run(label, 0, {"eval/score": 0.5}, {"model.x": x, "model.y": y}) for label, (x, y) in labels.items()]
    found = factorial.design(compare("s", runs, "base x=0 y=0").sections[0])
    assert set(found.factors) == {"base x=1 y=0", "base x=1"}
    assert len(found.rows) == 4


def test_counts_multiply_exactly(section_of):
    found = factorial.design(section_of(EVERY, additive))
    shares = {(one.kind, one.name): factorial.exact(found, "model/params_total", one) for one in factorial.effects(found)}
    assert shares["main effect", label("a")] == pytest.approx(1.0)
    assert shares["stacking", "all together"] == pytest.approx(0.0)
    assert factorial.exact(found, "model/flops_forward", factorial.effects(found)[0]) is None


def test_latency_is_contrasted_by_round_of_one_session(timed):
    factor = {"a": 1.2, "b": 1.5}
    rng, runs = np.random.default_rng(0), []
    for arm in ((), ("a",), ("b",), ("a", "b")):
        times = (10 * math.prod(factor[name] for name in arm) * rng.lognormal(0, 0.001, 5)).tolist()
        settings = {f"model.{name}": "1" for name in arm}
        runs += [timed("~".join(["base", *arm]), times, seed, {}, params=settings) for seed in (0, 1)]
    runs.append(timed("base", [10.0, 10.01, 9.99, 10.0, 10.02], replicate="true"))
    found = factorial.design(compare("s", runs).sections[0])
    change = effect_of(found, "main effect", label("b"), "inference/latency_ms_p50")
    assert (change.n, change.pairs_are, change.verdict) == (5, "rounds", Verdict.WORSE)
    assert change.percent == pytest.approx(50, abs=0.5)
    assert effect_of(found, "stacking", "all together", "inference/latency_ms_p50").percent == pytest.approx(0, abs=0.5)


def test_values_of_one_key_are_alternatives_which_no_arm_combines(make_run):
    """Two values of one key beside one of another: main effects and interactions, of which none is of both values."""
    gains, runs = {"a": 0.02, "b": 0.05, "c": -0.03}, []
    settings = {"a": {"model.x": "1"}, "b": {"model.x": "2"}, "c": {"model.z": "True"}}
    for arm in ((), ("a",), ("b",), ("c",), ("a", "c"), ("b", "c")):
        facts = BASE | {key: value for name in arm for key, value in settings[name].items()}
        score = 0.5 + sum(gains[name] for name in arm) + (0.01 if {*arm} == {"b", "c"} else 0.0)
        runs += [make_run("~".join(["base", *arm]), seed, {"eval/score": score + 0.1 * seed}, facts) for seed in range(3)]
    found = factorial.design(compare("s", runs).sections[0])
    assert found.missing == []
    changes = factorial.changes(found, "eval/score", factorial.effects(found))
    expected = {"alone a": 0.02, "main effect a": 0.02, "main effect b": 0.055, "main effect c": -0.03 + 0.01 / 3}
    expected |= {"alone b": 0.05, "alone c": -0.03, "interaction a × c": 0.0, "interaction b × c": 0.01}
    found = {key.replace(label(""), ""): change.absolute for key, change in changes.items()}
    assert found == pytest.approx(expected)


def test_a_change_alone_has_the_verdict_of_its_arm(section_of):
    rng = np.random.default_rng(1)
    section = section_of(EVERY, lambda arm, seed: 0.7 + 0.02 * len(arm) + rng.normal(0, 0.01))
    found = factorial.design(section)
    for name in found.factors:
        assert effect_of(found, "alone", name) == section.change(section.row_of(name), "eval/score") is not None


def test_effects_count_the_looks_at_which_the_study_could_have_ended(timed):
    """Else one of twenty commands that end by what they see would be too many."""

    def effects_of(metric, **looks):
        rng, runs = np.random.default_rng(0), []
        for arm in ((), ("a",), ("b",), ("a", "b")):
            settings = {f"model.{name}": "1" for name in arm}
            times = (10 * 1.1 ** len(arm) * rng.lognormal(0, 0.02, 5)).tolist()
            for seed in range(4):
                values = {"eval/score": 0.7 + 0.05 * len(arm) + rng.normal(0, 0.01)}
                runs.append(timed("~".join(["base", *arm]), times, seed, values, params=settings, **looks))
        found = factorial.design(compare("s", runs).sections[0])
        return effect_of(found, "main effect", label("a"), metric)

    for metric, name, share in (
        ("inference/latency_ms_p50", tags.LOOKS, by_launch.independent(5)),
        ("eval/score", tags.SEED_LOOKS, 5),
    ):
        once, often = effects_of(metric), effects_of(metric, **{name: "5"})
        assert often.p == pytest.approx(share * once.p)
        assert often.interval[0] < once.interval[0] < once.interval[1] < often.interval[1]


@pytest.mark.long
def test_effects_of_noise_alone_are_seldom_called_real(section_of):
    """Families of 10 effects in 200 studies of three seeds: at most one in twenty holds a false verdict."""
    rng, false, studies = np.random.default_rng(0), 0, 200
    for _ in range(studies):
        found = factorial.design(section_of(EVERY, lambda arm, seed: 0.7 + rng.normal(0, 0.01)))
        effects = [effect for effect in factorial.effects(found) if effect.kind != factorial.ALONE]  # the family of arms
        changes = factorial.changes(found, "eval/score", effects).values()
        false += any(one.verdict in (Verdict.BETTER, Verdict.WORSE) for one in changes)
    print(f"false families {false / studies:.3f}")
    assert false / studies <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / studies)


def test_arms_without_a_seed_in_common_have_no_effect(make_run):
    runs = [make_run(arm, seed, {"eval/score": 0.5}, settings) for seed, (arm, settings) in enumerate((
        ("base", {}), ("a", {"model.x": "1"}), ("b", {"model.z": "1"}), ("c", {"model.x": "1", "model.z": "1"})
    ))]  # fmt: skip
    found = factorial.design(compare("s", runs).sections[0])
    assert effect_of(found, "alone", "a") is None
