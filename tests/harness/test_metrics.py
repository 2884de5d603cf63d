"""What may be logged, and under which names."""

import math
import re

import pytest

from harness import metrics
from harness.tasks.scores import SCORES

PHASES = {"setup", "model", "published", "hardware", "timing", "scaling", "batching", "inference", "load"}
PHASES |= {"corpus", "pretrain", "finetune", "train_step", "tune", "eval"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, False, None, "0.5", [0.5]])
def test_what_is_not_a_finite_number_is_refused(value):
    with pytest.raises(ValueError, match="'eval/score' must be"):
        metrics.check("eval/score", value)


def test_undeclared_name_is_refused_with_the_nearest():
    with pytest.raises(KeyError, match="did you mean 'eval/accuracy'"):
        metrics.check("eval/acuracy", 0.5)


@pytest.mark.parametrize("value", [0, 7, -0.5, 1e300])
def test_finite_number_passes_as_float(value):
    assert metrics.check("eval/score", value) == value
    assert type(metrics.check("eval/score", value)) is float


UNITS = {
    "bytes": "bytes",
    "ms": "_ms",
    "FLOP/s": "flops_per_s",
    "s": "_s",
    "tokens/s": "tokens_per_s",
    "FLOP": "flops",
    "parameters": "params",
}
"""Unit -> how the name of a metric says it."""


def test_every_name_reads_phase_slash_quantity_and_says_its_unit():
    names = [(metric.name, UNITS.get(metric.unit, "")) for metric in metrics.METRICS.values()]
    assert [name for name, _ in names if not re.fullmatch(r"[a-z_]+/[a-z0-9_]+", name)] == []
    assert {name.split("/")[0] for name, _ in names} <= PHASES
    assert [name for name, unit in names if unit not in name.split("/")[1]] == []


def test_names_are_keys_and_titles_are_told_apart():
    assert all(name == metric.name for name, metric in metrics.METRICS.items())
    titles = [(metric.name.split("/")[0], metric.title) for metric in metrics.METRICS.values()]
    assert len(set(titles)) == len(titles)


def test_every_component_is_declared_for_both_tables():
    for component in metrics.PARAMETER_COMPONENTS:
        assert metrics.get(f"model/params_component_{component}").deterministic
        assert metrics.get(f"published/params_component_{component}").deterministic


@pytest.mark.parametrize("score", SCORES)
def test_every_score_is_declared_as_better_when_higher(score):
    assert metrics.get(f"eval/{score}").direction is metrics.Direction.HIGHER


def test_what_a_clock_says_is_compared_by_launch_or_not_at_all():
    series = (metrics.LAUNCHES, metrics.LENGTHS, metrics.BATCHES)
    timed = [
        name
        for name, metric in metrics.METRICS.items()
        if (metric.unit in ("s", "ms", "J") or metric.unit.endswith("/s")) and not name.startswith(series)
    ]
    by_seed = [name for name in timed if metrics.get(name).compared is metrics.Compared.BY_SEED]
    assert (len(timed) > 20, by_seed) == (True, [])
