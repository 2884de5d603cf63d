"""On what a cell runs: device, arithmetic, threads, and the facts about them that a reader needs."""

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.choices import Device, Dtype
from harness.config import HardwareConfig

if TYPE_CHECKING:
    from torch import nn

PACKAGES = ("torch", "numpy", "tokenizers", "datasets", "safetensors", "scikit-learn", "scipy", "mlflow", "hydra-core")

GRAPHS = 64
"""Shapes and modes that a model is compiled for at most, more being an error; torch stops at 8 and goes on uncompiled."""

COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Where torch.compile looks for what it made before."""


def threads(config: HardwareConfig) -> int:
    """CPU threads of training: the given number, or the cores that this process may use."""
    return config.threads or len(os.sched_getaffinity(0))


def device_name(config: HardwareConfig) -> str:
    """The processor's or the GPU's own name."""
    if config.device is Device.cuda:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
        return "unknown GPU"
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def description(config: HardwareConfig) -> str:
    """One line for tags and report headers."""
    compiled = ", compiled" if config.compile else ""
    return f"{device_name(config)}, {threads(config)} threads, {config.dtype.value}{compiled}"


def environment(config: HardwareConfig) -> dict[str, object]:
    """Versions, machine and load at this moment; what cannot be read is None."""
    versions = {name: _version(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        **versions,
        "platform": platform.platform(),
        "device": device_name(config),
        "cores": os.cpu_count(),
        "threads": threads(config),
        "dtype": config.dtype.value,
        "compile": config.compile,
        "load_average": os.getloadavg()[0],
        "energy_counter": _energy_counter(config),
        **git_state(),
    }


def _energy_counter(config: HardwareConfig) -> str | None:
    """RAPL or NVML, None where the device has no counter or does not let this user read it."""
    from harness.measure import energy

    return energy.kind(config.device)


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


def free_bytes(config: HardwareConfig) -> int | None:
    """Memory that a new process could take on the device; None for a GPU that does not say."""
    if config.device is Device.cpu:
        import psutil

        return psutil.virtual_memory().available
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) << 20
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def git_state() -> dict[str, object]:
    """Commit of the harness's own checkout and whether it has uncommitted changes; None when it is not one."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return {"git_commit": None, "git_dirty": None}
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return {"git_commit": commit, "git_dirty": bool(_git(folder, "status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {"git_commit": None, "git_dirty": None}


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Machine:
    """The device as a worker uses it."""

    def __init__(self, config: HardwareConfig) -> None:
        """RuntimeError when the device is not there."""
        import torch

        if config.device is Device.cuda and not torch.cuda.is_available():
            raise RuntimeError("hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu")
        self.device = torch.device(config.device.value)
        self._half = config.dtype is Dtype.bf16
        self.compiles = config.compile
        self._compiling = _Compiling() if config.compile else None
        self._threads = threads(config)
        self.use_threads(self._threads)

    @property
    def is_cuda(self) -> bool:
        """Whether work is asynchronous and memory is the GPU's."""
        return self.device.type == "cuda"

    def use_threads(self, count: int | None = None) -> None:
        """Sets the CPU threads, by default those of training."""
        import torch

        torch.set_num_threads(count or self._threads)

    def autocast(self):
        """Context of every forward pass: bfloat16 products over float32 weights, or nothing.

        RuntimeError, naming the key, where the model cannot be compiled in it.
        """
        import torch

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
        import torch

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
        import torch

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
