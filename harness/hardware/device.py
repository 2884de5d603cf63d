"""The device as a worker uses it: arithmetic, threads, compilation, synchronisation."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator

import torch
from torch import nn

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from harness.hardware import facts

GRAPHS = 64
"""Shapes and modes that a model is compiled for at most, more being an error; torch stops at 8 and goes on uncompiled."""

COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Where torch.compile looks for what it made before."""


@contextlib.contextmanager
def empty_compiler_cache() -> Iterator[None]:
    """What is compiled inside is compiled anew, so that its time does not depend on what ran on this machine before."""
    before = os.environ.get(COMPILER_CACHE)
    with tempfile.TemporaryDirectory(prefix="harness-compiler-", ignore_cleanup_errors=True) as folder:
        os.environ[COMPILER_CACHE] = folder
        try:
            yield
        finally:
            os.environ.pop(COMPILER_CACHE)
            os.environ.update({} if before is None else {COMPILER_CACHE: before})


class Machine:
    """The device as a worker uses it."""

    def __init__(self, config: HardwareConfig) -> None:
        """RuntimeError when the device is not there."""
        if config.device is Device.cuda and not torch.cuda.is_available():
            raise RuntimeError("hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu")
        self.device = torch.device(config.device.value)
        self._half = config.dtype is Dtype.bf16
        self.compiles = config.compile
        self._compiling = _Compiling() if config.compile else None
        self._threads = facts.threads(config)
        self.use_threads(self._threads)

    @property
    def is_cuda(self) -> bool:
        """Whether work is asynchronous and memory is the GPU's."""
        return self.device.type == "cuda"

    def use_threads(self, count: int | None = None) -> None:
        """Sets the CPU threads, by default those of training."""
        torch.set_num_threads(count or self._threads)

    def autocast(self):
        """Context of every forward pass: bfloat16 products over float32 weights, or nothing.

        RuntimeError, naming the key, where the model cannot be compiled in it.
        """
        half = torch.autocast(self.device.type, dtype=torch.bfloat16) if self._half else contextlib.nullcontext()
        return _failures_named(half) if self.compiles else half

    def compiled(self, model: "nn.Module") -> "nn.Module":
        """The same module with the same names of tensors; where hardware.compile says so, its calls run compiled.

        One graph is for all lengths and batch sizes, but for what the model itself decides by them, and random draws are
        those of the uncompiled model.
        """
        if self.compiles:
            from torch._dynamo import config as limits

            limits.recompile_limit, limits.fail_on_recompile_limit_hit = GRAPHS, True
            model.compile(dynamic=True, options={"fallback_random": True})
        return model

    def uncompiled(self):
        """Context in which all calls run operator by operator, for whoever counts operators."""
        return torch.compiler.set_stance("force_eager") if self.compiles else contextlib.nullcontext()

    def compiling_s(self) -> float:
        """Seconds that this process has spent compiling so far, of whatever call, shape or backward pass."""
        return 0.0 if self._compiling is None else self._compiling.seconds

    def tell_compiled(self, phase: str) -> None:
        """Prints how many graphs this process has by now, where models run compiled."""
        if self._compiling is not None:
            print(f"torch.compile: {self._compiling.told()} up to the end of {phase}", flush=True)

    def synchronise(self) -> None:
        """Waits until the device has done what it was given."""
        if self.is_cuda:
            torch.cuda.synchronize()


class _Compiling:
    """What this process compiles from here on; the compiler is loaded now, so that no time and memory of a model has it."""

    def __init__(self) -> None:
        from torch._dynamo.callback import on_compile_end, on_compile_start
        from torch._inductor import compile_fx  # noqa: F401

        self.seconds, self._since = 0.0, 0.0
        on_compile_start(self._start)
        on_compile_end(self._end)

    def _start(self, *_: object) -> None:
        self._since = time.perf_counter()

    def _end(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._since

    def told(self) -> str:
        """Graphs of this process, places where a call leaves them for Python, and seconds."""
        from torch._dynamo.utils import counters

        graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
        return f"{graphs} graphs, {breaks} graph breaks, {self.seconds:.1f} s of compiling"


@contextlib.contextmanager
def _failures_named(inside: contextlib.AbstractContextManager) -> Iterator[None]:
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    try:
        with inside:
            yield
    except (TorchDynamoException, FailOnRecompileLimitHit) as error:
        said = " ".join(str(error).split())[:300]
        raise RuntimeError(
            f"hardware.compile=true, but torch.compile fails here; set hardware.compile=false ({said})"
        ) from error
