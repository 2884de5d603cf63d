"""Pretraining as a user runs it: budgets, sharing, killing and resuming, and fine-tuning from what it left."""

import random
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from child_processes import wait_for
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from harness.config.schema import PretrainConfig
from harness.tracking import run_log
from harness.training.loop import Position, Step
from harness.training.pretrain_steps import BatchSizes

pytestmark = pytest.mark.long

TEXT = [
    "scale=tiny",
    "corpus.documents=120",
    "tokenizer.vocab_size=300",
    "pretrain.length=32",
    "pretrain.batch_size=8",
    "pretrain.eval_sequences=16",
    "pretrain.evaluations=2",
    "pretrain.probe_steps=3",
    "hardware.threads=1",
]
"""A pretraining that takes a worker a few seconds."""

OFTEN = ["pretrain.checkpoint_every_s=0"]
CLOCKED = {"pretrain/duration_s", "pretrain/evaluation_s", "pretrain/tokens_per_s", "pretrain/peak_memory_bytes"}


def walk(plan: BatchSizes, budget: PretrainConfig) -> list[int]:
    """Sequences of every step to the end of the budget."""
    position, sizes = Position(), []
    while not plan.limit.reached(position):
        rows, flops = plan.rows(position), plan.flops_per_sequence[plan.phase(position)]
        sizes.append(rows)
        position.step += 1
        position.tokens += rows * budget.length
        position.flops += rows * flops
    return sizes


def test_a_budget_of_tokens_is_met_to_the_sequence():
    budget = PretrainConfig(tokens=1000, length=32, batch_size=8)
    sizes = walk(BatchSizes(budget, 1.0), budget)
    assert sizes == [8, 8, 8, 8]
    assert sum(sizes) * 32 - 1000 in range(32)
    assert walk(BatchSizes(replace(budget, tokens=1100), 1.0), budget) == [8, 8, 8, 8, 3]


def test_every_phase_has_its_share_of_the_budget_to_the_sequence():
    for unit, per_sequence in (("tokens", [32, 32, 32]), ("flops", [10.0, 4.0, 2.0])):
        budget = PretrainConfig(**{unit: 1000}, shares=[0.25, 0.35, 0.4], length=32, batch_size=4)
        plan, position, used = BatchSizes(budget, 10.0, 4.0, 2.0), Position(), [0.0, 0.0, 0.0]
        while not plan.limit.reached(position):
            phase, rows = plan.phase(position), plan.rows(position)
            used[phase] += rows * per_sequence[phase]
            position.advance(Step([], rows, 32 * rows, 32 * rows, rows * plan.flops_per_sequence[phase]))
        for phase, end in enumerate([250, 600, 1000]):
            assert 0 <= sum(used[: phase + 1]) - end < per_sequence[phase]


def test_the_batch_grows_along_the_ramp_and_the_steps_are_known_before():
    budget = PretrainConfig(tokens=32 * 100, length=32, batch_size=10, ramp_from=2, ramp_fraction=0.5)
    plan = BatchSizes(budget, 1.0)
    sizes = walk(plan, budget)
    assert sizes[0] == 2
    assert sizes == sorted(sizes[:-1]) + sizes[-1:]
    assert sum(sizes) == 100
    assert sizes[-2] == 10
    assert plan.planned_steps(Position()) == len(sizes)


@given(
    st.sampled_from(["tokens", "flops", "steps"]),
    st.integers(1, 20_000),
    st.integers(1, 9),
    st.sampled_from([None, 1, 5]),
    st.lists(st.integers(1, 50), min_size=1, max_size=3),
)
def test_the_end_is_where_the_steps_lead_one_after_the_other(unit, total, batch, ramp_from, flops):
    shares = [1 / len(flops)] * len(flops)
    budget = PretrainConfig(**{unit: total}, shares=shares, length=8, batch_size=batch, ramp_from=ramp_from, ramp_fraction=0.3)
    plan = BatchSizes(budget, *flops)
    sizes = walk(plan, budget)
    end = plan.end(Position())
    assert (end.step, end.rows, end.tokens) == (len(sizes), sum(sizes), 8 * sum(sizes))


