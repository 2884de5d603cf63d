"""What is compared with what, and what may be said of a change."""

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness import metrics, tags
from harness.comparison.compare import compare
from harness.comparison.paired import Replicate
from harness.comparison.section import EXAMPLES, Pairing, change_over, over_tasks
from harness.comparison.verdicts import Verdict, change, judge
from harness.errors import InputError
from harness.metrics import Direction
from harness.reports.screen import screen
from harness.reports.writing import section_text, tables

S0, S1, S2, S5, S7 = (Replicate("", seed) for seed in "01257")
LATENCY, SCORE, TOTAL, MEMORY = "inference/latency_ms_p50", "eval/score", "model/params_total", "inference/peak_memory_bytes"


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
    result = change(metrics.get(SCORE), {S0: 0.5, S1: 0.7, S2: 0.99}, {S0: 0.3, S1: 0.6, S7: 0.0})
    assert (result.n, result.baseline_mean, result.absolute) == (2, pytest.approx(0.6), pytest.approx(-0.15))
    assert result.percent == pytest.approx(-25)


def test_a_score_that_no_seed_changes_is_judged_over_items_or_paired_with_every_seed(scored):
    """Published weights are only scored; another arm is pretrained from them with three seeds, and a third task is trained."""
    values, fixed = {EXAMPLES: 1000.0}, {tags.FIXED: "true"}
    runs = [
        *scored("base", {"similarity": [0.9]}, values, **fixed),
        *scored("half", {"similarity": [0.8]}, values, **fixed),
        *scored("same", {"similarity": [0.9]}, values, **fixed),
        *(
            one
            for seed, score in enumerate((0.7, 0.71, 0.72))
            for one in scored("healed", {"similarity": [score]}, values, **{tags.PRETRAIN_SEED: str(seed)})
        ),
        *scored("base", {"sst2": [0.9, 0.91, 0.92]}),
        *scored("half", {"sst2": [0.7, 0.71, 0.72]}),
    ]
    comparison = compare("s", runs, "base")
    section, trained = (next(one for one in comparison.sections if one.task == task) for task in ("similarity", "sst2"))
    found = {row.label: section.change(row, SCORE) for row in section.rows if row.label != "base"}
    assert [(one.verdict, one.n, one.pairs_are) for one in (found["half"], found["healed"])] == [
        (Verdict.WORSE, 1000, "items"),
        (Verdict.WORSE, 3, "pretrainings"),
    ]
    half = stats.norm.ppf(1 - 0.05 / 3 / 2) * math.sqrt(0.9 * 0.1 / 1000 + 0.8 * 0.2 / 1000)  # Bonferroni's, of three arms
    assert found["half"].interval == pytest.approx((-0.1 - half, -0.1 + half), rel=0.02)
    assert found["same"].verdict is not Verdict.WORSE
    over = change_over([Pairing(one, one.row_of("base"), one.row_of("half")) for one in (section, trained)], SCORE)
    assert (over.n, over.absolute) == (3, pytest.approx(-0.15))
    unknown_seed = Replicate("", "")  # of a tool that states none: it is one run, not every one
    assert over_tasks([{S0: 0.8, S1: 0.9}, {unknown_seed: 0.5}], logs=False) == {}


def test_times_and_memories_are_compared_by_ratios():
    """Geometric means: half and twice as long are equally far from no change."""
    result = change(metrics.get(LATENCY), {S0: 10.0, S1: 40.0, S2: 99.0}, {S0: 5.0, S1: 80.0, S7: 1000.0})
    assert (result.n, result.baseline_mean, result.absolute) == (2, pytest.approx(20), pytest.approx(0))
    low, high = result.interval
    assert (20 + low) * (20 + high) == pytest.approx(400)


def test_wide_interval_that_includes_zero_resolves_nothing():
    result = change(metrics.get(SCORE), {S0: 0.8, S1: 0.8, S2: 0.8}, {S0: 0.82, S1: 0.79, S2: 0.81})
    assert result.verdict is Verdict.INCONCLUSIVE
    sd, t = math.sqrt(7 / 3) / 100, stats.t  # differences 2, -1 and 1 points
    halves = {n: (t.ppf(0.975, n - 1) + t.ppf(0.95, n - 1)) * sd / math.sqrt(n) for n in (result.needed - 1, result.needed)}
    assert halves[result.needed] <= 0.01 < halves[result.needed - 1]
    assert tables.verdict_text(replace(result, seconds=30.0), "score") == (
        f"~ inconclusive: needs {result.needed} seeds, {(result.needed - 3) / 2:.0f} min more; "
        f"{result.needed_as_measured} if the effect is as measured"
    )
    ends = {n: t.ppf(0.975, n - 1) * sd / math.sqrt(n) for n in (result.needed_as_measured - 1, result.needed_as_measured)}
    assert ends[result.needed_as_measured] < 0.02 / 3 <= ends[result.needed_as_measured - 1]


