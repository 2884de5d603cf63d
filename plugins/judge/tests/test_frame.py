"""Results of other tools as one frame: what is filled in, refused and paired, and the error rates of that."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.comparison import overall
from harness.comparison.compare import Comparison, compare
from harness.comparison.paired import Design
from harness.comparison.section import EXAMPLES, HEADLINE
from harness.comparison.verdicts import Verdict
from harness.errors import InputError
from harness.plugins.judge import frame
from harness.plugins.judge.results import Asked, checked

SEEDS = range(4)


def table(**columns: object) -> pd.DataFrame:
    """Two arms on one task with four seeds, with these columns changed or added."""
    base = {"arm": ["a"] * 4 + ["b"] * 4, "task": "rte", "seed": [*SEEDS, *SEEDS], "metric": "accuracy"}
    values = [0.70, 0.71, 0.72, 0.73, 0.75, 0.77, 0.76, 0.79]
    return pd.DataFrame(base | {"value": values} | columns)


def single(arms: dict[str, np.ndarray], **columns: object) -> pd.DataFrame:
    """One run of each arm, by item."""
    parts = [pd.DataFrame({"arm": arm, "item": np.arange(len(of)), "value": of}) for arm, of in arms.items()]
    return pd.concat(parts, ignore_index=True).assign(task="rte", metric="acc", **columns)


def compared(rows: pd.DataFrame, baseline: str = "a", independent: bool = False) -> Comparison:
    runs, errors = frame.runs(frame.checked(rows), "study", 0, independent)
    return compare("study", runs, baseline, (), lambda run: errors.get(run.run_id))


def change_of(comparison: Comparison, metric: str = HEADLINE):
    (section,) = comparison.sections
    return section.change(section.row_of("b"), metric)


WRONG = [
    (table().drop(columns="task"), "lack the task"),
    (table(task=None), "lack the task"),
    (table().iloc[:0], "no rows"),
    (pd.concat([table(), table()[["arm"]]], axis=1), "two columns 'arm': expected one"),
    (
        table(seed=0),
        "arm 'a', task 'rte', seed '0', metric 'accuracy' is in two rows: expected one for each seed and item",
    ),
    *[
        (table(seed=0, item=range(8), **{name: [*SEEDS, *SEEDS]}), f"the column {name} has several values for one run")
        for name in ("epoch", "step")
    ],
    (table(value=[math.nan] + [0.7] * 7), "seed '0', metric 'accuracy': its value is not a finite number"),
    (table(value=["much"] + [0.7] * 7), "is not a finite number"),
    (table(value=[True] + [0.7] * 7), "is not a finite number"),
    (table(value=[math.inf] + [0.7] * 7), "is not a finite number"),
    (table(value=[70.0] + [0.7] * 7), "is 70, in a unit of share: expected at most 1, or another unit= such as percent"),
    (table(unit=["percent"] * 4 + ["share"] * 4), "has the units percent, share: expected one unit"),
    (table(direction=["higher"] * 4 + ["lower"] * 4), "has the directions higher, lower"),
    (table(direction="up"), "direction 'up': expected higher or lower"),
    (table(metric="zest"), "neither the files nor its name say the unit of zest: expected unit="),
    (table(metric="zest", unit="1"), "the direction of zest: expected direction="),
    (table(metric="latency"), "the unit of latency"),
    (table(unit="1"), "accuracy has the unit '1': expected share or percent"),
    (table(items=0), "seed '0', metric 'accuracy': its column items has '0'; expected a number from 1"),
    (table(error=-0.1), "its column error has '-0.1'; expected a number from 0"),
    (table(error="small"), "its column error has 'small'; expected a number"),
    (table(error=1 - table()["value"]), "its column error has an error rate, 1 - value; expected a standard error"),
    (table(metric="loss", value=1e308), "its column value has '1e+308'; expected a number from -1e+100 to 1e+100"),
    (table(metric="latency", unit="us", value=-1), "seed '0', metric 'latency' is -1, in a unit of us: expected more than 0"),
    (table(metric="latency", unit="us", value=[0] + [1] * 7), "metric 'latency' is 0, in a unit of us: expected more than 0"),
    (table(value=[-1] + [0.7] * 7), "metric 'accuracy' is -1, in a unit of share: expected 0 or more"),
    (table(direction="lower"), "accuracy has the direction 'lower': expected higher, or another name of the metric"),
    (table(seed=[*SEEDS, *SEEDS[:3], None]), "arm 'b', task 'rte', metric 'accuracy': its seed is missing; expected one"),
    (table(seed=[*SEEDS[:3], "Mean"] * 2), "the seed 'Mean' is an aggregate: expected single seeds"),
    *[
        (table(task=["rte", "rte", "rte", name] * 2), f"the task {name!r} is an aggregate")
        for name in ("average", "Avg.", "macro-avg", "Average score", "Average \u2b06", "Mean (Task)", "All", "Total")
    ],
    (table(seed=[*SEEDS[:3], "best"] * 2), "the seed 'best' is an aggregate"),
    (table(value=[10**400] + [0.7] * 7), "these results cannot be compared (OverflowError: int too large"),
    (table(item=[[0]] * 8), "these results cannot be compared (TypeError: unhashable type: 'list')"),
]


@pytest.mark.parametrize(("rows", "said"), WRONG, ids=[said[:30] for _, said in WRONG])
def test_what_does_not_compare_is_one_line(rows, said):
    with pytest.raises(InputError) as refused:
        frame.checked(rows)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize(
    ("place", "columns"),
    [
        ("b on rte", {"value": [70.0, 71, 72, 73, 0.75, 0.77, 0.76, 0.79]}),
        ("a on rte", {"value": [0.70, 71, 72, 73, 75, 77, 76, 79]}),
        ("b on cola", {"value": [70.0, 71, 72, 73, 0.75, 0.77, 0.76, 0.79], "task": ["rte"] * 4 + ["cola"] * 4}),
        ("b on rte", {"metric": "wer", "value": [11.0, 12, 13, 12, 12, 12, 13, 0.12]}),
    ],
    ids=["an arm", "a seed", "a task", "errors"],
)
def test_a_share_among_percent_is_refused(place, columns, stated):
    rows = table(**columns, **({"unit": "percent"} if stated else {}))
    with pytest.raises(InputError, match=rf"of {place} looks like a share, and its unit is percent: expected one unit"):
        frame.checked(rows, unit="percent")


def test_small_scores_and_errors_in_percent_are_no_shares():
    frame.checked(table(metric="mcc", value=[0, 0, 1.2, 2, 3, 0.9, -0.5, 1.4]), unit="percent")
    frame.checked(table(metric="wer", value=[0.9] * 4 + [5.0] * 4, task=["clean"] * 4 + ["other"] * 4), unit="percent")


def test_seeds_that_a_program_wrote_as_numbers_with_a_point_are_the_same_seeds():
    seeds = ["0.0", "1.0", "2.0", "3.0", "0", "1", "2", 3.0]
    assert frame.said(frame.checked(table(seed=seeds)))[0] == "2 arms, 1 task, 4 seeds, paired by seed."
    empty = table(seed=[""] * 4 + [None] * 4).iloc[[0, 4]]
    assert frame.said(frame.checked(empty))[0].startswith("2 arms, 1 task, one value per arm")
    names = ["v1.0"] * 4 + ["v1"] * 4
    assert {*frame.checked(table(arm=names)).rows["arm"]} == {"v1.0", "v1"}


def test_names_that_are_one_when_they_are_shown_are_one():
    rows = frame.checked(table(seed=range(8), arm=["a\nb", "a\\nb", 1, 1.0, "1", "c", "c", "c"])).rows
    assert rows["arm"].tolist() == ["a\\nb"] * 2 + ["1"] * 3 + ["c"] * 3


@pytest.mark.parametrize(
    ("metric", "unit", "value", "expected"),
    [
        ("eval_accuracy", "percent", 71.0, ("score", "higher", 0.71)),
        ("acc,none", None, 0.71, ("score", "higher", 0.71)),
        ("acc", "Percentage", 71.0, ("score", "higher", 0.71)),
        ("acc", "%", 71.0, ("score", "higher", 0.71)),
        ("runtime", "Seconds", 71.0, ("s", "lower", 71.0)),
        ("ndcg_at_10", None, 0.4, ("score", "higher", 0.4)),
        ("matthews_correlation", None, -0.2, ("score", "higher", -0.2)),
        ("perplexity", None, 12.0, ("1", "lower", 12.0)),
        ("wer", "percent", 12.0, ("share", "lower", 0.12)),
        ("latency", "us", 1500.0, ("ms", "lower", 1.5)),
        ("mean_latency_ms", None, 1.5, ("ms", "lower", 1.5)),
        ("train_time_s", None, 90.0, ("s", "lower", 90.0)),
        ("throughput", "tokens/s", 9.0, ("tokens/s", "higher", 9.0)),
    ],
)
def test_units_and_directions_of_known_metrics(metric, unit, value, expected):
    rows = frame.checked(table(metric=metric, unit=unit, value=value)).rows
    assert (*rows.loc[0, ["unit", "direction"]], pytest.approx(rows.loc[0, "value"])) == expected


def test_a_direction_for_all_metrics_that_a_known_one_has_not_is_refused():
    rows = pd.concat([table(metric="zest"), table(metric="eval_loss")], ignore_index=True)
    with pytest.raises(
        InputError, match="direction=higher is for all metrics, but eval_loss is better lower: expected metric="
    ):
        frame.checked(rows, "1", "higher")
    asked = Asked(metric="zest", unit="1", direction="higher")
    assert {*checked([rows], asked).rows["direction"]} == {"higher"}


def test_pairs_by_seed_are_a_paired_t_test():
    change, rows = change_of(compared(table())), table()
    before, after = (rows[rows["arm"] == arm]["value"] for arm in "ab")
    expected = stats.ttest_rel(after, before)
    assert change.p == pytest.approx(expected.pvalue)
    assert change.interval == pytest.approx(expected.confidence_interval())
    assert (change.pairs_are, change.n, change.verdict) == ("seeds", 4, Verdict.BETTER)


@pytest.mark.parametrize("independent", [False, True], ids=["other seeds", "asked for"])
def test_runs_that_do_not_pair_are_welchs_test(independent):
    rows = table() if independent else table(seed=[*SEEDS, *range(10, 14)])
    comparison = compared(rows, independent=independent)
    before, after = (rows[rows["arm"] == arm]["value"] for arm in "ab")
    expected = stats.ttest_ind(after, before, equal_var=False)
    change = change_of(comparison)
    assert change.p == pytest.approx(expected.pvalue)
    assert change.interval == pytest.approx(expected.confidence_interval())
    assert (comparison.sections[0].design, change.pairs_are, change.n) == (Design.RUNS, "runs", 8)


def test_two_runs_against_many_carry_no_verdict():
    """They may be equal by chance, after which Welch's test has the freedom of the others."""
    rows = table(arm=["a"] * 6 + ["b"] * 2, seed=[*range(6), 10, 11], value=[0.70, 0.71, 0.72, 0.73, 0.71, 0.72, 0.78, 0.78])
    change = change_of(compared(rows))
    assert (change.verdict, change.evidence.found.replicates) == (Verdict.INCONCLUSIVE, 2)


