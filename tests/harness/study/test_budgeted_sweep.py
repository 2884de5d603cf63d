"""A real sweep within a budget of time."""

import pytest


@pytest.mark.long
def test_what_does_not_fit_is_named_and_a_larger_budget_runs_it(run_harness, tmp_path, small):
    shared = [*small, "finetune.max_steps=2", "measure=none", "tracking=none", f"output={tmp_path / 'out'}", "study=s"]
    sweep = ["-m", *shared, "model=base,albert", "seed=1,2"]
    short = run_harness(*sweep, "sweep.budget_minutes=0.001")
    assert short.returncode == 0, short.stderr
    assert short.stdout.count(": finished in") == 2
    assert (
        "2 runs of 4 did not run: base on bag, albert on bag, seed 2; a larger sweep.budget_minutes continues" in short.stdout
    )
    status = run_harness("status", "s", f"output={tmp_path / 'out'}")
    assert (status.returncode, status.stdout.count("not started")) == (1, 3)  # in short, and a line each
    assert "a larger sweep.budget_minutes adds them" in status.stdout
    longer = run_harness(*sweep, "sweep.budget_minutes=60")
    assert (longer.stdout.count(": finished in"), longer.stdout.count("skipped")) == (2, 2)
    assert "did not run" not in longer.stdout
