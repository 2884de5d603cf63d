"""The workflow in docs/guide.md is YAML whose gate is a command that exists."""

import re
import shlex
from pathlib import Path

import yaml

from reports.commands import gate

ROOT = Path(__file__).resolve().parents[2]


def test_workflow_ends_with_a_gate():
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "guide.md").read_text(), re.DOTALL)
    steps = yaml.safe_load(block)["jobs"]["gate"]["steps"]
    command = shlex.split(steps[-1]["run"])
    assert command[:4] == ["python", "-m", "reports", "gate"]
    options = gate.parse(command[4:])
    assert len(gate.limits_of(options)) == 4
    assert f"study={options.study}" in steps[-2]["run"]
