"""After a sweep its report is written and kept by the study's run; whatever goes wrong there, the sweep has its results."""

import functools
import re
import shlex
import sys
import threading
from pathlib import Path

import psutil
import pytest
from child_processes import wait_for, workers

from harness import paths, tags
from harness.plugins.trackers.mlflow_store import MlflowClient
from harness.reports.report import default_out
from harness.study import tracked_study
from harness.tracking import run_log


@pytest.fixture
def sweep_of(small, output):
    """Command line of a sweep over seeds that writes its report."""
    kept = [one for one in small if not one.startswith("report=")]
    return ["-m", *kept, "finetune.max_steps=2", "measure=none", "study=s", f"output={output}"]


def study_of(output: Path):
    client = MlflowClient(f"sqlite:///{output / 'mlflow.db'}")
    (study,) = client.search_runs([client.get_experiment_by_name("s").experiment_id], "tags.harness.role = 'study'")
    return study


@pytest.mark.long
def test_report_of_a_sweep_is_written_and_kept_and_the_table_is_named(run_harness, sweep_of, output):
    """By a command with nothing left to run too."""
    report = output / "reports" / "s" / "report.md"
    first = run_harness(*sweep_of, "seed=1,2", "report=false")
    assert (first.returncode, report.exists()) == (0, False)
    done = run_harness(*sweep_of, "seed=1,2")
    assert (done.returncode, done.stderr, ": started" in done.stdout) == (0, "", False), done.stderr
    said, table = done.stdout.splitlines()[-2:]
    assert said == f"Report: {Path('out', 'reports', 's', 'report.html')}"
    start = f"MLflow: python -m harness ui output={output}, then "
    assert table.startswith(f"{start}http://127.0.0.1:5000/#/experiments/1/runs?")
    study = study_of(output)
    tracked = Path(study.info.artifact_uri.removeprefix("file://"), "report")
    assert (tracked / "report.md").read_bytes() == report.read_bytes()
    assert {path.name for path in tracked.iterdir()} == {path.name for path in report.parent.iterdir()}
    assert "2 seeds" in report.read_text()
    note = study.data.tags["mlflow.note.content"]
    answer = report.read_text().split("\n\n")[1].replace("**", "")  # MLflow's list of experiments shows them as they are
    assert note.startswith(f"{answer} [Full report](#")
    assert note.count(answer) == 1
    assert f"#/experiments/1/runs/{study.info.run_id}/artifacts/report/report." in note

    before = report.stat().st_mtime_ns
    again = run_harness(*sweep_of, "seed=1,2")
    assert again.returncode == 0
    assert again.stdout.splitlines()[-2].startswith("Report (unchanged): ")
    assert report.stat().st_mtime_ns == before
    assert study_of(output).data.tags["mlflow.note.content"] == note

    assert run_harness(*sweep_of, "seed=3,4", "report=false").returncode == 0  # of another command, without a report
    assert run_harness(*sweep_of, "seed=1,2").stdout.splitlines()[-2].startswith("Report: ")
    assert "4 seeds" in report.read_text()


@pytest.mark.long
def test_tables_are_shown_after_the_first_seed_and_before_timing(run_harness, sweep_of, output):
    """The last one is that of the report; FLOP/s of the fastest matrix product are measured by the first run alone."""
    command = [one for one in sweep_of if one != "measure=none"]
    done = run_harness(*command, "model=base,static", "seed=0,1")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("arm ")]
    (early,) = (number for number, line in enumerate(lines) if line == "First results (seed 0, 2 of 4 runs):")
    (timing,) = (number for number, line in enumerate(lines) if line.startswith("Timing 2 models"))
    before, after = [number for number in heads if early < number < timing], [number for number in heads if number > timing]
    assert len(before) >= 2
    assert after
    assert not any("latency" in line for line in lines[:timing])
    assert any("latency" in line for line in lines[timing:])
    assert any("†" in line for line in lines[early:timing])  # trainings of two steps have warnings
    assert any("†" in line for line in lines[timing:])
    results = [run_log.result(path.parent)["metrics"] for path in output.glob("s/*/result.json")]
    assert len({found[tags.PEAK] for found in results if tags.PEAK in found}) == 1

    again = run_harness(*command, "model=base,static", "seed=0,1")
    assert "First results" not in again.stdout
    assert sum(line.startswith("arm ") for line in again.stdout.splitlines()) == len(after)


