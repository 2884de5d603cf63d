"""Results of earlier versions are read by this one. They have checksums, which are ignored.

Below `tests/fixtures`: `results_0_2` has a sweep of two arms and its archive, of 24 November 2026, `results_before_records` the
same sweep by the last code that wrote checksums, whose results are those of today.
"""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.reports import __main__ as reports
from harness.versions import VERSIONS

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SWEEP = (
    *("-m", "model=base,albert", "seed=0", "scale=tiny", "task=bag", "study=old", "task.grammar.train_examples=60"),
    *("task.grammar.validation_examples=40", "task.max_length=32", "finetune.max_steps=4", "hardware.threads=1"),
    *("measure.rounds=2", "measure.min_rounds=2", "measure.repeats=4", "measure.retries=0", "report=false"),
)


@pytest.fixture
def unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def unpacked(name: str) -> Path:
        with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return unpacked


@pytest.mark.long
def test_reports_of_a_store_and_of_an_archive_have_the_scores(unpack, capsys):
    old = unpack("results_0_2")
    for place, arguments in (("a", ["--output", "out", "--study", "old"]), ("b", ["--uri", "archive"])):
        assert reports.main([*arguments, "--out", place, "--format", "csv"]) == 0, capsys.readouterr().err
        rows = (old / place / "summary.csv").read_text().splitlines()
        assert any("albert" in row and "0.35" in row for row in rows)


@pytest.mark.long
def test_an_archive_is_as_it_was_written(unpack, capsys):
    unpack("results_0_2")
    reports.main(["verify", "archive"])
    printed = capsys.readouterr()
    assert "SHA-256" not in printed.out + printed.err
    assert "no archive" not in printed.err


@pytest.mark.parametrize("name", ["results_0_2", "results_before_records"])
def test_the_status_is_complete(unpack, run_harness, name):
    unpack(name)
    done = run_harness("status", "old", "output=out")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("old: 2 runs: 2 finished")


@pytest.mark.long
def test_finished_runs_of_the_same_versions_are_skipped_and_all_are_sent(unpack, tell, run_harness, monkeypatch):
    unpack("results_before_records")
    for part, version in {"tasks": 3, "training": 5}.items():  # the versions of these runs
        monkeypatch.setitem(VERSIONS, part, version)
    monkeypatch.setattr("harness.hardware.facts.device_name", lambda _: "Intel(R) Xeon(R) Processor")  # on which they ran
    done = tell(*SWEEP)
    assert (done.code, done.err) == (0, ""), done.out
    assert done.out.count("finished already, skipped") == 2
    assert "Timing" not in done.out
    assert run_harness("sync", "output=out").stdout.endswith("synced 3 runs\n")
