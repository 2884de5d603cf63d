"""Runs that ran out of memory: their batch in smaller pieces has the same loss, and the next run begins with what fitted."""

import json
import resource
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness import processes, tags
from harness.study import WORKER, micro_batches, run_folder
from harness.study.micro_batches import FittingMicroBatches
from harness.study.plan import plan
from harness.tracking import run_log

LARGE = [
    *("scale=tiny", "task=bag", "task.grammar.train_examples=512", "task.grammar.validation_examples=40", "task.max_length=64"),
    *("finetune.batch_size=512", "finetune.max_steps=2", "finetune.eval_batch_size=8", "hardware.threads=1", "measure=none"),
    *("model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0", "report=false"),
]
"""A run whose steps need far more memory than everything else in it."""


def losses(folder: Path, phase: str) -> list[float]:
    return [entry["value"] for entry in run_log.Reader(folder).new_entries() if entry.get("key") == f"{phase}/loss"]


def worked(item, folder: Path, found: dict[str, int]) -> list[float]:
    """The losses of the run's worker with these pieces."""
    record = run_folder.new_record(item.config, item.inputs, item.lifted) | {tags.PIECES: found}
    run_folder.prepare(folder, item.config, record)
    code = processes.run(WORKER, [str(folder)], 1, folder / "log.txt")
    assert code == 0, (folder / "log.txt").read_text()
    return losses(folder, "pretrain" if item.inputs.data is None else "finetune")


@pytest.mark.long
@pytest.mark.parametrize("phase", ["finetune", "pretrain"])
def test_pieces_do_not_change_the_losses(phase, compose, output):
    pretrained = ["pretrain=mlm_nsp", "pretrain.steps=4", "pretrain.dropout=0", "corpus.documents=60", "pretrain.batch_size=16"]
    smaller = ["finetune.batch_size=32", "finetune.max_steps=4", *(pretrained if phase == "pretrain" else [])]
    (item, *_) = plan(compose(*LARGE, *smaller, f"output={output}"))
    whole, cut = (worked(item, output / "s" / name, found) for name, found in (("whole", {}), ("cut", {phase: 8})))
    assert len(whole) == 4
    assert cut == pytest.approx(whole, rel=1e-4)
    assert whole[0] != whole[-1]


@pytest.fixture
def limited(monkeypatch):
    """Workers that get `extra` bytes of memory beyond those of the process that forks them; how many were started.

    A worker's own memory is no measure to begin with: it has grown by as much as the worker ran before it is read.
    """
    start, started, extra = processes.start, [], [0]

    def start_limited(module, arguments, *others, **options):
        worker = start(module, arguments, *others, **options)
        held = psutil.Process(worker.pid).parent().memory_info().data
        resource.prlimit(worker.pid, resource.RLIMIT_DATA, (held + extra[0], held + extra[0]))
        started.append(worker)
        return worker

    monkeypatch.setattr(processes, "start", start_limited)
    return extra, started


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of another process is limited on Linux alone")
def test_run_that_is_refused_memory_finishes_in_pieces_and_the_next_one_begins_with_them(limited, run_harness, output, runs_of):
    extra, started = limited
    extra[0] = 130_000_000
    done = run_harness("-m", *LARGE, "study=s", "seed=1,2", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    retried = [line for line in done.stdout.splitlines() if "out of memory: " in line and "; again, finetune in " in line]
    assert retried
    assert len(started) == 2 + len(retried)
    assert len({line.split("]")[0] for line in retried}) == 1  # the first of the two runs alone
    folders = list(output.glob("s/base-*"))
    found = [json.loads((folder / "run.json").read_text()) for folder in folders]
    (count,) = {record["pieces"]["finetune"] for record in found}
    assert count == 2 ** len(retried)
    assert [record["end"]["state"] for record in found] == ["finished"] * 2
    assert all(len(losses(folder, "finetune")) == 2 for folder in folders)
    assert {run.data.tags["pieces"] for run in runs_of(output, "s")} == {f"finetune {count}"}
    assert {run.data.tags["status"] for run in runs_of(output, "s")} == {"finished"}
    again = run_harness("-m", *LARGE, "study=s", "seed=1,2,3", f"output={output}")
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(started) == 3 + len(retried)
    assert "out of memory" not in again.stdout


@pytest.fixture
def ran_out(compose, output):
    """A planned run whose worker stopped in the stage `finetune`."""
    (item,) = plan(compose(*LARGE, f"output={output}"))
    item.folder.mkdir(parents=True)
    (item.folder / "metrics.jsonl").write_text('{"stage": "measure", "steps": 0}\n{"stage": "finetune", "steps": 2}\n')
    return item


@pytest.mark.parametrize(
    ("batch_size", "pieces_before", "expected"),
    [(32, 1, 2), (32, 16, 32), (32, 32, None), (24, 8, 24), (30, 2, 5), (7, 1, 7), (1, 1, None)],
)
def test_the_next_pieces_are_equal_and_at_most_half_as_large(ran_out, batch_size, pieces_before, expected):
    finetune = replace(ran_out.config.finetune, batch_size=batch_size)
    run = replace(ran_out, config=replace(ran_out.config, finetune=finetune))
    pieces = FittingMicroBatches().smaller(run, {"pieces": {"finetune": pieces_before}})
    assert pieces == (expected and {"finetune": expected})


def test_memory_that_ran_out_elsewhere_is_not_tried_again(ran_out):
    assert FittingMicroBatches().smaller(ran_out, {}) == {"finetune": 2}
    assert FittingMicroBatches().smaller(ran_out, {"pieces": {"finetune": 2}}) == {"finetune": 4}
    assert FittingMicroBatches().smaller(ran_out, {"pieces": {"finetune": 512}}) is None
    with (ran_out.folder / "metrics.jsonl").open("a") as log:
        log.write('{"stage": "evaluate", "steps": 0}\n')
    assert FittingMicroBatches().smaller(ran_out, {}) is None


def test_only_runs_of_the_same_shape_begin_with_what_fitted(ran_out):
    found, config = FittingMicroBatches(), ran_out.config
    found.learn(ran_out, {"pieces": {"finetune": 8}})
    assert found.first(replace(ran_out, config=replace(config, seed=7))) == {"finetune": 8}
    larger = replace(config.model, num_hidden_layers=config.model.num_hidden_layers + 1)
    for other in (
        replace(config, model=larger),
        replace(config, finetune=replace(config.finetune, batch_size=256)),
        replace(config, task=replace(config.task, max_length=32)),
    ):
        assert found.first(replace(ran_out, config=other)) == {}


def test_the_config_of_the_run_keeps_what_was_asked_for(ran_out):
    changed = micro_batches.applied(ran_out.config, {"pieces": {"finetune": 4}})
    assert (changed.finetune.accumulation, ran_out.config.finetune.accumulation) == (4, 1)
    assert micro_batches.applied(ran_out.config, {}) == ran_out.config
