"""The code of docs/python.md runs as it stands, block after block."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_block_runs(run_python, output):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    output.rename(output.with_name("multirun"))
    done = run_python("-c", "\n".join(blocks))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FLOPs for one text" in done.stdout
