"""Held-out loss against FLOPs over scales: the exponent that was planted, and where there is no line."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from harness.comparison import compare as comparing
from harness.plugins.chapters import scales
from harness.reports import render
from harness.reports.reading.study import Study

FLOPS = {"tiny": 2.0e12, "mini": 2.4e13, "small": 1.5e14, "medium": 3.1e14}
LIFTED = '["scale_name"]'


def studied(pretrained, ended, names=tuple(FLOPS), exponent=0.13, noise=0.0, seeds=(0, 1, 2), flops=None):
    """Pretrainings at these scales whose loss is 200 C^-exponent, times a factor of each seed."""
    random_source, runs = random.Random(0), []
    for name in names:
        spent = (flops or FLOPS)[name]
        for seed in seeds:
            loss = 200 * spent**-exponent * math.exp(random_source.gauss(0, noise))
            ends = ended(loss, {"pretrain/flops": spent})
            label = "base+mlm" if name == "mini" else f"base+mlm scale={name}"
            runs.append(pretrained(label, seed, ends, {"scale_name": name}, scale=name, lifted=LIFTED))
    return comparing.compare("s", runs)


def law(comparison):
    (found,) = scales.laws_of(comparison.sections[0]).values()
    return found


def test_the_planted_exponent_is_found_exactly_without_noise(pretrained, ended):
    found = law(studied(pretrained, ended))
    assert found.names == ("tiny", "mini", "small", "medium")
    assert found.line.exponent == pytest.approx(-0.13)
    assert found.line.interval == pytest.approx((-0.13, -0.13))
    assert all(len(losses) == 3 for losses in found.losses.values())


def test_exponent_and_interval_are_those_of_a_regression_through_the_scales(pretrained, ended):
    found = law(studied(pretrained, ended, noise=0.05))
    logs = [np.log(losses).mean() for losses in found.losses.values()]
    theirs = stats.linregress(np.log(list(found.losses)), logs)
    half = stats.t.ppf(0.975, len(logs) - 2) * theirs.stderr
    assert found.line.exponent == pytest.approx(theirs.slope)
    assert found.line.interval == pytest.approx((theirs.slope - half, theirs.slope + half))
    assert found.line.interval[0] < -0.13 < found.line.interval[1]


@pytest.mark.long
def test_the_chapter_says_the_exponent_with_its_interval_and_draws_it(pretrained, ended):
    files = render.render(Study(studied(pretrained, ended, noise=0.02)))
    report = files["report.md"].decode()
    (row,) = (line for line in report.splitlines() if line.startswith("| base+mlm | tiny, mini, small, medium |"))
    exponent, interval = row.split(" | ")[4].split(" ", 1)
    low, high = (float(end) for end in interval.strip("[]").split(", "))
    assert low < float(exponent) < high
    assert "held-out masked loss (nats, log scale)" in files["scales.svg"].decode()
    assert "<title>base" in files["scales.svg"].decode()


@pytest.mark.parametrize(
    ("names", "flops"),
    [(("tiny", "mini"), None), (("tiny", "mini", "small"), dict.fromkeys(FLOPS, 1e13))],
    ids=["two scales", "equal FLOPs"],
)
def test_too_few_scales_and_equal_flops_have_no_line(pretrained, ended, names, flops):
    comparison = studied(pretrained, ended, names, flops=flops)
    assert scales.chapter(Study(comparison)).sections == []


def test_the_scale_is_taken_out_of_a_label():
    assert scales.without_scale("base+mlm scale=tiny dtype=bf16") == "base+mlm dtype=bf16"
    assert scales.without_scale("base+mlm timescale=3") == "base+mlm timescale=3"
