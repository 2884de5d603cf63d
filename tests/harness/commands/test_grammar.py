"""The grammar of all commands: keys, words, switches, spellings of earlier versions, and help."""

from dataclasses import dataclass, is_dataclass
from pathlib import Path

import pytest

from harness.__main__ import main
from harness.commands import commands, find
from harness.commands.grammar import Composed, key, parse, switch, word
from harness.errors import InputError
from harness.models.ranges import Range
from harness.terminal import WIDTH

OWN = sorted({*commands()} - {"run"})


@dataclass(frozen=True, kw_only=True)
class Example(Composed):
    """A command with options of all kinds."""

    run: str | None = word("RUN", None, "a run")
    item: str | None = key(None, "an item")
    layers: tuple[int, ...] = key((1, 2), "numbers")
    size: int | None = key(None, "a size", range=Range(at_least=1))
    rate: float = key(0.5, "a rate", range=Range(above=0))
    fine: bool = key(False, "true or false")
    to: Path = key(Path("here"), "a folder")
    dry_run: bool = switch("only lists")


def test_keys_words_and_switches_have_their_types_and_the_rest_is_for_hydra():
    words = ["base-1", "item=a=b", "layers=[-1, 4]", "size=3", "rate=1e-2", "fine=True", "to=x/y", "--dry-run"]
    options = parse([*words, "-m", "+model.hidden_size=8", "~task", "--config-dir", "mine"], Example, "test")
    assert (options.run, options.item, options.layers, options.size, options.rate) == ("base-1", "a=b", (-1, 4), 3, 0.01)
    assert (options.fine, options.to, options.dry_run) == (True, Path("x/y"), True)
    assert options.overrides() == ["--config-dir=mine", "-m", "+model.hidden_size=8", "~task", "task=bag"]
    assert parse([], Example, "test") == Example()


def test_the_folder_of_a_run_may_have_an_equals_sign(tmp_path):
    (tmp_path / "base-lr=1").mkdir()
    assert parse([f"{tmp_path}/base-lr=1"], Example, "test").run == f"{tmp_path}/base-lr=1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["size=0"], "size='0' must be a whole number of at least 1"),
        (["size=1.5"], "size='1.5' must be a whole number of at least 1"),
        ([f"size={'9' * 5000}"], "must be a whole number of a finite number at least 1"),
        (["layers=[1,x]"], "layers='x' must be a whole number"),
        (["rate=0"], "rate='0' must be above 0"),
        (["rate=fast"], "rate='fast' must be a finite number above 0"),
        (["fine=1"], "fine='1' must be true or false"),
        (["item="], "item= is empty: expected an item"),
        (["layers= "], "layers=' ' has an empty value: expected numbers"),
        (["layers=[ ]"], "layers='[ ]' has an empty value: expected numbers"),
        (["layers=1, ,2"], "layers='1, ,2' has an empty value: expected numbers"),
        (["a", "b"], "'b' is a word too many: expected RUN and KEY=VALUE"),
        (["--dry-run", "x"], "--dry-run takes no value: expected --dry-run to=FOLDER"),
        (["--dry-run=x"], "--dry-run takes no value"),
        (["--config-dir"], "--config-dir needs a value"),
        (["--siez=3"], "unknown option '--siez=3'"),
        (["--size", "3"], "--size is now written size=VALUE"),
        (["--out=x"], "--out is now written to=VALUE"),
        (["out=x"], "out is now written to=VALUE"),
        (["--uri", "x"], "--uri is now written tracking.uri=VALUE"),
        (["runs=x"], "runs is now written output=VALUE"),
        (["run=x"], "run is now written without a key: python -m harness test RUN"),
        (["match=params"], "match=params has no effect here"),
    ],
)
def test_wrong_words_and_old_spellings_are_one_line(words, message):
    with pytest.raises(InputError) as error:
        parse(words, Example, "test").overrides()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


OLD = (
    *("plan --price 1", "plan --flops-per-second 1", "describe --out x"),
    *("profile --rounds 3", "profile --json x.json", "profile --trace x", "audit --where verdict=refuted", "audit --output x"),
    *("audit --uri x", "inspect task=bag item=0 out=x", "inspect task=bag item=0 run=x", "tokenizer task=bag runs=x"),
    *("features run=x input=y output=z.jsonl", "predict run=x input=y output=z.jsonl", "predict X input=y output=z.jsonl"),
    *("export X --out y", "export X --family bert", "status --output x", "clean --output x", "sync --uri x", "ui --port 5"),
    *("submission X --output y",),
)


@pytest.mark.parametrize("line", OLD)
def test_every_old_spelling_names_the_new_one(line, capsys):
    assert main(line.split()) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert any(text in err for text in ("is now written", "takes no value: expected", "to= is missing")), err


@pytest.mark.parametrize("command", OWN)
def test_every_command_names_what_is_called_with_its_options(command):
    assert is_dataclass(find(command).options_class())
    assert callable(find(command).function())


def test_a_study_may_have_an_equals_sign_and_a_misspelt_key_is_none():
    assert parse(["lr=1", "output=tests"], find("status").options_class(), "status").study == "lr=1"
    with pytest.raises(InputError, match="unknown key 'ouput'; did you mean 'output'"):
        parse(["ouput=tests"], find("status").options_class(), "status")


@pytest.mark.parametrize("words", [["sync", "output=nowhere"], ["status", "output=nowhere"], ["clean", "output=nowhere"]])
def test_a_folder_that_is_not_there_is_one_line(capsys, words):
    assert main(words) == 2
    assert capsys.readouterr().err == f"harness {words[0]}: output='nowhere' is not a folder: expected the one of the runs\n"


def test_a_misspelt_key_names_the_nearest(capsys):
    assert main(["sync", "ouput=nowhere"]) == 2
    assert capsys.readouterr().err.startswith("harness sync: unknown key 'ouput'; did you mean 'output'?")


@pytest.mark.parametrize("command", OWN)
def test_help_of_a_command_fits_the_terminal(capsys, command):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    out = capsys.readouterr().out
    assert out.startswith(f"usage: python -m harness {command}")
    assert max(map(len, out.splitlines())) <= WIDTH
