"""A sweep within a budget: first seeds of everything, whole blocks, what did not run, and tests that keep their level.

Simulated studies are judged by the report's own verdicts. All arms share the luck of a seed and have luck of their own.
"""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from harness import metrics
from harness.comparison.paired import Replicate
from harness.comparison.verdicts import Verdict, change, corrected
from harness.config.choices import Until
from harness.study import replicates
from harness.study.identity import Identity, Inputs

SCORE = metrics.get("eval/score")
ALARM = (Verdict.BETTER, Verdict.WORSE)


@dataclass(eq=False)
class Item:
    """What the queue reads of a planned run; its score and its seconds are known before it runs."""

    arm: str
    task: str
    seed: int
    score: float = 0.5
    seconds: float = 60.0
    done: bool = False
    minutes: float = 10
    needs: "Item | None" = None
    place: int = 0
    inputs: Inputs = field(init=False)
    config: SimpleNamespace = field(init=False)
    identity: Identity = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = Inputs(data=None if self.task == "pretraining" else self.task)
        sweep, task = SimpleNamespace(budget_minutes=self.minutes, until=Until.seeds), SimpleNamespace(name=self.task)
        pretrain = SimpleNamespace(seed=self.seed)
        self.config = SimpleNamespace(label=self.arm, sweep=sweep, task=task, seed=self.seed, pretrain=pretrain, output="out")
        self.identity = Identity(self.config, self.inputs)
        self.folder = self


@pytest.fixture(autouse=True)
def _read_from_items(monkeypatch):
    monkeypatch.setattr(replicates.forecast, "is_done", lambda item: item.done)
    monkeypatch.setattr(replicates.forecast, "earlier", lambda outputs: {})
    monkeypatch.setattr(replicates.forecast, "kind_of", lambda item: (item.arm, item.task))
    results = {
        True: lambda item: {"metrics": dict.fromkeys((replicates.SCORE, replicates.LOSS), item.score)},
        False: lambda item: None,
    }
    monkeypatch.setattr(replicates.run_log, "finished", lambda item: results[item.done](item))


def planned(tasks=("a", "b"), arms=("base", "small"), seeds=4, **how) -> list[Item]:
    items = [Item(arm, task, seed, **how) for task in tasks for seed in range(seeds) for arm in arms]
    for place, item in enumerate(items):
        item.place = place
    return items


class Runner:
    """Runs the items of a queue, by a clock of its own."""

    def __init__(self, items: list[Item]):
        self.now, self.ran = 0.0, []
        self.queue = replicates.Queue(items, lambda: self.now)
        for item in self.queue:
            self.now += 0 if item.done else item.seconds
            item.done = True
            self.ran.append(item)


def test_without_a_budget_the_order_is_that_of_the_plan():
    items = planned(minutes=None)
    runner = Runner(items)
    assert runner.ran == items
    assert (runner.queue.left, runner.queue.summary()) == ([], None)


def test_two_seeds_of_everything_come_first():
    ran = Runner(planned(minutes=100)).ran
    assert [(item.task, item.seed) for item in ran[:8:2]] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert len(ran) == 16


def test_arms_of_a_task_have_the_same_seeds_and_the_budget_is_kept():
    runner = Runner(planned(minutes=11.5))
    done = {(item.task, item.seed) for item in runner.ran}
    assert [(item.task, item.seed) in done for item in runner.ran].count(True) == 2 * len(done) == 10
    assert runner.now == 600
    assert len(runner.queue.left) == 6
    said = runner.queue.summary()
    assert said.startswith("the budget of 11 min 30 s is used (10 min): 6 runs of 16 did not run: base on ")
    assert "seeds 2, 3; a larger sweep.budget_minutes continues" in said


def test_further_seeds_go_where_the_mean_over_arms_scatters():
    items = planned(seeds=8, minutes=16)
    for item in items:
        item.score = 0.5 + (0.1 if item.task == "b" else 0.001) * (-1) ** item.seed
    ran = Runner(items).ran
    counts = {task: sum(item.task == task for item in ran) / 2 for task in "ab"}
    assert counts == {"a": 2, "b": 6}


