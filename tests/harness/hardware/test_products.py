"""Linear layers through oneDNN: the same function and gradients as torch's own, and where they are chosen."""

from pathlib import Path

import pytest
import torch
from torch import nn

from harness.config.choices import Dtype, Products
from harness.config.schema import HardwareConfig
from harness.hardware import products
from harness.hardware.device import Machine

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


def pair(bias: bool = True, outputs: int = 160) -> tuple[nn.Linear, nn.Linear]:
    """The same layer twice, the first through oneDNN."""
    torch.manual_seed(0)
    first, second = (nn.Linear(96, outputs, bias=bias) for _ in range(2))
    second.load_state_dict(first.state_dict())
    products.use_onednn(first)
    return first, second


@needs_onednn
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("width", [160, 64], ids=["wider", "narrower"])
@pytest.mark.parametrize("shape", [(192, 96), (4, 60, 96), (1, 96)], ids=str)
def test_outputs_and_gradients_are_those_of_a_plain_linear_layer(shape: tuple[int, ...], width: int, bias: bool):
    first, second = pair(bias, width)
    given = torch.randn(shape)
    outputs, gradients = [], []
    for layer in (first, second):
        x = given.clone().requires_grad_()
        out = layer(x)
        out.square().sum().backward()
        outputs.append(out)
        gradients.append([x.grad, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5)
    for own, other in zip(*gradients, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-3)


@needs_onednn
def test_names_tensors_and_double_precision_stay():
    first, second = pair()
    assert list(first.state_dict()) == list(second.state_dict())
    x = torch.randn(200, 96, dtype=torch.float64)
    torch.testing.assert_close(first.double()(x), second.double()(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("vendor_id\t: AuthenticAMD\nflags\t: avx2 avx512f avx512_bf16", True),
        ("vendor_id\t: AuthenticAMD\nflags\t: avx2", False),
        ("vendor_id\t: GenuineIntel\nflags\t: avx2 avx512f", False),
        ("Features: neon", False),
    ],
)
def test_auto_follows_the_processor(facts: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(products, "CPUINFO", tmp_path / "cpuinfo")
    assert not products.is_faster_here()
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{facts}\n")
    assert products.is_faster_here() is expected


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        (HardwareConfig(products=Products.onednn), True),
        (HardwareConfig(products=Products.torch), False),
        (HardwareConfig(products=Products.onednn, dtype=Dtype.bf16), False),
    ],
    ids=["onednn", "torch", "bf16"],
)
def test_a_prepared_model_multiplies_with_the_library_that_is_asked_for(hardware: HardwareConfig, expected: bool):
    model = Machine(hardware).prepare(nn.Sequential(nn.Linear(2, 2)))
    assert isinstance(model[0], products.OneDnnLinear) is expected
