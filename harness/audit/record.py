"""The verdicts of the last audit as a file, which the report shows."""

import json
from pathlib import Path

import torch

from harness.audit.show import Row
from harness.config.schema import HardwareConfig
from harness.hardware import facts
from harness.paths import audit_file
from harness.tracking.run_log import now_ms, write_json


def write(rows: list[Row], output: str, keep_others: bool) -> Path:
    """The path that was written; `keep_others` keeps the claims that were not audited now, as an earlier audit found them."""
    path, now = audit_file(output), now_ms()
    machine = f"{facts.device_name(HardwareConfig())}, torch {torch.__version__}"
    claims = {(row.claim.source, row.claim.name): row.to_json() | {"time": now, "machine": machine} for row in rows}
    if keep_others and path.is_file():
        claims = {(claim["source"], claim["name"]): claim for claim in json.loads(path.read_text())["claims"]} | claims
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"claims": list(claims.values())})
    return path
