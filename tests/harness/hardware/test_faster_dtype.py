"""hardware.dtype=auto is the arithmetic with the faster matrix products here, decided once, and recorded by its own name."""

import re
from dataclasses import replace

import pytest
import torch

from harness.checkpoints import start
from harness.config.choices import Device, Dtype
from harness.config.resolve import resolve
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware import facts
from harness.hardware.device import Machine
from harness.hardware.facts import ProductRates

AUTO = HardwareConfig(dtype=Dtype.auto, threads=4)


@pytest.fixture(autouse=True)
def forgotten():
    facts._faster.cache_clear()
    yield
    facts._faster.cache_clear()


@pytest.fixture
def measured(monkeypatch):
    """Replaces the measurement by given products; returns the list of what was asked."""
    asked = []

    def give(products: ProductRates) -> list:
        monkeypatch.setattr(facts, "product_rates", lambda *of: asked.append(of) or products)
        return asked

    return give


@pytest.mark.parametrize(("fp32", "bf16", "expected"), [(90e9, 400e9, Dtype.bf16), (90e9, 9e9, Dtype.fp32), (1, 1, Dtype.fp32)])
def test_the_faster_one_is_chosen_once_and_said(measured, capsys, fp32, bf16, expected):
    asked = measured(ProductRates(fp32, bf16))
    assert [facts.chosen_dtype(AUTO), facts.chosen_dtype(AUTO)] == [expected, expected]
    assert asked == [(Device.cpu, 1)]  # one thread: several wait for each other where a CPU is busy
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert f"hardware.dtype=auto is {expected.value} here" in printed


def test_a_stated_one_is_kept_without_measuring(measured):
    asked = measured(ProductRates(1.0, 2.0))
    assert facts.chosen_dtype(HardwareConfig(dtype=Dtype.fp32)) is Dtype.fp32
    assert not asked


@pytest.mark.long
def test_products_of_both_are_measured_in_a_process_of_its_own():
    found = facts.product_rates(Device.cpu, 1)
    assert 1e8 < found.fp32 < 1e14
    assert 1e8 < found.bf16 < 1e15


@pytest.mark.long
def test_a_device_that_is_missing_is_one_line():
    with pytest.raises(InputError, match=r"hardware\.dtype=auto cannot be decided: .*set hardware\.dtype=fp32 or bf16"):
        facts.product_rates(Device.cuda, 1)


@pytest.mark.long
def test_the_run_is_that_of_the_chosen_one(measured, compose):
    measured(ProductRates(1.0, 2.0))
    auto, stated = (compose("task=bag", f"hardware.dtype={dtype}")[0] for dtype in ("auto", "bf16"))
    resolved = resolve(auto, start.read(auto))
    assert resolved.hardware.dtype is Dtype.bf16
    expected = resolve(stated, start.read(stated))
    assert replace(resolved, overrides=[]) == replace(expected, overrides=[])


def test_a_machine_computes_in_the_chosen_one(measured):
    measured(ProductRates(1.0, 2.0))
    with Machine(AUTO).autocast():
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.long
def test_a_sweep_over_it_is_refused(measured, compose):
    measured(ProductRates(1.0, 2.0))
    swept = compose("-m", "task=bag", "hardware.dtype=fp32,auto")[1]
    with pytest.raises(InputError, match=re.escape("sweep hardware.dtype=fp32,bf16")):
        resolve(swept, start.read(swept))
