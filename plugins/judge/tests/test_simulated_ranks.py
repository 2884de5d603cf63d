"""Simulated tables of scores in which all pairs are judged: false differences, ranks that miss, and how sure the best arm is.

All arms share the luck of a seed (2 points) and have luck of their own (2 points) on every task. Run as a script, this file
prints the figures of docs/method.md.
"""

import math

import numpy as np
import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.comparison.paired import Design
from harness.comparison.runs import Run
from harness.plugins.judge.ranks import Ranking, rankings

pytestmark = pytest.mark.long

DESIGNS = {(5, 3, 5): "5 arms, 3 tasks, 5 seeds", (10, 1, 3): "10 arms, 1 task, 3 seeds"}
STEPS = 0.02
"""Between two levels of true scores, as large as the luck of a run."""


def table(rng: np.random.Generator, levels: np.ndarray, tasks: int, seeds: int, of_tasks: float = 0.0) -> Ranking:
    """Of arms with these true scores; `of_tasks`: by how much each arm is better or worse on a task by chance."""
    shape = (len(levels), tasks, seeds)
    scores = 0.7 + levels[:, None, None] + rng.normal(0, 0.02, (1, tasks, seeds)) + rng.normal(0, 0.02, shape)
    scores += of_tasks * rng.normal(0, 1, (len(levels), tasks, 1))
    runs = []
    for (arm, task, seed), score in np.ndenumerate(scores):
        name = f"arm{arm}" if arm else "base"
        known = {tags.ARM: name, tags.MODEL: name, tags.SCALE: "tiny", tags.TASK: f"task{task}", tags.SEED: str(seed)}
        known |= {tags.STATUS: "finished", tags.LIFTED: "[]", tags.CONDITIONS: "c1"}
        params = {"seed": str(seed), "model_name": name, "task.headline": "accuracy"}
        runs.append(Run(f"run{len(runs)}", name, len(runs), known, params, {"eval/score": float(score)}))
    return rankings(compare("s", runs), design=Design.TASKS if of_tasks else None)[0]


def true_ranks(levels: np.ndarray) -> dict[str, tuple[int, int]]:
    """Label -> its best and worst rank: equal arms may stand in any order."""
    names = ["base", *(f"arm{arm}" for arm in range(1, len(levels)))]
    return {name: (1 + int(np.sum(levels > own)), int(np.sum(levels >= own))) for name, own in zip(names, levels, strict=True)}


def shares(tables: int, levels: np.ndarray, tasks: int, seeds: int, of_tasks: float = 0.0) -> dict[str, float]:
    """Of so many tables: with a false difference, with an interval of ranks that misses, with a probability above 95 %."""
    rng, found = np.random.default_rng([len(levels), tasks, seeds]), []
    true, size = true_ranks(levels), dict(zip(true_ranks(levels), levels.tolist(), strict=True))
    for _ in range(tables):
        one = table(rng, levels, tasks, seeds, of_tasks)
        missed = any(place.ranks[0] > true[place.label][0] or place.ranks[1] < true[place.label][1] for place in one.places)
        wrong = any(size[better] <= size[worse] for better, worse in one.better)
        told = sum(size[better] > size[worse] for better, worse in one.better)
        found.append((wrong, missed, max(place.best for place in one.places) > 0.95, told))
    return dict(zip(("false", "missed", "sure", "told"), np.mean(found, axis=0).tolist(), strict=True))


def allowed(tables: int) -> float:
    """5 % and two standard errors of it."""
    return 0.05 + 2 * math.sqrt(0.05 * 0.95 / tables)


@pytest.mark.parametrize("design", DESIGNS, ids=DESIGNS.get)
def test_a_table_of_equal_arms_seldom_holds_a_difference(design: tuple[int, int, int]):
    arms, tasks, seeds = design
    found = shares(200, np.zeros(arms), tasks, seeds)
    assert found["false"] <= allowed(200)
    assert found["missed"] == found["false"]  # all ranks are right for each of them


@pytest.mark.parametrize("levels", [[0, 0, 1, 1, 2], [0, 1, 2, 3, 4]])
def test_intervals_of_ranks_seldom_miss_one_of_the_table(levels: list[int]):
    found = shares(200, STEPS * np.array(levels), 3, 5)
    assert max(found["false"], found["missed"]) <= allowed(200)
    assert found["told"] > 1.5  # of 8 and 10 pairs


def test_tasks_as_replicates_keep_the_level():
    assert shares(150, np.zeros(5), 8, 3, of_tasks=0.02)["false"] <= allowed(150)


def calibration(tables: int, arms: int = 5) -> list[tuple[float, float, int]]:
    """(mean probability of being best, share that are, number) of arms with a probability up to 20, 50, 80, 95 and 100 %.

    True scores scatter by STEPS.
    """
    rng, pairs = np.random.default_rng(arms), []
    for _ in range(tables):
        levels = rng.normal(0, STEPS, arms)
        best = ["base", *(f"arm{arm}" for arm in range(1, arms))][int(np.argmax(levels))]
        pairs += [(place.best, place.label == best) for place in table(rng, levels, 1, 5).places]
    said, is_best = np.array(pairs).T
    bins = np.digitize(said, (0.2, 0.5, 0.8, 0.95))
    return [(float(said[bins == one].mean()), float(is_best[bins == one].mean()), int(np.sum(bins == one))) for one in range(5)]


def test_an_arm_is_the_best_about_as_often_as_is_said():
    for said, found, number in calibration(200):
        assert abs(said - found) <= 0.05 + 3 * math.sqrt(max(found * (1 - found), 0.02) / number)


def test_equal_arms_are_about_equally_likely_to_be_the_best():
    rng = np.random.default_rng(0)
    tables = [table(rng, np.zeros(5), 3, 5) for _ in range(100)]
    chances = [
        [place.best for label in true_ranks(np.zeros(5)) for place in one.places if place.label == label] for one in tables
    ]
    assert np.mean(chances, axis=0) == pytest.approx(0.2, abs=0.07)


if __name__ == "__main__":
    for (arms, tasks, seeds), name in DESIGNS.items():
        for levels in (np.zeros(arms), STEPS * (np.arange(arms) // 2), STEPS * np.arange(arms)):
            print(name, levels.tolist(), shares(2000 if arms == 5 else 1000, levels, tasks, seeds), flush=True)
    print("tasks as replicates", shares(1000, np.zeros(5), 8, 3, of_tasks=0.02), flush=True)
    print("calibration", calibration(2000), flush=True)
