"""`sweep.until=resolved` as a user types it; the error rate of the rule is simulated in the tests of the reports."""

from types import SimpleNamespace

import pytest

from harness import paths, tags
from harness.config.choices import Until
from harness.study import replicates, run_folder
from harness.study.identity import Inputs


def planned(seeds: int, until: Until = Until.resolved, with_pretraining: bool = False) -> list:
    """What `parts` reads of the runs of two arms."""
    runs = []
    for arm in ("base", "new"):
        for seed in range(seeds):
            config = SimpleNamespace(sweep=SimpleNamespace(until=until), label=arm, seed=seed)
            identity = SimpleNamespace(seed=seed)
            needs = SimpleNamespace(config=config, identity=identity, needs=None, inputs=Inputs()) if with_pretraining else None
            runs += [needs] if needs else []
            runs.append(SimpleNamespace(config=config, identity=identity, needs=needs, inputs=Inputs(data="a")))
    return runs


@pytest.mark.parametrize("with_pretraining", [False, True])
def test_each_look_adds_its_seeds_of_all_arms_and_what_they_need(with_pretraining):
    runs = planned(8, with_pretraining=with_pretraining)
    parts = replicates.parts(runs)
    each = 2 if with_pretraining else 1
    assert {seeds: len(part) for seeds, part in parts.items()} == {3: 6 * each, 5: 4 * each, 8: 6 * each}
    assert sorted(id(run) for part in parts.values() for run in part) == sorted(map(id, runs))
    assert {run.identity.seed for run in parts[5]} == {3, 4}


def test_a_sweep_of_given_seeds_has_one_part():
    runs = planned(2, Until.seeds)
    assert replicates.parts(runs) == {2: runs}


@pytest.fixture
def sweep(small, output) -> list[str]:
    shared = ["finetune.max_steps=2", "measure=none", "model=base,albert", "sweep.until=resolved", "sweep.most_seeds=5"]
    return ["-m", *small, *shared, "study=s", f"output={output}"]


@pytest.mark.long
def test_seeds_are_added_until_resolved_and_the_same_command_decides_the_same(run_harness, sweep, output):
    done = run_harness(*sweep, "tracking=none")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("After ")]
    assert [line.split(":")[0] for line in said] == ["After 3 seeds", "After 5 seeds"]
    assert "interim analyses after 3, 5 seeds, at a joint level of 5 %" in done.stdout
    assert "Inconclusive after 5 seeds: albert; a larger sweep.most_seeds continues" in done.stderr + done.stdout
    records = [run_folder.read(path.parent) for path in output.glob("s/*/run.json")]
    assert [record["tags"][tags.SEED_LOOKS] for record in records] == ["2"] * 10
    assert run_harness("status", "s", f"output={output}").returncode == 0
    again = run_harness(*sweep, "tracking=none")
    assert [line for line in again.stdout.splitlines() if line.startswith("After ")] == said
    assert ": started" not in again.stdout


@pytest.mark.long
def test_a_look_that_does_not_fit_the_budget_is_left_out(run_harness, sweep, output):
    short = run_harness(*sweep, "tracking=none", "sweep.budget_minutes=0.001")
    assert short.returncode == 0, short.stderr
    assert short.stdout.count(": finished in") == 6
    assert "a larger budget continues" in short.stdout
    assert run_harness("status", "s", f"output={output}").returncode == 0  # what was left out is not missing


@pytest.mark.long
def test_runs_of_an_earlier_command_are_marked_and_the_report_corrects_for_the_looks(run_harness, sweep, output):
    plain = [word for word in sweep if not word.startswith("sweep.")]
    first = run_harness(*plain, "seed=0,1")
    assert "only 2 seeds; verdicts need 3" in first.stdout
    assert run_harness(*sweep, "report=true").returncode == 0
    assert "in at most 2 interim analyses" in (paths.report_folder(str(output), "s") / "report.md").read_text()
