"""The command lines of all commands."""

import pytest

from harness.__main__ import main
from harness.commands import COMMANDS
from harness.commands.arguments import Parser
from harness.errors import InputError
from harness.terminal import WIDTH


@pytest.fixture
def parser() -> Parser:
    made = Parser("test", "A command with options of all kinds.", keys={"item": "an own key"})
    made.add_argument("--output", default="multirun")
    made.add_argument("--trace", nargs="?", const="here")
    made.add_argument("--measure", action="store_true")
    return made


@pytest.mark.parametrize("words", [["--output", "a=b"], ["--output=a=b"], ["output=a=b"]])
def test_option_may_be_written_as_a_key(parser, words):
    assert parser.parse_args(words).output == "a=b"
    options, own, choices = parser.parse_composed([*words, "item=3", "model.hidden_size=8"])
    assert (options.output, own, choices) == ("a=b", {"item": "3"}, ["model.hidden_size=8"])


def test_option_without_a_value_is_no_key(parser):
    assert parser.parse_args(["trace=there"]).trace == "there"
    with pytest.raises(InputError, match="unrecognized arguments: measure=quick"):
        parser.parse_args(["measure=quick"])


@pytest.mark.parametrize("words", [["sync", "output=nowhere"], ["sync", "--output", "nowhere"]])
def test_sync_takes_the_folder_as_a_run_does(capsys, words):
    assert main(words) == 2
    assert capsys.readouterr().err == "harness sync: --output='nowhere' is not a folder\n"


def test_misspelt_key_of_an_option_is_one_line(capsys):
    assert main(["sync", "ouput=nowhere"]) == 2
    assert capsys.readouterr().err == "harness sync: unrecognized arguments: ouput=nowhere\n"


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "run"])
def test_help_of_a_command_fits_the_terminal(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= WIDTH


def test_an_option_that_is_a_key_here_is_written_as_one(capsys):
    assert main(["predict", "--run", "X"]) == 2
    assert "unknown option '--run'; did you mean 'run='?" in capsys.readouterr().err
