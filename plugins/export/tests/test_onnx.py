"""`export format=onnx`: the head of the task or the last hidden states, and the tokenizer."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from variant_files import variant

from harness.__main__ import main
from harness.checkpoints import finetuned, native
from harness.checkpoints.onnx_file import FILE, OnnxModel
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.models.batch import Batch
from harness.models.encoder import Encoder
from harness.models.heads import SequenceClassifier, TokenClassifier, build_classifier
from harness.plugins.export.command import export_onnx

pytestmark = pytest.mark.long

SPREAD = {"initializer_range": 0.1}
"""Logits of about 1, which float32 resolves to 1e-5."""


def assert_close(path: Path, model: torch.nn.Module, batch: Batch | torch.Tensor) -> None:
    """Logits of the file are torch's within 1e-5 of the largest, or of 1."""
    with torch.inference_mode():
        expected = model(batch)
        torch.testing.assert_close(OnnxModel(path)(batch), expected, rtol=0, atol=1e-5 * max(1.0, expected.abs().max().item()))


def other_texts(vocab_size: int) -> Batch:
    """Texts of a shape that the file was not checked on."""
    ids = torch.randint(vocab_size, (5, 33), generator=torch.Generator().manual_seed(7))
    return Batch(ids, torch.zeros_like(ids), torch.arange(33) < torch.tensor([33, 1, 20, 4, 32])[:, None])


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    built: Tokenizer = build(TokenizerConfig(vocab_size=80, min_frequency=1), ["the cat sat", "a dog on a log"])
    built.save(str(path))
    return path


@pytest.mark.parametrize(("kind", "head"), [(TaskKind.regression, SequenceClassifier), (TaskKind.tokens, TokenClassifier)])
def test_the_command_writes_the_head_of_the_task_and_the_tokenizer(kind, head, tmp_path: Path, tokenizer: Path, capsys):
    outputs = 1 if kind is TaskKind.regression else 3
    model = build_classifier(variant("base", vocab_size=80, **SPREAD), outputs, 3, head).eval()
    task = TaskConfig(name="mine", kind=kind, fields=["text"], labels=["a", "b", "c"] if outputs == 3 else [], max_length=32)
    finetuned.save(tmp_path / "run" / "checkpoint", model, task, tokenizer)
    out = tmp_path / "onnx"
    assert main(["export", str(tmp_path / "run"), "format=onnx", f"to={out}", f"output={tmp_path}"]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out / FILE}: {(out / FILE).stat().st_size:,} bytes")
    assert sorted(path.name for path in out.iterdir()) == [FILE, "tokenizer.json"]
    assert_close(out / FILE, model, other_texts(80).input_ids)
    assert main(["export", str(tmp_path / "run"), "format=onnx", f"to={out}", f"output={tmp_path}"]) == 2
    assert f"to='{out}' already exists" in capsys.readouterr().err


def test_a_pretraining_gives_its_last_hidden_states(tmp_path: Path, tokenizer: Path):
    shape = variant("base", vocab_size=80, **SPREAD)
    encoder = Encoder(shape).eval()
    native.save(tmp_path / "weights", {f"encoder.{name}": one for name, one in encoder.state_dict().items()}, shape)
    tokenizer.rename(tmp_path / "weights" / "tokenizer.json")
    assert "hidden states differ" in export_onnx(tmp_path / "weights", tmp_path / "onnx")
    reading = Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json"))
    assert len(reading.encode("cat " * 1000).ids) == shape.longest_text
    batch = other_texts(80)
    with torch.inference_mode():
        apart = (OnnxModel(tmp_path / "onnx" / FILE)(batch) - encoder(batch))[batch.attention_mask]
    assert apart.abs().max() < 1e-4
