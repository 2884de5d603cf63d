"""The measuring process: runs the requested instruments on one variant, one after the other.

python -m harness.training.measure_worker FOLDER     reads config.json and request.json there, writes measured.json

The file is written after every instrument, so a failure keeps the results before it. `timing`, `memory` and `training_step`
must come first in a process: what ran before changes their results. `training_time` may come after `timing` of the same model.
"""

import json
import pkgutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
from omegaconf import OmegaConf
from torch import nn

from harness import records
from harness.config import resolve
from harness.config.own_files import as_text
from harness.errors import present
from harness.hardware.device import Machine
from harness.measure import flops, serving, size, timing
from harness.measure import subject as subjects
from harness.measure.latency import forward
from harness.measure.memory import Baseline, limit_memory, peak_memory
from harness.measure.records import (
    CONFIG,
    MEASURED,
    REQUEST,
    Measured,
    MemoryPeaks,
    Peak,
    Request,
    to_json,
)
from harness.measure.subject import Subject
from harness.models.heads import Classifier
from harness.training import measured_steps
from harness.training.measured_steps import STEPS, TrainingSteps

IMPORT_S = time.time() - psutil.Process().create_time()
"""From the start of the process until torch and the timed code are imported."""


def main(folder: Path) -> None:
    """Runs the request of the folder; after an exception the earlier results are kept."""
    request = records.read(folder / REQUEST, Request)
    config = resolve.unchecked(OmegaConf.create(as_text(json.loads((folder / CONFIG).read_text()))))
    import_s = IMPORT_S + subjects.load_code(config)
    instruments = INSTRUMENTS | {"timing": lambda subject, request, folder: timing.measure(subject, request, folder, import_s)}
    serves = {"timing", "memory"} & {*request.instruments}
    machine, measured = serving.machine(config) if serves else Machine(config.hardware), Measured()
    if request.memory_limit is not None:
        limit_memory(machine, request.memory_limit)
    for name in request.instruments:
        measure = instruments.get(name) or pkgutil.resolve_name(name)  # of a plug-in
        results: dict[str, Any] = {name.rpartition(":")[2]: measure(Subject(config, machine), request, folder)}
        measured = replace(measured, **results)
        records.write(folder / MEASURED, to_json(measured))


def _memory(subject: Subject, request: Request, folder: Path) -> MemoryPeaks:
    """Peaks above the memory of this process with its libraries, before any model."""
    config, machine = subject.config, subject.machine
    baseline = Baseline(machine)
    if machine.compiles:
        model = serving.build(config, machine, folder)
        with baseline.leave_out():
            _infer(model, subject)
    elif serving.is_from_file(config):
        with baseline.leave_out():
            _infer(serving.build(config, machine, folder), subject)  # loads the libraries that serve it
    with peak_memory(machine, baseline) as inference:
        if not machine.compiles:
            model = serving.build(config, machine, folder)
        _infer(model, subject)
    if config.measure.is_served:
        return MemoryPeaks(inference, Peak())
    if machine.compiles:
        with baseline.leave_out():
            TrainingSteps(config, cast(Classifier, model), machine).compile_ahead()
    with peak_memory(machine, baseline) as training_step:
        TrainingSteps(config, cast(Classifier, model), machine).run(STEPS)
    return MemoryPeaks(inference, training_step)


def _infer(model: nn.Module, subject: Subject) -> None:
    """One throughput batch."""
    settings = subject.config.measure
    forward(model, subject.machine)(subject.text(present(settings.length), settings.batch_size))


def _flops(subject: Subject, *_: object) -> flops.ModelFlops:
    """RuntimeError if count and formula disagree."""
    shape = subjects.step_shape(subject.config, subject.config.finetune.batch_size)
    counts = [flops.counted_or_none(one, back) for one, back in ((replace(shape, batch_size=1), False), (shape, True))]
    return flops.ModelFlops(*counts)


INSTRUMENTS: dict[str, Callable[[Subject, Request, Path], object]] = {
    "training_time": lambda subject, *_: measured_steps.time_steps(subject.config),
    "memory": _memory,
    "served": lambda subject, _, folder: serving.write(
        subjects.classifier(subject.config), subject.config.measure, folder / serving.FILE
    ),
    "sizes": lambda subject, *_: size.sizes(subjects.step_shape(subject.config, 1).model()),
    "flops": _flops,
}
"""Field of Measured -> instrument. Those of plug-ins are asked for as `module:function`, named like the field."""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
