"""The grammar of all commands: keys, words, switches, spellings of earlier versions, and help."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.commands import find, imported
from harness.config.command_line import settings
from harness.errors import InputError
from harness.grammar import Composed, key, parse, word
from harness.models.ranges import Range


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
    dry_run: bool = key(False, "only lists")
    arm: tuple[str, ...] = key((), "an arm", whole=True)


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
        (["a", "b"], "Unexpected 'b': expected RUN and KEY=VALUE"),
        (["--dry-run=x"], "dry_run='x' must be true or false"),
        (["--config-dir"], "--config-dir needs a value"),
        (["--siez=3"], "unknown option '--siez'; did you mean '--size'?"),
        (["--size"], "--size needs a value: expected a size"),
        (["match=params"], "match= has no effect here"),
    ],
)
def test_wrong_words_and_old_spellings_are_one_line(words, message):
    with pytest.raises(InputError) as error:
        parse(words, Example, "test").overrides()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_misspelt_key_is_named_before_the_one_that_is_missing():
    @dataclass(frozen=True, kw_only=True)
    class Writes(Composed):
        to: Path = key(meaning="A file.")

    with pytest.raises(InputError, match="unknown key 'too'; did you mean 'to'"):
        parse(["task=bag", "too=x"], Writes, "test")


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--size", "3"], "size", 3),
        (["--size=3"], "size", 3),
        (["--out", "x"], "to", Path("x")),
        (["out=x"], "to", Path("x")),
        (["--run", "x"], "run", "x"),
        (["run=x"], "run", "x"),
        (["dry_run=true"], "dry_run", True),
        (["--layers", "1", "layers=2"], "layers", (1, 2)),
        (["arm=a, b", "--arm", "c"], "arm", ("a, b", "c")),
    ],
)
def test_options_and_earlier_spellings_are_keys(words, field, value):
    assert parse(words, Example, "test") == replace(Example(), **{field: value})


def test_a_study_may_have_an_equals_sign_and_a_misspelt_key_is_none():
    assert parse(["lr=1", "output=tests"], imported(find("status").options), "status").study == "lr=1"
    with pytest.raises(InputError, match="unknown key 'ouput'; did you mean 'output'"):
        parse(["ouput=tests"], imported(find("status").options), "status")
    with pytest.raises(InputError, match="unknown key 'sttudy'; did you mean 'study'"):
        parse(["sttudy=a"], imported(find("status").options), "status")


def test_settings_of_a_run_may_be_typed_as_options_in_every_command():
    typed = ["--study", "a", "--model.hidden-size=8", "--rerun", "-m", "model=base,albert", "--config-dir", "x"]
    assert settings(typed) == ["study=a", "model.hidden_size=8", "rerun=true", "-m", "model=base,albert", "--config-dir", "x"]
    assert settings(["--output", "a", "--seed=1"], own={"output"}) == ["--output", "a", "seed=1"]
