"""A run of a task in the process of the test, and what a run's folder says of it."""

import json
from pathlib import Path

from harness.config.schema import HardwareConfig, RunConfig
from harness.hardware.device import Machine
from harness.study import execute
from harness.study.identity import Inputs
from harness.tasks import prepared
from harness.tracking.run_log import Reader, RunLog


def ran(config: RunConfig, folder: Path) -> dict[str, float]:
    """Prepares, measures, trains and evaluates in the folder, on one thread; the metrics."""
    folder.mkdir(exist_ok=True)
    run_log = RunLog(folder)
    inputs = Inputs(data=prepared.prepare(config))
    execute.run_task(config, inputs, Machine(HardwareConfig(threads=1)), run_log)
    run_log.finish("finished")
    return metrics_of(folder)


def metrics_of(folder: Path) -> dict[str, float]:
    return json.loads((folder / "result.json").read_text())["metrics"]


def curves_of(folder: Path) -> dict[str, dict[int, float]]:
    """Name -> step -> value."""
    curves: dict[str, dict[int, float]] = {}
    for entry in Reader(folder).new_entries():
        if "key" in entry:
            curves.setdefault(entry["key"], {})[entry["step"]] = entry["value"]
    return curves
