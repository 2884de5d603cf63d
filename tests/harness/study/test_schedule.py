"""The order of runs: as planned, each after what it needs, those of other commands last."""

import random
from dataclasses import dataclass

from harness.study.schedule import Next, Order


@dataclass(eq=False)
class Run:
    name: str
    needs: "Run | None" = None


def test_a_run_waits_for_what_it_needs_and_keeps_its_place():
    pretraining, other, last = Run("pretraining"), Run("other"), Run("last")
    needing = Run("needing", pretraining)
    order = Order([pretraining, needing, other, last])
    assert [order.take().run for _ in range(2)] == [pretraining, other]
    order.end(pretraining)
    assert [order.take().run for _ in range(2)] == [needing, last]


def test_runs_that_were_put_off_come_last_in_turn():
    runs = [Run(name) for name in "abc"]
    order = Order(runs)
    order.put_off(order.take().run)
    order.put_off(order.take().run)
    assert order.take() == Next(runs[2], again=False)
    assert order.take() == Next(runs[0], again=True)
    order.put_off(runs[0])
    assert [order.take().run for _ in range(2)] == [runs[1], runs[0]]


def test_runs_are_taken_from_a_plan_when_they_are_needed():
    taken = []

    def planned():
        for name in "ab":
            taken.append(name)
            yield Run(name)

    order = Order(planned())
    assert taken == []
    order.end(order.take().run)
    assert taken == ["a"]


def test_every_run_comes_once_whatever_ends_first():
    for seed in range(50):
        chance = random.Random(seed)
        runs: list[Run] = []
        for number in range(40):
            runs.append(Run(str(number), chance.choice(runs) if runs and chance.random() < 0.4 else None))
        order, running, ended = Order(runs), [], []
        while len(ended) < len(runs):
            found = order.take() if len(running) < 5 else None
            if found is None:
                run = running.pop(chance.randrange(len(running)))
                order.end(run)
                ended.append(run)
            elif chance.random() < 0.2:
                order.put_off(found.run)
            else:
                assert found.run.needs is None or found.run.needs in ended
                running.append(found.run)
        assert {id(run) for run in ended} == {id(run) for run in runs}
        assert len(ended) == 40
