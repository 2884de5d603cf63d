"""`python -m harness profile model=base,windowed scale=mini [--trace [DIR]] [--json FILE]`: arguments, output and files."""

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.arguments import SWEEP, Parser, with_a_task
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.commands.profile.launch import Measured
    from harness.config.schema import RunConfig

ROUNDS = 3
"""Launches of every variant where several are compared; one that stands alone has a single one."""

TRACE = Path("multirun", "profile")
"""Folder of traces and pictures where none is named."""

EPILOG = """\
Everything else chooses the variants, as for `python -m harness`: model=base,windowed scale=mini 'enhancement=[swiglu]'
measure.length=256 measure.batch_size=8 finetune.batch_size=16 hardware.dtype=bf16 model.KEY=VALUE. Commas make columns."""

IN_LABEL = ("task.name", "hardware.", "measure.", "finetune.batch_size")
"""Keys that are added to the name of a column where variants are the same but for them."""


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Own options, and what is left for Hydra."""
    description = "Parameters, FLOPs, latency and memory of variants side by side, without data and training."
    parser = Parser("profile", description, EPILOG)
    parser.add_argument("--trace", metavar="DIR", nargs="?", const=str(TRACE), help=f"time by component too ({TRACE})")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the raw values")
    parser.add_argument("--rounds", metavar="N", type=int, help=f"launches of every variant ({ROUNDS}, or 1 of a single one)")
    options, _, choices = parser.parse_composed(arguments)
    if options.trace and "=" in options.trace:  # what follows a bare --trace
        choices.insert(0, options.trace)
        options.trace = str(TRACE)
    if options.rounds is not None and options.rounds < 1:
        raise InputError(f"--rounds {options.rounds} must be at least 1")
    return options, choices


def main(arguments: list[str]) -> int:
    """0; 1 when something could not be measured; InputError for what cannot be composed or written."""
    options, choices = parse(arguments)
    from harness.config import compose  # Hydra, which --help does not need

    sweep = [] if set(SWEEP) & set(choices) else ["-m"]  # any column is a run of it
    with tempfile.TemporaryDirectory() as folder:  # Hydra needs one for a sweep
        return compose.main([*sweep, *with_a_task(choices), f"hydra.sweep.dir={folder}"], lambda cells: profile(options, cells))


def profile(options: argparse.Namespace, composed: "list[RunConfig]") -> int:
    """Measures all variants, prints what came out, and writes what is asked for."""
    from harness.checkpoints import start
    from harness.commands.profile import conditions, launch, table
    from harness.config.resolve import resolve

    cells = labelled([resolve(cell, start.read(cell)) for cell in composed])
    if options.trace and any(cell.hardware.device.value != "cpu" for cell in cells.values()):
        raise InputError("--trace reads the clock of the CPU: expected hardware=cpu")
    if options.trace and any(cell.hardware.compile for cell in cells.values()):
        raise InputError("--trace sees no components in a compiled model: expected hardware.compile=false")
    folder = None if options.trace is None else writable_folder(Path(options.trace))
    traces = {} if folder is None else {label: folder / f"{file_name(label)}.trace.json" for label in cells}
    if options.json:
        write(options.json, "")  # a path that cannot be written is told before anything is measured
    before = conditions.read(cells)
    rounds = options.rounds or (ROUNDS if len(cells) > 1 else 1)
    measured = launch.run(cells, rounds, traces)
    print("\n\n".join([before, table.render(measured), *conditions.notes(cells, measured, rounds)]))
    if folder is not None:
        print("\n" + table.component_rows(measured))
        print("\n" + "\n".join(map(str, [*traces.values(), *pictures(measured, folder)])))
    if options.json:
        write(options.json, json.dumps(raw(before, measured), indent=1))
        print(f"\n{options.json}")
    return 1 if any(one.missing for one in measured.values()) else 0


def labelled(cells: "list[RunConfig]") -> "dict[str, RunConfig]":
    """Column -> cell: the variant, with its scale and what else differs where that alone tells columns apart."""
    from harness.config.schema import flatten, to_dict

    flat = [{key: value for key, value in flatten(to_dict(cell)).items() if key.startswith(IN_LABEL)} for cell in cells]
    differing = [key for key in flat[0] if len({str(one[key]) for one in flat}) > 1]
    scaled = len({cell.scale_name for cell in cells}) > 1
    labels = {}
    for cell, keys in zip(cells, flat, strict=True):
        told = [cell.label, *([cell.scale_name] if scaled else []), *(f"{key}={keys[key]}" for key in differing)]
        labels.setdefault(" ".join(told), cell)
    return labels


def file_name(label: str) -> str:
    """The label with what no file name should have replaced."""
    return re.sub(r"[^A-Za-z0-9_.+@-]+", "_", label)


def writable_folder(folder: Path) -> Path:
    """The folder, made; InputError where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--trace {str(folder)!r} cannot be written ({error.strerror}); expected a folder") from error
    return folder


def write(path: Path, text: str) -> None:
    """InputError where the path cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise InputError(f"--json {str(path)!r} cannot be written ({error.strerror}); expected a file") from error


def pictures(measured: "dict[str, Measured]", folder: Path) -> list[Path]:
    """The pictures of time by component, written; none where nothing could be traced."""
    from harness.commands.profile import picture

    traced = {label: one.values["trace"][0] for label, one in measured.items() if "trace" in one.values}
    paths = []
    for ending, content in picture.files(traced).items() if traced else ():
        paths.append(folder / f"components.{ending}")
        paths[-1].write_bytes(content)
    return paths


def raw(conditions: str, measured: "dict[str, Measured]") -> dict[str, Any]:
    """All values of all launches, and for what is missing why."""
    variants = {label: {"measures": one.values, "missing": one.missing} for label, one in measured.items()}
    return {"conditions": conditions, "variants": variants}
