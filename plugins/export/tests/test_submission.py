"""Answers of several runs in one archive, as GLUE's page takes them."""

import zipfile
from pathlib import Path

import pytest
from small_disk import fill, mounted

from harness.__main__ import main as command
from harness.errors import InputError
from harness.plugins.export.options import Submission
from harness.plugins.export.submission import main


def answered(folder: Path, name: str) -> None:
    """The folder of a run with answers."""
    (folder / "submission").mkdir(parents=True)
    lines = "".join(f"{row}\t{row % 2}\n" for row in range(1000))
    (folder / "submission" / f"{name}.tsv").write_text(f"index\tprediction\n{lines}")


@pytest.mark.long
def test_archive_holds_the_files_of_all_runs_and_says_what_is_missing(tmp_path, run_module):
    answered(tmp_path / "wnli", "WNLI")
    answered(tmp_path / "cola", "CoLA")
    done = run_module("harness", "submission", "wnli", "cola", "to=all.zip")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 of 10 files; missing: SST-2.tsv, MRPC.tsv, QQP.tsv" in done.stdout
    with zipfile.ZipFile(tmp_path / "all.zip") as packed:
        assert packed.namelist() == ["CoLA.tsv", "WNLI.tsv"]
        assert packed.read("WNLI.tsv") == (tmp_path / "wnli" / "submission" / "WNLI.tsv").read_bytes()


def test_a_full_disk_is_one_line_and_leaves_the_older_archive(tmp_path, capsys):
    answered(tmp_path / "cola", "CoLA")
    with mounted(tmp_path / "disk", 1 << 14) as disk:
        (disk / "all.zip").write_text("of yesterday")
        fill(disk, 0)
        assert command(["submission", str(tmp_path / "cola"), f"to={disk / 'all.zip'}"]) == 1
        err = capsys.readouterr().err
        assert (err.count("\n"), err.endswith(": free some, and the same command continues\n")) == (1, True), err
        assert (disk / "all.zip").read_text() == "of yesterday"
        assert {path.name for path in disk.iterdir()} == {"all.zip", "filler"}


def test_two_runs_of_one_task_are_refused(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        answered(folder, "WNLI")
    with pytest.raises(InputError, match=r"one/submission/WNLI\.tsv and .*two/submission/WNLI\.tsv are of the same task"):
        main(Submission(folders=tuple(folders), to=tmp_path / "all.zip"))
    assert not (tmp_path / "all.zip").exists()


def test_run_without_answers_is_one_line(tmp_path, run_harness):
    (tmp_path / "run").mkdir()
    done = run_harness("submission", "run")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "harness submission: run has no files to submit: run it with finetune.submit=true\n"
    assert run_harness("submission", "rum").stderr == "harness submission: 'rum' is not a folder: expected that of a run\n"
