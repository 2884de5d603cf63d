"""The report of a sweep is written where the one on disk is not that of the runs as the store has them, and only there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import paths
from harness.errors import InputError
from harness.reports import after_sweep

pytestmark = pytest.mark.long


@pytest.fixture
def update(tracking):
    """Updates the report on a study of two arms; whether it was written."""
    for arm in ("base", "small"):
        tracking.log(arm)
    out = Path("reports", "s").absolute()

    def call(*arguments: str) -> bool:
        asked = ["--uri", tracking.uri, "--study", "before_after", "--out", str(out), "--format", "md,csv", *arguments]
        return after_sweep.update(asked, out.with_name(".s.json"))

    return call


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("reports", "s").iterdir()}


def test_it_is_written_once_for_the_same_runs(update):
    assert update()
    before = {path: path.stat().st_mtime_ns for path in Path("reports", "s").iterdir()}
    assert not update()
    assert {path: path.stat().st_mtime_ns for path in Path("reports", "s").iterdir()} == before


@pytest.mark.parametrize(
    "breaks",
    [
        lambda folder: next(folder.glob("*.svg")).unlink(),
        lambda folder: (folder / "summary.csv").write_bytes((folder / "summary.csv").read_bytes()[:100]),
        lambda folder: (folder / "report.md").write_text("by hand, with another baseline"),
        lambda folder: folder.with_name(".s.json").write_text("{"),
        lambda folder: folder.with_name(".s.json").write_text('{"state": 1, "files": ["report.md"]}'),
        lambda folder: folder.with_name(".s.json").unlink(),
    ],
)
def test_what_is_missing_torn_or_unknown_is_written_again(update, breaks):
    update()
    whole = contents()
    breaks(Path("reports", "s"))
    assert update()
    assert contents() == whole
    assert not update()


def test_another_run_state_number_audit_or_argument_is_another_report(update, tracking, tmp_path):
    update()
    number = tracking.log("small", 1)
    assert update()
    tracking.client.log_metric(number, "eval/score", 0.25)
    assert update()
    tracking.client.set_tag(number, "harness.status", "killed")
    assert update()
    assert update("--baseline", "small")
    assert update()
    (tmp_path / "audit.json").write_text("[]")
    with pytest.raises(InputError, match="audit="):  # it is read: this one cannot be shown
        update("--audit", str(tmp_path / "audit.json"))


def test_files_of_the_last_report_that_the_new_one_lacks_are_removed_and_no_others(update):
    update("--format", "md,csv,parquet")
    Path("reports", "s", "mine.txt").touch()
    Path("reports", "mine.txt").touch()
    stamp = Path("reports", ".s.json")
    last = json.loads(stamp.read_text())
    stamp.write_text(json.dumps(last | {"files": last["files"] | {"../mine.txt": ""}}))
    update()
    assert not Path("reports", "s", "summary.parquet").exists()
    assert Path("reports", "s", "mine.txt").exists()
    assert Path("reports", "mine.txt").exists()


def test_what_a_killed_process_left_is_removed_and_what_another_one_writes_stays(update):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = (f".writing.{ended.pid}", f".writing.{os.getppid()}", ".writing.x1")
    for name in names:
        paths.made(Path("reports", "s", name))
    theirs = Path("reports", "s", f".writing.{ended.pid}0000000")
    theirs.mkdir()
    update()
    assert [Path("reports", "s", name).exists() for name in names] == [False, True, True]
    assert theirs.is_dir()


def test_where_nothing_can_be_written_one_line_says_so(update):
    Path("reports").write_text("a file in place of the folder")
    with pytest.raises(InputError, match=r"to=.* cannot be written"):
        update()
