"""What can be told before anything is run: figures against simulated studies and pilots computed by hand."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from harness import metrics
from harness.comparison import paired
from harness.comparison.compare import compare
from harness.comparison.paired import Replicate
from harness.comparison.verdicts import change
from harness.plugins.decide.power import EVER, Plan, of_pilot
from harness.reports.__main__ import main

SD, ITEMS, TASKS, TESTS = 0.015, 300, 3, 4


@pytest.mark.long
@pytest.mark.parametrize(("seeds", "items"), [(3, EVER), (3, ITEMS), (5, EVER), (10, ITEMS), (EVER, ITEMS)])
def test_the_smallest_difference_is_shown_in_four_of_five_simulated_studies(seeds: int, items: int):
    """By the tests of a table of five arms, the first of Holm's: the mean over tasks scatters less than each of them."""
    size = Plan(arms=TESTS + 1, tasks=TASKS, sd=SD).smallest(seeds, items)
    rng, of_items = np.random.default_rng(0), paired.items_error(0.8, 0.8, (items, items)) / math.sqrt(TASKS)
    count, shown = min(seeds, 200), 0  # more seeds leave next to nothing open
    sd = SD / math.sqrt(TASKS) if seeds < EVER else 1e-5
    for difference in size + rng.normal(0, of_items, 1000):
        values = {Replicate("", str(seed)): 0.8 + value for seed, value in enumerate(rng.normal(difference, sd, count))}
        found = change(metrics.get("eval/score"), dict.fromkeys(values, 0.8), values, items=of_items).evidence.found
        shown += TESTS * found.t_test_p() <= paired.LEVEL
    assert shown / 1000 == pytest.approx(0.8, abs=0.04)


def test_seeds_alone_are_what_scipy_says():
    size = Plan(sd=SD).smallest(10, EVER)
    assert stats.nct.sf(stats.t.ppf(0.975, 9), 9, size / (SD / math.sqrt(10))) == pytest.approx(0.8, abs=0.001)


def test_what_a_difference_takes_is_the_first_number_that_shows_it():
    plan = Plan(sd=SD, items=5000)
    seeds, items = plan.ways(0.025, 10)
    count = int(seeds.split()[0])
    assert seeds == f"{count} seeds with 5,000 items"
    assert plan.smallest(count, 5000) <= 0.025 < plan.smallest(count - 1, 5000)
    count = int(items.split()[0].replace(",", ""))
    assert items == f"{count:,} items with 10 seeds"
    assert plan.smallest(10, count) <= 0.025 < plan.smallest(10, count - 1)
    assert [*plan.ways(0.0001, 3)] == [
        "no number of seeds is enough with 5,000 items",
        "no number of items is enough with 3 seeds",
    ]


def test_where_neither_seeds_nor_items_alone_are_enough_a_pair_of_them_is_named():
    plan = Plan(sd=SD, items=500)
    *without, pair = plan.ways(0.01, 3)
    assert without == ["no number of seeds is enough with 500 items", "no number of items is enough with 3 seeds"]
    items, seeds = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+", pair))
    assert pair == f"{items:,} items with {seeds} seeds"
    assert plan.smallest(seeds, items) <= 0.01 < plan.smallest(seeds, items - 1)