def test_times_that_do_not_pair_compare_by_ratios():
    values = [10.0, 10.1, 10.2, 10.1, 12.0, 12.1, 12.2, 12.0]
    comparison = compared(table(metric="latency", unit="ms", value=values), independent=True)
    expected = stats.ttest_ind(np.log(values[4:]), np.log(values[:4]), equal_var=False)
    change = change_of(comparison, "results/latency (ms, lower)")
    assert change.p == pytest.approx(expected.pvalue, rel=1e-3)  # no clock resolves a millionth
    assert (change.percent, change.verdict) == (pytest.approx(19.55, abs=0.01), Verdict.WORSE)


def test_one_run_of_each_arm_is_compared_by_its_items():
    rng = np.random.default_rng(0)
    hard = rng.random(500)
    before, after = (hard < 0.6).astype(float), (hard < 0.7).astype(float)
    comparison = compared(single({"a": before, "b": after}))
    change = change_of(comparison)
    count, error = 500, math.sqrt(500 * np.var(after - before) + 1) / 500
    assert (change.pairs_are, change.n, change.verdict) == ("items", count, Verdict.BETTER)
    assert change.absolute == pytest.approx(after.mean() - before.mean())
    half = stats.norm.ppf(0.975) * error
    assert change.interval == pytest.approx((change.absolute - half, change.absolute + half), rel=0.01)


