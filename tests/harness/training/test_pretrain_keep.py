"""Weights kept on the way of a pretraining, and fine-tuning from them."""

import json

import pytest
import torch
from safetensors.torch import load_file

TEXT = ["scale=tiny", "corpus.documents=120", "tokenizer.vocab_size=300", "pretrain.length=32", "pretrain.batch_size=8"]
TEXT += ["pretrain.eval_sequences=16", "pretrain.evaluations=2", "hardware.threads=1", "pretrain=mlm", "pretrain.tokens=2048"]
"""A pretraining of eight steps of 256 tokens."""

TASK = ["task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40", "finetune.max_steps=2"]


def kept(output):
    return {path.parent.name: load_file(path) for path in output.glob("pretrained/*/kept/*/model.safetensors")}


@pytest.mark.slow
def test_fine_tuning_starts_from_the_weights_of_each_point(run_harness, output, runs_of):
    command = ["-m", *TEXT, *TASK, "measure=none", "pretrain.seed=5", "study=s", f"output={output}"]
    done = run_harness(*command, "pretrain.keep=[500,2048]", "pretrain.at=500,2048,null")
    assert done.returncode == 0, done.stdout + done.stderr
    (last,) = (load_file(path) for path in output.glob("pretrained/*/checkpoint/model.safetensors"))
    points = kept(output)
    assert sorted(points) == ["tokens-2048", "tokens-500"]
    assert all(torch.equal(points["tokens-2048"][name], last[name]) for name in last)
    assert not all(torch.equal(points["tokens-500"][name], last[name]) for name in last)
    runs = runs_of(output, "s")
    assert [run.data.tags["task"] for run in runs].count("pretraining") == 1  # one pretraining for all points
    losses = {run.data.tags["arm"]: run.data.metrics["finetune/loss"] for run in runs if run.data.tags["task"] == "bag"}
    assert sorted(losses) == ["base+mlm", "base+mlm at=2048", "base+mlm at=500"]
    assert losses["base+mlm at=2048"] == losses["base+mlm"] != losses["base+mlm at=500"]

    again = run_harness(*command, "pretrain.keep=[500]", "pretrain.at=500")
    assert again.stdout.count("finished already, skipped") == 2
    more = run_harness(*command, "pretrain.keep=[1000]", "pretrain.at=1000")
    assert "finished, but its weights were not kept (pretrain.keep): running again" in more.stdout
    assert sorted(kept(output)) == ["tokens-1000"]

    (folder,) = output.glob("pretrained/*-*")
    named = run_harness(*TASK, f"pretrain.from={folder}", "pretrain.at=1000", "measure=none", "study=t", f"output={output}")
    assert named.returncode == 0, named.stdout + named.stderr
    (run,) = runs_of(output, "t")
    assert json.loads((folder / "run.json").read_text())["tags"]["fingerprint"] == run.data.tags["pretraining"]
    assert run.data.params["pretrain.at"] == "1000.0"
    refused = run_harness(*TASK, f"pretrain.from={folder}", "pretrain.at=700", f"output={output}")
    assert refused.returncode == 2
    assert f"pretrain.at=700: {folder} keeps weights at these token counts: 1000" in refused.stderr
