"""Lines of a command: on the console, quiet or not, and in the logs of its studies."""

import io
import logging.config
import re

import pytest

from harness.terminal import console


def say_all() -> None:
    console.plain("started")
    console.plain("step 5 of 9", replaced=True)
    console.result("report: report.html")
    console.problem("100 % of it failed")


ALL = ["started", "step 5 of 9", "report: report.html", "100 % of it failed"]


@pytest.mark.parametrize(("quiet", "shown"), [(False, [ALL[0], *ALL[2:]]), (True, ALL[2:])])
def test_the_console_shows_its_kinds_of_lines_and_the_log_has_all(tmp_path, capsys, quiet, shown):
    with console.logged([tmp_path / "a", tmp_path / "b"]), console.quiet(quiet):
        say_all()
    console.plain("after")
    assert capsys.readouterr().out.splitlines() == [*shown, "after"]
    for study in ("a", "b"):
        lines = (tmp_path / study / console.LOG).read_text().splitlines()
        found = [re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+:\d+ (.*)", line)[1] for line in lines]
        assert found == ALL


def test_a_second_command_adds_to_the_log(tmp_path, capsys):
    for text in ("one", "two"):
        with console.logged([tmp_path]):
            console.plain(text)
    assert [line.split()[-1] for line in (tmp_path / console.LOG).read_text().splitlines()] == ["one", "two"]


def test_nothing_said_leaves_no_log(tmp_path):
    with console.logged([tmp_path]):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["a folder", "/dev/full"])
def test_a_log_that_cannot_be_written_is_said_once_and_stops_nothing(tmp_path, capsys, place):
    log = tmp_path / console.LOG
    log.mkdir() if place == "a folder" else log.symlink_to(place)
    with console.logged([tmp_path]):
        console.plain("one")
        console.plain("two")
    out, err = capsys.readouterr()
    assert err == ""
    one, problem, two = out.splitlines()
    assert (one, two) == ("one", "two")
    assert "sweep.log cannot be written (" in problem


def test_libraries_that_configure_logging_change_nothing(capsys):
    before = logging.root.handlers[:], logging.root.level
    try:
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
        console.plain("still here")
    finally:
        logging.root.handlers[:], logging.root.level = before
    assert capsys.readouterr().out == "still here\n"


def test_a_quiet_command_has_no_live_display():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with console.quiet(False):
        assert console.is_live(Terminal(), Terminal())
        assert not console.is_live(Terminal(), io.StringIO())
    with console.quiet(True):
        assert not console.is_live(Terminal())
    assert not console.is_quiet()
