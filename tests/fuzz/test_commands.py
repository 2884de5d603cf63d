"""Drawn arguments of every command over a small study: an answer, or one line with exit code 2; never a traceback."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from fuzzing import ALL, LONG, changed, changes, tried, values
from hypothesis import strategies as st

from harness.__main__ import main
from harness.commands import find, imported, is_command
from harness.config.help import GROUPS
from harness.config.keys import known_keys
from harness.grammar import Composed, Grammar

STUDY = [
    "scale=tiny",
    "task=bag",
    "finetune.max_steps=2",
    "finetune.keep=last",
    "measure=none",
    "hardware.threads=1",
    "study=s",
]
STUDY += ["study=s", "task.grammar.train_examples=20", "task.grammar.validation_examples=10", "report=false"]
DATA = yaml.safe_load(Path(__file__).with_name("commands.yaml").read_text())
READERS, WRITTEN = DATA["readers"], DATA["written"]
WORDS = {name: words for name, words in DATA["words"].items() if is_command(name)}
"""Of the commands that are there: most are plug-ins."""

TAKES_LONG = {name: f"harness.plugins.costs.{name}.main" for name in ("plan", "profile", "memory")}
TAKES_LONG["tour"] = "harness.plugins.explain.tour.run"


@dataclass(frozen=True)
class Command:
    """Words with which it succeeds, and the keys and other words that are drawn beside them."""

    words: tuple[str, ...]
    keys: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    composes: bool = False  # takes groups and keys of a run too


def command_of(name: str) -> Command:
    """A command with all that its options have, and old spellings."""
    grammar = Grammar(imported(find(name).options))
    switches = tuple(option.written for option in grammar.keys.values() if option.written.startswith("-"))
    flags = (*switches, "--out", "--output=x", "--json", *(("s", LONG, "..", "{out}") if grammar.words else ()))
    composes = issubclass(imported(find(name).options), Composed)
    keys = (*grammar.keys, *(("--config-dir",) if grammar.takes_config else ()))
    return Command(WORDS[name], keys, flags, composes)


COMMANDS = {
    "run": Command(("scale=tiny", "task=bag", "output={free}"), composes=True, flags=("-q", "-m", "-", "--")),
    **{name: command_of(name) for name in WORDS},
    "--help": Command((), flags=("scale=tiny", "model=nosuch", "task.fields", "plan", "nosuch", "-", "")),
}
"""By name."""

files = {
    "rows": "a film ||| b\nno film ||| c\n",
    "deep": '{"text": ' + "[" * 5000 + "]" * 5000 + "}\n",
    "half": '{"sentence1": "\\ud800", "sentence2": "b"}\n',
    "claims": "source: s\nclaims: {c: {claim: a, claimed: 1, readings: {x: {measure: parameters, of: scale=tiny}}}}\n",
    "yaml": "? [a, b]\n: 1\n",
}
ENDINGS = {"rows": "txt", "deep": "jsonl", "half": "jsonl", "claims": "yaml", "yaml": "yaml"}

drawn_values = st.one_of(st.sampled_from([*DATA["values"], "9" * 5000]), values)
keys_of_runs = st.sampled_from([*known_keys(), *GROUPS, "settings", "published", "swept"])


def words_of(command: Command) -> st.SearchStrategy:
    """One to three options, keys or flags with their values."""
    parts = [st.sampled_from(command.flags)] if command.flags else []
    if command.keys:
        parts += [st.tuples(st.sampled_from(command.keys), drawn_values).map("=".join)]
    if command.composes:
        parts += [st.tuples(keys_of_runs, drawn_values).map("=".join)]
    parts += [st.tuples(st.sampled_from(["--nosuch", "-x", "nosuch="]), drawn_values).map("".join)]
    one = st.one_of(*parts).map(lambda word: list(word) if isinstance(word, tuple) else [word])
    return st.lists(one, min_size=1, max_size=3).map(lambda several: [word for part in several for word in part])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each of two variants, in MLflow."""
    folder = tmp_path_factory.mktemp("study")
    assert main(["-m", "model=base,albert", "seed=0", *STUDY, f"output={folder / 'out'}"]) == 0
    return folder / "out"


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture, tmp_path: Path, study: Path) -> Callable:
    """Calls a command with drawn words; what takes long of it, or never ends, is left out after its checks."""
    (run,) = study.glob("s/base-*")
    places = {"run": str(run), "out": str(tmp_path / "out"), "free": str(tmp_path / "free"), "folder": str(tmp_path / "folder")}
    for name, text in files.items():
        places[name] = str(tmp_path / f"{name}.{ENDINGS[name]}")
        Path(places[name]).write_text(text)
    (tmp_path / "folder" / "run.json").mkdir(parents=True)
    shutil.copytree(study, tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["harness"])
    monkeypatch.setattr("harness.commands.run._run_study", lambda configs: 0)
    monkeypatch.setattr("harness.study.prepare_workers", lambda: None)
    for name, function in TAKES_LONG.items():
        if name in WORDS:
            monkeypatch.setattr(function, lambda *_: 0)
    monkeypatch.setattr("os.execve", lambda *_: sys.exit(0))  # by `ui`, which becomes the server
    monkeypatch.setattr(
        "harness.reports.render.render", lambda *_: {"report.md": b"", "report.json": b'{"title": "", "sections": []}'}
    )

    def tried_once(name: str, drawn: list[str]) -> None:
        whole = [
            *name.split(),
            *(word.format(**places) for word in COMMANDS[name].words),
            *(fill(word, places) for word in drawn),
        ]
        label = "harness" if name in ("run", "--help") else f"harness {name}"
        try:
            code = main(whole)
        except SystemExit as ended:
            code = ended.code
        err = capfd.readouterr().err
        assert code in (0, 1, 2), (whole, err)
        if code == 2:
            assert re.fullmatch(rf"{re.escape(label)}: [^\n]+\n", err), (whole, err)

    return tried_once


