"""The clock beside a terminal, what is read from the folders of runs, and the count of verdicts. No seconds are judged."""

import csv
import json
import subprocess
import sys

import equal_arms
import pytest
import stopwatch

TABLE = """
print("  arm        score")
print(" ─────────────────")
for arm in ("base", "albert", "windowed"):
    print(f" {arm}   0.9")
"""
LIVE = 'print("\\r\\x1b[Kpreparing data", end="", file=sys.stderr, flush=True)'


def watched(tmp_path, *parts):
    return stopwatch.watch([sys.executable, "-c", "\n".join(["import sys, time", *parts])], tmp_path)


@pytest.mark.long
def test_lines_on_a_terminal_have_the_seconds_until_each(tmp_path):
    found = watched(
        tmp_path, LIVE, "assert sys.stdout.isatty()", "time.sleep(0.2)", 'print("\\r\\x1b[K[1/9] base: finished in 1 s")'
    )
    (finished,) = found.until(" finished in ")
    assert found.first + 0.2 <= finished + 0.01 <= found.seconds + 0.01
    assert [line for _, line in found.lines if line] == ["preparing data", "[1/9] base: finished in 1 s"]
    assert found.until("report:") == []


@pytest.mark.long
def test_a_table_counts_once_it_has_every_arm(tmp_path):
    part = TABLE.replace('"albert", ', "")
    found = watched(
        tmp_path, part, "print()", "time.sleep(0.1)", TABLE.replace('"  arm', '"arm').replace('f" {arm}', 'f"{arm}')
    )
    assert len(found.tables(["base", "windowed"])) == 2
    (at,) = found.tables(["base", "albert", "windowed"])
    assert at >= 0.1


def test_a_command_that_fails_is_an_error_with_what_it_said(tmp_path):
    with pytest.raises(RuntimeError, match=r"ended with 3: (.|\n)*unknown key"):
        watched(tmp_path, 'print("unknown key")', "sys.exit(3)")


def a_run(output, name, started, stages, step, ended, workers=1):
    """The folder of a run with these times, in seconds."""
    folder = output / "default" / name
    folder.mkdir(parents=True)
    record = {"started": 1000 * started, "parameters": {"hardware.workers": str(workers)}, "end": {"time": 1000 * ended + 500}}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "result.json").write_text(json.dumps({"time": 1000 * ended}))
    lines = [{"time": 1000 * at, "stage": stage} for stage, at in stages.items()]
    lines.append({"time": 1000 * step, "key": "finetune/loss", "value": 0.7, "step": 1})
    (folder / "metrics.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in sorted(lines, key=lambda one: one["time"]))
    )


def a_launch(output, round_, ended, seconds):
    folder = output / "sessions" / "s" / "shape" / f"launch-{round_}"
    folder.mkdir(parents=True)
    calls = {"raw_ms": [400.0, 400.0], "reference_ms": [100.0]}
    work = {"seconds": 0.25, "reference_ms": [50.0]}
    of_task = {"seconds": seconds, "latency": calls, "training": None, "points": [], "throughput": work}
    path = folder / "counted.json"
    path.write_text(json.dumps({"bag": of_task, "order": of_task, "crc32": 1}))
    stopwatch.os.utime(path, (ended, ended))


def a_study(output, workers=1):
    """Two runs and two launches of a command that began at second 100 and took 60."""
    a_run(output, "a", 104, {"measure": 106, "finetune": 107, "evaluate": 110}, 108, 111, workers)
    a_run(output, "b", 112, {"measure": 113, "finetune": 114, "evaluate": 117}, 115, 118, workers)
    for round_, ended in enumerate((130, 140)):
        a_launch(output, round_, ended, 6)
    lines = [
        (2.5, "preparing data"),
        (3.0, "opening the trackers"),
        (3.5, "2 runs: 0 done"),
        (13.0, "[1/2] a: finished in 8 s"),
        (55.0, "report: default/report.html"),
    ]
    return stopwatch.Watched(100.0, lines, first=1.0, seconds=60.0)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_seconds_of_all_activities_are_those_of_the_command(workers, tmp_path):
    found = stopwatch.timeline(a_study(tmp_path, workers), tmp_path)
    assert sum(found.values()) == pytest.approx(60)
    assert all(seconds >= 0 for seconds in found.values())
    assert [seconds for name, seconds in found.items() if name.startswith("start: ")] == [1, 1.5, 0.5, 1]
    assert found["runs: finetune"] == pytest.approx(6 / workers)
    assert found["runs: idle workers"] == pytest.approx({1: 0.5, 2: 0.5 + 7}[workers])
    assert found["timing: timed calls"] == pytest.approx(2 * 1.5)
    assert found[stopwatch.LAUNCHES] == pytest.approx(2 * 4.5)
    assert found["after the runs, before timing"] == pytest.approx(124 - 118.5)
    assert found["end, after the report"] == pytest.approx(5)