def test_interval_within_the_margin_is_the_same():
    """Two one-sided tests at 5 %: the 90 % interval lies within the margin, a point of a score or 5 % of a memory."""
    scores = ({S0: 0.8, S1: 0.81, S2: 0.82}, {S0: 0.801, S1: 0.812, S2: 0.819})
    of_score = change(metrics.get(SCORE), *scores)
    assert (of_score.verdict, tables.verdict_text(of_score, "score")) == (Verdict.SAME, "≈ equivalent within 1 point")
    differences = [scores[1][seed] - scores[0][seed] for seed in (S0, S1, S2)]
    assert max(abs(end) for end in stats.t.interval(0.9, 2, np.mean(differences), stats.sem(differences))) < 0.01
    of_memory = change(metrics.get(MEMORY), {S0: 1e8, S1: 1e8, S2: 1e8}, {S0: 1.01e8, S1: 1e8, S2: 0.99e8})
    assert (of_memory.verdict, tables.verdict_text(of_memory, "bytes")) == (Verdict.SAME, "≈ equivalent within 5 %")


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_equal_differences_of_scores_are_no_evidence_unless_an_item_says_how_coarse_they_are(seeds: int):
    """A gain of exactly 2 of 100 items in every seed: rounding alone may hide the scatter."""
    sides = [{Replicate("", str(seed)): score + seed / 100 for seed in range(seeds)} for score in (0.5, 0.52)]
    assert change(metrics.get(SCORE), *sides).verdict is Verdict.INCONCLUSIVE
    known = change(metrics.get(SCORE), *sides, 0.01)
    assert known.verdict is (Verdict.BETTER if seeds > 2 else Verdict.INCONCLUSIVE)
    half = stats.t.ppf(0.975, seeds - 1) * 0.01 / math.sqrt(6 * seeds)
    assert known.interval == pytest.approx((0.02 - half, 0.02 + half))


def test_one_item_of_the_validation_data_is_no_direction(make_run):
    runs = [
        make_run(name, values={SCORE: right / 408, EXAMPLES: 408}) for name, right in (("base", 326), ("a", 327), ("b", 328))
    ]
    section = compare("s", runs).sections[0]
    verdicts = [section.change(row, SCORE).verdict for row in section.rows[1:]]
    assert verdicts == [Verdict.INCONCLUSIVE, Verdict.DIRECTION_BETTER]


def test_an_item_above_the_margin_is_said_to_be_why(make_run):
    runs = [make_run(name, seed, {SCORE: 0.5, EXAMPLES: 56}) for name in ("base", "a") for seed in (0, 1, 2)]
    section = compare("s", runs).sections[0]
    assert tables.verdict_text(section.change(section.rows[1], SCORE), "score") == "~ inconclusive: one item is 1.8 points"


def test_from_six_pairs_on_the_exact_test_must_agree():
    """One outlier: the t test is below 5 % only by the shape that it assumes."""
    before = {Replicate("", str(seed)): 0.0 for seed in range(7)}
    gains = [0.02, 0.021, 0.019, 0.02, 0.022, 0.018, -0.004]
    after = {Replicate("", str(seed)): gain for seed, gain in enumerate(gains)}
    found = change(metrics.get(SCORE), before, after)
    assert (found.p < 0.05, found.evidence.found.p <= 0.05, found.verdict) == (True, True, Verdict.BETTER)
    gains[-1] = -0.019
    gains[0] = 0.035
    found = change(metrics.get(SCORE), before, {Replicate("", str(seed)): gain for seed, gain in enumerate(gains)})
    assert found.verdict is Verdict.INCONCLUSIVE


def test_arms_of_one_table_are_a_family_of_tests(make_run):
    """p is multiplied by the number of arms (Holm), and the interval is as wide as that."""
    gains = {"base": (0, 0, 0), "a": (2, 3, 4), "b": (0, 1, -1), "c": (9, 9.1, 9.2)}
    runs = [make_run(name, seed, {SCORE: 0.5 + gain / 100}) for name, own in gains.items() for seed, gain in enumerate(own)]
    section = compare("s", runs).sections[0]
    alone = [stats.ttest_1samp(gains[row.label], 0).pvalue for row in section.rows[1:]]
    changes = [section.change(row, SCORE) for row in section.rows[1:]]
    assert [one.p for one in changes] == pytest.approx([2 * alone[0], 1, 3 * alone[2]])
    assert alone[0] < 0.05
    assert [one.verdict for one in changes] == [Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, Verdict.BETTER]
    for one in changes:
        assert (one.interval[0] > 0 or one.interval[1] < 0) == (one.p < 0.05)
    low, _ = stats.t.interval(1 - 0.05 / 2, 2, 0.03, stats.sem([0.02, 0.03, 0.04]))
    assert changes[0].interval[0] == pytest.approx(low)


def test_interval_without_zero_is_a_verdict():
    result = change(metrics.get(SCORE), {S0: 0.80, S1: 0.81, S2: 0.79}, {S0: 0.900, S1: 0.911, S2: 0.892})
    assert result.verdict is Verdict.BETTER
    assert result.interval[0] > 0


