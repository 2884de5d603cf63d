"""A simulated sweep: nothing is lost or doubled whatever is killed, and a loss or a run that is doubled would be noticed."""

from dataclasses import replace

import pytest
from simulated_sweep import Setting, Simulation

from harness.study.schedule import Order


@pytest.mark.parametrize("commands", [1, 7])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_killed_nothing_is_lost_or_doubled(commands, seed):
    some_fail = {"failing": 0.02, "killed": 0.05, "crash_hours": 0.5}
    setting = Setting(runs=600, workers=21, commands=commands, pretrainings=9, seed=seed, **some_fail)
    outcome = Simulation(setting).run()
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.finished + outcome.failing == 600
    assert outcome.crashes > 0
    assert outcome.killed > 0
    assert outcome.calls > commands


def test_runs_that_are_killed_are_run_again_at_once():
    setting = Setting(runs=300, workers=10, killed=0.2, seed=1)
    once, again = Simulation(setting).run(), Simulation(replace(setting, retries=9)).run()
    assert once.calls > 1
    assert (again.calls, again.finished, again.lost, again.doubled) == (1, 300, 0, 0)
    assert again.killed > 0


def test_commands_at_once_take_each_run_once():
    setting = Setting(runs=400, workers=20, commands=4, minutes=5.0)
    outcome = Simulation(setting).run()
    assert (outcome.finished, outcome.doubled, outcome.calls) == (400, 0, 4)


def test_an_order_that_loses_runs_is_noticed(monkeypatch):
    take = Order.take

    def losing(self):
        found = take(self)
        return take(self) if found is not None and found.run.place == 5 else found

    monkeypatch.setattr(Order, "take", losing)
    assert Simulation(Setting(runs=20, workers=2)).run().lost == 1


def test_locks_that_do_not_hold_are_noticed(monkeypatch):
    start = Simulation._start

    def start_unlocked(self, command, run):
        start(self, command, run)
        run.holder = None

    monkeypatch.setattr(Simulation, "_start", start_unlocked)
    assert Simulation(Setting(runs=20, workers=4, commands=4)).run().doubled == 20


def test_failures_in_a_row_stop_a_call():
    assert Simulation(Setting(runs=200, workers=1, killed=0.6, seed=3)).run().breaks > 0
