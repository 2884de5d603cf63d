"""`python -m harness status`: the state of every planned run from the files of its folder, without composing anything."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from small_disk import mounted

from harness import paths, records
from harness.plugins.shared import status
from harness.study import plan_file
from harness.study.plan import plan

SMALL = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40"]


@pytest.fixture
def planned(compose, output, monkeypatch):
    """Runs of a command, planned and kept in the study's file, not run."""

    def of(*arguments: str) -> list:
        found = plan(compose("-m", *SMALL, "study=s", *arguments, f"output={output}"))
        monkeypatch.setattr(sys, "argv", ["harness", "-m", *arguments])
        plan_file.write(found)
        return found

    return of


def laid_out(item, end: dict | None = None, status: str | None = None, session: bool = False) -> None:
    """The folder of a run that ended so."""
    item.folder.mkdir(parents=True, exist_ok=True)
    record = {"tags": {"session": "x"} if session else {}} | ({"end": end} if end else {})
    records.write(item.folder / "run.json", record)
    if status:
        records.write(item.folder / "result.json", {"status": status, "metrics": {}})


@pytest.mark.long
def test_every_state_is_named_with_its_reason_and_the_command_that_completes_it(planned, run_harness, output):
    items = planned("seed=1,2,3,4,5,6")
    laid_out(items[0], status="finished", session=True)
    laid_out(items[1], status="finished")
    laid_out(items[2], {"state": "out_of_memory", "reason": "MemoryError"})
    (items[2].folder / "log.txt").touch()
    laid_out(items[3], {"state": "diverged", "reason": "the loss of step 3 is nan"}, "diverged")
    laid_out(items[4])
    done = run_harness("status", "s", f"output={output}")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    counts = "2 finished, 1 out of memory, 1 diverged, 1 killed, 1 not started; 1 finished but not timed"
    assert lines[0] == f"s: 6 runs: {counts}"
    log = os.path.relpath(items[2].folder / "log.txt")
    shown = [" ".join(line.split()) for line in lines]
    expected = [
        (items[1], "not timed"),
        (items[2], f"out of memory MemoryError (see {log})"),
        (items[3], "diverged the loss of step 3 is nan"),
        (items[4], "killed its command was killed, or the machine restarted"),
        (items[5], "not started"),
    ]
    text = " ".join(" ".join(shown).split())
    for item, state in expected:
        assert f"{item.title} {state}" in text
    assert items[0].title not in text
    command = lines[lines.index("To complete it:") + 1].strip()
    assert command.endswith(shlex.join(["python", "-m", "harness", "-m", "seed=1,2,3,4,5,6", f"output={output}"]))
    assert "rerun=true" in lines[-1]


@pytest.mark.long
def test_advice_that_several_runs_share_is_given_once(planned, run_harness, output):
    for item, loss in zip(planned("seed=1,2,3"), (510, 502, 277), strict=True):
        reason = f"training loss ended at {loss}, above 0.69, where it began: lower finetune.learning_rate (10)"
        laid_out(item, {"state": "diverged", "reason": reason}, "diverged")
    text = " ".join(run_harness("status", "s", f"output={output}").stdout.split())
    assert text.count("lower finetune.learning_rate (10)") == 1
    assert all(f"training loss ended at {loss}, above 0.69, where it began" in text for loss in (510, 502, 277))


@pytest.mark.long
def test_a_run_whose_files_are_corrupt_is_one_of_the_missing(planned, run_harness, output):
    whole, corrupt, without = planned("seed=1,2,3")
    for item in (whole, corrupt, without):
        laid_out(item, status="finished", session=True)
    (corrupt.folder / "run.json").write_text("{")
    (without.folder / "result.json").write_text("{")
    done = run_harness("status", "s", f"output={output}")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == "s: 3 runs: 2 corrupt, 1 finished"
    assert "python -m harness -m seed=1,2,3" in done.stdout


