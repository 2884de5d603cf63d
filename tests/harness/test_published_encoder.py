"""A real published encoder: as transformers computes it, changed, fine-tuned. `make published` fetches it."""

import json
import os
from pathlib import Path

import pytest
import torch
import transformers

from harness.__main__ import main
from harness.checkpoints import huggingface, native, start
from harness.config.resolve import resolve
from harness.models.batch import Batch
from harness.models.encoder import Encoder
from harness.models.heads import build_classifier
from harness.study import execute
from harness.study.identity import Inputs

pytestmark = pytest.mark.long

NAME = "sentence-transformers/all-MiniLM-L6-v2"
CHANGES = {
    "three layers": ["model.num_hidden_layers=3"],
    "these layers": ["model.keep_layers=[0,1,5]"],
    "six heads": ["model.num_attention_heads=6"],
    "half of the units": ["model.intermediate_size=768"],
    "two layers in one": ["model.num_hidden_groups=5"],
    "window": ["model.attention_window=64"],
    "embedding size": ["model.embedding_size=128"],
    "sharing": ["model.num_hidden_groups=3"],
    "all of the sources": ["enhancement=[factorized,shared,swiglu,windowed]"],
}


@pytest.fixture(scope="module")
def folder() -> Path:
    """The folder of the weights."""
    path = huggingface.PUBLISHED / NAME
    if not (path / huggingface.WEIGHTS).is_file():
        reason = f"{path} is missing; `make published` fetches it"
        pytest.fail(reason) if os.environ.get("REQUIRE_PUBLISHED") else pytest.skip(reason)
    return path


def built(compose, *overrides: str):
    """The classifier of a run on the weights, and where its tensors come from."""
    (run,) = compose("task=bag", "model=minilm", *overrides)
    config = resolve(run, start.read(run))
    model = build_classifier(config.model, 2, 0).eval()
    return model, huggingface.load_weights(config, model)


def batch_of() -> Batch:
    ids = torch.randint(1000, 30000, (2, 40), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 40, dtype=torch.bool)
    mask[1, 25:] = False
    return Batch(input_ids=ids, attention_mask=mask)


def test_hidden_states_are_those_of_transformers(folder, compose):
    model, origins = built(compose)
    theirs, batch = transformers.BertModel.from_pretrained(folder).eval(), batch_of()
    with torch.inference_mode():
        expected = theirs(batch.input_ids, attention_mask=batch.attention_mask.long(), output_hidden_states=True).hidden_states
        states = [*model.encoder.hidden_states(batch)]
    for ours, one in zip(states, expected, strict=True):
        torch.testing.assert_close(ours[batch.attention_mask], one[batch.attention_mask], atol=1e-5, rtol=1e-5)
    assert {origin.kind for name, origin in origins.items() if not name.startswith("head.")} == {"kept"}


EQUAL = ["model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0", "finetune.max_steps=4"]


def test_both_implementations_learn_the_same(folder, shared_data, tmp_path):
    """Vectors to 1e-5, and without dropout the same losses, step by step, but for rounding."""
    given = [*EQUAL, "task=rte", "data=local", f"data.root={shared_data}", "data.train_examples=32", "seed=0", "report=false"]
    small = ["data.validation_examples=16", "finetune.batch_size=8", "measure=none", f"output={tmp_path}"]
    assert main(["-m", "model=minilm", "model.provider=native,transformers", *given, *small]) == 0
    losses = {}
    for run in (path.parent for path in tmp_path.glob("*/minilm*/result.json")):
        rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        is_theirs = "encoder: transformers" in (run / "config.yaml").read_text()
        losses[is_theirs] = [row["value"] for row in rows if row.get("key") == "finetune/loss"]
    assert len(losses[True]) == 4
    assert losses[True] == pytest.approx(losses[False], rel=1e-5)


def test_similarity_of_sentences_is_the_published_one(folder, shared_data, tmp_path):
    """Cosine of mean vectors against the labels of STS-B's validation pairs, without training, by the command.

    Alammar and Grootendorst, Hands-On Large Language Models, notebook of chapter 10: Pearson 0.869619, Spearman 0.867164.
    """
    given = ["model=minilm", "task=similarity", "data=local", f"data.root={shared_data}", "report=false"]
    assert main([*given, f"output={tmp_path / 'out'}"]) == 0
    (path,) = (tmp_path / "out").glob("*/*/result.json")
    metrics = json.loads(path.read_text())["metrics"]
    assert metrics["eval/examples"] == 1500
    assert metrics["eval/pearson"] == pytest.approx(0.8696194608752055, abs=1e-5)
    assert metrics["eval/spearman"] == pytest.approx(0.8671637433378804, abs=1e-5)
    assert metrics["eval/pearson_low"] < 0.8696 < metrics["eval/pearson_high"] < metrics["eval/pearson_low"] + 0.04


