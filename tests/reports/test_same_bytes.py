"""The same store gives the same bytes again, in every format."""

import os
from pathlib import Path

import pytest

from harness import extensions
from harness.reports.render import FORMATS, GROUP

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "from harness.reports.__main__ import main; raise SystemExit(main(['--format', '{}', '--out', '{}']))"


@pytest.mark.long
def test_every_format_is_the_same_again(tracking, typical, run_python):
    for seed in (0, 1):
        tracking.log_timed("base", [10.0, 10.1, 9.9], seed, typical(1, 0.8 + seed / 100))
        tracking.log_timed("small <b>|", [8.0, 8.1, 8.2], seed, typical(2, 0.79 + seed / 50))
    for study in ("first", "again"):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1" if study == "first" else "2"}
        done = run_python(
            "-c", PROGRAM.format(",".join([*FORMATS, *extensions.names(GROUP)]), study), cwd=Path.cwd(), env=environment
        )
        assert (done.returncode, done.stderr) == (0, "")
    names, again = (
        {str(path.relative_to(of)) for path in Path(of).rglob("*.*") if path.is_file()} for of in ("first", "again")
    )
    assert {"report.md", "report.html", "report.tex", "summary.csv", "summary.parquet", "loss.svg", "loss.png"} <= names
    assert names == again
    for name in names:
        assert Path("first", name).read_bytes() == Path("again", name).read_bytes()
