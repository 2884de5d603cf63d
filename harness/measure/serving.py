"""A model as it is served: what runs it (measure.backend), and in what its weights are kept (measure.precision).

It is written to a file and read from there, as a server does. Training is that of the plain model.
"""

import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.ao.nn.quantized import dynamic

from harness.checkpoints import onnx_file
from harness.checkpoints.onnx_file import OnnxModel, library
from harness.config.choices import Backend, Dtype, Precision
from harness.config.schema import MeasureConfig, RunConfig
from harness.errors import InputError, present
from harness.hardware.device import Machine
from harness.measure import subject
from harness.models.heads import Classifier

FILE = "served.model"

KEYS = {"measure.backend", "measure.precision"}
"""What says how a model is served: where they are swept, the plain model is written and read as the others are, too."""

PRODUCTS, EIGHT_BITS = (nn.Linear, nn.LSTM), (dynamic.Linear, dynamic.LSTM)
"""Modules that multiply by weights, and what eager quantisation puts in their place."""

LIBRARIES = {
    Backend.onnxruntime: ("onnx", "onnxruntime", "onnxruntime.quantization"),
    Precision.int8_weights: ("torchao.quantization",),
}
"""Optional packages, by what needs them."""


def is_from_file(config: RunConfig) -> bool:
    """Whether the memory of inference is that of a model that is read from its file."""
    return config.measure.is_served or bool(KEYS & {*config.swept})


def machine(config: RunConfig) -> Machine:
    """The device set up for serving, or for training if the model is plain. InputError without one."""
    for needed in (config.measure.backend, config.measure.precision):
        for name in LIBRARIES.get(needed, ()):
            library(name)
    hardware = config.hardware
    if config.measure.backend is Backend.compile:
        hardware = replace(hardware, compile=True)
    if config.measure.precision is Precision.bf16:
        hardware = replace(hardware, dtype=Dtype.bf16)
    return Machine(hardware)


def write(model: Classifier, measure: MeasureConfig, path: Path) -> int:
    """Writes the model as it is served and returns the bytes of the file.

    InputError for a model that ONNX cannot express, or whose file has products that are not of the precision.
    """
    copy = type(model)(
        model.encoder.config, present(model.head).out_features
    ).eval()  # without what a machine has made of its layers
    copy.load_state_dict(model.state_dict())
    if measure.backend is Backend.onnxruntime:
        onnx_file.write(copy, path)
        if measure.precision is Precision.int8_dynamic:
            onnx_file.round_weights(path)
    else:
        with warnings.catch_warnings(action="ignore"):  # eager quantisation moves to another package, which is slower on a CPU
            torch.save(_rounded(copy, measure.precision), path)
    expected = {Precision.fp32: "float32", Precision.bf16: "bfloat16"}.get(measure.precision, "int8")
    found = products(path, measure)
    others = {kind: count for kind, count in found.items() if kind != expected}
    if others:
        path.unlink()
        kept = ", ".join(f"{count} in {kind}" for kind, count in others.items())
        raise InputError(
            f"measure.precision={measure.precision.value}: measure.backend={measure.backend.value} would keep {kept} of the "
            f"{sum(found.values())} products with weights: expected another precision or backend"
        )
    return path.stat().st_size


def products(path: Path, measure: MeasureConfig) -> Counter[str]:
    """Type of the weights -> products with weights in the file that `write` wrote."""
    if measure.backend is Backend.onnxruntime:
        return onnx_file.products(path)
    count: Counter[str] = Counter()
    for module in _read(path).modules():
        if isinstance(module, EIGHT_BITS):
            count["int8"] += 1
        elif isinstance(module, PRODUCTS):
            weight = next(module.parameters())
            count["int8" if type(weight) is not nn.Parameter else str(weight.dtype).removeprefix("torch.")] += 1
    return count


def _rounded(model: nn.Module, precision: Precision) -> nn.Module:
    if precision is Precision.bf16:
        for module in model.modules():
            if isinstance(module, (*PRODUCTS, nn.Embedding)):
                module.bfloat16()
    elif precision is Precision.int8_dynamic:
        torch.ao.quantization.quantize_dynamic(model, {*PRODUCTS}, dtype=torch.qint8, inplace=True)
    elif precision is Precision.int8_weights:
        torchao = library("torchao.quantization")
        torchao.quantize_(model, torchao.Int8WeightOnlyConfig())
        for module in model.modules():
            vars(module).pop("extra_repr", None)  # which cannot be saved
    return model


def _read(path: Path) -> nn.Module:
    with warnings.catch_warnings(action="ignore"):
        return torch.load(path, weights_only=False)  # which this command has written


def load(path: Path, measure: MeasureConfig, machine: Machine) -> nn.Module:
    """The model that `write` wrote, ready to run on the machine."""
    if measure.backend is Backend.onnxruntime:
        return OnnxModel(path)
    model = _read(path)
    return machine.prepare(model) if measure.backend is Backend.compile or not measure.is_served else model


def build(config: RunConfig, machine: Machine, folder: Path) -> nn.Module:
    """The variant with random weights on the device, as it is served: read from the folder if it is not plain."""
    return load(folder / FILE, config.measure, machine) if config.measure.is_served else subject.build(config, machine)