def test_one_run_of_each_arm_pairs_by_items_whatever_its_seed():
    rng = np.random.default_rng(0)
    before, after = (rng.random(300) < 0.5).astype(float), np.ones(300)
    rows = single({"a": before, "b": after})
    rows["seed"] = rows["arm"].map({"a": "1", "b": "2"})
    change = change_of(compared(rows))
    assert (change.pairs_are, change.n, change.verdict) == ("items", 300, Verdict.BETTER)


def test_a_score_that_is_written_with_four_digits_is_the_mean_of_its_items():
    stated = pd.DataFrame({"arm": ["a", "b"], "value": [0.3333, 0.6667], "task": "rte", "metric": "acc"})
    items = single({"a": np.array([1.0, 0, 0]), "b": np.array([1.0, 1, 0])})
    found = frame.checked(pd.concat([items, stated], ignore_index=True))
    assert (found.rows["value"].tolist(), found.notes) == ([1 / 3, 2 / 3], ())


def test_points_of_another_scale_are_no_percent():
    rows = table(metric="judged", unit="points", direction="higher", value=[7.1, 7.3, 7.2, 7.0, 8.1, 8.2, 8.0, 8.3])
    assert {*frame.checked(rows).rows["unit"]} == {"points"}


def test_items_count_for_the_score_beside_a_time_that_has_none():
    scores = single({"a": np.repeat([0.0, 1.0], 50), "b": np.ones(100)})
    times = pd.DataFrame({"arm": ["a", "b"], "task": "rte", "metric": "latency", "unit": "ms", "value": [1.0, 2.0]})
    both = frame.checked(pd.concat([scores, times], ignore_index=True))
    assert frame.designs(both) == {"rte": Design.ITEMS}
    assert frame.designs(both.of("latency")) == {"rte": Design.TASKS}


