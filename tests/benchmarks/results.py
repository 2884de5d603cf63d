"""The table of a benchmark run: JSON with hardware and versions, Markdown beside it, and the comparison with the last one.

A file holds one day of one machine. A benchmark that runs again on that day replaces its figures there.
"""

import importlib.metadata
import itertools
import json
import os
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from harness.config.choices import Device
from harness.config.schema import HardwareConfig
from harness.hardware import facts
from harness.hardware.device import Machine
from harness.hardware.peak_flops import peak_flops_per_s

PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "datasets", "numpy", "mlflow")

CPU_INFO = Path("/proc/cpuinfo")

BF16 = {"avx512_bf16", "amx_bf16", "bf16"}
"""Names there of instructions for bfloat16."""

EMULATED = "This processor has no instructions for bfloat16, which is emulated: rows of bf16 say nothing of one that has them."

FOLDER = "BENCHMARK_OUTPUT"
"""Environment variable: where tables and pictures go."""

HIGHER, LOWER = "higher", "lower"
BETTER = {"x": HIGHER, "x as long": LOWER, "x as much": LOWER, "%": LOWER, "% of peak": HIGHER}
"""Unit of a relative figure -> its better direction. Figures in other units depend on the load of the machine: not compared."""

CACHE = "BENCHMARK_CACHE"
"""Environment variable: a folder for prepared data, so that benchmarks of one command prepare the same data once."""

THREADS = min(2, facts.cores())
"""CPU threads of all sides."""

PEAK, ALIKE = "peak_gflops", 1.25
"""The fastest float32 matrix product on THREADS threads, in 10^9 FLOP/s, and how far two peaks of one machine may be apart:
rented processors of one name differ by a factor of two."""

TOLERANCE = 0.05
"""A median that is worse by less is no regression, even if the ranges are apart."""

TIMES_TEXT = "`x`: how many times as fast the first side is as the second. Other figures depend on the load of the machine."

Rows = dict[str, list[dict[str, Any]]]
"""Name of a benchmark -> its figures: name, value (median over rounds), unit, low, high, rounds."""