def test_one_seed_gives_a_direction_only():
    assert change(metrics.get(SCORE), {S0: 0.8}, {S0: 0.9}).verdict is Verdict.DIRECTION_BETTER


def test_counted_metric_needs_no_shared_seed(make_run):
    section = compare("s", [make_run(values={TOTAL: 100.0}), make_run("new", 5, {TOTAL: 60.0})]).sections[0]
    result = section.change(section.row_of("new"), TOTAL)
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


HEALED = {"pretrain.learning_rate": "0.001", "corpus.name": "wikitext", "facts.text": "a1", "tokenizer.trained_on": "corpus"}
PUBLISHED = {"pretrain.learning_rate": "0.0003", "corpus.name": "none", "facts.text": "None", "tokenizer.trained_on": "task"}


def places(runs):
    """The arms of each section."""
    return [[row.label for row in section.rows] for section in compare("s", runs).sections]


@pytest.mark.parametrize("file", ["b2", "None", hashlib.sha256().hexdigest()[:16]])
def test_run_without_pretraining_meets_pretrained_ones_of_the_same_tokenizer(make_run, file):
    """Settings of a pretraining are none of a run that had none; a tokenizer that is trained reads other text with it."""
    tokenizer = {"facts.tokenizer_file": file}
    healed = make_run("small", params=HEALED | tokenizer, **{tags.PRETRAINING: "f1"})
    published = make_run(params=PUBLISHED | tokenizer)
    assert places([published, healed]) == ([["base", "small"]] if file == "b2" else [["base"], ["small"]])
    assert len(places([make_run(params=PUBLISHED | tokenizer | {"finetune.epochs": "9"}), healed])) == 2


def test_run_without_pretraining_chooses_none_of_two_kinds_of_pretrained_ones(make_run):
    tokenizer = {"facts.tokenizer_file": "b2"}
    published = make_run(params=PUBLISHED | tokenizer)
    kinds = [HEALED, HEALED | {"pretrain.batch_size": "16"}]
    runs = [make_run("small", params=kind | tokenizer, **{tags.PRETRAINING: "f1"}) for kind in kinds]
    assert places([published, *runs]) == [["base"], ["small"], ["small"]]


@pytest.mark.parametrize(
    ("also", "sections"), [({}, 1), ({"measure.precision": "int8_dynamic"}, 2), ({"finetune.epochs": "9"}, 2)]
)
def test_unmeasured_runs_meet_the_measured_ones_that_are_trained_and_served_alike(make_run, also, sections):
    """With `measure=none` a score is the same; a measured run counts before a newer one that was not."""
    timed, untimed = {"measure.enabled": "True", "measure.rounds": "4"}, {"measure.enabled": "False", **also}
    runs = [make_run(seed=seed, values={SCORE: 0.5}, params=timed, fingerprint="a") for seed in (0, 1)]
    runs += [make_run(seed=seed, values={SCORE: 0.5}, params=untimed, fingerprint="b") for seed in (0, 1, 2)]
    found = compare("s", runs)
    assert len(found.sections) == sections
    assert sections == 2 or found.runs == [runs[0], runs[1], runs[4]]
    alone = "Older or unmeasured runs of the same arm and seeds, superseded by the latest measured: 2. They had other settings"
    assert any(note.startswith(alone) for note in section_text.section_notes(found.sections[0])) == (sections == 1)
    said = any("was run under 2 sets of conditions" in note for note in screen(found).notes)
    assert said == (sections == 2)


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
    names = ["window=64", "z", "base", "window=128", "a", "window=8", "a=1e-3", "a=0.4", "a=0.15", "a=0.05", "a=2e-4"]
    section = compare("s", [make_run(name) for name in names]).sections[0]
    rates = ["a=2e-4", "a=1e-3", "a=0.05", "a=0.15", "a=0.4"]
    assert [row.label for row in section.rows] == ["base", "a", *rates, "window=8", "window=64", "window=128", "z"]


def test_several_scales_are_named_apart(make_run):
    runs = [make_run(scale="tiny"), make_run(scale="mini"), make_run("small")]
    labels = [row.label for row in compare("s", runs, "base scale=mini").sections[0].rows]
    assert labels == ["base scale=mini", "base scale=tiny", "small"]
    with pytest.raises(InputError, match="base scale=tiny or base scale=mini"):
        compare("s", runs, "base")
    assert compare("s", runs, "small").baseline == "small"


def test_unknown_baseline_lists_the_arms(make_run):
    with pytest.raises(InputError, match=r"did you mean 'albert'.*choices for `baseline`: albert, base"):
        compare("s", [make_run(), make_run("albert")], "alber")
    with pytest.raises(InputError, match="baseline=NAME: albert, gpt"):
        compare("s", [make_run("albert"), make_run("gpt")])
    assert compare("s", [make_run("albert")]).baseline == "albert"  # alone: nothing is compared


def test_study_without_finished_run_says_what_there_is(make_run):
    with pytest.raises(InputError, match=r"no finished run \(1 diverged, 2 failed\)"):
        compare("s", [make_run(status=status) for status in ("failed", "failed", "diverged")])
