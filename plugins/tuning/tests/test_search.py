"""A search: equal trials for every arm, the same ones every time, on rows that are not reported."""

import json
import math
import sys
from dataclasses import replace
from typing import Any

import pytest

from harness import paths, records
from harness.config.choices import KeepBest, Sampler
from harness.config.resolve import Found, resolve, with_vocabulary
from harness.errors import InputError
from harness.plugins.costs import match
from harness.plugins.tuning import search
from harness.tracking import run_log

pytest.importorskip("optuna")
SEARCH = ("search=rate_and_batch", "scale=tiny", "task=bag")
BEST = 1e-4
"""Rate at which the stand-in for training scores best."""


def score_of(config) -> float:
    """Highest at the rate BEST and the smallest batch."""
    return 1 - abs(math.log10(config.finetune.learning_rate / BEST)) / 10 - config.finetune.batch_size / 1000


class Runner:
    """Stands in for training; remembers what was run."""

    def __init__(self, metric: str = "tune/score", fails: tuple[int, ...] = ()):
        self.runs, self.headings, self._metric, self._fails = [], [], metric, fails

    def __call__(self, configs, heading):
        self.headings.append(heading)
        results = []
        for config in configs:
            self.runs.append(config)
            failed = len(self.runs) - 1 in self._fails
            results.append(None if failed else {"status": "finished", "metrics": {self._metric: score_of(config)}})
        return results


def tuned(configs, runner):
    """The runs of a command after its search."""
    searches = search.Searches(configs)
    for trial_runs, heading in searches.rounds():
        searches.take(runner(trial_runs, heading))
    return searches.tuned()


@pytest.fixture
def runs(compose):
    return compose("-m", *SEARCH, "model=base,albert", "seed=1,2")


def changed(configs, **changes):
    return [replace(one, search=replace(one.search, **changes)) for one in configs]


def test_a_missing_package_is_one_line_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"^optuna is missing .*: pip install 'encoder-variant-harness\[optuna\]'$"):
        search._optuna()


def test_every_arm_has_as_many_trials_and_the_same_random_ones(runs):
    runner = Runner()
    tuned(runs, runner)
    of_arms = {name: [one for one in runner.runs if one.model_name == name] for name in ("base", "albert")}
    settings = [[(one.finetune.learning_rate, one.finetune.batch_size) for one in runs] for runs in of_arms.values()]
    assert settings[0] == settings[1]
    assert len(settings[0]) == len(set(settings[0])) == 10
    assert all(1e-5 <= rate <= 1e-3 and batch in (16, 32, 64) for rate, batch in settings[0])


def test_the_best_settings_are_those_of_all_seeds_of_the_arm(runs):
    runner = Runner()
    found = tuned(runs, runner)
    best = max((one for one in runner.runs if one.model_name == "albert"), key=score_of)
    albert = [one for one in found if one.model_name == "albert"]
    assert [(one.label, one.seed) for one in albert] == [("albert (tuned)", 1), ("albert (tuned)", 2)]
    for one in albert:
        assert one.finetune == replace(runs[0].finetune, **_tried(best))
        assert json.loads(one.tuned["scores"]) == [score_of(run) for run in runner.runs if run.model_name == "albert"]
        assert {"finetune.learning_rate", "finetune.batch_size"} <= {text.partition("=")[0] for text in one.overrides}
        assert not any(text.startswith("search") for text in one.overrides)


def _tried(config):
    return {"learning_rate": config.finetune.learning_rate, "batch_size": config.finetune.batch_size}


def test_trials_hold_rows_of_train_out_and_final_runs_train_on_all(runs):
    runner = Runner()
    found = tuned(runs, runner)
    assert {one.task.tune_share for one in runner.runs} == {0.1}
    assert {one.task.tune_share for one in found} == {runs[0].task.tune_share} == {0.0}
    assert {one.seed for one in runner.runs} == {1000}
    assert {one.study for one in runner.runs} == {"default-search"}
    assert {one.sweep.budget_minutes for one in runner.runs} == {None}
    assert not any(one.measure.enabled or one.report or one.search.space for one in runner.runs)