def test_runs_at_once_share_their_seconds(tmp_path):
    a_run(tmp_path, "a", 104, {"measure": 104, "finetune": 105}, 106, 109, 2)
    a_run(tmp_path, "b", 104, {"measure": 104, "finetune": 105}, 106, 109, 2)
    found = stopwatch.timeline(stopwatch.Watched(100.0, [], 1.0, 12.0), tmp_path)
    assert sum(found.values()) == pytest.approx(12)
    assert found["runs: finetune"] == pytest.approx(4)
    assert found["runs: idle workers"] == 0


COLUMNS = ("task", "arm", "metric", "change", "verdict")


def summary(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


SCORE, MEMORY = "eval/score", "inference/peak_memory_bytes"
WALL, DEVICE = "inference/latency_ms_p50", "inference/latency_device_ms"


@pytest.mark.parametrize(("last", "is_there"), [("same", True), ("inconclusive", False), ("direction better", False)])
def test_every_score_has_a_verdict_once_each_is_decided(last, is_there, tmp_path):
    rows = [("bag", "albert", SCORE, 0.1, "better"), ("order", "albert", SCORE, 0.0, last), ("bag", "base", SCORE, "", "")]
    rows += [(task, "albert", metric, -1.5, "better") for task in ("bag", "order") for metric in (WALL, DEVICE)]
    summary(tmp_path / "reports" / "default" / "summary.csv", rows)
    study = a_study(tmp_path)
    study.lines += [(20.0, "arm  score"), (20.0, "──────────"), *((20.0, f"{arm}  0.9") for arm in stopwatch.ARMS)]
    found = stopwatch.figures(study, tmp_path)
    assert found["verdict on every score"] == (20 if is_there else None)
    assert found["verdict on every score and 8 of 10 costs"] == (20 if is_there else None)
    assert (found["scores compared"], found["scores decided"]) == (2, 1 + is_there)
    assert (found["costs compared"], found["costs decided"]) == (1, 1)  # by the clock of the device, shared by both tasks
    assert found["first run finished and on the screen"] == 13
    assert found["first table of all arms"] == found["last table of all arms"] == 20
    assert found["from the command to a worker's first step, cold"] == 8
    assert found["from a run to its first step, warm"] == 3
    assert found["a launch beside its timed calls"] == pytest.approx(4.5)


def test_the_table_has_median_and_range_of_each_side_and_says_what_never_came():
    sides = {
        "before": {"rounds": [{"end": 400.0}, {"end": 410.0}]},
        "after": {"rounds": [{"end": 90.0, "verdict": 50.0}, {"end": 94.0, "verdict": None}]},
    }
    text = stopwatch.markdown({"processor": "Some CPU", "cores": 2, "date": "2026-11-27", "command": "c", "sides": sides})
    assert "| end | 405.0 (400.0 to 410.0) | 92.0 (90.0 to 94.0) |" in text
    assert "| verdict | never | 50.0 (50.0 to 50.0, 1 without) |" in text


def test_the_demo_is_run_as_the_makefile_does(tmp_path):
    command = " ".join(stopwatch.COMMAND)
    (tmp_path / "Makefile").write_text(f"demo:\n\t$(BIN)/python {command} hardware.workers=2 seed=0\n")
    assert stopwatch.demo_overrides(tmp_path) == ["hardware.workers=2", "seed=0"]
    assert stopwatch.demo_overrides(stopwatch.ROOT) == []


def test_a_clone_is_timed_with_its_installation(tmp_path):
    """A checkout whose demo prints what a study leaves: the commit is cloned, not what lies beside it."""
    checkout = tmp_path / "checkout"
    a_study(checkout / "multirun")
    summary(checkout / "multirun" / "reports" / "default" / "summary.csv", [("bag", "albert", SCORE, 0.1, "better")])
    demo = "@mkdir .venv; touch .venv/.installed; echo '[1/9] base: finished in 4 s'; echo 'report: multirun/report.html'"
    (checkout / "Makefile").write_text(f"demo:\n\t{demo}\n")
    for words in (
        ["init", "-q"],
        ["add", "-f", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Add all"],
    ):
        subprocess.run(["git", "-C", str(checkout), *words], check=True)
    (checkout / "Makefile").write_text("demo:\n\tfalse\n")
    found = stopwatch.in_clone(checkout, tmp_path / "clone", {})
    assert found["installation"] <= found["first run finished and on the screen"] + 0.01 <= found["end of the command"] + 0.02
    assert found["scores decided"] == 1
    assert found["first table of all arms"] is None


def verdict(metric, verdict, arm="base_a", task="bag"):
    return {"task": task, "arm": arm, "metric": metric, "verdict": verdict}


def test_verdicts_of_equal_arms_are_counted_by_metric_and_family():
    one = [verdict(SCORE, "better"), verdict(SCORE, "worse", "base_b"), verdict(MEMORY, "worse", task=equal_arms.MEAN)]
    text = equal_arms.markdown([one, [verdict(SCORE, "same"), verdict(DEVICE, "same")]])
    assert f"| each task | {SCORE} | 1 | 1 | 1 | 0 | 0 | 0 | 2 | 1 |" in text
    assert f"| each task | {DEVICE} | 0 | 0 | 1 | 0 | 0 | 0 | 1 | 0 |" in text
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- memory, mean of tasks: 1 of 2",
        "- scores, each task: 1 of 2",
        "- times, each task: 0 of 2",
    ]


def test_a_repetition_that_has_ended_is_not_run_again(tmp_path):
    rows = [verdict(SCORE, "same")]
    (tmp_path / "repetition-4.json").write_text(json.dumps({"verdicts": rows}))
    assert equal_arms.repeat(tmp_path, 4, ["no_such_key=1"]) == rows  # of which the command would say that it is none


@pytest.mark.long
def test_verdicts_of_a_repetition_are_those_of_its_report_and_of_the_mean_over_its_tasks(tmp_path):
    """Two equal arms of different initial positions are different runs with a change each."""
    small = ["task=bag", "scale=tiny", "finetune.max_steps=2", "task.grammar.train_examples=60", "hardware.threads=1"]
    equal_arms.write_arms(tmp_path)
    rows = equal_arms.repeat(tmp_path, 1, [*small, "measure=none"])
    scores = {(row["task"], row["arm"]) for row in rows if row["metric"] == SCORE}
    assert scores == {(task, arm) for task in ("bag", equal_arms.MEAN) for arm in ("base_a", "base_b")}
    seeds = {json.loads(path.read_text())["parameters"]["seed"] for path in (tmp_path / "repetition-1").glob("*/*/run.json")}
    assert seeds == {"3", "4", "5"}


@pytest.mark.long
def test_a_small_command_is_measured_from_its_first_line_to_its_end(tmp_path):
    """What is read from screen and folders is what the harness writes there."""
    small = ["task=bag", "scale=tiny", "seed=0", "finetune.max_steps=2", "task.grammar.train_examples=60", "hardware.threads=1"]
    short = ["measure.rounds=1", "measure.min_rounds=1", "measure.repeats=2", "measure.retries=0"]
    found = stopwatch.in_checkout(stopwatch.ROOT, tmp_path / "output", [*small, *short], {})
    parts = {name: seconds for name, seconds in found.items() if name.startswith(stopwatch.PART)}
    assert sum(parts.values()) == pytest.approx(found["end of the command"])
    assert min(parts.values()) >= 0
    assert parts[f"{stopwatch.PART}runs: finetune"] > 0
    assert parts[f"{stopwatch.PART}timing: timed calls"] > 0
    assert found["scores compared"] == 2
    assert found["costs compared"] >= 4
    order = ("first line", "first run finished and on the screen", "first table of all arms", "last table of all arms")
    assert sorted(found[name] for name in order) == [found[name] for name in order]