@pytest.mark.long
def test_a_corrupt_plan_is_kept_aside_by_the_next_command(planned, run_harness, output, capsys):
    planned("seed=1,2")
    (output / "s" / paths.PLAN).write_text("{")
    done = run_harness("status", "s", f"output={output}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "the next command of study 's' sets it aside" in done.stderr
    planned("seed=3")
    assert f"{paths.PLAN} is kept as {paths.PLAN}.corrupt" in capsys.readouterr().out
    assert run_harness("status", "s", f"output={output}").stdout.startswith("s: 1 run: 1 not started\n")


def test_a_complete_study_is_said_to_be(planned, run_harness, output):
    for item in planned("seed=1,2"):
        laid_out(item, status="finished", session=True)
    done = run_harness("status", f"output={output}")
    assert done.returncode == 0
    place = shlex.quote(f"output={output}")
    assert done.stdout == f"s: 2 runs: 2 finished\nComplete. Report: python -m reports study=s {place}\n"


@pytest.mark.parametrize(
    ("output", "typed", "shown"),
    [
        ("multirun", [], ""),
        ("there", [], " output=there"),
        ("there", ["output=there"], " output=there"),
        ("there", ["output='there'"], " 'output='\"'\"'there'\"'\"''"),
        ("there", ["output=moved"], " output=there"),
        ("multirun", ["output=moved"], " output=multirun"),
    ],
)
def test_a_command_repeats_the_runs_of_this_folder(tmp_path, monkeypatch, output, typed, shown):
    monkeypatch.chdir(tmp_path)
    command = shlex.join(["python", "-m", "harness", *typed, "seed=1"])
    text, _ = status.rebuilt(command, output, str(tmp_path))
    assert sorted(shlex.split(text)) == sorted(shlex.split(f"python -m harness seed=1{shown}"))
    elsewhere, _ = status.rebuilt(command, output, "/elsewhere")
    assert f"output={tmp_path / output}" in shlex.split(elsewhere)


def test_several_commands_have_one_heading_and_one_table(planned, run_harness, output):
    for item, notes in zip(planned("seed=1,2"), ([{"kind": "falling", "text": "loss still fell"}], []), strict=True):
        laid_out(item, status="finished", session=True)
        records.write(item.folder / "result.json", {"status": "finished", "metrics": {}, "notes": notes})
    planned("seed=2,1")
    done = run_harness("status", f"output={output}")
    heading, *rest = done.stdout.splitlines()
    assert (done.returncode, heading) == (0, "s: 2 of 2 runs complete, 1 with a warning, from 2 commands")
    assert (done.stdout.count("still fell"), rest[-1].startswith("Complete. Report: "), done.stdout.count("Complete.")) == (
        1,
        1,
        1,
    )
    planned("seed=2,3")
    done = run_harness("status", f"output={output}")
    assert done.stdout.splitlines()[0] == "s: 2 of 3 runs complete, 1 missing, 1 with a warning, from 3 commands"
    assert done.stdout.count("s: ") == done.stdout.count("not started") == 1
    assert "\n\n1 of 2 runs missing.\nTo complete it:\n" in done.stdout
    assert "Complete." not in done.stdout


def test_warnings_that_differ_in_numbers_alone_are_one_line_with_those_of_the_first_seed(planned, run_harness, output):
    texts = ("loss still fell to 0.5: raise finetune.epochs", "loss still fell to 0.25: raise finetune.epochs", "one answer")
    for item, text in zip(planned("seed=1,2,3"), texts, strict=True):
        laid_out(item, status="finished", session=True)
        notes = [{"kind": "falling", "text": text}]
        records.write(item.folder / "result.json", {"status": "finished", "metrics": {}, "notes": notes})
    text = " ".join(run_harness("status", f"output={output}").stdout.split())
    assert "seeds 1, 2 finished loss still fell to 0.5: raise finetune.epochs (seed 1; the others alike)" in text
    assert "seed 3 finished one answer" in text
    assert "0.25" not in text


@pytest.mark.long
def test_a_run_whose_result_was_removed_has_not_finished(planned, run_harness, output):
    """The same command runs it again."""
    (item,) = planned("seed=1")
    laid_out(item, {"state": "finished", "reason": ""}, "finished")
    (item.folder / "result.json").unlink()
    done = run_harness("status", "s", f"output={output}")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "s: 1 run: 1 corrupt")
    assert " ".join(done.stdout.splitlines()[2].split()).endswith("corrupt result.json is missing")


def test_a_study_on_a_disk_that_can_only_be_read_has_a_status(planned, run_harness, output):
    (item,) = planned("seed=1")
    with mounted(output.parent / "disk", 4_000_000) as disk:
        laid_out(item)
        (item.folder / paths.LOCK).touch()
        shutil.copytree(output / "s", disk / "s")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = run_harness("status", "s", f"output={disk}")
    assert (done.returncode, done.stderr, done.stdout.splitlines()[0]) == (1, "", "s: 1 run: 1 killed")


