"""What the console shows while launches run."""

import io
import sys
import time

import pytest

from harness import terminal as terminal_lines
from harness.study import progress
from harness.study.progress import TimingProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_on_a_terminal_is_drawn_again_while_a_launch_runs(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(terminal_lines, "EVERY_S", 0.001)
    with TimingProgress(4) as shown:
        shown.launch("base on bag, round 1 of up to 2")
        for _ in range(10_000):
            if terminal.getvalue().count("round 1 of up to 2, 0:0") > 3:
                break
            time.sleep(0.001)
        shown.launch("albert on bag, round 1 of up to 2")
        time.sleep(0.1)
    assert terminal.getvalue().count("Timing base on bag, round 1 of up to 2, 0:0") > 3
    assert "Timing albert on bag, round 1 of up to 2, up to " in terminal.getvalue()


@pytest.mark.parametrize(("every_s", "lines"), [(1000.0, 0), (-1.0, 3)])
def test_elsewhere_there_are_few_plain_lines(monkeypatch, capsys, every_s, lines):
    monkeypatch.setattr(progress, "LINE_EVERY_S", every_s)
    with TimingProgress(3) as shown:
        for number in range(3):
            shown.launch(f"base on bag, round {number + 1} of at most 3")
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (lines, "")
    assert "\r" not in out
