"""The end of a sweep on the terminal: the first table of its report and one line of findings."""

import pytest

from harness.study.first_screen import first_screen

REPORT = """\
# Report: s

base against **base** on bag

| arm | score: accuracy | parameters |
| :-- | --: | --: |
| base | 0.800 ± 0.010 | 2.0 M |
| small\\_one | 0.790 ± 0.010<br>−1.0 points ~ | 1.0 M<br>−50.0 % ▲ |

▲ better, ▼ worse, ~ not resolved. ± is the standard deviation
over replicates.

- **small\\_one**: **better** in parameters (−50.0 %); not resolved: score (−1.0 [−3.0, +1.0] points).
- **small\\_one** on bag: wrong on 3 more items.

## Trade-offs
"""


def test_table_legend_and_the_score_of_each_arm_stand_below_each_other():
    assert first_screen(REPORT).splitlines() == [
        "arm         score: accuracy   parameters",
        "────────────────────────────────────────",
        "base          0.800 ± 0.010        2.0 M",
        "small_one     0.790 ± 0.010        1.0 M",
        "              −1.0 points ~    −50.0 % ▲",
        "",
        "▲ better, ▼ worse, ~ not resolved. ± is the standard deviation over replicates.",
        "",
        "small_one: not resolved: score (−1.0 [−3.0, +1.0] points).",
    ]


def test_of_many_arms_the_score_of_all_is_one_line():
    many = REPORT.replace(
        "- **small\\_one**: ", "- **parameters**: better 7.\n- **score**: **worse** a (−9.0 points); the same 8\n- **x**: "
    )
    assert first_screen(many).splitlines()[-1] == "score: worse a (−9.0 points); the same 8"


@pytest.mark.parametrize("report", ["", "# Report: s\n\nno run finished\n"])
def test_a_report_without_arms_shows_nothing(report):
    assert first_screen(report) == ""


def test_a_narrow_terminal_folds_and_loses_nothing(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    shown = first_screen(REPORT)
    assert max(map(len, shown.split("\n\n")[0].splitlines())) <= 30
    assert "".join(shown.split()).count("0.790") == 1