def test_a_pilot_says_how_pairs_scatter_and_what_it_has(make_run):
    scores = {"base": (0.70, 0.72, 0.71), "new": (0.72, 0.725, 0.73), "other": (0.69, 0.70, 0.75)}
    runs = [
        make_run(arm, seed, {"eval/score": score, "eval/examples": 200.0}, task="rte")
        for arm, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    plan = of_pilot(compare("s", runs))
    pairs = [np.subtract(scores[one], scores[two]) for one, two in (("base", "new"), ("base", "other"), ("new", "other"))]
    assert plan.sd == pytest.approx(math.sqrt(np.mean([np.var(pair, ddof=1) for pair in pairs])))
    means = [np.mean(of_seeds) for of_seeds in scores.values()]
    errors = [paired.items_error(means[one], means[two], (200, 200)) for one, two in ((0, 1), (0, 2), (1, 2))]
    assert plan.per_item == pytest.approx(200 * np.mean(np.square(errors)), rel=1e-6)
    assert (plan.arms, plan.tasks, plan.items, plan.score) == (3, 1, 200, pytest.approx(np.mean(means)))


@pytest.mark.long
def test_one_run_of_each_arm_says_what_its_items_leave_open(tmp_path, capsys):
    """A hundred items: the arms err on 30 and 20, on ten of them both."""
    right = {"base": [item >= 30 for item in range(100)], "new": [not 20 <= item < 40 for item in range(100)]}
    lines = [f"{arm},rte,accuracy,{item},{int(one)}" for arm, answers in right.items() for item, one in enumerate(answers)]
    file = tmp_path / "items.csv"
    file.write_text("\n".join(["arm,task,metric,item,value", *lines]), "utf-8")
    assert main(["power", "--pilot", str(file)]) == 0
    error = math.sqrt(np.var(np.subtract(right["base"], right["new"], dtype=float)) / 100)
    shown = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("∞"))
    assert float(shown.split()[1]) == pytest.approx(100 * error * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)), rel=0.02)


PILOT = "model,task,run,metric,value\n" + "".join(
    f"{arm},{task},{seed},accuracy,{level + noise}\n"
    for arm, level in (("base", 0.7), ("new", 0.72))
    for task in ("rte", "cola")
    for seed, noise in enumerate((0.0, 0.01, -0.01) if arm == "base" else (0.0, 0.0, 0.0))
)


@pytest.mark.long
def test_the_command_says_what_it_knows_and_from_where(tmp_path, capsys):
    file = tmp_path / "pilot.csv"
    file.write_text(PILOT, "utf-8")
    words = ["power", "--pilot", str(file), "--columns", "arm=model,seed=run", "--items", "277", "--arms", "5", "--all-pairs"]
    assert main([*words, "--difference", "5points"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "5 arms, all pairs (10 tests, Holm), mean of 2 tasks." in text
    assert "Standard deviation of differences over seeds: 1.00 points on one task, from 2 pairs of arms in pilot.csv." in text
    row = next(line for line in text.split("∞ items ")[1].split("∞") if line)
    plan = Plan(5, 2, 277, 0.71, all_pairs=True, sd=0.01)
    assert f"5 {100 * plan.smallest(5, 277):.2f} " in row
    assert "To detect 5points: no number of seeds is enough with 277 items; " in text


def test_infinitely_many_seeds_and_items_leave_nothing_open(capsys):
    assert main(["power", "sd=0.01", "items=500"]) == 0
    assert next(line for line in capsys.readouterr().out.splitlines() if line.startswith("∞")).split()[-1] == "0.00"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "power needs items=, sd=, study= or pilot="),
        (["--items", "9", "--difference", "1"], "difference='1' has no unit: write 1points"),
        (["--items", "9", "--difference", "1%"], "difference='1%': expected a size above 0 and below 100, such as 0.5points"),
        (["--sd", "0.1", "--pilot", "x.csv"], "sd=, study= and pilot= exclude each other: expected one of them"),
        (["--pilot", "missing.csv"], "'missing.csv' does not exist: expected a file or folder of results"),
        (["--sd", "2"], "sd='2' must be above 0 and below 1"),
    ],
)
def test_wrong_input_is_one_line(words: list[str], said: str, capsys):
    assert main(["power", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_nothing_of_training_is_imported(run_python):
    code = "import sys; from harness.reports.__main__ import main; main(['power', '--items', '277'])"
    found = run_python("-c", f"{code}; print({{'torch', 'mlflow', 'hydra', 'matplotlib'}} & {{*sys.modules}})")
    assert found.stdout.splitlines()[-1] == "set()"
