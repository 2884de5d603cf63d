"""`summary.csv` and `summary.parquet` hold the same rows."""

import csv
import io
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from harness.comparison.compare import compare
from harness.reports.reading.study import Study
from harness.reports.render import render
from harness.reports.writing.tables import COLUMNS

VALUES = {"model/params_total": 100.0, "eval/score": 0.8, "inference/latency_ms_p50": 3.0}


@pytest.fixture
def files(make_run) -> dict[str, bytes]:
    """Both files of a study with a change, a missing value and a name that looks like a formula."""
    runs = [make_run(seed=seed, values=VALUES | {"eval/score": 0.8 + seed / 100}) for seed in (0, 1)]
    runs += [make_run("=1+1", seed=seed, values={"eval/score": 0.7 + seed / 50}) for seed in (0, 1)]
    return render(Study(compare("s", runs)), "csv,parquet")


def cells(content: bytes) -> list[dict[str, object]]:
    """Rows of the CSV file in the types that are declared."""
    rows = csv.DictReader(io.StringIO(content.decode()))
    return [{name: COLUMNS[name](cell) if cell else None for name, cell in row.items()} for row in rows]


def test_parquet_has_the_rows_of_the_csv_file(files):
    table = parquet.read_table(io.BytesIO(files["summary.parquet"]))
    rows = cells(files["summary.csv"])
    assert {row["arm"] for row in rows} == {"base", "'=1+1"}
    assert table.to_pylist() == [row | {name: row[name].removeprefix("'") for name in ("arm", "model")} for row in rows]
    assert any(row["change"] is not None for row in rows)


def test_parquet_has_the_declared_types(files):
    schema = parquet.read_schema(io.BytesIO(files["summary.parquet"]))
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    assert {field.name: field.type for field in schema} == {name: kinds[kind] for name, kind in COLUMNS.items()}
    assert schema.field("pairs").type == pyarrow.int64()


@pytest.mark.long
def test_formats_are_chosen(tracking, typical, capsys):
    from harness.reports.__main__ import main

    tracking.log("base", values=typical())
    assert main(["--format", "parquet, csv", "--out", "here"]) == 0
    assert capsys.readouterr().out == "here/summary.parquet\n"
    assert sorted(path.name for path in Path("here").iterdir()) == ["arms.csv", "runs.csv", "summary.csv", "summary.parquet"]


@pytest.mark.parametrize("text", ["cvs", "md,cvs", "md,"])
def test_unknown_format_lists_the_formats(tracking, capsys, text):
    from harness.reports.__main__ import main

    assert main(["--format", text]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "unknown format" in err
    assert "choices for `format`: comment, csv, html, latex, md, parquet, pdf, png" in err
    assert not Path("multirun", "reports").exists()