def test_items_that_an_arm_lacks_are_left_out_of_all_and_said():
    rows = single({"a": np.r_[np.zeros(50), np.ones(50)], "b": np.ones(80)})
    found = frame.checked(rows)
    assert found.rows.set_index("arm").loc[["a", "b"], "value"].tolist() == [30 / 80, 1.0]
    assert found.rows["items"].tolist() == [80, 80]
    assert "rte: 80 of 100 items, those common to all runs." in frame.said(found)


@pytest.mark.parametrize("numbers", [range(8), [*SEEDS, *SEEDS]], ids=["of the table", "of each arm"])
def test_a_column_that_numbers_the_runs_is_not_one_of_items(numbers):
    found, expected = compared(table(item=numbers)), compared(table())
    assert change_of(found) == change_of(expected)


def test_runs_may_end_at_different_epochs():
    assert change_of(compared(table(epoch=range(8)))) == change_of(compared(table()))


def test_arms_without_an_item_in_common_do_not_pair():
    rows = single({"a": np.tile([0.0, 1.0], 50), "b": np.ones(100)})
    found = frame.checked(rows.assign(item=range(200)))
    assert found.rows["value"].tolist() == [0.5, 1.0]
    assert "rte: no item is common to all runs, so scores do not pair." in frame.said(found)


def test_a_score_that_is_no_mean_of_its_items_keeps_its_own_value():
    stated = pd.DataFrame({"arm": ["a", "b"], "value": [0.1, 0.9], "task": "rte", "metric": "acc"})
    found = frame.checked(pd.concat([single({"a": np.ones(9), "b": np.ones(9)}), stated], ignore_index=True))
    assert (found.rows["value"].tolist(), dict(found.items)) == ([0.1, 0.9], {})
    assert "rte: acc is not the mean of the 9 items, which are ignored." in frame.said(found)


def test_numbers_without_seeds_and_items_are_compared_over_tasks():
    rng, before = np.random.default_rng(0), np.linspace(0.3, 0.6, 8)
    after = before + 0.02 + rng.normal(0, 0.005, 8)
    tasks = [f"t{number}" for number in range(8)]
    rows = pd.DataFrame({"arm": ["a"] * 8 + ["b"] * 8, "task": tasks * 2, "metric": "acc", "value": [*before, *after]})
    comparison = compared(rows)
    change = overall.of_tasks(comparison).change("b", HEADLINE)
    assert change.p == pytest.approx(stats.ttest_rel(after, before).pvalue)
    assert (change.pairs_are, change.n, change.verdict) == ("tasks", 8, Verdict.BETTER)
    alone = comparison.sections[0]
    assert alone.change(alone.row_of("b"), HEADLINE).verdict is Verdict.DIRECTION_BETTER


def test_a_stated_error_is_as_many_items_as_have_it():
    rows = table(error=0.02).iloc[[0, 4]]
    runs, _ = frame.runs(frame.checked(rows), "study", 0)
    assert [run.metrics[EXAMPLES] for run in runs] == pytest.approx([0.7 * 0.3 / 0.0004, 0.75 * 0.25 / 0.0004])


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews_correlation", "pearson", "spearmanr", "kendall"])
@pytest.mark.parametrize("items", [None, 100_000])
def test_a_difference_has_the_errors_that_are_stated(metric: str, items: int | None):
    """Also where the number of items is stated, of which F1 and correlations vary more than accuracy."""
    values = [0.80, 0.80, 0.80, 0.80, 0.801, 0.801, 0.801, 0.801]
    change = change_of(compared(table(metric=metric, value=values, error=[0.003] * 4 + [0.004] * 4, items=items)))
    assert change.evidence.found.items == pytest.approx(0.005, rel=0.001)


