"""Life and death of runs: skipped, run again, killed, ended, run side by side, and without a tracking store."""

import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from child_processes import PATIENCE_S, wait_for, workers

from harness import paths, tags
from harness.tracking import run_log

ENDLESS = ["finetune.epochs=1000000", "finetune.max_steps=1000000", "measure=none"]
SHORT = ["finetune.max_steps=2", "measure=none"]


def is_training(output: Path) -> bool:
    return any('"key"' in path.read_text() for path in paths.matching(output, "*/*/metrics.jsonl"))


def losses(folder: Path) -> list[float]:
    return [entry["value"] for entry in run_log.Reader(folder).new_entries() if entry.get("key") == "finetune/loss"]


@pytest.mark.long
def test_identical_command_skips_every_run_and_makes_none(sweep, run_harness, runs_of):
    before = [run.info.run_id for run in runs_of(sweep.output, "sweep")]
    done = run_harness(*sweep.arguments)
    assert (done.returncode, done.stderr) == (0, "")
    *first, _, _ = lines = done.stdout.splitlines()
    assert first == ["2 runs, 2 already finished", "only 1 seed; verdicts need 3 (seeds of earlier commands count)"]
    assert [line.split(": ", 1)[1] for line in lines[2:]] == ["finished already, skipped (rerun=true runs it again)"] * 2
    assert [run.info.run_id for run in runs_of(sweep.output, "sweep")] == before


def test_all_that_a_sweep_leaves_has_the_permissions_that_the_umask_gives(sweep):
    os.umask(umask := os.umask(0))
    modes = {path: path.stat().st_mode & 0o777 for path in paths.below(sweep.output)}
    assert modes == {path: (0o777 if path.is_dir() else 0o666) & ~umask for path in modes}


def test_plain_lines_tell_of_every_run(sweep):
    lines = sweep.text.splitlines()
    started = [line.split(" ", 1) for line in lines if line.endswith("started")]
    assert [number for number, _ in started] == ["[1/2]", "[2/2]"]
    assert sorted(line for _, line in started) == [f"{model}, tiny, bag, seed 1: started" for model in ("base", "enhanced")]
    assert lines[0] == "Sweeps keep no checkpoints (finetune.keep=last does)"
    finished = [place for place, line in enumerate(lines) if ": finished in " in line and ", score 0." in line]
    (timing,) = (place for place, line in enumerate(lines) if line.startswith("Timing 2 models and 1 A/A replicate, up to 2"))
    assert len(finished) == 2
    assert timing > max(finished)
    (ended,) = (line for line in lines[timing + 1 :] if line.startswith("Timed 2 rounds in "))
    assert ". Noise floor: latency " in ended
    of_noise = ("No verdict on ", "To decide ", "The rest need ")
    assert [line for line in lines[lines.index(ended) + 1 :] if not line.startswith(of_noise)] == []  # on a busy machine
    assert "\r" not in sweep.text