@pytest.mark.long
def test_a_search_that_was_killed_between_its_trials_is_not_complete(planned, run_harness, output):
    command, where = "python -m harness -m measure=none", f" {shlex.quote(f'output={output}')}"
    for item in planned("measure=none"):
        laid_out(item, status="finished")
    folder, trials = paths.study_folder(str(output), "s"), paths.study_folder(str(output), "s" + paths.OF_TRIALS)
    plans = records.read(folder / paths.PLAN, dict[str, Any])
    trials.mkdir()
    records.write(trials / paths.PLAN, {command: plans[command] | {"search": True}})
    ended = run_harness("status", "s-search", f"output={output}")
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (
        0,
        f"Complete. Report: python -m reports study=s{where}",
    )
    (folder / paths.PLAN).unlink()  # which the command writes when its last trial has ended
    done = run_harness("status", "s-search", f"output={output}")
    said = [
        "s-search: 1 run: 1 finished",
        "search unfinished: more trials follow",
        "",
        "To complete it:",
        f"  {command}{where}",
    ]
    assert (done.returncode, done.stdout.splitlines()) == (1, said)
    (output / "other").mkdir()
    records.write(output / "other" / paths.PLAN, plans)
    both = run_harness("status", f"output={output}")
    assert both.stdout.splitlines()[1] == "s-search: 1 of 1 run complete, search unfinished"


@pytest.mark.long
def test_a_running_one_says_where_it_is(planned, run_harness, output):
    (item,) = planned()
    laid_out(item)
    entries = [{"stage": "finetune", "steps": 40}, {"key": "finetune/loss", "step": 12, "value": 1.0}, {"key": "x", "step": 99}]
    (item.folder / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"torn')
    with FileLock(item.folder / paths.WORKER_LOCK):
        done = run_harness("status", "s", f"output={output}")
    assert "running         finetune step 12 of 40" in done.stdout


@pytest.mark.long
def test_a_run_whose_pretraining_is_missing_says_so(planned, run_harness, output):
    pretraining, run = planned("pretrain=mlm", "pretrain.tokens=1e4", "corpus.documents=50")
    laid_out(pretraining, {"state": "failed", "reason": "KeyError: 'x'"})
    text = " ".join(run_harness("status", "s", f"output={output}").stdout.split())
    assert f"{run.title} not started it needs the pretraining {pretraining.folder.name}" in text


@pytest.mark.long
def test_the_same_command_replaces_its_plan_and_another_one_adds_its_own(planned, run_harness, output):
    planned("seed=1,2")
    planned("seed=1,2", "rerun=True")
    done = run_harness("status", "s", f"output={output}")
    assert done.stdout.count("To complete it:") == 1
    assert "rerun" not in done.stdout
    planned("seed=3")
    done = run_harness("status", "s", f"output={output}")
    assert done.stdout.count("To complete it:") == 2


def test_several_studies_are_a_line_each(planned, run_harness, output):
    planned("seed=1,2")
    shutil.copytree(output / "s", output / "t")
    done = run_harness("status", f"output={output}")
    assert done.stdout.splitlines()[:2] == [f"{name}: 0 of 2 runs complete, 2 missing" for name in "st"]
    assert f"status STUDY {shlex.quote(f'output={output}')} lists warnings" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x"], "unknown study 'x'; choices for `STUDY`: s"),
        (["output=nowhere"], "output='nowhere' is not a folder: expected the folder of the runs"),
        (["output=."], "output='.' has no studies: start one, such as python -m harness -m model=base,static task=order"),
    ],
    ids=["study", "folder", "no_study"],
)
def test_a_wrong_name_is_one_line(planned, run_harness, output, arguments, said):
    planned()
    done = run_harness("status", f"output={output}", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"harness status: {said}\n")


@pytest.mark.long
def test_it_loads_neither_torch_nor_mlflow():
    """The state of a sweep is looked up while it runs, on the CPUs that it uses."""
    code = "import sys; from harness.plugins.upkeep import status; print({'torch', 'mlflow', 'hydra'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout == "set()\n"