@pytest.mark.parametrize("sampler", [Sampler.random, Sampler.tpe])
@pytest.mark.parametrize("reduction", [None, 3])
def test_the_same_command_has_the_same_trials(runs, sampler, reduction):
    some = changed(runs, sampler=sampler, reduction=reduction, trials=14)
    first, second = Runner(), Runner()
    assert tuned(some, first) == tuned(some, second)
    assert first.runs == second.runs


GRID = ["finetune.learning_rate=choice(1e-5,1e-4,1e-3)", "finetune.batch_size=choice(16,32)"]


@pytest.mark.parametrize(("part", "expected"), [(1.0, 6), (0.5, 3), (0.01, 1)])
def test_a_grid_runs_every_combination_or_the_part_of_them_that_the_seed_draws(runs, part, expected):
    some, runner = changed(runs, sampler=Sampler.grid, space=GRID, part=part), Runner()
    found = tuned(some, runner)
    of_arms = [[_tried(one) for one in runner.runs if one.model_name == name] for name in ("base", "albert")]
    assert of_arms[0] == of_arms[1]
    assert len({tuple(one.values()) for one in of_arms[0]}) == len(of_arms[0]) == expected
    assert part < 1 or _tried(found[0]) == {"learning_rate": BEST, "batch_size": 16}
    said = search.announced(some)
    assert said.startswith(f"search: {expected} trial")
    assert ("% of the grid, drawn by search.seed=1000" in said) == (part < 1)
    other = Runner()
    tuned(changed(some, seed=2), other)
    assert len(other.runs) == len(runner.runs)
    assert part < 0.1 or [_tried(one) for one in other.runs] != [_tried(one) for one in runner.runs]


def test_whole_numbers_are_shown_as_they_are_run(runs, capsys):
    runner = Runner()
    tuned(changed(runs, space=["finetune.max_steps=interval(1000,9999)"], trials=1), runner)
    steps = runner.runs[0].finetune.max_steps
    assert runner.runs[0].settings["finetune.max_steps"] == str(steps)
    assert f"bag: finetune.max_steps={steps}\n" in capsys.readouterr().out


def test_a_grid_has_no_intervals(compose):
    with pytest.raises(InputError, match=r"expected finetune\.learning_rate=choice\(A,B\)"):
        search.dimensions(compose(*SEARCH, "search.sampler=grid")[0])


def test_trials_may_be_scored_on_the_reported_rows_where_a_paper_did_and_the_run_says_so(runs):
    some, runner = changed(runs, selected_on=KeepBest.validation, trials=2), Runner("eval/score")
    found = tuned([replace(one, finetune=replace(one.finetune, keep_best=KeepBest.validation)) for one in some], runner)
    assert {one.task.tune_share for one in runner.runs} == {0.0}
    assert {one.tuned["selected_on"] for one in found} == {"validation"}
    assert "scored on the reported rows (search.selected_on=validation)" in search.announced(some)
    with pytest.raises(InputError, match=r"search\.selected_on=none selects nothing"):
        search.dimensions(changed(runs, selected_on=KeepBest.none)[0])


def test_successive_halving_ends_most_trials_early(runs):
    runner = Runner()
    found = tuned(changed(runs, reduction=3, trials=20), runner)
    base = [one for one in runner.runs if one.model_name == "base"]
    budgets = sorted({one.finetune.epochs for one in base})
    assert budgets == pytest.approx([2 / 9, 2 / 3, 2])
    counts = [sum(one.finetune.epochs == budget for one in base) for budget in budgets]
    assert counts[0] == 20 > counts[1] > counts[2] >= 1
    assert sum(json.loads(found[0].tuned["short"])) == 20 - counts[2]


@pytest.mark.long
@pytest.mark.parametrize(("reduction", "runs"), [(None, "60 runs"), (3, "60 to 180 runs")])
def test_what_is_announced_counts_arms_once_and_every_budget_of_a_trial(compose, reduction, runs):
    composed = compose("-m", "search=rate_and_batch", "scale=tiny", "task=bag,order,pairs", "model=base,albert", "seed=1,2")
    said = search.announced(changed(composed, reduction=reduction))
    assert said.startswith(f"search: 10 trials of each of 2 arms, on each task, come first, {runs} in all")