@pytest.mark.long
def test_a_single_run_that_was_timed_ends_with_its_table(run_harness, small, output):
    done = run_harness(*small, "finetune.max_steps=2", "measure.rounds=2", "report=true", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout[done.stdout.index("\nTimed 2 rounds") : done.stdout.index("\nResults: ")]
    assert re.search(r"^arm .*  latency, ms ↓", table, re.M)
    assert re.search(r"^base +\d", table, re.M)
    assert "▲" not in table


@pytest.mark.long
def test_worker_that_dies_fails_its_run_and_no_other(run_harness, small, output, runs_of):
    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(lambda: wait_for(lambda: workers(os.getpid()))[0].kill())
        done = run_harness("-m", *small, *SHORT, "study=s", "seed=1,2", f"output={output}")
        killed.result()
    assert done.returncode == 1, done.stdout + done.stderr
    runs = {run.data.tags["seed"]: (run.info.status, run.data.tags["status"]) for run in runs_of(output, "s")}
    assert runs == {"1": ("KILLED", "killed"), "2": ("FINISHED", "finished")}
    assert "seed 1: killed: ended by SIGKILL (exit code -9); its log ends with: " in done.stdout
    assert "log.txt" in done.stdout
    why = f"python -m harness status s output={output}"
    assert done.stdout.splitlines()[-1] == f"1 of 2 runs did not finish: 1 killed; why: {why}"
    assert done.stderr == ""


@pytest.mark.long
def test_worker_that_stands_still_is_ended_and_the_next_run_goes_on(start_harness, small, output, runs_of):
    """A stopped process ignores the polite signal, too."""
    some_seconds = ["finetune.epochs=100", "finetune.max_steps=400"]
    sweep = ["study=s", "seed=1,2", f"output={output}", "sweep.silent_minutes=0.1"]
    process = start_harness("-m", *small, *SHORT, *some_seconds, *sweep)
    wait_for(lambda: is_training(output), process)
    (worker,) = workers(process.pid)
    worker.suspend()
    out, err = process.communicate()
    assert process.returncode == 1, out + err
    assert "seed 1: timeout: no progress for 0.1 min (sweep.silent_minutes) (see out/s/base-" in out
    runs = {run.data.tags["seed"]: run for run in runs_of(output, "s")}
    assert {seed: (run.info.status, run.data.tags["status"]) for seed, run in runs.items()} == {
        "1": ("FAILED", "timeout"),
        "2": ("FINISHED", "finished"),
    }
    assert runs["1"].data.tags["reason"] == "no progress for 0.1 min (sweep.silent_minutes)"
    assert "no progress for 0.1 min" in runs["1"].data.tags["mlflow.note.content"]
    ends = {
        folder.name.rsplit("-", 2)[1]: json.loads((folder / "run.json").read_text())["end"] for folder in output.glob("s/*-*")
    }
    assert {seed: (end["state"], end["reason"]) for seed, end in ends.items()} == {
        "1": ("timeout", "no progress for 0.1 min (sweep.silent_minutes)"),
        "2": ("finished", ""),
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["hardware=gpu"], "hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu"),
        (["-m", "hardware=cpu,gpu"], "hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu"),
        (["hardware.devices=512", "finetune.batch_size=512"], "hardware.devices=512 processes share "),
    ],
)
def test_a_device_that_is_not_there_ends_the_command_before_anything_is_planned(typed, said, tell, small, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    told = tell(*small, *typed)
    (line,) = told.err.splitlines()
    assert (told.code, told.left) == (2, [])
    assert line.startswith(f"harness: {said}")


@pytest.mark.long
def test_a_plan_for_a_device_that_is_not_there_says_that_it_is_for_another_machine(run_harness, small, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    done = run_harness("plan", *small, "hardware=gpu")
    assert done.returncode == 0
    assert "For another machine: hardware.device=cuda, but torch sees no CUDA device" in " ".join(done.stdout.split())
    assert run_harness("plan", *small, "hardware=gpu", "--probe").returncode == 2


def is_told_to_end(worker: psutil.Process) -> bool:
    """Whether SIGTERM waits for it."""
    (pending,) = (line for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) & 1 << (signal.SIGTERM - 1))


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="signals that wait are read from /proc")
def test_a_second_interrupt_ends_the_command_at_once(start_process, small, output):
    """The command waits for a suspended worker as long as the test needs on a busy machine; 2 s are too short for that."""
    patient = (
        f"import sys, harness.processes as p; p.ENDS_S = {PATIENCE_S}; from harness.__main__ import main; sys.exit(main())"
    )
    process = start_process("-c", patient, *small, *ENDLESS, "study=s", f"output={output}", "tracking=none")
    wait_for(lambda: is_training(output), process)
    (worker,) = workers(process.pid)
    worker.suspend()  # it ends only when it is killed
    wait_for(lambda: worker.status() == psutil.STATUS_STOPPED, process)  # or, on a busy machine, SIGTERM comes before
    process.send_signal(signal.SIGINT)
    wait_for(lambda: is_told_to_end(worker), process)  # two signals before Python has seen the first one are one
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert psutil.wait_procs([worker], timeout=PATIENCE_S)[1] == []
    assert process.returncode == 130
    assert "run the same command again" not in out


