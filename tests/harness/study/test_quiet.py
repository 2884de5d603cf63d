"""A quiet sweep: problems and where the results are, nothing else; the log of its study has every line."""

import pytest

from harness.config.command_line import QUIET_KEY, read
from harness.plugins.shared import status
from harness.terminal import console

SHORT = ("finetune.max_steps=2", "measure=none", "study=q")


@pytest.mark.parametrize("option", ["-q", "--quiet"])
@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_the_option_may_stand_anywhere(option, place):
    typed = ["-m", "model=base,albert", "--config-dir", "mine", "seed=1"]
    typed.insert(place if place < 3 else 4, option)
    found = read(typed).words
    assert found[:3] == ["-m", "--config-dir", "mine"]
    assert sorted(found[3:]) == ["model=base,albert", "seed=1", QUIET_KEY]


@pytest.mark.long
def test_a_sweep_shows_problems_and_where_its_results_are(run_harness, small, output):
    swept = ("finetune.learning_rate=3e-4,10", "seed=0", "finetune.max_steps=5")
    done = run_harness("-m", *small, "-q", *SHORT, *swept, f"output={output}")
    assert (done.returncode, done.stderr) == (1, "")
    *warned, summary, results = done.stdout.splitlines()
    (problem,) = [line for line in warned if ": diverged: training loss ended at " in line]
    assert summary == f"1 of 2 runs did not finish: 1 diverged; why: python -m harness status q output={output}"
    assert results == "results: out/q (what happened: out/q/sweep.log)"
    log = (output / "q" / console.LOG).read_text()
    assert "2 runs, 0 already finished\n" in log
    assert log.count(": started\n") == 2
    assert log.count(": finished in ") == 1
    assert problem in log
    assert QUIET_KEY not in status.of_study(str(output), "q")[0].command
    assert not console.is_quiet()


@pytest.mark.long
def test_a_finished_sweep_says_where_its_results_are(sweep, run_harness):
    done = run_harness("--quiet", *sweep.arguments)
    assert (done.returncode, done.stderr) == (0, "")
    (results,) = done.stdout.splitlines()
    assert results.startswith("results: ")