def test_a_failed_trial_has_no_score_and_is_never_the_best(runs):
    some = [one for one in changed(runs, trials=4) if one.model_name == "base"]
    every = Runner()
    tuned(some, every)
    best = max(range(4), key=lambda number: score_of(every.runs[number]))
    (found, _) = tuned(some, Runner(fails=(best,)))
    scores = json.loads(found.tuned["scores"])
    assert scores[best] is None
    assert found.finetune.learning_rate != every.runs[best].finetune.learning_rate
    elsewhere = [replace(one, output="o") for one in some]
    with pytest.raises(InputError, match=r"no trial of base on bag finished; why: .* status default-search output=o$"):
        tuned(elsewhere, Runner(fails=(0, 1, 2, 3)))


@pytest.mark.long
def test_a_variant_is_tuned_in_its_resized_shape(compose):
    runs = compose("-m", *SEARCH, "model=base,albert", "match=params")
    sized = match.resized(runs, lambda one: with_vocabulary(resolve(one, Found()), 500, 0))
    runner = Runner()
    found = {one.model_name: one for one in tuned(changed(sized, trials=2), runner)}
    assert found["albert"].label == "albert (params as base) (tuned)"
    assert {one.model.hidden_size for one in runner.runs if one.model_name == "albert"} == {found["albert"].model.hidden_size}
    assert found["albert"].model.hidden_size > 128
    assert match.resized([*found.values()], lambda one: pytest.fail("resized again")) == [*found.values()]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ("finetune.learning_rat=interval(1,2)", "finetune.learning_rate"),
        ("finetune.learning_rate=0.1", "is not a range: expected KEY=interval"),
        ("finetune.learning_rate=interval(1e-5", "is not a range: expected KEY=interval"),
        ("finetune.learning_rate=choice(a,b)", "is not a range: expected KEY=interval"),
        ("finetune.learning_rate=interval(1e-3,1e-5)", "needs LOW below HIGH"),
        ("finetune.batch_size=choice(16,16.5)", "has 16.5: expected whole numbers for finetune.batch_size"),
        ("finetune.learning_rate=tag(log,interval(0,1))", "above 0 on a logarithmic scale"),
        ("finetune.learning_rate=interval(-1,1)", r"finetune\.learning_rate=-1"),
        ("finetune.batch_size=choice(0,16)", r"finetune\.batch_size=0"),
        ("pretrain.learning_rate=interval(1e-5,1e-3)", "pretrain.learning_rate"),
    ],
)
def test_an_impossible_space_is_refused_before_any_trial(runs, one, said):
    with pytest.raises(InputError, match=said):
        tuned(changed(runs, space=[one]), lambda *_: pytest.fail("run"))


def test_the_reported_rows_may_not_choose_epochs_of_trials(compose):
    with pytest.raises(InputError, match=r"finetune\.keep_best=tune or none"):
        search.dimensions(compose(*SEARCH, "finetune.keep_best=validation")[0])


@pytest.mark.long
def test_a_real_search_is_resumed(run_harness, tmp_path, small):
    """The second command runs what the first lacks, and nothing twice."""
    arguments = [*small, "finetune.max_steps=3", "search=rate", "study=s", "tracking=none", f"output={tmp_path / 'out'}"]
    first = run_harness(*arguments, "measure=none", "search.trials=1")
    assert first.returncode == 0, first.stderr
    second = run_harness(*arguments, "measure=none", "search.trials=2")
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("finished already, skipped") >= 1
    (folder, *others) = sorted((tmp_path / "out" / "s").glob("base-*"))
    assert "tune/score" not in run_log.result(folder)["metrics"]
    assert len(others) <= 1
    scores = [run_log.result(one)["metrics"]["tune/score"] for one in (tmp_path / "out" / "s-search").glob("base-*")]
    assert len(scores) == 2
    plans = records.read(tmp_path / "out" / "s-search" / paths.PLAN, dict[str, Any]).values()
    assert [len({run["folder"] for run in plan["runs"]}) for plan in plans] == [1, 2]  # every trial of either command
