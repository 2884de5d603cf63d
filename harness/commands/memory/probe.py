"""One training step's memory in a process of its own, and the largest batch that fits, by as many of them as it takes.

python -m harness.memory.probe FOLDER     the process: reads config.yaml and asked.json there, leaves measured.json
"""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import processes
from harness.config.choices import Device
from harness.config.schema import RunConfig, save
from harness.hardware import facts

if TYPE_CHECKING:
    from harness.measure.training_memory import Asked, Measured

LARGEST = 4096
"""Sequences of the largest batch that is tried."""

GUARD_SHARE, GUARD_BYTES = 1.5, 512 << 20
"""How far beyond its limit a process may ask for memory before it is refused: more than it can hold without going over."""

NO_MEMORY = ("allocate memory", "not enough memory", "out of memory", "bad_alloc", "MemoryError")
"""What torch, Python and C++ say when memory is refused."""


@dataclass(frozen=True)
class Probe:
    """What came of one process: what it measured, or why it was stopped."""

    batch_size: int
    measured: "Measured | None"
    stopped: str = ""

    @property
    def peak(self) -> int | None:
        """Bytes above the baseline at the worst moment; None for a process that was stopped."""
        return None if self.measured is None else self.measured.peak.kernel

    def fits(self, limit: int) -> bool:
        """Whether it ran and stayed within so many bytes."""
        return self.peak is not None and self.peak <= limit


@dataclass(frozen=True)
class Fit:
    """Where the border lies: the largest batch that fitted, and the smallest one that did not."""

    fitting: Probe | None
    failing: Probe | None


def probe(config: RunConfig, asked: "Asked", limit: int | None = None) -> Probe:
    """Measures in a fresh process; that it was refused memory, or killed for it, is a result. RuntimeError otherwise."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(config, folder / "config.yaml")
        (folder / "asked.json").write_text(json.dumps(asdict(asked) | {"limit": limit}))
        log = folder / "log.txt"
        code = processes.run("harness.commands.memory.probe", [name], facts.threads(config.hardware), log)
        return _outcome(asked.batch_size, code, log, folder / "measured.json")


def _outcome(batch_size: int, code: int, log: Path, written: Path) -> Probe:
    from harness.measure.training_memory import from_plain

    if code == 0:
        return Probe(batch_size, from_plain(json.loads(written.read_text())))
    if code == -9:
        return Probe(batch_size, None, "killed")
    if any(sign in log.read_text(errors="replace") for sign in NO_MEMORY):
        return Probe(batch_size, None, "refused memory")
    raise RuntimeError(f"the process that measured batch size {batch_size} failed ({code}): {processes.last_line(log)}")


def largest(limit: int, run: Callable[[int], Probe]) -> Fit:
    """By doubling until one does not fit, then by bisection; `run` is called once for each batch size."""
    fitting, failing = None, None
    size = 1
    while failing is None and size <= LARGEST:
        tried = run(size)
        fitting, failing = (tried, None) if tried.fits(limit) else (fitting, tried)
        size *= 2
    while fitting and failing and failing.batch_size - fitting.batch_size > 1:
        tried = run((fitting.batch_size + failing.batch_size) // 2)
        fitting, failing = (tried, failing) if tried.fits(limit) else (fitting, tried)
    return Fit(fitting, failing)


def main(folder: Path) -> None:
    """Measures one step; an exception leaves nothing."""
    from harness.config import resolve
    from harness.measure.training_memory import Asked, measure, plain

    processes.end_with_parent()
    told = json.loads((folder / "asked.json").read_text())
    config = resolve.load(folder / "config.yaml")
    limit = told.pop("limit")
    if limit is not None:
        _guard(config, limit)
    (folder / "measured.json").write_text(json.dumps(plain(measure(config, Asked(**told), folder))))


def _guard(config: RunConfig, limit: int) -> None:
    """Lets the system refuse what goes far over the limit, before the machine suffers."""
    import torch

    if config.hardware.device is Device.cuda:
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.mem_get_info()[1]))
        return
    import resource

    from harness.measure.memory import data_bytes

    held = data_bytes()
    if held is not None:
        most = held + int(GUARD_SHARE * limit) + GUARD_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