def test_the_end_of_a_large_budget_needs_no_walk():
    plan = BatchSizes(PretrainConfig(tokens=137e9, length=512, batch_size=256), 1.0)
    assert plan.planned_steps(Position()) == -(-137_000_000_000 // (512 * 256))


def folder_of(output: Path) -> Path:
    (folder,) = (output / "pretrained").glob("*-*")
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoint" / "model.safetensors")


def curve(folder: Path) -> list[tuple[str, int, float]]:
    """Every point that does not depend on the clock."""
    entries = run_log.Reader(folder).new_entries()
    return sorted((e["key"], e["step"], e["value"]) for e in entries if "key" in e and e["key"] not in CLOCKED)


def results(folder: Path) -> dict[str, float]:
    return {key: value for key, value in run_log.result(folder)["metrics"].items() if key not in CLOCKED}


@pytest.fixture(scope="module")
def quick() -> list[str]:
    return [*TEXT, "pretrain=mlm", "pretrain.steps=24", "task=none"]


@pytest.fixture
def finished(quick: list[str], once: Callable, store_template: Path, run_harness: Callable) -> Path:
    """The output of a finished pretraining; tests add runs of other studies to it."""

    def make(folder: Path) -> None:
        shutil.copy(store_template, folder)
        done = run_harness(*quick, *OFTEN, "study=s", f"output={folder}")
        assert done.returncode == 0, done.stdout + done.stderr

    return once("pretrained", make)


def last_step(folder: Path) -> int:
    points = [e for e in run_log.Reader(folder).new_entries() if e.get("key") == "pretrain/loss"]
    return points[-1]["step"] if points else 0


def reached(step: int, output: Path) -> bool:
    return any(last_step(path.parent) >= step for path in output.glob("pretrained/*/metrics.jsonl"))


def kill_with_workers_at(step: int, process: subprocess.Popen, output: Path) -> None:
    """Kills a command and its worker, once the worker has come so far."""
    wait_for(lambda: reached(step, output), process)
    for victim in (process, *psutil.Process(process.pid).children(recursive=True)):
        victim.kill()
    process.communicate()


def kill_worker_at(step: int, output: Path) -> None:
    """Kills the worker of this process alone, once it has come so far."""
    wait_for(lambda: reached(step, output))
    for server in psutil.Process().children():
        for worker in server.children():
            worker.kill()


@pytest.mark.slow
def test_killed_at_random_steps_it_resumes_and_equals_the_uninterrupted_run(
    quick, finished, run_harness, start_harness, output
):
    """Killed with its command at first, then the worker alone."""
    arguments = [*quick, *OFTEN, "study=s", f"output={output}"]
    first_kill, second_kill = sorted(random.Random(0).sample(range(2, 22), 2))
    kill_with_workers_at(first_kill, start_harness(*arguments), output)
    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill_worker_at, second_kill, output)
        done = run_harness(*arguments)
        killed.result()
    assert done.returncode == 1, done.stdout + done.stderr
    done = run_harness(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = folder_of(finished), folder_of(output)
    assert "resumed from checkpoint" in (second / "log.txt").read_text()
    assert curve(second) == curve(first)
    assert results(second) == results(first)
    ours, theirs = weights(second), weights(first)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_runs_share_a_pretraining_and_name_its_hash(quick, run_harness, output, runs_of):
    more = ["task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40", "finetune.max_steps=3"]
    arguments = ["-m", *quick, *more, "measure=none", f"output={output}", "pretrain.seed=5"]
    done = run_harness(*arguments, "study=first", "seed=1,2")
    assert done.returncode == 0, done.stdout + done.stderr
    again = run_harness(*arguments, "study=second", "seed=1", "finetune.learning_rate=1e-3")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "pretraining, seed 5: finished already, skipped" in again.stdout
    for text in (done.stdout, again.stdout):  # 24 steps teach nothing
        assert text.count("still on the unigram plateau: held-out masked loss") == 1
    first, *others = runs_of(output, "first")
    assert "which model left the plateau" in first.data.tags["warning"]
    assert first.data.tags["notes"] == "plateau"
    assert not any("plateau" in run.data.tags.get("notes", "") for run in others)
    others += runs_of(output, "second")
    assert [run.data.tags["task"] for run in (first, *others)] == ["pretraining", "bag", "bag", "bag"]
    assert {run.data.tags["pretraining"] for run in others} == {first.data.tags["fingerprint"]}
    assert {run.data.tags["arm"] for run in (first, *others)} == {"base+mlm"}
    assert first.data.metrics["pretrain/steps"] == 24
    assert all(0 <= run.data.metrics["corpus/overlap"] <= 1 for run in others)
    (folder,) = (path for path in (output / "second").glob("base*"))
    assert "encoder" not in (folder / "log.txt").read_text()  # of the encoder nothing kept its fresh value


@pytest.mark.slow
def test_two_commands_at_once_train_once_and_both_go_on(quick, start_harness, output, runs_of):
    more = ["task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40", "finetune.max_steps=2"]
    arguments = [*quick, *more, "measure=none", "pretrain.seed=5", "study=s", f"output={output}"]
    both = [start_harness(*arguments, f"seed={seed}") for seed in (1, 2)]
    printed = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], printed
    assert sum("pretraining, seed 5: another process runs it; waiting" in text for text in printed) == 1
    assert sorted(run.data.tags["task"] for run in runs_of(output, "s")) == ["bag", "bag", "pretraining"]


