"""Variants measured side by side: the tables that are printed, and the files of raw values, traces and pictures."""

import json
import re
from pathlib import Path
from typing import Any

from harness.checkpoints import start
from harness.commands.profile import conditions, launch, table
from harness.commands.profile.launch import Column
from harness.config.choices import MatchOn
from harness.config.resolve import resolve
from harness.config.schema import RunConfig, flatten, to_dict
from harness.errors import InputError
from harness.hardware import device
from harness.study.match import resized
from harness.terminal import wrapped

IN_LABEL = ("task.name", "hardware.", "measure.", "finetune.batch_size")
"""Keys that are added to the name of a column where variants are the same but for them."""


def columns_of(composed: list[RunConfig]) -> dict[str, RunConfig]:
    """Name of a column -> config, as a run of it resolves it, with the vocabulary of its model.

    InputError for a `match` that cannot be reached, or that only a run finds.
    """
    if any(config.match.cost is MatchOn.latency for config in composed):
        raise InputError(
            "match=latency times the texts of a task: expected match=params, flops or memory here, or plan in place of profile"
        )
    return labelled([_resolved(config) for config in resized(composed, _resolved)])


def _resolved(config: RunConfig) -> RunConfig:
    return resolve(config, start.read(config))


def profile(configs: dict[str, RunConfig], rounds: int | None, trace: str | None, values: Path | None) -> int:
    """Measures all variants, prints the tables, and writes traces to the folder `trace` and raw values to the file `values`.

    0; 1 when something could not be measured; InputError for an absent GPU, and for what cannot be traced or written.
    """
    if trace and any(config.hardware.device.value != "cpu" for config in configs.values()):
        raise InputError("--trace reads the clock of the CPU: expected hardware=cpu")
    if trace and any(config.hardware.compile for config in configs.values()):
        raise InputError("--trace finds no components in a compiled model: expected hardware.compile=false")
    for config in configs.values():
        device.refuse_absent(config.hardware)
    folder = None if trace is None else writable_folder(Path(trace))
    traces = {} if folder is None else {label: folder / f"{file_name(label)}.trace.json" for label in configs}
    if values:
        write(values, "")  # a path that cannot be written is refused before anything is measured
    before = conditions.read(configs)
    measured = launch.run(configs, rounds, traces)
    print("\n\n".join([wrapped(before, 0), table.render(measured), "\n".join(conditions.notes(configs, measured))]))
    if folder is not None:
        print("\n" + table.component_rows(measured))
        print("\n" + "\n".join(map(str, [*traces.values(), *pictures(measured, folder)])))
    if values:
        write(values, json.dumps(raw(before, measured), indent=1))
        print(f"\n{values}")
    return 1 if any(one.missing for one in measured.values()) else 0


def labelled(configs: list[RunConfig]) -> dict[str, RunConfig]:
    """Name of a column -> config: the variant, with the scale and other keys where these alone differ between columns."""
    flat = [{key: value for key, value in flatten(to_dict(config)).items() if key.startswith(IN_LABEL)} for config in configs]
    differing = [key for key in flat[0] if len({str(one[key]) for one in flat}) > 1]
    scaled = len({config.scale_name for config in configs}) > 1
    labels = {}
    for config, keys in zip(configs, flat, strict=True):
        parts = [config.label, *([config.scale_name] if scaled else []), *(f"{key}={keys[key]}" for key in differing)]
        labels.setdefault(" ".join(parts), config)
    return labels


def file_name(label: str) -> str:
    """The label, with characters replaced that a file name should not have."""
    return re.sub(r"[^A-Za-z0-9_.+@-]+", "_", label)


def writable_folder(folder: Path) -> Path:
    """The folder, created; InputError where it cannot be."""
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


def pictures(measured: dict[str, Column], folder: Path) -> list[Path]:
    """The pictures of time by component, written; none where nothing could be traced."""
    from harness.commands.profile import picture  # matplotlib takes 1 s, which only --trace needs

    traced = {label: one.records["trace"][0] for label, one in measured.items() if "trace" in one.records}
    paths = []
    for ending, content in picture.files(traced).items() if traced else ():
        paths.append(folder / f"components.{ending}")
        paths[-1].write_bytes(content)
    return paths


def raw(conditions: str, measured: dict[str, Column]) -> dict[str, Any]:
    """All values of all launches, and the reason for what is missing."""
    return {"conditions": conditions, "variants": {label: one.to_json() for label, one in measured.items()}}
