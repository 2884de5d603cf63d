"""ONNX files: which variants have one, that they compute what torch does, and what is refused."""

import sys
from pathlib import Path

import pytest
import torch
from variant_files import variant
from variants import VARIANTS

from harness.checkpoints import onnx_file
from harness.checkpoints.onnx_file import FILE, OnnxModel, write
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.heads import build_classifier

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
    with pytest.raises(InputError, match=r"ONNX cannot express this model.*set measure.backend=torch") as refused:
        write(build_classifier(variant(name, vocab_size=500, **SPREAD), 3, 0), tmp_path / FILE)
    assert "\n" not in str(refused.value)
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_file, "OnnxModel", lambda path: lambda batch: OnnxModel(path)(batch) + 1e-4)
    with pytest.raises(InputError, match=r"outputs differ from torch's by.*set measure.backend=torch"):
        write(build_classifier(variant("base", vocab_size=500, **SPREAD), 3, 0), tmp_path / FILE)
    assert [*tmp_path.iterdir()] == []


def test_a_missing_package_is_one_line_with_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"^onnx is missing .*: pip install 'encoder-variant-harness\[serve\]'$"):
        write(build_classifier(variant("base"), 3, 0), tmp_path / FILE)
