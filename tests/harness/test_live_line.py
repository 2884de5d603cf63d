"""The line that says on a terminal what happens now."""

import contextlib
import io
import re
import time

import pytest
from rich.cells import cell_len

from harness import terminal as module
from harness.terminal import LiveLine, console, live_line


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
        wait_for("preparing data, 0:00" + console.CLEAR + "preparing data, 0:0", terminal)
        line.show("training")
        wait_for("training, 0:0", terminal)
    assert terminal.getvalue().endswith(console.CLEAR)
    assert "\n" not in terminal.getvalue()


def test_removed_after_an_exception_and_silent_from_then_on():
    with contextlib.redirect_stderr(Terminal()) as terminal:
        with pytest.raises(ValueError, match="wrong"), live_line("preparing data"):
            raise ValueError("wrong")
        written = terminal.getvalue()
        time.sleep(0.05)
        assert written == terminal.getvalue()
    assert written.endswith(console.CLEAR)


def test_long_text_is_cut_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with contextlib.redirect_stderr(Terminal()) as terminal, live_line("x" * 100):
        wait_for("x", terminal)
    assert max(len(part) for part in re.split(re.escape(console.CLEAR), terminal.getvalue())) == 39


def test_wide_characters_count_twice(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with contextlib.redirect_stderr(Terminal()) as terminal, live_line("模" * 100):
        wait_for("模", terminal)
    assert max(map(cell_len, re.split(re.escape(console.CLEAR), terminal.getvalue()))) in (38, 39)


def test_a_line_that_is_printed_meanwhile_stands_alone_above_it():
    terminal = Terminal()
    with contextlib.redirect_stderr(terminal), contextlib.redirect_stdout(terminal), live_line("preparing data"):
        wait_for("preparing data, 0:00", terminal)
        console.plain("a note")
    after = re.search(r"(.*)a note\n(.*)", terminal.getvalue(), re.DOTALL)
    assert after[1].endswith(console.CLEAR)
    assert after[2].startswith("preparing data, 0:0")


def test_nothing_is_written_where_there_is_no_terminal(capsys):
    line = LiveLine("preparing data")
    line.show("training")
    line.close()
    line.close()
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_long_step_is_a_line_from_time_to_time(monkeypatch, capsys):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.01)
    said = ""
    with live_line("preparing data"):
        while "preparing data, 0 s\npreparing data, 0 s\n" not in said:
            said += capsys.readouterr().err
            time.sleep(0.01)
    assert capsys.readouterr().out == ""


def test_a_quiet_command_has_no_such_line(monkeypatch, capsys):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.01)
    with console.quiet(True), live_line("preparing data"):
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")