@pytest.mark.long
def test_every_command_of_the_report_plans_exactly_the_finished_runs(run_harness, sweep_of, output, tmp_path):
    """An own task and other settings among them: typed again, each finds all of its runs done."""
    for name, count in (("train", 40), ("validation", 12)):
        rows = "".join(f"a {'good' if number % 2 else 'bad'} one {number},{number % 2}\n" for number in range(count))
        (tmp_path / f"{name} rows.csv").write_text("text,y\n" + rows)
    own = [one for one in sweep_of if not one.startswith("task")]
    own += ["task=own", "task.name=reviews", "task.train_file=train rows.csv", "task.validation_file=validation rows.csv"]
    own += ["task.fields=[text]", "task.label=y", "task.labels=['0','1']"]
    ran = [run_harness(*sweep_of, "seed=1,2"), run_harness(*own, "seed=1", "finetune.learning_rate=1e-3,1e-4")]
    assert [one.returncode for one in ran] == [0, 0], [one.stderr for one in ran]
    text = (output / "reports" / "s" / "report.md").read_text()
    printed = [shlex.split(found) for found in re.findall(r"`(python -m harness [^`]*)` \|$", text, re.MULTILINE)]
    assert len(printed) == 2
    before = sorted(output.glob("s/*/run.json"))
    for words in printed:
        again = run_harness(*words[3:])
        assert again.returncode == 0, again.stderr
        assert re.search(r"^(\d+) runs, \1 already finished", again.stdout, re.MULTILINE), again.stdout
    assert sorted(output.glob("s/*/run.json")) == before


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process does not learn that its parent has ended")
def test_a_command_killed_while_it_writes_the_report_leaves_no_process_and_the_next_one_writes_it(
    start_harness, run_harness, sweep_of, output
):
    command = start_harness(*sweep_of, "seed=1,2")
    find = functools.partial(workers, command.pid, "harness.reports.after_sweep")
    (writer,) = wait_for(find, command)
    command.kill()
    command.wait()
    wait_for(lambda: not writer.is_running() or writer.status() == psutil.STATUS_ZOMBIE)
    assert not (output / "reports" / "s" / "report.md").exists()
    done = run_harness(*sweep_of, "seed=1,2")
    assert (done.returncode, ": started" in done.stdout) == (0, False)
    assert (output / "reports" / "s" / "report.md").exists()
    assert study_of(output).info.status == "FINISHED"


@pytest.mark.long
def test_one_arm_has_a_report_of_what_was_measured_and_without_base_the_first_of_the_command_is_the_baseline(
    run_harness, sweep_of, output
):
    others = [one for one in sweep_of if not one.startswith("model=")]
    texts = []
    for arms in (["model=albert", "seed=1,2"], ["model=gpt,albert"], ["model=gpt", "enhancement=[swiglu]", "seed=1,2"]):
        done = run_harness(*others, *arms)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        texts.append((output / "reports" / "s" / "report.md").read_text())
    assert all(words in texts[0] for words in ("**albert** on", "2 seeds"))
    assert "before and after" not in texts[0]
    assert "albert against **gpt**" in texts[1]
    assert "against **gpt**" in texts[2]  # though this command runs the changed model alone


@pytest.mark.long
def test_no_report_where_it_is_off_or_there_is_no_sweep_or_no_store(run_harness, sweep_of, output):
    for off in (["seed=1,2", "report=false"], ["seed=1"], ["seed=1,2", "tracking=none"]):
        done = run_harness(*sweep_of, *off)
        assert done.returncode == 0, done.stderr
        assert "report:" not in done.stdout
        assert "unreachable" not in done.stdout
        assert not (output / "reports").exists()


@pytest.mark.long
def test_report_that_fails_is_one_line(run_harness, sweep_of, output):
    (output / "reports").write_text("a file in place of the folder")
    done = run_harness(*sweep_of, "seed=1,2")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (line for line in done.stdout.splitlines() if line.lower().startswith("no report"))
    assert "python -m reports: to=" in line
    assert study_of(output).info.status == "FINISHED"


def test_report_that_takes_too_long_is_ended(small_config, monkeypatch, capsys):
    monkeypatch.setattr(tracked_study, "LONGEST_REPORT_S", 0.01)
    assert tracked_study.write_report(small_config, ["base"]) is None
    assert capsys.readouterr().out == "no report: python -m reports took longer than 0 s\n"


@pytest.mark.parametrize("study", ["default", "a b/c", "..", ".hidden", "ü%"])
def test_folder_is_that_of_a_report_by_hand(study, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert paths.report_folder("multirun", study) == default_out(study).absolute()


def test_studies_with_similar_names_have_folders_of_their_own():
    assert len({paths.report_folder("multirun", study) for study in ("a b", "a_b", "a%b", "_a", ".a")}) == 5


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    (tmp_path / "interrupted.py").write_text("def main():\n    raise KeyboardInterrupt\nmain()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_an_interrupt_while_the_first_table_is_made_says_nothing(interrupted, monkeypatch, capsys):
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    thread = threading.Thread(target=tracked_study.asked_of_reports, args=["interrupted", {}])
    thread.start()
    thread.join()
    assert capsys.readouterr().err == ""


def test_an_interrupt_of_the_report_alone_interrupts_the_command(small_config, interrupted, monkeypatch, capsys):
    monkeypatch.setattr(tracked_study, "REPORTER", "interrupted")
    with pytest.raises(KeyboardInterrupt):
        tracked_study.write_report(small_config, ["base"])
    assert "no report" not in capsys.readouterr().out
