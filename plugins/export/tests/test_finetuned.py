"""Exported fine-tunings in transformers: the head of the task goes along, and logits are the same."""

import json
import re
from pathlib import Path

import pytest
import torch
import transformers
from omegaconf import OmegaConf
from safetensors.torch import load_file
from tokenizers import Tokenizer

import harness
from harness import records
from harness.checkpoints import finetuned
from harness.config.choices import TaskKind
from harness.config.schema import ModelConfig, TaskConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier, TokenClassifier, build_classifier
from harness.models.huggingface import config_of, load
from harness.plugins.export import card
from harness.plugins.export.checkpoint import export
from harness.plugins.export.command import export_onnx
from harness.tracking import run_log

CONF = Path(__file__).resolve().parents[3] / "conf" / "model"
TEXTS = ["the cat sat on the mat", "A dog", "cats and dogs and mats sat still on a log", "log"]
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
LABELS = ["bad", "good", "odd"]
KINDS = {
    TaskKind.classification: (SequenceClassifier, LABELS, 3, transformers.AutoModelForSequenceClassification),
    TaskKind.regression: (SequenceClassifier, [], 1, transformers.AutoModelForSequenceClassification),
    TaskKind.tokens: (TokenClassifier, ["O", "B-x", "I-x"], 3, transformers.AutoModelForTokenClassification),
    TaskKind.spans: (TokenClassifier, [], 2, transformers.AutoModelForQuestionAnswering),
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build(TokenizerConfig(vocab_size=80, min_frequency=1), TEXTS)


def shape_of(name: str, tokenizer: Tokenizer) -> EncoderConfig:
    """A model of conf/ at tiny dimensions, with the tokenizer's vocabulary."""
    said = OmegaConf.load(CONF / f"{name}.yaml")
    distances = {"max_relative_distance": 24} if said.get("position") == "disentangled" else {}
    distances |= {"position_buckets": 8} if "position_buckets" in said else {}
    real = {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": tokenizer.token_to_id("[PAD]")}
    merged = OmegaConf.merge(OmegaConf.structured(ModelConfig), said, TINY, {"max_position_embeddings": 40}, distances, real)
    return OmegaConf.to_object(merged)


def kept(folder: Path, name: str, kind: TaskKind, tokenizer: Tokenizer) -> SequenceClassifier | TokenClassifier:
    """A fine-tuned model of this kind, its checkpoint in the folder."""
    head, labels, outputs, _ = KINDS[kind]
    model = build_classifier(shape_of(name, tokenizer), outputs, 3, head).eval()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5)))
    tokenizer.save(str(folder / "tokenizer.json"))
    task = TaskConfig(name="mine", kind=kind, fields=["text"], labels=labels, max_length=32)
    finetuned.save(folder / "checkpoint", model, task, folder / "tokenizer.json")
    return model


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_snippet_of_the_card_predicts(kind, tokenizer, tmp_path, monkeypatch, capsys):
    kept(tmp_path, "base", kind, tokenizer)
    task = {"name": "mine", "kind": kind.name, "fields": ["text"], "labels": KINDS[kind][1], "max_length": 32}
    (tmp_path / "config.yaml").write_text(json.dumps({"task": task, "finetune": {}, "seed": 7}))
    records.write(tmp_path / run_log.RESULT, {"status": "finished", "metrics": {"eval/score": 0.5}})
    records.write(tmp_path / run_log.RECORD, {"tags": {"arm": "base"}})
    export(tmp_path / "checkpoint", tmp_path / "out", card=card.text(tmp_path, "mit"))
    monkeypatch.chdir(tmp_path / "out")
    exec(re.search(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)[1], {})  # what its reader runs
    printed = capsys.readouterr().out.strip()
    shapes = {TaskKind.classification: "bad|good|odd", TaskKind.regression: r"-?\d+\.\d+", TaskKind.tokens: r"\['[OBI].*\]"}
    assert re.fullmatch(shapes.get(kind, ".*"), printed), printed


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["base", "albert", "roberta", "distilbert", "electra", "deberta_v3", "gpt2"])
def test_transformers_gives_the_same_logits_and_so_does_what_is_read_back(name, kind, tokenizer, tmp_path):
    model = kept(tmp_path, name, kind, tokenizer)
    export(tmp_path / "checkpoint", tmp_path / "out")
    loader = KINDS[kind][3]
    theirs, report = loader.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"]
    ids = torch.tensor([tokenizer.encode(TEXTS[2]).ids])
    with torch.inference_mode():
        ours, found = model(Batch(ids)), theirs.eval()(input_ids=ids)
    if kind is TaskKind.spans:
        torch.testing.assert_close(torch.stack([found.start_logits, found.end_logits], dim=-1), ours, rtol=1e-4, atol=1e-4)
    else:
        torch.testing.assert_close(found.logits, ours, rtol=1e-4, atol=1e-4)
    theirs.save_pretrained(tmp_path / "again")  # which names its class
    for folder in ("out", "again"):
        published = json.loads((tmp_path / folder / "config.json").read_text())
        read = KINDS[kind][0](config_of(published), KINDS[kind][2]).eval()
        assert load(read, load_file(tmp_path / folder / "model.safetensors"), published) == []
        with torch.inference_mode():
            torch.testing.assert_close(read(Batch(ids)), ours, rtol=1e-5, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("kind", [TaskKind.classification, TaskKind.spans])
def test_long_texts_are_cut_as_in_training(kind, tokenizer, tmp_path):
    kept(tmp_path, "base", kind, tokenizer)
    export(tmp_path / "checkpoint", tmp_path / "out")
    export_onnx(tmp_path / "checkpoint", tmp_path / "onnx")
    texts = [TEXTS[2] * 3, TEXTS[1] * 40]
    strategy = "only_second" if kind is TaskKind.spans else "longest_first"
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.enable_truncation(32, strategy=strategy)  # task.max_length, less than the model reads
    expected = tokenizer.encode(*texts).ids
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out")(*texts, truncation=strategy)["input_ids"] == expected
    assert Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json")).encode(*texts).ids == expected
    assert harness.load(str(tmp_path))[1].encode(*texts).ids == expected


@pytest.mark.parametrize("kind", [TaskKind.classification, TaskKind.tokens])
def test_config_names_the_labels_in_the_order_of_the_outputs(kind, tokenizer, tmp_path):
    kept(tmp_path, "base", kind, tokenizer)
    export(tmp_path / "checkpoint", tmp_path / "out")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "out")
    labels = KINDS[kind][1]
    assert config.id2label == dict(enumerate(labels))
    assert config.label2id == {label: number for number, label in enumerate(labels)}
    assert config.num_labels == len(labels)


def test_regression_says_so(tokenizer, tmp_path):
    kept(tmp_path, "base", TaskKind.regression, tokenizer)
    export(tmp_path / "checkpoint", tmp_path / "out")
    said = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (said["problem_type"], len(said["id2label"])) == ("regression", 1)


def test_a_head_of_tokens_that_the_family_has_not_is_refused(tokenizer, tmp_path):
    kept(tmp_path, "gpt", TaskKind.tokens, tokenizer)
    with pytest.raises(InputError, match="model_type='openai-gpt' has no head for every token"):
        export(tmp_path / "checkpoint", tmp_path / "out")
    assert not (tmp_path / "out").exists()
