"""What is compared with what, and what may be said of a change."""

import pytest

from harness import metrics
from harness.metrics import Direction
from harness.paired import Replicate
from reports.compare import compare
from reports.errors import ReportError
from reports.statistics import Verdict, change, judge

S0, S1, S2, S5, S7 = (Replicate("", seed) for seed in "01257")
LATENCY, SCORE, TOTAL = "inference/latency_ms_p50", "eval/score", "model/params_total"


@pytest.mark.parametrize(
    ("direction", "absolute", "sure", "verdict"),
    [
        (Direction.LOWER, -1, True, Verdict.BETTER),
        (Direction.LOWER, 1, True, Verdict.WORSE),
        (Direction.HIGHER, 1, True, Verdict.BETTER),
        (Direction.HIGHER, -1, False, Verdict.DIRECTION_WORSE),
        (Direction.LOWER, -1, False, Verdict.DIRECTION_BETTER),
        (Direction.HIGHER, 0, True, Verdict.EQUAL),
        (Direction.NEITHER, 1, True, None),
    ],
)
def test_verdict_follows_the_declared_direction(direction, absolute, sure, verdict):
    assert judge(direction, absolute, sure) is verdict


def test_change_is_paired_by_the_seeds_that_both_have():
    result = change(metrics.get(LATENCY), {S0: 10.0, S1: 20.0, S2: 99.0}, {S0: 5.0, S1: 15.0, S7: 1000.0})
    assert (result.n, result.baseline_mean, result.absolute) == (2, 15.0, -5.0)
    assert result.percent == pytest.approx(-100 / 3)


def test_interval_that_includes_zero_is_unclear():
    result = change(metrics.get(SCORE), {S0: 0.8, S1: 0.8, S2: 0.8}, {S0: 0.82, S1: 0.79, S2: 0.81})
    assert result.verdict is Verdict.UNCLEAR


def test_interval_without_zero_is_a_verdict():
    result = change(metrics.get(SCORE), {S0: 0.80, S1: 0.81, S2: 0.79}, {S0: 0.900, S1: 0.911, S2: 0.892})
    assert result.verdict is Verdict.BETTER
    assert result.interval[0] > 0


def test_one_seed_gives_a_direction_only():
    assert change(metrics.get(SCORE), {S0: 0.8}, {S0: 0.9}).verdict is Verdict.DIRECTION_BETTER


def test_counted_metric_needs_no_shared_seed():
    result = change(metrics.get(TOTAL), {S0: 100.0}, {S5: 60.0})
    assert (result.absolute, result.percent, result.verdict, result.interval) == (-40, -40, Verdict.BETTER, None)


def test_measured_metric_without_shared_seed_has_no_change():
    assert change(metrics.get(LATENCY), {S0: 1.0}, {S1: 2.0}) is None


def test_percent_of_a_negative_baseline_is_of_its_size():
    result = change(metrics.get(SCORE), {S0: -0.1}, {S0: 0.1})  # Matthews correlation
    assert (result.percent, result.verdict) == (pytest.approx(200), Verdict.DIRECTION_BETTER)


def test_percent_of_a_zero_baseline_is_unknown():
    assert change(metrics.get(SCORE), {S0: 0.0}, {S0: 0.3}).percent is None


def test_different_conditions_never_share_a_section(make_run):
    short, long = ({"finetune.epochs": epochs} for epochs in "12")
    runs = [make_run(params=short), make_run("small", params=short), make_run("small", params=long)]
    runs.append(make_run(task="cola", params=short))
    result = compare("s", runs)
    assert [(part.task, part.facts["finetune.epochs"], [row.label for row in part.rows]) for part in result.sections] == [
        ("sst2", "1", ["base", "small"]),
        ("sst2", "2", ["small"]),
        ("cola", "1", ["base"]),
    ]
    assert result.sections[0].conditions != result.sections[1].conditions
    assert result.sections[1].change(result.sections[1].rows[0], SCORE) is None


def test_sections_of_one_task_are_neighbours_and_pretraining_comes_first(make_run, pretrained):
    runs = [make_run(), make_run(task="cola"), make_run(params={"finetune.epochs": "9"}), pretrained()]
    assert [section.task for section in compare("s", runs).sections] == ["pretraining", "sst2", "sst2", "cola"]


def test_latest_run_of_the_same_arm_and_seeds_counts(make_run):
    old, new = make_run(values={SCORE: 0.1}), make_run(values={SCORE: 0.9})
    section = compare("s", [old, new]).sections[0]
    assert section.rows[0].values(SCORE) == {S0: 0.9}
    assert section.superseded == [old]


def test_unfinished_runs_do_not_count(make_run):
    bad = [make_run(seed=1, status=status, values={SCORE: 0.0}) for status in ("failed", "diverged", "running")]
    result = compare("s", [make_run(values={SCORE: 0.8}), *bad])
    assert result.sections[0].rows[0].values(SCORE) == {S0: 0.8}
    assert list(result.left_out) == bad


def test_run_without_identity_does_not_count(make_run):
    for tag in ("arm", "model", "scale", "task", "seed", "conditions", "lifted"):
        stray = make_run()
        del stray.tags[tag]
        result = compare("s", [make_run(), stray])
        assert (result.left_out, stray.status) == ((stray,), "unknown (tags missing)")


@pytest.mark.parametrize("lifted", ["", "model", '"a"', "[1]", '["model.window'])
def test_run_whose_swept_keys_cannot_be_read_does_not_count(make_run, lifted: str):
    stray = make_run(lifted=lifted)
    assert compare("s", [make_run(), stray]).left_out == (stray,)


def test_baseline_comes_first_and_the_rest_by_name_and_number(make_run):
    """In which order they ran was random, and says nothing."""
    names = ["window=64", "z", "base", "window=128", "a", "window=8", "a=1e-3"]
    section = compare("s", [make_run(name) for name in names]).sections[0]
    assert [row.label for row in section.rows] == ["base", "a", "a=1e-3", "window=8", "window=64", "window=128", "z"]


def test_several_scales_are_named_apart(make_run):
    runs = [make_run(scale="tiny"), make_run(scale="mini"), make_run("small")]
    labels = [row.label for row in compare("s", runs, "base scale=mini").sections[0].rows]
    assert labels == ["base scale=mini", "base scale=tiny", "small"]
    with pytest.raises(ReportError, match="base scale=tiny or base scale=mini"):
        compare("s", runs, "base")
    assert compare("s", runs, "small").baseline == "small"


def test_unknown_baseline_lists_the_arms(make_run):
    with pytest.raises(ReportError, match=r"did you mean 'albert'.*choices: base, albert"):
        compare("s", [make_run(), make_run("albert")], "alber")
    with pytest.raises(ReportError, match="--baseline: albert"):
        compare("s", [make_run("albert")])


def test_study_without_finished_run_says_what_there_is(make_run):
    with pytest.raises(ReportError, match=r"no finished run \(1 diverged, 2 failed\)"):
        compare("s", [make_run(status=status) for status in ("failed", "failed", "diverged")])
