"""Numbers and names as a person reads them."""

import csv
import io
from pathlib import Path

import pytest
import yaml
from texts import md

from harness.reports.writing import formats

DATA = yaml.safe_load(Path(__file__).with_name("formats.yaml").read_text("utf-8"))


@pytest.mark.parametrize(("number", "unit", "text"), DATA["values"])
def test_value_has_unit_and_about_three_digits(number: float, unit: str, text: str):
    assert formats.value(number, unit) == text


def test_spread_is_shown_in_the_scale_of_the_mean():
    assert formats.value(45.6e6, "bytes", 0.3e6) == "45.6 ± 0.3 MB"


def test_score_differences_are_points_and_others_keep_their_unit():
    assert formats.difference(-0.0125, "score") == "−1.2 points"
    assert formats.difference(-0.0062, "score", (-0.0121, -0.0003)) == "−0.62 [−1.21, −0.03] points"  # no end reads as 0
    assert formats.difference(-0.0062, "score", (-0.0121, 0.0003)) == "−0.6 [−1.2, 0.0] points"
    assert formats.difference(-1.5e6, "bytes", (-2.5e6, -0.5e6)) == "−1.50 [−2.50, −0.50] MB"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (-60.123, "−60.1 %"),
        (0.5, "+0.50 %"),
        (0.0, "0.0 %"),
        (-0.0001, "0.00 %"),
        (None, "–"),
        (1134, "+1,134 %"),
        (1900, "×20.0"),
        (-94.9, "−94.9 %"),
        (-95, "÷20.0"),
        (-99.9996, "÷250,000"),
        (-100, "−100.0 %"),
        (-1000, "−1,000 %"),
        (5.2e7, "×520,001"),
    ],
)
def test_percent_has_its_sign(number: float | None, text: str):
    assert formats.percent(number) == text


@pytest.mark.parametrize(("raw", "shown"), DATA["escaped"])
def test_escape_leaves_no_markup(raw: str, shown: str):
    assert formats.escape(raw) == shown


def test_table_keeps_every_row_on_one_line():
    text = md(formats.table(["arm", "score"], [["base", "1"], ["x", "2"]]))
    assert text.splitlines() == ["| arm | score |", "| :-- | --: |", "| base | 1 |", "| x | 2 |"]


def test_csv_file_is_empty_where_a_line_has_no_value():
    lines = [{"arm": "a, b", "n": 2, "sd": None}, {"arm": "c", "sd": 0.1}]
    assert formats.csv_file(lines, ["arm", "n", "sd"]) == b'arm,n,sd\n"a, b",2,\nc,,0.1\n'


def test_wide_tables_are_cut_with_the_arms_in_each_part():
    header = ["arm", *(f"metric{index}" for index in range(8))]
    arms = [[f"arm{row}", *(f"{row}.{index}" for index in range(8))] for row in range(8)]
    reference = ["*unigram*", *["–"] * 7, "7"]
    first, second = md(formats.readable(header, [*arms, reference])).split("\n\n")
    assert first.splitlines()[0] == "| arm | metric0 | metric1 | metric2 | metric3 |"
    assert second.splitlines()[0] == "| arm | metric4 | metric5 | metric6 | metric7 |"
    assert first.splitlines()[-1] == "| arm7 | 7.0 | 7.1 | 7.2 | 7.3 |"
    assert second.splitlines()[-1] == "| *unigram* | – | – | – | 7 |"
    assert md(formats.readable(header[:7], [arm[:7] for arm in arms])) == md(
        formats.table(header[:7], [arm[:7] for arm in arms])
    )


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1+2", "@x", "\t=1", "\n=1", "＝1+1", "＠x"])
def test_csv_file_has_no_formula(name: str):
    assert read_back(name) == [f"'{name}", "-0.5"]


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\r\nb"])
def test_csv_file_keeps_a_name_of_two_lines_in_its_row(name: str):
    assert read_back(name) == ["a\nb", "-0.5"]


def test_csv_file_has_no_formula_behind_a_carriage_return():
    assert read_back("\r=1") == ["'\n=1", "-0.5"]


def read_back(name: str) -> list[str]:
    """The only row of a CSV file, with this arm and a negative change."""
    content = formats.csv_file([{"arm": name, "change": -0.5}], ["arm", "change"])
    (row,) = list(csv.reader(io.StringIO(content.decode(), newline="")))[1:]
    return row
