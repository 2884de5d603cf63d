"""Keys, words and switches of `plan`, `profile` and `memory`."""

import re
from pathlib import Path
from typing import Any, ClassVar

from harness import hardware, study
from harness.errors import InputError
from harness.grammar import Composed, arguments, key
from harness.models.ranges import Range
from harness.plugins.shared.options import ABOVE_ZERO, COUNT

BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def bytes_of(name: str, text: str) -> int:
    """`2GB`, `1.5GiB` or `800 MB`; InputError for anything else, as a number without a unit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?i?B)", text.strip(), re.IGNORECASE)
    size = float(match[1]) * BYTES.get(match[2].upper(), 0) if match else 0.0
    if not 0 < size < float("inf"):
        raise InputError(f"{name}={text!r} must be a size above 0 with its unit, such as 800MB, 2GB or 1.5GiB")
    return int(size)


class Measured(Composed):
    """Measures on the device of its runs."""

    def refuse(self, configs: list[Any]) -> None:
        hardware.refuse_without_driver(configs)


@arguments
class Plan(Composed):
    """Shows what a command would run, and about how long it would take, without running it.

    Everything else is as for a run: -m model=base,albert task=sst2 ... or +experiment=NAME
    """

    replicates: ClassVar[bool] = True

    probe: bool = key(False, "Time a few steps of each model that no earlier run has timed, some seconds each.")
    flops_per_second: float | None = key(
        None,
        "FLOP/s of another device, to estimate training time from counted FLOPs.",
        range=ABOVE_ZERO,
    )
    price: float | None = key(None, "Price per device hour, to estimate the cost.", range=ABOVE_ZERO)

    def overrides(self) -> list[str]:
        return self.typed()

    def begin(self) -> None:
        if self.probe:
            study.prepare_workers()


@arguments
class Profile(Measured):
    """Measures parameters, FLOPs, latency and memory of variants side by side, without data and training.

    Everything else chooses the variants, as for `python -m harness`: model=base,windowed scale=mini 'enhancement=[swiglu]'
    measure.length=256 measure.batch_size=8 finetune.batch_size=16 hardware.dtype=bf16 model.KEY=VALUE. Commas make columns.
    """

    rounds: int | None = key(
        None, "Launches per variant. Default: 5 to 20, as many as fit in a minute; 1 for a single variant.", range=COUNT
    )
    trace: bool = key(False, "Also time each component, and write a trace file per variant.")
    json: bool = key(False, "Write the raw values to profile.json.")
    to: Path = key(Path("multirun", "profile"), "Folder of these files, in `output` if that is set.")

    def refuse(self, configs: list[Any]) -> None:
        if self.trace and any(config.hardware.device.value != "cpu" for config in configs):
            raise InputError("--trace times the CPU only: set hardware=cpu")
        super().refuse(configs)

    def overrides(self) -> list[str]:
        return [*([] if self.is_sweep else ["-m"]), *self.with_a_task()]  # each column is a run of a sweep


@arguments
class Memory(Measured):
    """Shows the memory of a training step, measured and by formula.

    Everything else chooses model and machine: model=albert scale=base hardware.threads=2 ...
    """

    batch_sizes: tuple[int, ...] = key((1, 4, 8), "Batch sizes to try.", range=Range(at_least=1, limit=1e6))
    length: str | None = key(None, "Tokens per sequence. Default: measure.length.")
    activation_checkpointing: str | None = key(
        None,
        "true, false or both. Default: finetune.activation_checkpointing.",
        choices=("true", "false", "both"),
        called="choice",
    )
    fits: int | None = key(None, "Memory limit; finds the largest batch that fits. Example: 2GB.", read=bytes_of)

    def overrides(self) -> list[str]:
        return [*super().overrides(), *([f"measure.length={self.length}"] if self.length else [])]
