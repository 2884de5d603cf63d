"""Two runs: the order in which their numbers are listed."""

import pytest

from harness import metrics
from harness.comparison.section import RESULTS
from harness.reports import compare_runs as compare

BEFORE = {
    "eval/score": 0.80,
    "eval/f1": 0.70,
    "eval/loss": 0.5,
    "inference/latency_ms_p50": 10.0,
    "inference/tokens_per_s": 100.0,
}
BEFORE |= {
    "inference/peak_memory_bytes": 40e6,
    "finetune/peak_memory_bytes": 90e6,
    "model/params_total": 4e6,
    "finetune/steps": 1.0,
}
BEFORE |= {"model/weights_bytes": 16e6, "eval/examples": 100.0, "model/flops_forward": 1e9}


def test_scores_come_first_and_in_each_kind_what_differs_most(make_run):
    after = {"eval/score": 0.79, "eval/f1": 0.60, "eval/accuracy": 0.9, "inference/latency_ms_p50": 11.0}
    after |= {"inference/tokens_per_s": 50.0, "finetune/peak_memory_bytes": 180e6, "inference/peak_memory_bytes": 41e6}
    after |= {"model/params_total": 2e6, "model/flops_forward": 3e9, "model/weights_bytes": 16e6, "eval/examples": 100.0}
    found = compare.numbers(make_run("base", values=BEFORE, session="s1"), make_run("small", values=after, session="s1"))
    names = [one.metric.name for one in found if one.first != one.second]
    assert names == [
        *("eval/f1", "eval/score", "eval/loss", "eval/accuracy"),
        *("inference/tokens_per_s", "inference/latency_ms_p50"),
        *("finetune/peak_memory_bytes", "inference/peak_memory_bytes"),
        *("model/flops_forward", "model/params_total"),
    ]


def test_half_is_as_far_as_twice(make_run):
    first, second = (
        make_run(arm, values={"inference/tokens_per_s": rate}, session="s1") for arm, rate in (("a", 4.0), ("b", 8.0))
    )
    [one], [other] = compare.numbers(first, second), compare.numbers(second, first)
    assert one.change == 4.0
    assert compare._distance(one) == pytest.approx(compare._distance(other))


@pytest.mark.parametrize(
    ("name", "sessions", "compares"),
    [
        ("inference/tokens_per_s", ("s1", "s1"), True),
        ("inference/tokens_per_s", ("s1", "s2"), False),
        ("inference/tokens_per_s", ("", ""), False),
        ("finetune/duration_s", ("s1", "s1"), False),
        ("finetune/mfu", ("s1", "s1"), False),
        ("eval/score_low", ("s1", "s2"), True),
    ],
)
def test_times_compare_only_where_one_session_launched_both(make_run, name, sessions, compares):
    runs = (
        make_run(arm, values={name: size}, session=session)
        for arm, size, session in zip("ab", (0.25, 0.5), sessions, strict=True)
    )
    (number,) = compare.numbers(*runs)
    assert (number.first, number.second) == (0.25, 0.5)
    assert (number.change, number.percent) == ((0.25, 100.0) if compares else (None, None))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("eval/loss", "score"),
        ("pretrain/masked_loss", "score"),
        ("pretrain/masked_accuracy", "score"),
        ("eval/majority_score", "other"),
        ("finetune/mfu", "speed"),
        ("inference/energy_j_per_token", "speed"),
        ("model/bytes_forward", "memory"),
        ("finetune/process_peak_memory_bytes", "memory"),
        ("model/weights_bytes", "size"),
        ("model/params_effective", "size"),
        ("finetune/padding_share", "other"),
    ],
)
def test_kinds(name, kind):
    assert compare.kind_of(metrics.get(name)) == kind


def test_no_merit_is_among_the_others():
    """Whatever is better or worse is a score, a speed, a memory or a size."""
    rest = [name for name in RESULTS if compare.kind_of(metrics.get(name)) == "other"]
    judged = [name for name in rest if metrics.get(name).direction is not metrics.Direction.NEITHER]
    assert judged == ["pretrain/gradient_spread_p50", "finetune/gradient_spread_p50"]