@pytest.mark.slow
def test_similarity_of_a_second_encoder_by_transformers_is_the_published_one(shared_data, tmp_path):
    """all-mpnet-base-v2 (`make published ARGS=mpnet`), of a family that only transformers computes.

    Documentation of sentence-transformers, EmbeddingSimilarityEvaluator on sts-dev: Pearson 0.8806, Spearman 0.8810.
    """
    name = "sentence-transformers/all-mpnet-base-v2"
    if not (huggingface.PUBLISHED / name / huggingface.WEIGHTS).is_file():
        pytest.skip("`make published ARGS=mpnet` fetches the weights")
    given = [f"model.init_from={name}", "task=similarity", "measure=none", "data=local", f"data.root={shared_data}"]
    assert main([*given, "report=false", f"output={tmp_path / 'out'}"]) == 0
    (path,) = (tmp_path / "out").glob("*/*/result.json")
    metrics = json.loads(path.read_text())["metrics"]
    assert metrics["eval/examples"] == 1500
    assert metrics["eval/pearson"] == pytest.approx(0.8806, abs=1e-4)
    assert metrics["eval/spearman"] == pytest.approx(0.8810, abs=1.5e-4)


@pytest.mark.parametrize("overrides", CHANGES.values(), ids=CHANGES)
def test_changed_weights_are_near_the_published_ones(folder, compose, overrides):
    """Nearer than those of another seed: the cosine of the vectors of a text before and after."""
    (published, _), (changed, origins), batch = built(compose), built(compose, *overrides), batch_of()
    assert {name for name, origin in origins.items() if origin.kind == "random"} == {"head.weight", "head.bias"}
    with torch.inference_mode():
        before, after = (model.encoder(batch)[:, :20].mean(dim=1) for model in (published, changed))
        scratch = build_classifier(changed.encoder.config, 2, 1).eval().encoder(batch)[:, :20].mean(dim=1)
    near = torch.cosine_similarity(before, after).mean()
    assert near > torch.cosine_similarity(before, scratch).mean().abs() + 0.1


def test_healing_brings_changed_weights_nearer_to_the_published_ones(folder, compose, tmp_path):
    """Thirty steps on running text, by the command; on ids that are not of it, in the vectors of the last layer."""
    output = tmp_path / "out"
    heal = ["pretrain=distillation", "recipe=heal", "pretrain.steps=30", "pretrain.batch_size=4"]
    small = ["pretrain.length=64", "pretrain.eval_sequences=4", "pretrain.probe_steps=1", "pretrain.evaluations=1"]
    text = ["corpus=builtin", "corpus.documents=200", "task=none", "measure=none", "report=false", f"output={output}"]
    given = ["model=minilm", "model.num_hidden_layers=3"]
    assert main([*given, *heal, *small, *text]) == 0
    (run,) = (path.parent for path in output.glob("pretrained/*/result.json"))
    state, shape = native.read(run / "checkpoint")
    pooler = transformers.BertModel.from_pretrained(folder).pooler.dense
    (again,) = compose("task=bag", f"pretrain.from={run}")
    config = resolve(again, start.read(again))
    later = execute._build(config, Inputs(pretrained=str(run))).state_dict()
    for kind in ("weight", "bias"):  # healing trains no pooler: the published one stays, also for a later command
        assert torch.equal(state[f"pooler.dense.{kind}"], getattr(pooler, kind))
        assert torch.equal(later[f"pooler.dense.{kind}"], getattr(pooler, kind))
    healed = Encoder(shape).eval()
    healed.load_state_dict({name.removeprefix("encoder."): one for name, one in state.items() if name.startswith("encoder.")})
    assert not any(name.startswith("masked_head") for name in state)
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    assert metrics["model/params_derived"] > 0 == metrics["model/params_random"]
    published, changed = transformers.BertModel.from_pretrained(folder).eval(), built(compose, given[1])[0].encoder
    batch = batch_of()
    with torch.inference_mode():
        target = published(batch.input_ids, attention_mask=batch.attention_mask.long()).last_hidden_state
        errors = [(encoder(batch) - target)[batch.attention_mask].square().mean() for encoder in (changed, healed)]
    assert errors[1] < 0.8 * errors[0]


def test_a_changed_encoder_is_fine_tuned_by_the_command(folder, tmp_path):
    small = ["data.train_examples=32", "data.validation_examples=32", "finetune.max_steps=2", "finetune.keep=last"]
    output = tmp_path / "out"
    arguments = ["task=bag", "model=minilm", "model.num_hidden_layers=2", "measure=none", f"output={output}", *small]
    assert main([*arguments, "report=false"]) == 0
    (run,) = (path.parent for path in output.glob("*/*/result.json"))
    log = (run / "log.txt").read_text()
    assert f"weights: read from {folder}" in log
    assert "derived: layer 5 of 6" in log
    groups = {row["how"]: row for row in json.loads((run / "weights.json").read_text())}
    assert (groups["layer 5 of 6"]["kind"], groups["layer 5 of 6"]["parameters"]) == ("derived", 1_774_464)
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    assert sum(metrics[f"model/params_{kind}"] for kind in ("kept", "derived", "random")) == metrics["model/params_total"]
