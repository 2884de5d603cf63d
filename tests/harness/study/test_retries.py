"""A worker that is killed from outside: the same command runs its run again, as often as it may, and says so."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from child_processes import wait_for, workers

from harness import tags
from harness.tracking import run_log, trackers

SHORT = ("finetune.max_steps=2", "measure=none", "study=s")
PRETRAINING = (
    *("scale=tiny", "pretrain=mlm", "task=none", "pretrain.steps=400", "pretrain.length=32", "pretrain.batch_size=4"),
    *("pretrain.eval_sequences=8", "pretrain.evaluations=1", "pretrain.keep=[]", "pretrain.checkpoint_every_s=0.1"),
    *("hardware.threads=1", "measure=none", "report=false", "study=s"),
)


def kill(count: int, ready=lambda: True) -> None:
    """So many workers of this process, one after the other, each once it is `ready`."""
    seen: set[int] = set()
    for _ in range(count):
        (worker,) = wait_for(lambda: [one for one in workers(os.getpid()) if one.pid not in seen and ready()])
        seen.add(worker.pid)
        worker.kill()


def record_of(output: Path, study: str = "s") -> dict:
    (path,) = output.glob(f"{study}/*/run.json")
    return json.loads(path.read_text())


@pytest.mark.long
def test_a_run_whose_worker_is_killed_runs_again_and_says_how_often(run_harness, small, output, runs_of):
    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill, 1)
        done = run_harness(*small, *SHORT, "sweep.retries=2", f"output={output}")
        killed.result()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "killed: ended by SIGKILL (exit code -9); its log ends with: " in done.stdout
    assert "; again, retry 1 of 2\n" in done.stdout
    record = record_of(output)
    assert [why.partition(";")[0] for why in record[tags.RETRIES]] == ["ended by SIGKILL (exit code -9)"]
    assert record[tags.END]["state"] == "finished"
    runs = [(run.info.status, run.data.tags.get(tags.RETRIES)) for run in runs_of(output, "s")]
    assert runs == [("FINISHED", "1")]
    shown = run_harness("status", "s", f"output={output}")
    assert shown.returncode == 0
    first = shown.stdout.splitlines()[0].replace(" 1 finished with a warning;", "")  # what it learns is by chance
    assert first == "s: 1 run: 1 finished; 1 killed and run again (sweep.retries)"


@pytest.mark.long
def test_a_run_that_is_killed_more_often_is_left_to_the_next_command(run_harness, small, output):
    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill, 2)
        done = run_harness(*small, *SHORT, "sweep.retries=1", "-q", f"output={output}")
        killed.result()
    assert (done.returncode, done.stderr) == (1, "")
    problem, summary, _ = done.stdout.splitlines()  # a retry is none
    assert ": killed: ended by SIGKILL (exit code -9); its log ends with: " in problem
    assert summary.startswith("1 of 1 run did not finish: 1 killed; why: ")
    assert len(record_of(output)[tags.RETRIES]) == 1
    shown = run_harness("status", "s", f"output={output}")
    assert shown.returncode == 1
    assert ", run 2 times" in " ".join(shown.stdout.split())


@pytest.mark.long
def test_a_pretraining_resumes_when_it_is_run_again(run_harness, output, runs_of, curve_of, monkeypatch):
    monkeypatch.setattr(trackers, "EVERY_S", 0.0)  # points are sent before the kill
    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill, 1, lambda: list(output.glob("pretrained/*/checkpoints/step-*")))
        done = run_harness(*PRETRAINING, "sweep.retries=1", "rerun=true", f"output={output}")
        killed.result()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    (folder,) = (path.parent for path in output.glob("pretrained/*/run.json"))
    assert "resumed from checkpoint step-" in (folder / "log.txt").read_text()
    steps = [entry["step"] for entry in run_log.Reader(folder).new_entries() if entry.get("key") == "pretrain/loss"]
    assert steps == sorted(set(steps))
    assert len(record_of(output, "pretrained")[tags.RETRIES]) == 1
    (run,) = runs_of(output, "s")
    assert run.info.status == "FINISHED"
    assert [step for step, _ in curve_of(output, run.info.run_id, "pretrain/loss")] == steps
    losses = [entry["step"] for entry in run_log.Reader(folder).new_entries() if entry.get("key") == "pretrain/masked_loss"]
    assert [step for step, _ in curve_of(output, run.info.run_id, "pretrain/masked_loss")] == losses  # its last is the result