def fill(word: str, places: dict[str, str]) -> str:
    """The word with the places that it names."""
    return re.sub(r"\{(\w+)\}", lambda found: places.get(found[1], found[0]), word)


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_a_few_drawn_arguments(answer, name):
    tried(lambda drawn: answer(name, drawn), 4, words_of(COMMANDS[name]), shrinks=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_all_drawn_arguments(answer, name):
    share = max(1, int(os.environ.get("FUZZ_EXAMPLES", ALL)) // 20)
    tried(lambda drawn: answer(name, drawn), share, words_of(COMMANDS[name]))


@pytest.fixture
def read(answer: Callable, tmp_path: Path, study: Path, capfd: pytest.CaptureFixture) -> Callable:
    """Damages a file of a copy of the study, and calls a command that reads it."""
    (run,) = study.glob("s/base-*")
    places = {
        "out": str(tmp_path / "out"),
        "free": str(tmp_path / "free"),
        "base": run.name,
        "rows": str(tmp_path / "rows.txt"),
    }

    def damaged(drawn: tuple[int, int, list[tuple[float, object]] | None]) -> None:
        file, command, damages = drawn
        path = study / WRITTEN[file].format(**places)
        shutil.rmtree(tmp_path / "out")
        shutil.rmtree(tmp_path / "free", ignore_errors=True)
        shutil.copytree(study, tmp_path / "out")
        target = tmp_path / "out" / path.relative_to(study)
        if damages is None:
            target.unlink()
            target.mkdir()
        elif path.suffix == ".json":
            value = json.loads(path.read_text())
            for place, new in damages:
                value = changed(value, place, new)
            target.write_text(json.dumps(value))
        else:
            lines = path.read_text().splitlines()
            lines[int(damages[0][0] * (len(lines) - 1))] = json.dumps(damages[0][1])
            target.write_text("\n".join(lines))
        words = [word.format(**places) for word in READERS[command]]
        code = main(words)
        err = capfd.readouterr().err
        assert code in (0, 1, 2), (words, err)
        assert code != 2 or re.fullmatch(r"[^\n]+: [^\n]+\n", err), (words, err)

    return damaged


places_of_damage = st.tuples(
    st.integers(0, len(WRITTEN) - 1), st.integers(0, len(READERS) - 1), st.one_of(changes, changes, changes, st.none())
)


@pytest.mark.long
def test_a_few_damaged_studies(read):
    tried(read, 10, places_of_damage, shrinks=False)


@pytest.mark.slow
def test_all_damaged_studies(read):
    tried(read, max(1, int(os.environ.get("FUZZ_EXAMPLES", ALL)) // 4), places_of_damage)
