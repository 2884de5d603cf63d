"""Checkpoints of fine-tunings: every variant is saved and loaded with all of its tensors."""

import pytest
import torch
from variant_files import variant
from variants import VARIANTS

from harness.checkpoints import finetuned
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.models.heads import SequenceClassifier, TokenClassifier, build_classifier


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "head"),
    [("base", TokenClassifier), *((name, SequenceClassifier) for name in VARIANTS)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_variant_is_loaded_as_it_was_saved(name, head, tmp_path):
    shape = variant(name, hidden_size=48, num_attention_heads=4, intermediate_size=64, vocab_size=60)
    model = build_classifier(shape, 3, 1, head)
    (tmp_path / "tokenizer.json").write_text("{}")
    kind = TaskKind.tokens if head is TokenClassifier else TaskKind.classification
    task = TaskConfig(name="mine", kind=kind, fields=["text"], labels=["O", "B-x", "I-x"])
    finetuned.save(tmp_path / "checkpoint", model, task, tmp_path / "tokenizer.json")
    loaded, facts, _ = finetuned.load_finetuned(tmp_path / "checkpoint")
    assert type(loaded) is head
    assert facts.config() == task
    saved, found = model.state_dict(), loaded.state_dict()
    assert saved.keys() == found.keys()
    assert all(torch.equal(found[key], tensor) for key, tensor in saved.items())
