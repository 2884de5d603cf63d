"""The workflow in docs/gate calls its script, whose commands are ones that exist; the script passes code that is the same."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.grammar import parse
from harness.plugins.decide import gate
from harness.plugins.decide.options import Gate

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "gate"


def test_workflow_calls_the_script_whose_limits_can_be_read():
    job = yaml.safe_load((FOLDER / "workflow.yml").read_text())["jobs"]["gate"]
    assert job["steps"][-1]["run"] == "sh after/docs/gate/gate.sh before after"
    command = re.search(r"reports gate (.*)", (FOLDER / "gate.sh").read_text().replace("\\\n", " "))[1]
    assert len(gate.limits_of(parse(shlex.split(command), Gate, "gate"))) == 7


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it trains six times, in a minute or two of an idle machine
def test_script_passes_code_that_is_the_same(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(FOLDER / "gate.sh"), str(ROOT), str(ROOT)],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("within the limits: base\npassed: 7 tests\n")