def test_a_run_is_picked_by_folder_or_id_with_all_that_belongs_to_it(finished, run_harness, runs_of):
    (run,) = runs_of(finished, "s")
    folder = folder_of(finished)
    more = ["task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40", "finetune.max_steps=2"]
    for number, source in enumerate((run.info.run_id, str(folder))):
        done = run_harness(*more, f"pretrain.from={source}", f"output={finished}", f"study=s{number}", "measure=none")
        assert done.returncode == 0, done.stdout + done.stderr
        (found,) = runs_of(finished, f"s{number}")
        assert found.data.tags["arm"] == "base+mlm"
        assert found.data.tags["pretraining"] == run.data.tags["fingerprint"]
        assert found.data.params["model.hidden_size"] == "128"


def test_the_weights_of_a_run_are_changed_as_the_arm_says(finished, run_harness, runs_of):
    more = ["task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40", "finetune.max_steps=2"]
    changes = ["enhancement=[windowed]", "model.num_hidden_layers=1", "measure=none", "study=changed"]
    done = run_harness(*more, f"pretrain.from={folder_of(finished)}", *changes, f"output={finished}")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = runs_of(finished, "changed")
    assert run.data.tags["arm"] == "base+mlm+windowed num_hidden_layers=1"
    assert (run.data.params["model.num_hidden_layers"], run.data.params["model.attention_window"]) == ("1", "8")
    (log,) = (finished / "changed").glob("*/log.txt")
    assert "tensors kept" in log.read_text()


def test_a_budget_of_seconds_is_kept_and_evaluation_is_not_part_of_it(quick, run_harness, output):
    given = [argument for argument in quick if not argument.startswith("pretrain.steps")]
    done = run_harness(*given, "pretrain.seconds=1.5", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    found = run_log.result(folder_of(output))["metrics"]
    assert found["pretrain/duration_s"] >= 1.5
    assert found["pretrain/evaluation_s"] > 0
    assert found["pretrain/tokens"] == 32 * 8 * found["pretrain/steps"]
