"""Runs on several devices as a user starts them: in a sweep, with a rank that dies, and resumed on another number."""

import json
import math
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from child_processes import wait_for
from torch import distributed

from harness import tags
from harness.config.resolve import save
from harness.study import ranks
from harness.tracking import run_log

TEXT = [
    *("scale=tiny", "corpus.documents=120", "tokenizer.vocab_size=300", "pretrain=mlm", "pretrain.length=32"),
    *("pretrain.batch_size=8", "pretrain.eval_sequences=16", "pretrain.evaluations=1", "pretrain.checkpoint_every_s=0"),
    *("model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0", "hardware.threads=1", "task=none"),
    *("tracking=none", "report=false", "pretrain.steps=60"),
]


def losses(folder: Path) -> list[tuple[int, float]]:
    entries = run_log.Reader(folder).new_entries()
    return [(entry["step"], entry["value"]) for entry in entries if entry.get("key") == "pretrain/loss"]


def rank_processes() -> list[psutil.Process]:
    """The processes of runs on several devices that this process has started, in the order of their start."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "harness.study.ranks" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return sorted(found, key=lambda process: process.create_time())


def kill_a_rank(output: Path) -> None:
    """Kills one that is not the first, once a few steps are done."""
    wait_for(lambda: any(len(losses(path.parent)) > 5 for path in output.glob("pretrained/*/metrics.jsonl")))
    rank_processes()[-1].kill()


@pytest.mark.long
def test_a_rank_ends_its_communication_before_it_exits(monkeypatch, compose, tmp_path):
    """Its threads would abort the process now and then: a run that was complete had failed with SIGABRT."""
    (config,) = compose("scale=tiny", "task=bag")
    save(config, tmp_path / "config.yaml")
    joined = []
    monkeypatch.setattr(ranks, "execute", lambda folder, config, ranks: joined.append(distributed.is_initialized()))
    monkeypatch.setattr(ranks, "meeting_point", lambda number: distributed.HashStore())
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    ranks.execute_rank(tmp_path, 0)
    assert joined == [True]
    assert not distributed.is_initialized()


@pytest.mark.long
def test_a_killed_rank_ends_the_run_and_another_number_of_devices_resumes_it(run_harness: Callable, output: Path):
    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill_a_rank, output)
        done = run_harness(*TEXT, "hardware.devices=2", "hardware.sharding=full", f"output={output}")
        killed.result()
    assert done.returncode == 1, done.stdout + done.stderr
    assert rank_processes() == []
    (folder,) = output.glob("pretrained/*-*")
    ended = json.loads((folder / run_log.RECORD).read_text())[tags.END]
    assert (ended["state"], run_log.result(folder)) == ("killed", None)
    assert "rank 1 of 2" in ended["reason"]
    assert "SIGKILL" in ended["reason"]

    left = losses(folder)
    done = run_harness(*TEXT, f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"resuming {folder.name}, begun on other devices" in done.stdout
    (alone,) = (path for path in output.glob("pretrained/*-*") if path != folder)
    assert "resumed from checkpoint" in (alone / run_log.LOG).read_text()
    whole = losses(alone)
    assert [step for step, _ in whole] == [*range(1, 61)]
    assert whole[: len(left)] == left
    assert json.loads((alone / run_log.RECORD).read_text())["tags"]["resumed_from"] == folder.name
    assert (folder / "checkpoints").is_dir()


@pytest.mark.long
def test_a_sweep_over_devices_has_an_arm_for_each_with_the_same_losses(
    small: list[str], run_harness: Callable, output: Path, runs_of: Callable, curve_of: Callable
):
    plain = ["model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0", "measure=none"]
    done = run_harness("-m", *small, *plain, "hardware.devices=1,2", "seed=0", "study=s", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    one, two = sorted(runs_of(output, "s"), key=lambda run: run.data.params["hardware.devices"])
    assert [run.data.params["hardware.devices"] for run in (one, two)] == ["1", "2"]
    assert two.data.tags[tags.ARM] == f"{one.data.tags[tags.ARM]} devices=2"
    assert "2 processes" in two.data.tags["hardware"]
    points = [curve_of(output, run.info.run_id) for run in (one, two)]
    assert len(points[0]) == 12
    for (step, loss), (other_step, other_loss) in zip(*points, strict=True):
        assert step == other_step
        assert math.isclose(loss, other_loss, abs_tol=1e-5)
    assert one.data.metrics["finetune/tokens"] == two.data.metrics["finetune/tokens"]
    assert one.data.metrics["finetune/flops"] == pytest.approx(two.data.metrics["finetune/flops"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile on CPU needs a C++ compiler: no g++")
@pytest.mark.parametrize("phase", ["finetune", "pretrain"])
def test_two_compiled_ranks_have_the_losses_of_two_eager_ones(
    phase: str, small: list[str], run_harness: Callable, output: Path
):
    plain = ["model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0", "measure=none", "hardware.devices=2"]
    kind = [*TEXT, "pretrain.steps=6"] if phase == "pretrain" else [*small, "finetune.max_steps=6", "tracking=none"]
    done = run_harness("-m", *kind, *plain, "hardware.compile=true,false", "seed=0", f"output={output}", "study=s")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for folder in (path.parent for path in output.glob("*/*/result.json")):
        entries = run_log.Reader(folder).new_entries()
        compiled = json.loads((folder / "environment.json").read_text())["compile"]
        found[compiled] = [entry["value"] for entry in entries if entry.get("key") == f"{phase}/loss"]
        assert ("s of compiling up to the end of" in (folder / run_log.LOG).read_text()) == compiled
    assert len(found[True]) == 6
    assert found[True] == pytest.approx(found[False], rel=1e-4)
