"""ONNX files: which variants have one, that they compute what torch does, and what is refused."""

import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from variant_files import variant
from variants import VARIANTS

from harness.__main__ import main
from harness.checkpoints import finetuned, native, onnx_file
from harness.checkpoints.onnx_file import FILE, OnnxModel, write
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.encoder import Encoder
from harness.models.heads import SequenceClassifier, TokenClassifier, build_classifier

pytestmark = pytest.mark.long

INEXPRESSIBLE = ("deberta", "deberta_v3", "transformer_xl", "xlnet")
"""Their shapes follow from the length of the text by Python's numbers, which a trace fixes."""

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


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in INEXPRESSIBLE])
def test_logits_are_those_of_torch_for_other_numbers_of_texts_and_tokens(name: str, tmp_path: Path):
    model = build_classifier(variant(name, vocab_size=500, **SPREAD), 3, 0).eval()
    write(model, tmp_path / FILE)
    assert_close(tmp_path / FILE, model, other_texts(500))


@pytest.mark.parametrize("name", INEXPRESSIBLE)
def test_a_variant_that_onnx_cannot_express_is_named_and_leaves_no_file(name: str, tmp_path: Path):
    with pytest.raises(InputError, match="ONNX cannot express this model") as refused:
        write(build_classifier(variant(name, vocab_size=500, **SPREAD), 3, 0), tmp_path / FILE)
    assert "\n" not in str(refused.value)
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_file, "OnnxModel", lambda path: lambda batch: OnnxModel(path)(batch) + 1e-4)
    with pytest.raises(InputError, match="outputs differ from torch's by"):
        write(build_classifier(variant("base", vocab_size=500, **SPREAD), 3, 0), tmp_path / FILE)
    assert [*tmp_path.iterdir()] == []


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
    assert f"to='{out}' is there already" in capsys.readouterr().err


def test_a_pretraining_gives_its_last_hidden_states(tmp_path: Path, tokenizer: Path):
    shape = variant("base", vocab_size=80, **SPREAD)
    encoder = Encoder(shape).eval()
    native.save(tmp_path / "weights", {f"encoder.{name}": one for name, one in encoder.state_dict().items()}, shape)
    tokenizer.rename(tmp_path / "weights" / "tokenizer.json")
    assert "hidden states differ" in onnx_file.export(tmp_path / "weights", tmp_path / "onnx")
    reading = Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json"))
    assert len(reading.encode("cat " * 1000).ids) == shape.longest_text
    batch = other_texts(80)
    with torch.inference_mode():
        apart = (OnnxModel(tmp_path / "onnx" / FILE)(batch) - encoder(batch))[batch.attention_mask]
    assert apart.abs().max() < 1e-4


def test_a_missing_package_is_one_line_with_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"^onnx is missing .*: pip install 'encoder-variant-harness\[serve\]'$"):
        write(build_classifier(variant("base"), 3, 0), tmp_path / FILE)
