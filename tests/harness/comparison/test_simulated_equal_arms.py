"""Simulated studies of three equal arms on three tasks with three seeds, judged by the report item by item: false verdicts.

This is the design of the default command. Arms share the validation items, whose difficulty differs, and the luck of a seed;
each run has luck of its own as well. Scores are near the ceiling, between it and the majority baseline, or those of a task that
a training learns or does not.
"""

import math
from itertools import count

import numpy as np
import pyarrow
import pytest
from scipy.special import ndtr

from harness import tags
from harness.comparison.compare import compare
from harness.comparison.overall import of_tasks
from harness.comparison.paired import LEVEL
from harness.comparison.runs import Run
from harness.comparison.verdicts import Verdict
from harness.reports.reading.predictions import errors_in
from harness.reports.reading.store import Packed

SCORE = "eval/score"
ARMS, SEEDS, ITEMS = ("base", "base_a", "base_b"), ("0", "1", "2"), 500
DIFFERENT = (Verdict.BETTER, Verdict.WORSE)
STUDIES = 400
NUMBERS = count(1)

Right = np.ndarray
"""(arms, seeds, items): which answers are right."""


def solved(rng: np.random.Generator) -> Right:
    """Scores of 0.95 to 1, of many runs exactly 1."""
    return answers(rng, 3.3, 0.4)


def steady(rng: np.random.Generator) -> Right:
    """Scores near 1 of runs that differ by what their items do alone: most are tied."""
    return answers(rng, 4.0, 0.0)


def middling(rng: np.random.Generator) -> Right:
    """Scores of 0.7 to 0.9."""
    return answers(rng, 1.2, 0.15)


def learned_or_not(rng: np.random.Generator) -> Right:
    """Half of the trainings solve the task, the others guess.

    The worst case of three seeds: in (1 - (7/8)^2) / 4 = 5.9 % of tasks all of the baseline solve it and none of an arm, or the
    reverse, which three seeds cannot tell from a difference that is there.
    """
    learned = rng.random((len(ARMS), len(SEEDS), 1)) < 1 / 2
    return np.where(learned, answers(rng, 3.3, 0.2), rng.random((len(ARMS), len(SEEDS), ITEMS)) < 0.5)


TASKS = {kind.__name__: kind for kind in (solved, steady, middling, learned_or_not)}


def answers(rng: np.random.Generator, ability: float, luck: float) -> Right:
    """`luck`: standard deviation of a seed's and of a run's own ability; that of the items' difficulty is 1."""
    abilities = ability + rng.normal(0, luck, (1, len(SEEDS), 1)) + rng.normal(0, luck, (len(ARMS), len(SEEDS), 1))
    return rng.random((len(ARMS), len(SEEDS), ITEMS)) < ndtr(abilities - rng.normal(0, 1, ITEMS))


def runs(task: str, right: Right) -> tuple[list[Run], dict[str, pyarrow.Table]]:
    """Runs with these answers, and their predictions."""
    made, predictions, labels = [], {}, np.arange(ITEMS) % 2
    for (arm, name), (place, seed) in ((a, s) for a in enumerate(ARMS) for s in enumerate(SEEDS)):
        number, of_run = next(NUMBERS), right[arm, place]
        known = {tags.ARM: name, tags.MODEL: name, tags.SCALE: "tiny", tags.TASK: task, tags.SEED: seed}
        known |= {tags.STATUS: "finished", tags.LIFTED: "[]", tags.CONDITIONS: "c1"}
        params = {"seed": seed, "model_name": name, "task.headline": "accuracy"}
        scores = {SCORE: float(of_run.mean()), "eval/majority_score": 0.5, "eval/examples": float(ITEMS)}
        made.append(Run(f"run{number}", name, number, known, params, scores))
        columns = {"item": np.arange(ITEMS), "label": labels, "prediction": np.where(of_run, labels, 1 - labels)}
        predictions[f"run{number}"] = pyarrow.table(columns)
    return made, predictions


def verdicts(*tasks: tuple[str, Right]) -> tuple[list[list[Verdict]], list[Verdict]]:
    """Verdicts on the scores of the other arms, of each task and of the mean over all, as one study."""
    made, predictions = zip(*(runs(task, right) for task, right in tasks), strict=True)
    packed = Packed({key: table for of_task in predictions for key, table in of_task.items()})
    comparison = compare("s", [run for of_task in made for run in of_task], errors=errors_in(packed))
    each = [[section.change(row, SCORE).verdict for row in section.rows[1:]] for section in comparison.sections]
    return each, [of_tasks(comparison).change(arm, SCORE).verdict for arm in ARMS[1:]]


def verdicts_alone(kind: str, right: Right) -> list[Verdict]:
    """Of a study with one task."""
    return verdicts((kind, right))[0][0]


def allowed(studies: int) -> float:
    """The level and two standard errors of it."""
    return LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / studies)


@pytest.mark.long
@pytest.mark.parametrize("kind", TASKS)
def test_a_task_with_equal_arms_seldom_holds_a_false_verdict(kind: str):
    """The arms of a task are one family, which has the level of one test."""
    rng = np.random.default_rng([len(kind), STUDIES])
    found = [verdicts_alone(kind, TASKS[kind](rng)) for _ in range(STUDIES)]
    share = np.mean([any(one in DIFFERENT for one in of_task) for of_task in found])
    decided = np.mean([one is Verdict.SAME for of_task in found for one in of_task])
    print(f"{kind}: {share:.3f} of tasks with a false verdict, {decided:.2f} of arms called the same")
    assert share <= allowed(STUDIES)


@pytest.mark.long
def test_the_default_command_with_equal_arms_seldom_tells_any_apart():
    """The mean over tasks, which the first table has, is one family; three tasks are three, each with the level of one test."""
    rng, kinds, studies = np.random.default_rng(3), ("solved", "middling", "learned_or_not"), STUDIES // 2
    found = [verdicts(*((kind, TASKS[kind](rng)) for kind in kinds)) for _ in range(studies)]
    of_mean = np.mean([any(one in DIFFERENT for one in mean) for _, mean in found])
    of_any = np.mean([any(one in DIFFERENT for of_task in each for one in of_task) for each, _ in found])
    print(f"{of_mean:.3f} of {studies} studies with a false verdict on the mean, {of_any:.3f} on any task")
    assert of_mean <= allowed(studies)
    assert of_any <= 1 - (1 - LEVEL) ** 3


@pytest.mark.long
def test_an_arm_that_misses_a_third_of_what_others_solve_is_found():
    rng, found = np.random.default_rng(4), []
    for _ in range(100):
        right = solved(rng)
        right[2] &= rng.random((len(SEEDS), ITEMS)) < 2 / 3
        found.append(verdicts_alone("distance", right))
    assert np.mean([last is Verdict.WORSE for _, last in found]) > 0.9


@pytest.mark.parametrize("wrong", [(0, 0, 0), (0, 1, 1), (1, 1, 1), (0, 2, 2)])
def test_arms_whose_seeds_all_score_alike_are_not_told_apart_by_an_item_or_two(wrong: tuple[int, ...]):
    """Nothing scatters over the seeds: the items that differ are the only measure."""
    right = np.ones((len(ARMS), len(SEEDS), ITEMS), dtype=bool)
    for arm, errors in enumerate(wrong):
        right[arm, :, :errors] = False
    assert not {*verdicts_alone("ties", right)} & {*DIFFERENT}