def test_a_run_is_what_it_measured():
    """A ledger answers equal runs from its lines: names alone are not enough."""
    (first, *_), (other, *_) = (frame.runs(frame.checked(rows), "s", 0)[0] for rows in (table(), table(value=0.71)))
    (again, *_), _ = frame.runs(frame.checked(table()), "s", 0)
    assert first.run_id == other.run_id
    assert first.tags["fingerprint"] == again.tags["fingerprint"] != other.tags["fingerprint"]


def test_what_is_missing_is_said():
    two = pd.concat([table(), table(task="cola").iloc[:6]]).iloc[1:]
    lines = frame.said(frame.checked(two))
    assert lines == [
        "2 arms, 2 tasks, 4 seeds, paired by seed.",
        "Fewer seeds: b on cola (2 of 4), a on rte (3 of 4).",
    ]
    assert frame.said(frame.checked(pd.concat([table(), table(task="cola").iloc[:4]])))[1].startswith("Missing: b on cola;")
    other = frame.said(frame.checked(table(seed=[0, 1, 2, 3, 1, 2, 3, 4], items=[16] * 4 + [7] * 4)))
    assert other[1:] == [
        "Fewer seeds: a on rte (4 of 5), b on rte (4 of 5).",
        "Scores of a task are over unequal numbers of items: rte (7 to 16).",
    ]


def test_names_that_only_begin_like_an_aggregate_are_tasks():
    tasks = ["meaning", "allocine", "best-of", "totals"]
    assert {*frame.checked(table(task=tasks * 2)).rows["task"]} == {*tasks}


def test_arms_that_are_named_by_seeds_are_said():
    runs = ["base-seed0", "base-seed1", "wide_seed=0", "wide_seed=1"]
    lines = frame.said(frame.checked(table(arm=runs * 2, task=["rte"] * 4 + ["cola"] * 4, seed=None)))
    assert lines[-1] == f"Arms named by seeds are compared as arms: {', '.join(runs)}; give the seeds a column."
    assert not any("named by seeds" in line for line in frame.said(frame.checked(table())))


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (table().iloc[:4], "1 arm, 1 task: no task has two arms, so there is nothing to compare."),
        (table(task=["rte"] * 4 + ["cola"] * 4), "2 arms, 2 tasks: no task has two arms, so there is nothing to compare."),
        (table().iloc[[0, 1, 4, 5]], "Only 2 seeds; verdicts over seeds need 3."),
    ],
)
def test_why_there_is_no_verdict_is_said(rows, line):
    assert frame.said(frame.checked(rows))[-1] == line


def tables(kind: str, rng: np.random.Generator) -> pd.DataFrame:
    """Five arms that are equal, on three tasks, or ten of one number."""
    rows = []
    for task in range(10 if kind == "tasks" else 3):
        level, hard = rng.normal(0.6, 0.1), rng.beta(2, 1, 150)
        for arm in "abcde":
            if kind == "items":
                rows += [(arm, task, "", item, float(value)) for item, value in enumerate(rng.random(150) < hard)]
            elif kind == "tasks":
                rows.append((arm, task, "", None, np.clip(level + rng.normal(0, 0.02), 0, 1)))
            else:  # the baseline scatters more, and was run more often
                many, scatter = (6, 0.03) if arm == "a" else (3, 0.01)
                rows += [(arm, task, f"{arm}{seed}", None, 0.7 + rng.normal(0, scatter)) for seed in range(many)]
    return pd.DataFrame(rows, columns=["arm", "task", "seed", "item", "value"]).assign(metric="acc")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["runs", "items", "tasks"])
def test_equal_arms_are_rarely_told_apart(kind):
    """At most one table in twenty holds a difference."""
    rng, false, count = np.random.default_rng(3), 0, 150
    for _ in range(count):
        over = overall.of_tasks(compared(tables(kind, rng)))
        changes = (over.change(label, HEADLINE) for label in "bcde")
        false += any(change and change.verdict in (Verdict.BETTER, Verdict.WORSE) for change in changes)
    assert false < stats.binom.ppf(0.99, count, 0.05)
