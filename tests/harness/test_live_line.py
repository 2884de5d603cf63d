"""The line that says on a terminal what happens now."""

import contextlib
import io
import re
import time

import pytest

from harness import terminal as module
from harness.terminal import LiveLine, live_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.01)


def wait_for(text: str, terminal: Terminal) -> None:
    for _ in range(1000):
        if text in terminal.getvalue():
            return
        time.sleep(0.01)
    raise AssertionError(f"{text!r} is not in {terminal.getvalue()!r}")


def test_line_is_rewritten_while_the_block_works_and_removed_at_its_end():
    with contextlib.redirect_stderr(Terminal()) as terminal, live_line("preparing data") as line:
        wait_for("preparing data, 0:00" + module.CLEAR + "preparing data, 0:0", terminal)
        line.show("training")
        wait_for("training, 0:0", terminal)
    assert terminal.getvalue().endswith(module.CLEAR)
    assert "\n" not in terminal.getvalue()


def test_removed_after_an_exception_and_silent_from_then_on():
    with contextlib.redirect_stderr(Terminal()) as terminal:
        with pytest.raises(ValueError, match="wrong"), live_line("preparing data"):
            raise ValueError("wrong")
        written = terminal.getvalue()
        time.sleep(0.05)
        assert written == terminal.getvalue()
    assert written.endswith(module.CLEAR)


def test_long_text_is_cut_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with contextlib.redirect_stderr(Terminal()) as terminal, live_line("x" * 100):
        wait_for("x", terminal)
    assert max(len(part) for part in re.split(re.escape(module.CLEAR), terminal.getvalue())) == 39


def test_nothing_is_written_where_there_is_no_terminal(capsys):
    line = LiveLine("preparing data")
    line.show("training")
    line.close()
    line.close()
    assert capsys.readouterr() == ("", "")
