"""What holds for each command of the harness, of the report and of our plug-ins: help, and one line for wrong words."""

import re
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from harness.__main__ import main
from harness.commands import commands, find, imported
from harness.grammar import Composed, Grammar

NAMES = [name for name in commands() if name != "run"]


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["harness"])


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """The one line of a command that must end with 2, print nothing else and leave nothing."""

    def line_of(name: str, *words: str) -> str:
        assert main([*name.split(), *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert re.fullmatch(rf"harness {name}: [^\n]+\n", err), err
        assert [*tmp_path.iterdir()] == []
        return err.partition(": ")[2]

    return line_of


def required(name: str) -> list[str]:
    """Words for what the command cannot do without."""
    grammar = Grammar(imported(find(name).options))
    words = [each for each, option in grammar.words.items() if option.default is MISSING]
    return words + [f"{each}=x" for each, option in grammar.keys.items() if option.default is MISSING]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_names_what_is_called_with_its_options(name):
    assert is_dataclass(imported(find(name).options))
    assert callable(find(name).function())


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_each_option_is_and_fits_the_terminal(name, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: python -m harness {name} ")
    assert max(map(len, out.splitlines())) <= columns
    grammar = Grammar(imported(find(name).options))
    for each, option in (grammar.words | grammar.keys).items():
        start = re.escape(option.written)
        assert option.meaning, each
        assert re.search(rf"^  {start} +{re.escape(option.meaning.split()[0])}", out, re.MULTILINE), each


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_named(name, refused):
    assert refused(name, "--nosuch=1").startswith("unknown option '--nosuch'; choices for `python -m harness ")
    assert refused(name, "-x").startswith("unknown option '-x'; ")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_key_is_named(name, refused):
    words = required(name) if not issubclass(imported(find(name).options), Composed) else []
    near = next((each for each in Grammar(imported(find(name).options)).keys if len(each) > 3 and "." not in each), None)
    if near is not None:
        assert f"unknown key '{near}s'; did you mean '{near}'?" in refused(name, f"{near}s=1", *words) or words == []


@pytest.mark.parametrize("name", NAMES)
def test_an_option_without_a_value_is_named(name, refused):
    grammar = Grammar(imported(find(name).options))
    for each, its in grammar.keys.items():
        written = its.written
        if not written.startswith("-"):
            option = "--" + each.replace("_", "-")
            assert refused(name, option).startswith(f"{option} needs a value: expected ")
            assert refused(name, f"{each}=").startswith(f"{each}= is empty: expected ")
        else:
            assert refused(name, f"{written}=x").startswith(f"{each}='x' must be true or false")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_required_and_missing_is_named(name, refused):
    words = required(name)
    for at, missing in enumerate(words):
        given = words[:at] if "=" not in missing else [word for word in words if word != missing]
        assert refused(name, *given).startswith(f"{missing.partition('=')[0]}{'=' * ('=' in missing)} is missing: expected ")


@pytest.mark.parametrize("name", NAMES)
def test_a_number_out_of_its_range_is_named(name, refused):
    for key, option in Grammar(imported(find(name).options)).keys.items():
        if option.metadata.get("range"):
            assert re.match(rf"{key}='x' must be a (whole|finite) number", refused(name, f"{key}=x"))
            assert re.match(rf"{key}='-1e30' must be ", refused(name, f"{key}=-1e30"))


@pytest.mark.parametrize("name", NAMES)
def test_one_word_too_many_is_named(name, refused):
    options = imported(find(name).options)
    if issubclass(options, Composed) or "..." in str(Grammar(options).words):
        return
    line = refused(name, *Grammar(options).words, "many")
    assert line.startswith(("Unexpected 'many': expected ", "unknown key 'many'", "unknown command 'many'"))


def said(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What a command line that is refused says, without the choices."""
    assert main(line.split()) == 2
    return re.sub(r" (all choices|choices for .*): .*", "", capsys.readouterr().err)


def test_a_wrong_first_word_names_what_is_meant(capsys):
    lines = ("reprot", "results", "train", "report gaet", "report train", "report mine")
    assert {line: said(capsys, line) for line in lines} == snapshot(
        {
            "reprot": "harness: unknown command 'reprot'; did you mean 'python -m harness report'?\n",
            "results": "harness: unknown command 'results'; did you mean 'python -m harness report'?\n",
            "train": "harness: unknown command 'train'; did you mean 'python -m harness model=base task=order'?\n",
            "report gaet": "harness report: unknown command 'gaet'; did you mean 'python -m harness report study=gaet'?\n",
            "report train": (
                "harness report: unknown command 'train'; did you mean 'python -m harness model=base task=order'?\n"
            ),
            "report mine": "harness report: unknown command 'mine'; did you mean 'python -m harness report study=mine'?\n",
        }
    )


def test_messages_say_what_was_typed_what_is_expected_and_the_cure(capsys):
    lines = ("status ouput=x", "status output=x", "status --outptu=x", "status a b")
    assert {line: said(capsys, line) for line in lines} == snapshot(
        {
            "status ouput=x": "harness status: unknown key 'ouput'; did you mean 'output'?\n",
            "status output=x": "harness status: output='x' is not a folder: expected the folder of the runs\n",
            "status --outptu=x": "harness status: unknown option '--outptu'; did you mean '--output'?\n",
            "status a b": "harness status: Unexpected 'b': expected STUDY and KEY=VALUE\n",
        }
    )
