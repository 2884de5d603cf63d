"""The device as a worker uses it: arithmetic, threads, compilation, synchronisation."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from harness.config.choices import Device, Dtype, Products
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware import NO_GPU, facts, outer_launcher, products

M = TypeVar("M", bound=nn.Module)

COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable with the folder of compiled code."""


@contextlib.contextmanager
def empty_compiler_cache(folder: Path) -> Iterator[None]:
    """Inside, torch.compile starts without a cache, so its time does not depend on earlier runs.

    Its cache is in the folder of this process alone, from which that of a killed one is removed.
    """
    before, cache = os.environ.get(COMPILER_CACHE), folder / f".compiler.{os.getpid()}"
    for old in folder.glob(".compiler.*"):
        shutil.rmtree(old, ignore_errors=True)
    os.environ[COMPILER_CACHE] = str(cache.absolute())
    try:
        yield
    finally:
        shutil.rmtree(cache, ignore_errors=True)
        os.environ.pop(COMPILER_CACHE)
        os.environ.update({} if before is None else {COMPILER_CACHE: before})


def refuse_missing(config: HardwareConfig) -> None:
    """InputError for more devices than this machine has, or for another number than that of the processes of torchrun."""
    started = outer_launcher.processes()
    if started > 1 and config.devices != started:
        raise InputError(
            f"torchrun has started {started} processes (WORLD_SIZE), but hardware.devices={config.devices}: "
            f"set hardware.devices={started}, or start the command without torchrun"
        )
    here = config.devices if started == 1 else outer_launcher.processes_here()
    if config.device is Device.cuda and here > 1 and here > (gpus := torch.cuda.device_count()):
        raise InputError(
            f"hardware.devices={config.devices}, but this machine has {gpus} GPU{'' if gpus == 1 else 's'}: "
            f"set hardware.devices to at most that, or choose hardware=cpu"
        )
    if config.device is Device.cpu and here > (cores := facts.cores()):
        raise InputError(
            f"hardware.devices={config.devices} processes share {cores} cores: set hardware.devices to at most that"
        )


def refuse_absent(config: HardwareConfig) -> None:
    """InputError for a GPU where this machine has none."""
    if config.device is Device.cuda and not torch.cuda.is_available():
        raise InputError(NO_GPU)


class Machine:
    """The device as a worker uses it."""

    def __init__(self, config: HardwareConfig, number: int = 0) -> None:
        """`number` is that of the GPU. InputError if the device is not available."""
        refuse_absent(config)
        self.device = torch.device(config.device.value)
        if number > 0 and self.is_cuda:
            self.device = torch.device(config.device.value, number)
            torch.cuda.set_device(self.device)
        self._half = facts.chosen_dtype(config) is Dtype.bf16
        self.compiles = config.compile
        self._compiling = None
        if config.compile:
            from harness.hardware.compiling import Compiling  # takes 2 s, and only compiled models need it

            self._compiling = Compiling()
        chosen = config.products is Products.onednn or (config.products is Products.auto and products.is_faster_here())
        self.multiplies_with_onednn = chosen and not (self.is_cuda or self._half or self.compiles)
        if self.multiplies_with_onednn:
            products.load()
        self._threads = facts.threads(config)
        self.use_threads(self._threads)

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a GPU: calls are asynchronous and tensors are in GPU memory."""
        return self.device.type == "cuda"

    def use_threads(self, count: int | None = None) -> None:
        """Sets the CPU threads, by default those of training."""
        torch.set_num_threads(count or self._threads)

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Context of every forward pass: bfloat16 products over float32 weights, or nothing.

        RuntimeError, naming the key, if the model cannot be compiled.
        """
        half: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        half = torch.autocast(self.device.type, dtype=torch.bfloat16) if self._half else half
        return self._compiling.failures_named(half) if self._compiling else half

    def prepare(self, model: M) -> M:
        """The module with its tensor names, as this machine runs it: compiled, or with the chosen matrix products.

        One compiled graph serves all lengths and batch sizes, unless the model branches on them; random numbers are those of
        the uncompiled model.
        """
        if self.compiles:
            model.compile(dynamic=True, options={"fallback_random": True})
        elif self.multiplies_with_onednn:
            products.use_onednn(model)
        return model

    def compiling_s(self) -> float:
        """Seconds that this process has spent compiling."""
        return 0.0 if self._compiling is None else self._compiling.seconds

    def print_compiled(self, phase: str) -> None:
        """Prints the number of graphs so far, if models run compiled."""
        if self._compiling is not None:
            print(f"torch.compile: {self._compiling.summary()} up to the end of {phase}", flush=True)

    def synchronise(self) -> None:
        """Waits until the device has finished all work."""
        if self.is_cuda:
            torch.cuda.synchronize()
