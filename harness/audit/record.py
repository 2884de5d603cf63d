"""The verdicts of the last audit as a file, which the report shows."""

from pathlib import Path

import torch

from harness.audit.show import Row
from harness.config.schema import HardwareConfig
from harness.hardware import facts
from harness.paths import audit_file
from harness.tracking.run_log import now_ms, write_json


def write(rows: list[Row], output: str) -> Path:
    """The path that was written."""
    path = audit_file(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = f"{facts.device_name(HardwareConfig())}, torch {torch.__version__}"
    write_json(path, {"time": now_ms(), "machine": machine, "claims": [row.to_json() for row in rows]})
    return path
