"""The end of a sweep on the terminal: the first table of its report and one line of findings."""

import pytest

from harness.document import Cell, Screen, Table, first_screen

SCREEN = Screen(
    "**Score against base**: small\\_one (−1.0 points) is inconclusive. **Cost**: small\\_one is best in parameters (−50.0 %).",
    Table(
        ["arm", "score: accuracy", "parameters"],
        [
            [Cell("base"), Cell("0.800 ± 0.010", 0.8, "score"), Cell("2.0 M", 2e6, "parameters")],
            [
                Cell(r"small\_one"),
                Cell("0.790 ± 0.010", 0.79, "score", "−1.0 points ~"),
                Cell("1.0 M", 1e6, "parameters", "−50.0 % ▲", "better"),
            ],
        ],
    ),
    ["▲ better, ▼ worse, ~ inconclusive. ± is the standard deviation\nover replicates."],
)


def test_table_legend_and_the_score_of_each_arm_stand_below_each_other():
    assert first_screen(SCREEN).splitlines() == [
        "arm        score: accuracy  parameters",
        "--------------------------------------",
        "base         0.800 ± 0.010       2.0 M",
        "small_one    0.790 ± 0.010       1.0 M",
        "             −1.0 points ~   −50.0 % ▲",
        "",
        "▲ better, ▼ worse, ~ inconclusive. ± is the standard deviation over replicates.",
        "",
        "Score against base: small_one (−1.0 points) is inconclusive. Cost: small_one is best in parameters",
        "(−50.0 %).",
    ]


@pytest.mark.parametrize("columns", ["28", "40"])
def test_a_narrow_terminal_breaks_the_table_between_columns_and_loses_nothing(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    shown = first_screen(SCREEN)
    assert max(map(len, shown.splitlines())) <= int(columns)
    cells = ("small_one", "0.790 ± 0.010", "−1.0 points ~", "−50.0 % ▲")
    assert [shown.count(cell) for cell in cells] == [3 + (columns == "28"), 1, 1, 1]
