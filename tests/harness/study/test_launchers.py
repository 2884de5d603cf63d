"""Launchers of Hydra's plugins run each job of a sweep in a process of its own; together they are one sweep."""

import json

import pytest

from harness import paths
from harness.config import launched
from harness.study import plan_file
from harness.study.plan import plan

SWEEP = ("-m", "model=base,albert", "seed=1,2")
QUICK = ("finetune.max_steps=4", "measure=none", "report=false", "tracking=none")


def planned(output) -> dict[str, int]:
    """Command -> planned runs, of the study `s`."""
    plans = json.loads((output / "s" / paths.PLAN).read_text())
    return {command: len(plan["runs"]) for command, plan in plans.items() if command != "crc32"}


@pytest.mark.parametrize("launcher", ["joblib", pytest.param("submitit_local", marks=pytest.mark.slow)])
def test_every_job_runs_once_and_the_study_knows_them_as_one_command(launcher, run_harness, run_module, small, output):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.removesuffix('_local')}_launcher")
    command = (*SWEEP, f"hydra/launcher={launcher}", *small, *QUICK, "study=s", f"output={output}")
    done = run_harness(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(path.read_text()) for path in output.glob("s/*/result.json")]
    assert [one["status"] for one in results] == ["finished"] * 4
    assert list(planned(output).values()) == [4]
    status = run_module("harness", "status", "s", "--output", str(output))
    assert "s: 4 runs: 4 finished" in status.stdout
    again = run_harness(*command)
    assert again.returncode == 0
    assert len(list(output.glob("s/*/result.json"))) == 4
    assert list(planned(output).values()) == [4]


def test_a_new_sweep_of_the_same_command_replaces_the_plan(compose, small, output):
    first, second = ([item] for item in plan(compose("-m", *small, "study=s", "seed=1,2", f"output={output}")))
    for sweep, jobs, expected in (("a", (first, second), 2), ("b", (second,), 1), ("c", (first,), 1)):
        for job in jobs:
            with launched.job(["-m", "seed=1,2"], sweep):
                plan_file.write(job)
        assert planned(output) == {"python -m harness -m seed=1,2": expected}
