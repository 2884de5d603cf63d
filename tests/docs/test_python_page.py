"""The code of docs/python.md runs as it stands, block after block."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_every_block_runs(output, monkeypatch, capsys):
    """As in a notebook: in this process, all blocks with the same names."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    output.rename(output.with_name("multirun"))
    monkeypatch.chdir(output.parent)
    monkeypatch.setattr(sys, "argv", ["notebook"])
    exec(compile("\n".join(blocks), "docs/python.md", "exec"), {})
    out = capsys.readouterr().out
    assert "FLOPs for one text" in out
    assert out.count(": finished in ") == 3
    assert "parameters " in out