def test_the_difference_between_arms_moves_no_seed():
    """However far apart arms are, in either direction: their mean decides."""
    orders = []
    for effect in (-0.3, 0.0, 0.3):
        items = planned(seeds=6, minutes=16)
        luck = np.random.default_rng(0).normal(0, 0.02, (2, 6))
        for item in items:
            half = effect / 2 * (1 if item.arm == "small" else -1)
            item.score = 0.5 + luck["ab".index(item.task), item.seed] + half * math.cos(item.seed)
        orders.append([(item.arm, item.task, item.seed) for item in Runner(items).ran])
    assert orders[0] == orders[1] == orders[2]


def test_what_has_finished_counts_and_a_larger_budget_continues(monkeypatch):
    first = Runner(planned(minutes=12))
    monkeypatch.setattr(
        replicates.forecast,
        "earlier",
        lambda outputs: {(arm, task): SimpleNamespace(seconds=60.0) for arm in ("base", "small") for task in "ab"},
    )
    known = {(item.arm, item.task, item.seed) for item in first.ran}

    def again(minutes):
        items = planned(minutes=minutes)
        for item in items:
            item.done = (item.arm, item.task, item.seed) in known
        return Runner(items)

    assert again(12).now == 0
    assert again(16).now == 240


def test_a_pretraining_runs_before_the_first_run_that_needs_it_and_none_for_nothing():
    pretrainings = [Item("base", "pretraining", seed, minutes=5) for seed in range(3)]
    runs = [Item("base", "a", seed, minutes=5, needs=pretrainings[seed]) for seed in range(3)]
    items = [*pretrainings, *runs]
    for place, item in enumerate(items):
        item.place = place
    runner = Runner(items)
    assert [(item.task, item.seed) for item in runner.ran] == [("pretraining", 0), ("a", 0), ("pretraining", 1), ("a", 1)]
    assert runner.queue.left == [pretrainings[2], runs[2]]


def test_several_workers_keep_the_budget_within_a_block_and_the_arms_together():
    """The next run is taken while the last one still runs: times between two runs add up to that of the clock."""
    items, now, running = planned(seeds=6, minutes=6.5), [0.0], []
    queue = replicates.Queue(items, lambda: now[0])
    ran = []
    for item in queue:
        ran.append(item)
        running.append(item)
        if len(running) == 2:  # both workers are busy: they end together
            now[0] += 60
            for other in running:
                other.done = True
            running.clear()
    assert now[0] <= 6.5 * 60 + 60
    blocks = {(item.task, item.seed) for item in ran}
    assert len(ran) == 2 * len(blocks) >= 12
    assert len(ran) + len(queue.left) == len(items)


def study(rng: np.random.Generator, tasks: int, arms: int, sds: list[float]) -> list[Item]:
    """Equal arms: (tasks, arms) of 12 seeds, in a budget for half of them."""
    names = [f"arm {number}" for number in range(arms)]
    items = planned([f"task {number}" for number in range(tasks)], names, 12, minutes=6 * tasks * arms + 0.5)
    luck = rng.normal(0.8, 0.02, (tasks, 12))
    own = rng.normal(0, 1, (tasks, arms, 12)) * np.array(sds)[None, :, None]
    for item in items:
        task, arm = int(item.task.split()[1]), int(item.arm.split()[1])
        item.score = luck[task, item.seed] + own[task, arm, item.seed]
    return items


def false_families(ran: list[Item], tasks: int, arms: int) -> list[bool]:
    """Of each task, whether any arm differs from the first."""
    found = []
    for task in range(tasks):
        values = [
            {
                Replicate("", str(item.seed)): item.score
                for item in ran
                if (item.task, item.arm) == (f"task {task}", f"arm {arm}")
            }
            for arm in range(arms)
        ]
        judged = corrected({arm: change(SCORE, values[0], values[arm]) for arm in range(1, arms)})
        found.append(any(one.verdict in ALARM for one in judged.values()))
    return found


@pytest.mark.long
@pytest.mark.parametrize(("tasks", "arms", "studies"), [(2, 2, 600), (3, 4, 250)])
@pytest.mark.parametrize("last", [0.02, 0.06])
def test_equal_arms_are_seldom_told_apart_within_a_budget(tasks: int, arms: int, studies: int, last: float):
    """Also where the last arm scatters more than the others."""
    rng = np.random.default_rng([tasks, arms])
    sds = [0.02] * (arms - 1) + [last]
    families = [one for _ in range(studies) for one in false_families(Runner(study(rng, tasks, arms, sds)).ran, tasks, arms)]
    print(f"{tasks} tasks, {arms} arms, sd {last}: false families {np.mean(families):.4f} of {len(families)}")
    assert np.mean(families) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / len(families))
