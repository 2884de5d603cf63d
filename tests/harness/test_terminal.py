"""Text for a terminal: nothing is wider than it, and wrapped commands can be pasted."""

import shlex

from harness.terminal import WIDTH, wrapped

NUMBERS = "pairs: " + ", ".join(f"-{length / 10} % ({length})" for length in range(100, 140))


def test_wrapped_lines_are_narrow_and_hold_the_whole_text():
    lines = wrapped(NUMBERS, 19, "holds only where").splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) > 3
    assert lines[0].startswith("holds only where   pairs: -10.0 % (100), ")
    assert all(line.startswith(" " * 19 + "-") for line in lines[1:])  # no line begins with a percent sign or a bracket
    assert " ".join(line[19:] for line in lines) == NUMBERS


def test_a_wrapped_command_is_one_command():
    command = " ".join(["python -m harness -m", *(f"key{number}=value" for number in range(30)), "'seed=range(1,11)'"])
    lines = wrapped(command, 2, ending=" \\").splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)
