"""Text for a terminal: nothing is wider than it, wrapped commands can be pasted, and nobody has to read it to its end."""

import os
import shlex
import subprocess

import pytest

from harness.command import READER_ENDED, exit_code
from harness.terminal import WIDTH, duration, scaled, table, wrapped

NUMBERS = "pairs: " + ", ".join(f"-{length / 10} % ({length})" for length in range(100, 140))


def test_wrapped_lines_are_narrow_and_hold_the_whole_text():
    lines = wrapped(NUMBERS, 19, "holds only where").splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) > 3
    assert lines[0].startswith("holds only where   pairs: -10.0 % (100), ")
    assert all(line.startswith(" " * 19 + "-") for line in lines[1:])  # no line begins with a percent sign or a bracket
    assert " ".join(line[19:] for line in lines) == NUMBERS
    assert wrapped("Changes: ▲ better, ~ inconclusive", most=21) == "Changes: ▲ better,\n~ inconclusive"


def test_a_wrapped_command_is_one_command():
    command = " ".join(["python -m harness -m", *(f"key{number}=value" for number in range(30)), "'seed=range(1,11)'"])
    lines = wrapped(command, 2, ending=" \\").splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], READER_ENDED),
        (["--version"], READER_ENDED),
        (["--cfg", "job", "task=bag"], READER_ENDED),  # Hydra prints
        (["sync", "--help"], READER_ENDED),
    ],
)
def test_command_ends_quietly_where_its_reader_has_ended(start_process, arguments, code):
    read, write = os.pipe()
    os.close(read)
    process = start_process("-m", "harness", *arguments, stdout=write)
    os.close(write)
    _, err = process.communicate()
    assert (process.returncode, err) == (code, "")


@pytest.mark.long
def test_output_that_is_read_is_whole(run_python):
    done = run_python("-m", "harness", "--version")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


@pytest.mark.long
def test_wrong_input_is_still_said(start_process):
    read, write = os.pipe()
    os.close(read)
    process = start_process("-m", "harness", "epochs=3", stdout=write)
    os.close(write)
    _, err = process.communicate()
    assert (process.returncode, err.count("\n")) == (2, 1)
    assert err.startswith("harness: unknown key 'epochs'")


def test_another_pipe_that_breaks_is_an_error():
    def main() -> int:
        with subprocess.Popen(["true"], stdin=subprocess.PIPE, bufsize=0) as process:
            process.wait()
            process.stdin.write(b"nobody reads this")
        return 0

    with pytest.raises(BrokenPipeError):
        exit_code("harness", [], main, called=True)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (45, "45 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7800, "2 h 10 min"),
        (7200, "2 h"),
        (273600, "3 d 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(3.358e6, "", "3.36 M"), (8.12e11, "FLOP", "812 GFLOP"), (999.6e6, "B", "1000 MB"), (12, "B", "12 B"), (0, "", "0")],
)
def test_three_digits_and_a_prefix(value, unit, text):
    assert scaled(value, unit).strip() == text


@pytest.mark.parametrize("columns", ["20", "30", "200"])
def test_a_table_wider_than_the_terminal_is_cut_between_columns(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    head, row = ("name", "batch", "weights", "gradients"), ("measured", "8", "44.7 MB", "89.4 MB")
    lines = table(head, [row], "lrrr").splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert sorted(set(" ".join(lines).replace("-", "").split())) == sorted({*" ".join(head).split(), *" ".join(row).split()})
    assert sum("measured" in line for line in lines) == {"20": 3, "30": 2, "200": 1}[columns]
    monkeypatch.delenv("COLUMNS")
    assert len(table(head, [row], "lrrr").splitlines()) == 3  # a file has no width


def test_columns_that_belong_together_are_not_cut_apart_and_heads_end_in_the_lowest_line(monkeypatch):
    head, row = ("name", "base", "a long\nname", "/ base"), ("measured", "8", "44.7", "0.912")
    monkeypatch.setenv("COLUMNS", "24")  # room for the value, but not for its ratio
    shown = [[line.split() for line in part.splitlines()] for part in table(head, [row], "lrrR").split("\n\n")]
    assert [part[-1] for part in shown] == [["measured", "8"], ["measured", "44.7", "0.912"]]
    assert shown[1][:2] == [["a", "long"], ["name", "name", "/", "base"]]
