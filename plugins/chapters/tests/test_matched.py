"""Variants as published and at equal cost, side by side."""

import pytest
from texts import line, rows

from harness.comparison.compare import compare
from harness.plugins.chapters import matched

SCORE = "eval/score"
SHAPES = {"base": (128, 512), "albert": (128, 512), "albert (params as base)": (194, 776), "small (params as base)": (300, 512)}
SCORES = {
    "base": [0.80, 0.81, 0.79],
    "albert": [0.70, 0.71, 0.69],
    "albert (params as base)": [0.80, 0.82, 0.78],
    "small (params as base)": [0.60, 0.61, 0.59],
}


def run_of(make_run, arm: str, seed: int, score: float, **more: str):
    hidden, feed_forward = SHAPES[arm]
    params = {"model.hidden_size": str(hidden), "model.intermediate_size": str(feed_forward), "model.num_hidden_layers": "2"}
    if "(" in arm:
        params |= {"match.cost": "params", "match.to": "base", "matched.target": "522000.0", "matched.reached": "525600.0"}
        params |= {"matched.published": "239000.0"}
    model = arm.partition(" ")[0]
    return make_run(arm, seed, {SCORE: score, "eval/examples": 5000}, params | more, model=model)


@pytest.fixture
def comparison(make_run):
    runs = [run_of(make_run, arm, seed, score) for arm, scores in SCORES.items() for seed, score in enumerate(scores)]
    return compare("s", runs)


def test_both_shapes_of_a_variant_are_in_one_row(comparison, study_of):
    made = matched.chapter(study_of(comparison))
    found = rows(made.paragraphs[2])
    sizes, published, resized, before, after = found["albert"]
    assert sizes == "hidden_size 128 → 194, intermediate_size 512 → 776"
    assert (published, resized) == ("parameters: 239.0 k<br>−54.2 %", "525.6 k<br>+0.69 %")
    assert before == "0.700 ± 0.010<br>−10.0 points ▼"
    assert after.startswith("0.800 ± 0.020<br>0.0 points")
    assert found["base"][3] == "0.800 ± 0.010"


def test_what_was_not_run_as_published_is_a_dash(comparison, study_of):
    found = rows(matched.chapter(study_of(comparison)).paragraphs[2])
    assert found["small (params as base)"][0] == "hidden_size 300, num_hidden_layers 2, intermediate_size 512"
    assert found["small (params as base)"][3] == "–"


def test_a_study_without_resized_arms_has_no_such_chapter(make_run, study_of):
    runs = [run_of(make_run, arm, seed, 0.5 + seed) for arm in ("base", "albert") for seed in (0, 1)]
    assert matched.chapter(study_of(compare("s", runs))).sections == []


def test_the_noise_of_a_timed_match_is_stated(make_run, study_of):
    timed = {"match.cost": "latency", "matched.target": "2.5", "matched.reached": "2.55", "matched.published": "1.2"}
    timed |= {"matched.half_width": "0.031"}
    arm = "albert (latency as base)"
    SHAPES[arm] = (194, 776)
    runs = [run_of(make_run, "base", seed, 0.8) for seed in (0, 1)] + [
        run_of(make_run, arm, seed, 0.7, **timed) for seed in (0, 1)
    ]
    row = line(matched.chapter(study_of(compare("s", runs))).paragraphs[2], arm)
    assert row[3] == "2.55 ms<br>+2.0 %, known within ± 3.1 %"


def test_the_picture_has_a_mark_for_every_shape(comparison, study_of):
    picture = matched.chapter(study_of(comparison)).files["matched.svg"].decode()
    assert all(label in picture for label in SCORES)
