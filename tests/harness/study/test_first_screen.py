"""The end of a sweep on the terminal: one table that fits, its legend and one sentence."""

import msgspec
import pytest

from harness.document import Cell, Screen, Table, first_screen

SCREEN = Screen(
    "**Score**: small\\_one (−1.0 points) is inconclusive.",
    Table(
        ["arm", "accuracy ↑", "parameters, M ↓"],
        [
            [Cell("base"), Cell("0.800 ± 0.010", 0.8, "score", best=True), Cell("2.0", 2e6, "parameters")],
            [
                Cell(r"small\_one"),
                Cell("0.790 ± 0.010", 0.79, "score", "−1.0 points ~"),
                Cell("1.0", 1e6, "parameters", "−50.0 % ▲", "better", best=True),
            ],
        ],
    ),
    ["▲ better, ~ inconclusive."],
    ["latency"],
)


def test_table_legend_further_columns_and_the_answer_stand_below_each_other():
    assert first_screen(SCREEN, "python -m reports study='a  b'").splitlines() == [
        "arm           accuracy ↑  parameters, M ↓",
        "-----------------------------------------",
        "base       0.800 ± 0.010              2.0",
        "small_one  0.790 ± 0.010              1.0",
        "           −1.0 points ~        −50.0 % ▲",
        "",
        "▲ better, ~ inconclusive.",
        "",
        "More columns: latency",
        "  python -m reports study='a  b' columns=all",
        "",
        "Score: small_one (−1.0 points) is inconclusive.",
    ]
    assert first_screen(SCREEN, is_last=False).splitlines()[-1] == "▲ better, ~ inconclusive."


@pytest.mark.parametrize(("columns", "more"), [("41", "latency"), ("40", "parameters, latency")])
def test_a_narrow_terminal_names_the_columns_that_do_not_fit(monkeypatch, columns, more):
    monkeypatch.setenv("COLUMNS", columns)
    lines = first_screen(SCREEN).splitlines()
    assert max(map(len, lines)) <= int(columns)
    place = lines.index(f"More columns: {more}")
    assert lines[place + 1] == "  add columns=all"


def test_asked_columns_are_all_there_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "28")
    shown = first_screen(msgspec.structs.replace(SCREEN, as_asked=True))
    assert max(map(len, shown.splitlines())) <= 28
    assert [shown.count(cell) for cell in ("0.790 ± 0.010", "−1.0 points ~", "−50.0 % ▲")] == [1, 1, 1]


@pytest.mark.parametrize(("settings", "is_bold"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_the_best_values_are_bold_on_a_terminal(monkeypatch, settings, is_bold):
    for name, text in ({"TERM": "xterm", "COLUMNS": "80"} | settings).items():
        monkeypatch.setenv(name, text)
    plain = first_screen(SCREEN)
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdout.isatty", lambda: True, raising=False)
        shown = first_screen(SCREEN)
    assert ("\x1b[1m0.800 ± 0.010\x1b[0m" in shown) == ("\x1b[1m            1.0\x1b[0m" in shown) == is_bold
    assert shown.replace("\x1b[1m", "").replace("\x1b[0m", "") == plain
