"""An archive gives the report of its study without the store and the folders of runs, and any change of it is found."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.compute
import pytest
from pyarrow import parquet
from render_studies import STUDIES, unpacked
from small_disk import fill, mounted

from harness import paths, reports
from harness.plugins.archive.reader import hashes
from harness.reports.__main__ import main

EXAMPLES = Path(reports.__file__).parent / "examples"
ARCHIVES = sorted(path.parent for path in EXAMPLES.glob("*/manifest.json"))


@pytest.fixture(scope="module")
def _studies():
    with unpacked():
        yield


@pytest.fixture(scope="module")
def demo(_studies, tmp_path_factory) -> Path:
    """An archive of a sweep with timing."""
    folder = tmp_path_factory.mktemp("archived") / "demo"
    assert main(["archive", "demo", f"to={folder}"]) == 0
    return folder


@pytest.fixture
def copy(demo, tmp_path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "demo"))


def rewritten(folder: Path, name: str, content: bytes | pyarrow.Table) -> None:
    """Puts this content into the archive, with a manifest that fits it."""
    if isinstance(content, pyarrow.Table):
        parquet.write_table(content, folder / name)
    else:
        (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    part = next(part for part in ("data", "report") if name in manifest[part])
    manifest[part] |= hashes({name: (folder / name).read_bytes()})
    (folder / "manifest.json").write_text(json.dumps(manifest))


def column(table: pyarrow.Table, name: str, values: list) -> pyarrow.Table:
    field = table.field(name)
    return table.set_column(table.column_names.index(name), field, pyarrow.array(values, field.type))


@pytest.mark.long
def test_the_same_command_completes_what_was_killed_while_it_wrote(demo, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (half := paths.made(tmp_path / "new" / f".writing.{ended.pid}")).joinpath("manifest.json").write_text("{")
    assert main(["archive", "demo", "--uri", str(demo), f"to={half.parent}"]) == 0
    assert {path.name for path in half.parent.iterdir()} == {path.name for path in demo.iterdir()}


@pytest.mark.long
def test_a_full_disk_is_one_line_and_leaves_the_older_archive(demo, tmp_path, capsys):
    with mounted(tmp_path / "disk", 1 << 22) as disk:
        older = Path(shutil.copytree(demo, disk / "older"))
        filler = fill(disk, 1 << 15)
        for to in (older, disk / "new"):
            assert main(["archive", "demo", "--uri", str(demo), f"to={to}"]) == 1
            err = capsys.readouterr().err
            assert (err.count("\n"), err.endswith(": free some, and the same command continues\n")) == (1, True), err
        assert {path.name: path.read_bytes() for path in older.iterdir()} == {p.name: p.read_bytes() for p in demo.iterdir()}
        assert not list((disk / "new").glob("*"))
        filler.unlink()
        assert main(["archive", "demo", "--uri", str(demo), f"to={disk / 'new'}"]) == 0


ALONE = ("loss.svg", "report.json")
"""Files of a report that are not those of an archive: made from whole curves, or left out."""


@pytest.mark.long
@pytest.mark.usefixtures("_studies")
@pytest.mark.parametrize("study", STUDIES)
def test_the_report_of_an_archive_is_that_of_its_store(study, tmp_path, capsys):
    """Without the store: of pretrainings, failed runs, runs that never started, A/A replicates, predictions and their texts."""
    at = Path.cwd()
    assert main(["--study", study, "--baseline", STUDIES[study], "--out", str(tmp_path / "report"), "--format", "md,csv"]) == 0
    assert main(["archive", study, "--baseline", STUDIES[study], f"to={tmp_path / 'archive'}"]) == 0
    os.chdir(tmp_path)
    try:
        assert main(["verify", "archive"]) == 0
        assert "all agree" in capsys.readouterr().out
        again = ["--uri", "archive", "--study", study, "--baseline", STUDIES[study], "--format", "md,csv"]
        assert main([*again, "--out", "again"]) == 0
    finally:
        os.chdir(at)
    files = {path.name: path.read_bytes() for path in (tmp_path / "report").iterdir() if path.name not in ALONE}
    assert {"report.md", "summary.csv"} <= files.keys()
    for folder in ("again", "archive"):
        assert {name: (tmp_path / folder / name).read_bytes() for name in files} == files


@pytest.mark.long
def test_an_archive_of_an_archive_is_the_same(copy, tmp_path):
    assert main(["archive", "demo", "--uri", str(copy), f"to={tmp_path / 'again'}"]) == 0
    assert main(["archive", "demo", "--uri", str(copy), f"to={copy}"]) == 0
    files = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == files


@pytest.mark.long
@pytest.mark.usefixtures("_studies")
def test_a_lean_archive_has_the_same_report_without_some_pictures(demo, tmp_path, capsys):
    """And none of the columns that take most of its bytes; its own archive is the same again."""
    lean, again = tmp_path / "lean", tmp_path / "again"
    assert main(["archive", "demo", f"to={lean}", "--lean", "--pictures", "changes.svg"]) == 0
    assert main(["verify", str(lean)]) == 0
    assert main(["archive", "demo", "--uri", str(lean), f"to={again}"]) == 0
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in lean.iterdir()
    }
    assert not {path.name for path in lean.iterdir()} & {"summary.csv", "loss.svg"}
    folds = ("<details><summary>", "</summary>", "</details>")
    texts = ((folder / "report.md").read_text().split("\n\n") for folder in (demo, lean))
    whole, part = ([text for text in of_report if text not in folds] for of_report in texts)
    left_out = [text for text in whole if text not in part]
    assert [text for text in whole if text in part] == part
    assert [text for text in left_out if text[0] not in "!*"] == ["## Pictures"]  # all of its pictures are left out
    assert not any("(changes.svg)" in text for text in left_out)
    (path,) = lean.glob("predictions-*.parquet")
    assert {"label", "prediction"} < {*parquet.read_schema(path).names}
    assert not any(name.startswith("logit_") for name in parquet.read_schema(path).names)
    capsys.readouterr()
    assert main(["archive", "demo", "--uri", str(demo), f"to={tmp_path / 'new'}", "--lean"]) == 2
    assert main(["archive", "demo", f"to={tmp_path / 'new'}", "--pictures", "change.svg"]) == 2
    said = capsys.readouterr().err
    assert "tracking.uri is an archive, which cannot change" in said
    assert "unknown picture 'change.svg'; did you mean 'changes.svg'?" in said
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_a_changed_prediction_is_found(copy, capsys):
    """Whether it changes the score, or only what the logits say."""
    (path,) = copy.glob("predictions-*.parquet")
    table = parquet.read_table(path)
    labels, predicted = table["label"].to_pylist(), table["prediction"].to_pylist()
    first = next(row for row, (label, said) in enumerate(zip(labels, predicted, strict=True)) if label == said)
    changed = [1 - said if row == first else said for row, said in enumerate(predicted)]
    rewritten(copy, path.name, column(table, "prediction", changed))
    assert main(["verify", str(copy)]) == 1
    said = capsys.readouterr().out
    assert f"predictions that differ from their logits, from row [{first}] on: 1 in the archive, 0 recomputed" in said
    assert "eval/score: " in said

    logits = [table[name].to_pylist() for name in ("logit_0", "logit_1")]
    for name, values in zip(("logit_1", "logit_0"), logits, strict=True):  # both the other way round
        mixed = [values[row] if row == first else one for row, one in enumerate(table[name].to_pylist())]
        table = column(table, name, mixed)
    rewritten(copy, path.name, column(table, "prediction", changed))
    assert main(["verify", str(copy)]) == 1
    said = capsys.readouterr().out
    assert "by their logits" not in said
    assert "eval/score: " in said


@pytest.mark.long
def test_a_changed_score_is_found(copy, capsys):
    table = parquet.read_table(copy / "runs.parquet")
    metrics = [dict(values) for values in table["metrics"].to_pylist()]
    scored = next(row for row, values in enumerate(metrics) if "eval/score" in values)
    metrics[scored]["eval/score"] += 0.01
    rewritten(copy, "runs.parquet", column(table, "metrics", [list(values.items()) for values in metrics]))
    assert main(["verify", str(copy)]) == 1
    said = capsys.readouterr().out
    assert "eval/score, runs.parquet: " in said
    assert "predictions-bag.parquet, eval/score: " in said
    assert len(said.splitlines()) == 6  # the first five differences


@pytest.mark.long
@pytest.mark.parametrize("name", ["report.md", "summary.csv"])
def test_a_changed_number_of_the_report_is_found(name, copy, capsys):
    lines = (copy / name).read_text().splitlines(keepends=True)
    number = next(place for place, line in enumerate(lines) if "albert" in line and "%" in line) if name == "report.md" else 5
    lines[number] = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), lines[number])
    rewritten(copy, name, "".join(lines).encode())
    assert main(["verify", str(copy)]) == 1
    assert f"{name}, line {number + 1}: " in capsys.readouterr().out


@pytest.mark.long
def test_a_changed_verdict_and_other_words_of_the_report_are_found(copy, capsys):
    text = (copy / "report.md").read_text()
    rewritten(copy, "report.md", text.replace("▲", "▼", 1).encode())
    assert main(["verify", str(copy)]) == 1
    assert "▼ in the archive, ▲ recomputed" in capsys.readouterr().out
    (copy / "report.md").write_text(text.replace("worse", "as good"))  # no number: the manifest alone says so
    assert main(["verify", str(copy)]) == 1
    assert "report.md has changed since it was written" in capsys.readouterr().out


@pytest.mark.long
def test_a_report_that_was_taken_away_is_found(copy, capsys):
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"report": {}}))
    (copy / "summary.csv").unlink()
    assert main(["verify", str(copy)]) == 1
    assert "summary.csv: nothing in the archive, a file recomputed" in capsys.readouterr().out


@pytest.mark.long
def test_changed_and_missing_data_is_found_and_not_read(copy, capsys):
    content = bytearray((copy / "curves.parquet").read_bytes())
    content[100] ^= 1
    (copy / "curves.parquet").write_bytes(content)
    (copy / "predictions-bag.parquet").unlink()
    assert main(["verify", str(copy)]) == 1
    said = capsys.readouterr().out
    assert "curves.parquet has changed since it was written" in said
    assert "predictions-bag.parquet is missing" in said
    assert main(["--uri", str(copy), "--out", str(copy / "out")]) == 2
    assert "curves.parquet has changed since it was written" in capsys.readouterr().err
    assert not (copy / "out").exists()


@pytest.mark.long
def test_an_archive_is_read_as_a_store_is(demo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs = reports.load(uri=str(demo))
    assert (runs.attrs["study"], {*runs["arm"]}) == ("demo", {"base", "albert", "windowed"})
    assert runs["eval/score"].notna().all()
    assert runs["folder"].isna().all()
    assert main(["compare", runs["run_id"][0], runs["run_id"][1], "--uri", str(demo)]) == 0
    assert "Settings: " in capsys.readouterr().out


def test_shipped_examples_are_small():
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if path.is_file()) <= 1.85e6


@pytest.mark.long
def test_an_archive_names_neither_user_nor_machine_nor_folder_and_stays_small(copy):
    table = parquet.read_table(copy / "runs.parquet")
    tags = {key for row in table["tags"].to_pylist() for key, _ in row}
    assert "arm" in tags
    assert not {tag for tag in tags if tag == "process" or tag.startswith("mlflow.")}
    assert not any(key == "output" for row in table["params"].to_pylist() for key, _ in row)
    assert sum(path.stat().st_size for path in copy.glob("*.parquet")) < 300_000


def test_files_of_a_run_are_named_from_the_folder_of_its_command_on(make_run, tmp_path):
    from harness.plugins.archive.pack import _row

    run = make_run(
        params={"tokenizer.file": str(tmp_path / "multirun" / "cache" / "a.json"), "output": str(tmp_path / "multirun")}
    )
    params = _row(run, "s", tmp_path / "multirun")["params"]
    assert params["tokenizer.file"] == "multirun/cache/a.json"
    assert "output" not in params


def test_runs_that_came_from_another_folder_do_not_name_it(make_run, tmp_path):
    """They were trained elsewhere, and their folders were copied; commands name the data of that machine, too."""
    from harness.plugins.archive.pack import _row

    command = "python -m harness data.root=/mnt/a/data output=/mnt/b/runs"
    params = {"tokenizer.file": "/mnt/b/runs/cache/a.json", "output": "/mnt/b/runs", "data.root": "/mnt/a/data"}
    row = _row(make_run(params=params, command=command), "s", tmp_path / "multirun")
    assert row["params"]["tokenizer.file"] == "runs/cache/a.json"
    assert row["params"]["data.root"] == "data"
    assert row["tags"]["command"] == "python -m harness data.root=data output=runs"


@pytest.mark.long
def test_long_curves_are_thinned_at_the_steps_that_others_share(make_run):
    from harness.plugins.archive.pack import curves_of

    histories = {"finetune/loss": [(step, 1 / step) for step in range(1, 1002)], "eval/score": [(7, 0.5), (501, 0.6)]}
    histories["timing/latency_ms"] = [(step, 2.0) for step in range(300)]
    histories["scaling/latency_ms"] = [(step // 2, 2.0) for step in range(300)]

    class Histories:
        def history(self, run_id: str, key: str) -> list[tuple[int, float]]:
            return histories[key]

    run = make_run(values=dict.fromkeys(histories, 0.0))
    kept = {metric: points for metric, points, _ in curves_of(Histories(), run, lean=False)}
    steps = [step for step, _ in kept["finetune/loss"]]
    assert {1, 7, 501, 1001} <= {*steps}
    assert len(steps) <= 200 + 300
    assert all(value == 1 / step for step, value in kept["finetune/loss"])
    assert {key: kept[key] for key in histories if key != "finetune/loss"} == {
        key: points for key, points in histories.items() if key != "finetune/loss"
    }
    lean = {metric: [step for step, _ in points] for metric, points, _ in curves_of(Histories(), run, lean=True)}
    assert {*lean["finetune/loss"]} == {1, 7, 501, 1001, *range(1, 150)}
    assert len(lean["timing/latency_ms"]) == len(lean["scaling/latency_ms"]) == 300


def test_a_folder_of_anything_else_is_neither_read_nor_replaced(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["archive", "demo", f"to={tmp_path}"]) == 2
    assert "has other files; expected a new folder, or an archive to replace" in capsys.readouterr().err
    assert main(["verify", str(tmp_path)]) == 2
    assert "is not an archive: manifest.json: No such file or directory\n" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.long
@pytest.mark.parametrize("folder", ARCHIVES, ids=[path.name for path in ARCHIVES])
def test_archived_examples_follow_from_their_data(folder, capsys):
    """After a change of reports that is meant: `python -m reports archive STUDY --uri FOLDER to=FOLDER`."""
    assert main(["verify", str(folder)]) == 0, capsys.readouterr().out
