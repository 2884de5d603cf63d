"""A real published encoder: as transformers computes it, changed, fine-tuned, exported. `make published` fetches it."""

import os
import re
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from harness.__main__ import main
from harness.checkpoints import huggingface, start
from harness.config.resolve import resolve
from models.batch import Batch
from models.heads import build_classifier

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


def test_a_changed_encoder_is_fine_tuned_and_exported_by_the_command(folder, tmp_path, capsys):
    small = ["data.train_examples=32", "data.validation_examples=32", "finetune.max_steps=2", "finetune.keep=last"]
    output = tmp_path / "out"
    arguments = ["task=bag", f"model.init_from={NAME}", "model.num_hidden_layers=2", "measure=none", f"output={output}", *small]
    assert main([*arguments, "report=false"]) == 0
    (run,) = (path.parent for path in output.glob("*/*/result.json"))
    log = (run / "log.txt").read_text()
    assert f"weights: read from {folder}" in log
    assert "derived: layer 5 of 6" in log
    assert main(["export", str(run), f"to={tmp_path / 'exported'}"]) == 0
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported")
    assert theirs.config.num_hidden_layers == 2
    kept = load_file(folder / huggingface.WEIGHTS)["encoder.layer.5.output.dense.weight"]
    learned = theirs.bert.encoder.layer[1].output.dense.weight
    assert (learned - kept).abs().max() < 0.01  # two steps away


def test_describe_is_beside_the_weights_as_published(folder, tmp_path, capsys):
    given = [f"model.init_from={NAME}", "enhancement=[windowed]", "model.num_hidden_layers=3", f"to={tmp_path}"]
    assert main(["describe", *given]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^num_hidden_layers +6 +3$", out, re.MULTILINE)
    assert f"weights of {folder}" in out
    assert re.search(r"^derived: layer 5 of 6 +12 +1,774,464 +-$", out, re.MULTILINE)
