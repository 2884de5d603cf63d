"""Facts about the machine: names, versions, threads, the commit of this code, and the arithmetic that is faster here."""

import functools
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware import energy, outer_launcher
from harness.hardware.load import nvidia_smi

PACKAGES = ("torch", "numpy", "tokenizers", "datasets", "safetensors", "scikit-learn", "scipy", "mlflow", "hydra-core")


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def threads(config: HardwareConfig) -> int:
    """CPU threads of each process of training: hardware.threads, or its part of the cores that this process may use."""
    here = config.devices if outer_launcher.processes() == 1 else outer_launcher.processes_here()
    return config.threads or max(1, cores() // (here * (config.workers or 1)))


def device_name(config: HardwareConfig) -> str:
    """The processor's or the GPU's own name."""
    if config.device is Device.cuda:
        return next(iter(nvidia_smi("--query-gpu=name", "--id=0") or ["unknown GPU"]))
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def description(config: HardwareConfig) -> str:
    """One line for tags and report headers."""
    compiled = ", compiled" if config.compile else ""
    processes = "" if config.devices == 1 else f"{config.devices} processes, " if config.device is Device.cpu else ""
    gpus = f"{config.devices} × " if config.device is Device.cuda and config.devices > 1 else ""
    plural = "s" * ((number := threads(config)) > 1)
    return f"{gpus}{device_name(config)}, {processes}{number} thread{plural}, {config.dtype.value}{compiled}"


def environment(config: HardwareConfig) -> dict[str, object]:
    """Versions, machine and load at this moment; what cannot be read is None."""
    versions, is_cuda = {name: _version(name) for name in PACKAGES}, config.device is Device.cuda
    return {
        "python": platform.python_version(),
        **versions,
        "platform": platform.platform(),
        "device": device_name(config),
        "cores": os.cpu_count(),
        "threads": threads(config),
        "dtype": config.dtype.value,
        "compile": config.compile,
        "load_average": round(os.getloadavg()[0], 2),
        "energy_counter": ("NVML" if is_cuda else "RAPL") if energy.counters(cuda=is_cuda) else None,
        **git_state(),
    }


def git_state() -> dict[str, object]:
    """Commit of the harness's own checkout and whether it has uncommitted changes; None outside a checkout."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return {"git_commit": None, "git_dirty": None}
    git = ["git", "-C", str(folder)]
    try:
        commit, changes = (
            subprocess.run([*git, *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return {"git_commit": None, "git_dirty": None}
    return {"git_commit": commit, "git_dirty": bool(changes)}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


PROBE = "harness.hardware.peak_flops"
"""Module that measures, in a process of its own, because this one may not have loaded torch."""

PROBE_THREADS = 1
"""Threads that multiply on a CPU: several wait for each other, so that on a busy machine both dtypes are equally slow."""


@dataclass(frozen=True)
class ProductRates:
    """FLOP/s of the fastest matrix product in each arithmetic."""

    fp32: float
    bf16: float

    @property
    def faster(self) -> Dtype:
        """The arithmetic with the higher figure; float32 if they are equal."""
        return Dtype.bf16 if self.bf16 > self.fp32 else Dtype.fp32


def chosen_dtype(hardware: HardwareConfig) -> Dtype:
    """`hardware.dtype`, or the faster one of this machine for `auto`; what was measured is printed."""
    if hardware.dtype is not Dtype.auto:
        return hardware.dtype
    return _faster(hardware.device)


@functools.cache
def _faster(device: Device) -> Dtype:
    rates = product_rates(device, PROBE_THREADS)
    print(
        f"hardware.dtype=auto is {rates.faster.value} here: matrix products of one thread at {rates.fp32 / 1e9:,.0f} GFLOP/s "
        f"in fp32, {rates.bf16 / 1e9:,.0f} in bf16",
        file=sys.stderr,
        flush=True,
    )
    return rates.faster


def product_rates(device: Device, threads: int) -> ProductRates:
    """The rates of both arithmetics. InputError if the device is not available."""
    asked = json.dumps({"device": device.value, "threads": threads})
    process = subprocess.run([sys.executable, "-m", PROBE, asked], capture_output=True, text=True)
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or ["no output"])[-1]
        raise InputError(f"hardware.dtype=auto cannot be decided: {reason}; set hardware.dtype=fp32 or bf16")
    return ProductRates(**json.loads(process.stdout))