@pytest.mark.slow
def test_end_while_networks_are_timed_leaves_a_finished_run_that_the_same_command_times(
    start_harness, run_harness, small, output, runs_of, curve_of
):
    """It is not trained again; and timing that was measured, but added in part, is added without further launches."""
    command = [*small, "study=s", f"output={output}"]
    process = start_harness(*command)
    launches = wait_for(lambda: workers(process.pid, "harness.training.measure_worker"), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "harness: interrupted\n")
    assert psutil.wait_procs(launches, timeout=PATIENCE_S)[1] == []
    (run,) = runs_of(output, "s")
    assert (run.info.status, run.data.tags.get("session")) == ("FINISHED", None)
    assert not any(key.startswith(("timing/", "inference/latency")) for key in run.data.metrics)

    done = run_harness(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished already, skipped" in done.stdout
    assert "Timing 1 model and 1 A/A replicate" in done.stdout
    (timed,) = (one for one in runs_of(output, "s") if "replicate" not in one.data.tags)
    assert (timed.info.run_id, timed.info.end_time, timed.info.status) == (run.info.run_id, run.info.end_time, "FINISHED")
    assert timed.data.metrics.items() > run.data.metrics.items()
    assert len(curve_of(output, run.info.run_id)) == 12


@pytest.mark.long
def test_killed_command_leaves_no_worker_and_its_run_is_ended_by_the_next(start_harness, run_harness, small, output, runs_of):
    """A worker that lived on would write into the folder that the next command lays out anew."""
    process = start_harness(*small, *ENDLESS, "study=s", f"output={output}")
    wait_for(lambda: is_training(output) and runs_of(output, "s"), process)  # tracking is in a thread of its own
    (worker,) = workers(process.pid)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs([worker], timeout=PATIENCE_S)
    (run,) = runs_of(output, "s")
    assert run.info.status == "RUNNING"
    done = run_harness(*small, *SHORT, "study=s", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    states = [(run.info.status, run.data.tags["status"]) for run in runs_of(output, "s")]
    assert states == [("KILLED", "killed"), ("FINISHED", "finished")]
    assert alive == []


@pytest.mark.long
def test_store_that_is_away_does_not_stop_a_run_and_sync_tells_it_later(run_harness, small, output, runs_of, curve_of):
    done = run_harness(*small, "study=s", "measure=none", "tracking.uri=http://127.0.0.1:9", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("MLflow failed") == 1
    assert "Results are saved locally; `python -m harness sync` sends them." in done.stdout
    assert runs_of(output, "s") == []
    for _ in range(2):
        synced = run_harness("sync", f"output={output}")
        assert (synced.returncode, synced.stdout, synced.stderr) == (0, "synced 1 run\n", "")
    (folder,) = (output / "s").glob("base-*")
    (run,) = runs_of(output, "s")
    assert (run.info.status, run.data.tags["status"]) == ("FINISHED", "finished")
    assert [value for _, value in sorted(curve_of(output, run.info.run_id))] == losses(folder)
    values = json.loads((folder / "result.json").read_text())["metrics"]
    curves = {f"finetune/{name}" for name in ("loss", "gradient_norm", "gradient_spread", "learning_rate")}
    shown = {key: value for key, value in run.data.metrics.items() if key not in curves}
    of_task = {"by_task/bag_score": values["eval/score"]}
    assert shown | tags.unpacked(tags.METRICS, run.data.tags) == values | of_task
    assert Path(run.info.artifact_uri.removeprefix("file://"), "predictions.parquet").exists()
