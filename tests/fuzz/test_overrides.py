"""Drawn command lines: a plan, or one line with exit code 2 that names what is wrong; no traceback, and nothing is left."""

import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from fuzzing import ALL, tried, values
from hypothesis import strategies as st

from harness.__main__ import main
from harness.commands import run
from harness.config.help import GROUPS
from harness.config.keys import known_keys

KEYS = [key for key in known_keys() if key not in ("output", "tracking.uri")]
BASE = ["task=bag", "scale=tiny"]

misspelt = st.tuples(st.sampled_from(KEYS), st.integers(0, 30)).map(
    lambda drawn: drawn[0][: drawn[1]] + drawn[0][drawn[1] + 1 :]
)
keys = st.one_of(
    st.sampled_from(KEYS),
    st.sampled_from([*GROUPS]),
    misspelt,
    st.sampled_from([f"hydra.{name}" for name in ("mode", "job.name", "sweeper.params.seed", "run", "help")]),
    st.text(max_size=8),
)
settings = st.tuples(
    st.sampled_from(["", "", "", "+", "++", "~"]), keys, st.sampled_from(["=", "=", "=", "", "@a=", ".x="]), values
)
words = st.one_of(
    settings.map("".join), settings.map("".join), st.text(max_size=8), st.sampled_from(["-m", "--cfg", "-x", "--", "-"])
)
commands = st.tuples(st.booleans(), st.lists(words, min_size=1, max_size=3)).map(lambda drawn: [*["-m"][: drawn[0]], *drawn[1]])

DATA = yaml.safe_load(Path(__file__).with_name("overrides.yaml").read_text())


def is_of_the_shell(words: list[str]) -> bool:
    """Whether a word asks for help, a version, a completion, or another way of composing, which is no override."""
    return any(re.match(r"-(h|-help|-version|sc|-shell|-info|i|-cfg|c|cp|-config)|\+*hydra\.(help|mode)", one) for one in words)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture, tmp_path: Path) -> Callable[[list[str]], None]:
    """Tries one command line without running what it plans."""
    monkeypatch.setattr("sys.argv", ["harness"])
    monkeypatch.setattr(run.study, "prepare_workers", lambda: None)
    monkeypatch.setattr(run, "_run_study", lambda configs: 0)

    def tried_once(drawn: list[str]) -> None:
        if is_of_the_shell(drawn):
            return
        folder = tmp_path / uuid.uuid4().hex  # or what one command leaves would be found by all that follow
        folder.mkdir()
        monkeypatch.chdir(folder)
        code = main([*BASE, *drawn])
        err = capfd.readouterr().err
        assert code in (0, 2), drawn
        assert not list(folder.iterdir()), drawn
        if code == 2:
            assert re.fullmatch(r"harness: [^\n]+\n", err), (drawn, err)
            assert names_one_of(drawn, err), (drawn, err)

    return tried_once


def names_one_of(drawn: list[str], err: str) -> bool:
    """Whether the line has a word of the command, or the key of one, as typed or as Python spells it."""
    spelt = [part for word in drawn for part in (word, *re.split(r"[=@.]", word.lstrip("+~"), maxsplit=1)) if part]
    return "" in drawn or any(
        text in err for part in spelt for text in (part, repr(part)[1:-1], part.rpartition(".")[2], part.strip("'\""))
    )


@pytest.mark.parametrize("drawn", DATA["found"], ids=" ".join)
def test_what_was_found_is_one_line(answer, drawn):
    answer(drawn)


@pytest.mark.long
def test_a_few_drawn_commands(answer):
    tried(answer, 12, commands, shrinks=False)


@pytest.mark.slow
def test_all_drawn_commands(answer):
    tried(answer, int(os.environ.get("FUZZ_EXAMPLES", ALL)), commands)


CHOSEN = {key: values.split() for key, values in DATA["chosen"].items()}
chosen = st.sampled_from(sorted(CHOSEN)).flatmap(
    lambda key: st.one_of(st.sampled_from(CHOSEN[key]), st.sampled_from(CHOSEN[key]), values).map(
        lambda value: f"{key}={value}"
    )
)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture, tmp_path: Path) -> Callable[[list[str]], None]:
    """Plans one command line, its data and sizes included."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["harness"])

    def tried_once(drawn: list[str]) -> None:
        words = ["plan", "-m", *BASE, *(word.replace("{run}", str(tmp_path / "nowhere")) for word in drawn)]
        code = main(words)
        err = capfd.readouterr().err
        assert code in (0, 2), drawn
        assert code == 0 or re.fullmatch(r"harness plan: [^\n]+(\n  [^\n]+)*\n", err), (drawn, err)

    return tried_once


@pytest.mark.long
def test_a_few_plans_of_chosen_keys(planned):
    tried(planned, 10, st.lists(chosen, min_size=1, max_size=4), shrinks=False)


@pytest.mark.slow
def test_all_plans_of_chosen_keys(planned):
    tried(planned, int(os.environ.get("FUZZ_EXAMPLES", ALL)), st.lists(chosen, min_size=1, max_size=4))
