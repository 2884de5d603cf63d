"""The peak is that of products that ran, and a utilisation above it is reported, not hidden."""

import itertools
from collections.abc import Callable

import pytest
import torch

from harness.config.choices import Dtype, Products
from harness.config.schema import HardwareConfig
from harness.hardware import peak_flops
from harness.hardware.device import Machine


@pytest.fixture
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1, products=Products.torch))


@pytest.fixture
def takes(monkeypatch) -> Callable[[Callable[[int], float]], list[int]]:
    """Products take seconds by their rows, on a clock that nothing else moves; returns the rows of each that is made."""
    rows: list[int] = []

    def plant(seconds: Callable[[int], float]) -> list[int]:
        now = [0.0]

        def mm(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> None:
            rows.append(len(left))
            now[0] += seconds(len(left))

        monkeypatch.setattr(peak_flops.torch, "mm", mm)
        monkeypatch.setattr(peak_flops.time, "perf_counter", lambda: now[0])
        return rows

    return plant


def test_peak_is_that_of_a_product_of_known_flops_and_time(machine, takes):
    takes(lambda size: {512: 0.004, 1024: 0.002}.get(size, 0.05))
    peak = peak_flops.peak_flops_per_s(machine, seconds=0.4)
    assert peak == pytest.approx(2 * 1024**3 / 0.002)


@pytest.mark.parametrize(
    ("dtype", "expected"), [(Dtype.fp32, torch.float32), (Dtype.bf16, torch.bfloat16)], ids=["fp32", "bf16"]
)
def test_products_are_measured_in_the_arithmetic_of_the_run(dtype, expected, monkeypatch):
    seen = set()
    monkeypatch.setattr(peak_flops.torch, "mm", lambda left, right, out: seen.add(left.dtype))
    peak_flops.peak_flops_per_s(Machine(HardwareConfig(threads=1, dtype=dtype, products=Products.torch)), seconds=0.01)
    assert seen == {expected}


def test_the_product_is_that_of_the_library_that_linear_layers_use(monkeypatch):
    seen, machine = [], Machine(HardwareConfig(threads=1, products=Products.onednn))
    monkeypatch.setattr(peak_flops.products, "product", lambda left, right: seen.append(left.shape))
    peak_flops.peak_flops_per_s(machine, seconds=0.01)
    assert seen


def test_a_size_that_would_not_fit_the_time_is_not_tried(machine, takes):
    sizes = takes(lambda size: 0.01)
    peak_flops.peak_flops_per_s(machine, seconds=0.1)
    assert set(sizes) == {512}


def test_utilisation_is_the_share_of_the_peak():
    assert peak_flops.mfu(30e9, 2.0, 60e9) == 0.25
    assert peak_flops.mfu(30e9, 2.0, None) is None


def test_utilisation_above_one_is_an_error_with_both_numbers():
    with pytest.raises(RuntimeError, match=r"above 1: 3e\+10 FLOP/s, .* gave 2e\+10 FLOP/s"):
        peak_flops.mfu(60e9, 2.0, 20e9)


def test_a_peak_under_load_is_measured_once_more():
    peaks = iter([20e9, 60e9])
    assert peak_flops.utilisation(60e9, 2.0, lambda: next(peaks)) == (60e9, 0.5)


def test_a_utilisation_that_stays_above_one_is_left_out_and_told(capsys):
    peaks = iter([20e9, 10e9])
    assert peak_flops.utilisation(60e9, 2.0, lambda: next(peaks)) == (20e9, None)
    assert "left out: utilisation above 1: 3e+10" in capsys.readouterr().out


@pytest.mark.long
def test_the_peak_is_that_of_the_fastest_call_and_size_in_any_order(machine, takes):
    """Other work slows single calls down; the peak is what the device can do."""
    calls = itertools.count()
    takes(lambda size: 2 * size**3 / {512: 6e11, 1024: 9e11}.get(size, 3e11) * (3 if next(calls) % 2 else 1))
    assert peak_flops.peak_flops_per_s(machine, seconds=2.0) == pytest.approx(9e11)
