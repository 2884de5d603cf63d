"""A real published encoder, changed and fine-tuned, is exported by the command. `make published` fetches it."""

import pytest
import transformers
from safetensors.torch import load_file

from harness.__main__ import main
from harness.checkpoints import huggingface

pytestmark = pytest.mark.long

FOLDER = huggingface.PUBLISHED / "sentence-transformers/all-MiniLM-L6-v2"


@pytest.mark.skipif(not (FOLDER / huggingface.WEIGHTS).is_file(), reason=f"{FOLDER} is missing; `make published` fetches it")
def test_a_changed_encoder_is_fine_tuned_and_exported(tmp_path):
    small = ["data.train_examples=32", "data.validation_examples=32", "finetune.max_steps=2", "finetune.keep=last"]
    given = ["task=bag", "model=minilm", "model.num_hidden_layers=2", "measure=none", "report=false", f"output={tmp_path}"]
    assert main([*given, *small]) == 0
    (run,) = (path.parent for path in tmp_path.glob("*/*/result.json"))
    assert main(["export", str(run), f"to={tmp_path / 'exported'}"]) == 0
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported")
    assert theirs.config.num_hidden_layers == 2
    kept = load_file(FOLDER / huggingface.WEIGHTS)["encoder.layer.5.output.dense.weight"]
    assert (theirs.bert.encoder.layer[1].output.dense.weight - kept).abs().max() < 0.01  # two steps away
