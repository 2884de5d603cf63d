"""A simulated sweep: nothing is lost or doubled whatever is killed, and its figures are those that can be counted by hand."""

from dataclasses import replace

import pytest
from simulated_sweep import Setting, Simulation

from harness.study.schedule import Order

CALM = {"spread": 0.0, "look_ms": 0.0}


def test_equal_runs_that_divide_evenly_take_the_least_time():
    outcome = Simulation(Setting(runs=40, workers=10, minutes=2.0, **CALM)).run()
    assert outcome.makespan_s == outcome.bound_s == pytest.approx(480)
    assert (outcome.finished, outcome.calls, outcome.looks, outcome.wasted_s) == (40, 1, 40, 0)


def test_the_command_looks_at_one_run_after_the_other():
    setting = Setting(runs=100, workers=100, minutes=1.0, spread=0.0, look_ms=1000.0)
    assert Simulation(setting).run().makespan_s == pytest.approx(100 + 60)


def test_runs_wait_for_their_pretraining():
    setting = Setting(runs=11, workers=11, minutes=1.0, pretrainings=1, **CALM)
    outcome = Simulation(setting).run()
    assert outcome.makespan_s == outcome.bound_s == pytest.approx(120)


@pytest.mark.parametrize("commands", [1, 7])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_killed_nothing_is_lost_or_doubled(commands, seed):
    setting = Setting(
        runs=600,
        workers=21,
        commands=commands,
        pretrainings=9,
        failing=0.02,
        killed=0.05,
        crash_hours=0.5,
        seed=seed,
    )
    outcome = Simulation(setting).run()
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.finished + outcome.failing == 600
    assert outcome.crashes > 0
    assert outcome.killed > 0
    assert outcome.calls > commands
    assert outcome.wasted_s > 0
    assert outcome.makespan_s > outcome.bound_s


def test_runs_that_are_killed_are_run_again_at_once():
    setting = Setting(runs=300, workers=10, killed=0.2, seed=1)
    once, again = Simulation(setting).run(), Simulation(replace(setting, retries=9)).run()
    assert once.calls > 1
    assert (again.calls, again.finished, again.lost, again.doubled, again.looks) == (1, 300, 0, 0, 300)
    assert again.killed > 0
    assert again.wasted_s > 0
    assert again.makespan_s < once.makespan_s


def test_commands_at_once_take_each_run_once():
    setting = Setting(runs=400, workers=20, commands=4, minutes=5.0, look_ms=1.0)
    outcome = Simulation(setting).run()
    assert (outcome.finished, outcome.doubled, outcome.calls) == (400, 0, 4)
    assert outcome.makespan_s < 1.25 * outcome.bound_s
    assert outcome.looks >= 4 * 400


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