def picture_path(name: str) -> Path:
    """The file of a picture of today, beside the table."""
    folder = Path(os.environ.get(FOLDER, Path(__file__).parent / "results"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{file_name(machine(HardwareConfig()), date.today().isoformat())}-{name}.svg"


def machine(config: HardwareConfig) -> dict[str, Any]:
    """The hardware: the processor, or the GPU."""
    return {"processor": facts.device_name(config), "cores": facts.cores()} | _arithmetic(config)


def _arithmetic(config: HardwareConfig) -> dict[str, bool]:
    """Whether the processor has instructions for bfloat16; empty for a GPU, and where that is unknown."""
    if config.device is not Device.cpu or not CPU_INFO.exists():
        return {}
    flags = next((line.split() for line in CPU_INFO.read_text().splitlines() if line.startswith(("flags", "Features"))), None)
    return {} if flags is None else {"bf16": not BF16.isdisjoint(flags)}


def versions() -> dict[str, str | None]:
    """Python and packages; None for one that is missing."""
    environment = facts.environment(HardwareConfig())
    return {"python": environment["python"]} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def peak_gflops() -> float:
    """That of this processor, now."""
    machine = Machine(HardwareConfig(threads=THREADS))
    machine.use_threads()
    return peak_flops_per_s(machine) / 1e9


def are_alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two descriptions of hardware can be of one machine; one without a peak is like others without."""
    peaks = one.get(PEAK), other.get(PEAK)
    if None in peaks:
        return peaks[0] is peaks[1]
    return max(peaks) <= ALIKE * min(peaks)


def file_name(hardware: dict[str, Any], day: str) -> str:
    """The hardware in small letters, and the day."""
    text = f"{hardware['processor']} {hardware['cores']} cores"
    return f"{re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')}-{day}"


def write(
    folder: Path,
    measured: Rows,
    form: str,
    missing: Sequence[str] = (),
    config: HardwareConfig | None = None,
    peak: float | None = None,
) -> str:
    """Adds the figures to the file of today, in a quick or full form, and returns the table as Markdown.

    `missing` names what could not be measured this time, and why; `peak` is that of `peak_gflops`.
    """
    hardware, day = machine(config or HardwareConfig()), date.today().isoformat()
    hardware |= {} if peak is None else {PEAK: round(peak, 1)}
    before = last_figures(folder, hardware)
    path, table = _of_today(folder / file_name(hardware, day), hardware)
    commit = facts.git_state()
    table |= {"hardware": hardware, "date": day, "versions": versions(), "missing": list(missing)}
    for name, rows in measured.items():
        table["benchmarks"][name] = {"form": form, **commit, "rows": rows}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table, indent=1, sort_keys=False, allow_nan=False) + "\n")
    pictures = sorted(found.name for found in folder.glob(f"{path.stem}-*.svg"))
    text = markdown(table, before) + "".join(f"\n![{picture}]({picture})\n" for picture in pictures)
    path.with_suffix(".md").write_text(text)
    return text


def _of_today(stem: Path, hardware: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The file of this machine and what it holds already; another machine of the same name has a file of its own."""
    path = stem.with_name(f"{stem.name}.json")
    numbers = itertools.count(2)
    while path.exists():
        table = json.loads(path.read_text())
        if are_alike(table["hardware"], hardware):
            return path, table
        path = stem.with_name(f"{stem.name}-{next(numbers)}.json")
    return path, {"benchmarks": {}}


def last_figures(folder: Path, hardware: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """(benchmark, name) -> the newest figure of the same hardware so far, with its date and form."""
    found = {}
    for path in sorted(folder.glob(f"{file_name(hardware, '')}*.json")):
        table = json.loads(path.read_text())
        if not are_alike(table["hardware"], hardware):
            continue
        for benchmark, part in table["benchmarks"].items():
            for row in part["rows"]:
                found[benchmark, row["name"]] = row | {"date": table["date"], "form": part["form"]}
    return found


def is_regression(row: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether the median is worse than TOLERANCE allows and no round is as good as the worst one before."""
    better = BETTER.get(row["unit"])
    if better is None or before["unit"] != row["unit"]:
        return False
    if better == HIGHER:
        return row["value"] < before["value"] * (1 - TOLERANCE) and row["high"] < before["low"]
    return row["value"] > before["value"] * (1 + TOLERANCE) and row["low"] > before["high"]


def markdown(table: dict[str, Any], before: dict[tuple[str, str], dict[str, Any]]) -> str:
    """The table, each figure beside the last one of the same hardware; regressions are named first."""
    hardware = table["hardware"]
    packages = ", ".join(f"{name} {version or '–'}" for name, version in table["versions"].items())
    peak = f", {hardware[PEAK]:,.0f} GFLOP/s in fp32" if PEAK in hardware else ""
    lines = [
        f"# Benchmarks on {hardware['processor']}, {hardware['cores']} cores{peak}, {table['date']}",
        "",
        f"{packages}.",
        "",
        f"Medians over interleaved rounds, range in brackets. {TIMES_TEXT}",
        "",
    ]
    lines += [EMULATED, ""] if hardware.get("bf16") is False else []
    lines += ["**Not measured:**", "", *(f"- {one}" for one in table["missing"]), ""] if table["missing"] else []
    worse = [line for name, part in table["benchmarks"].items() for line in _regressions(name, part, before)]
    lines += ["**Regressions** against the last result of this hardware:", "", *worse, ""] if worse else []
    lines += ["| benchmark | figure | value | range | rounds | last |", "| :-- | :-- | --: | --: | --: | --: |"]
    for name, part in table["benchmarks"].items():
        lines += [_line(f"{name} ({part['form']})", row, before.get((name, row["name"]))) for row in part["rows"]]
    return "\n".join(lines) + "\n"


def _regressions(name: str, part: dict[str, Any], before: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    worse = [row for row in part["rows"] if (last := before.get((name, row["name"]))) and is_regression(row, last)]
    return [
        f"- {name}: {row['name']}: {_number(before[name, row['name']])} on {before[name, row['name']]['date']}, "
        f"now {_number(row)}"
        for row in worse
    ]


def _line(benchmark: str, row: dict[str, Any], last: dict[str, Any] | None) -> str:
    spread = f"{row['low']:,.4g} to {row['high']:,.4g}"
    return f"| {benchmark} | {row['name']} | {_number(row)} | {spread} | {row['rounds']} | {_number(last) if last else '–'} |"


def _number(row: dict[str, Any]) -> str:
    return f"{row['value']:,.4g} {row['unit']}"
