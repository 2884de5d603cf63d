"""The help: every choice with its meaning, every key with its type, default and comment as composition has them."""

import re
from dataclasses import fields, is_dataclass
from typing import get_args

import pytest
from omegaconf import OmegaConf

from harness.__main__ import main
from harness.commands import commands
from harness.config.choices import DERIVED
from harness.config.help import GROUPS, page
from harness.config.keys import comment_of, page_of
from harness.config.schema import RunConfig, flatten, to_dict
from harness.errors import InputError
from harness.paths import CLAIMS, REFERENCE, conf_directory

HELP = page({name: one.help for name, one in commands().items()})


def test_every_group_is_explained():
    assert set(GROUPS) == {path.name for path in conf_directory().iterdir() if path.is_dir()} - {CLAIMS, REFERENCE}


def test_every_choice_is_listed_with_its_meaning_in_whole_clauses():
    for group in GROUPS:
        for path in (conf_directory() / group).glob("*.yaml"):
            assert re.search(rf"^   [ *] {path.stem} +\w.*", HELP, re.MULTILINE), f"{path} says in no comment what it is"
    for line in re.sub(r"\n {20,}", " ", HELP).splitlines():
        assert not re.search(r"^   [ *] \w.*([;,:(-]|\b(and|or|of|the|a))$", line), line


def test_default_choices_are_marked():
    marked = re.findall(r"^   \* (\w+)", HELP, re.MULTILINE)
    assert {"run", "base", "tiny", "builtin", "hub", "standard", "quick", "cpu", "mlflow", "own", "none", "small"} == set(
        marked
    )


def test_every_command_is_listed_and_has_a_help_of_its_own(capsys):
    for name in commands():
        assert re.search(rf"^   [ *] {name} +\w.*", HELP, re.MULTILINE), name
        for arguments in ([*name.split(), "--help"], ["--help", *name.split()]) if name != "run" else ():
            assert main(arguments) == 0
            assert capsys.readouterr().out.startswith(f"usage: python -m harness {name} ")


@pytest.mark.parametrize("columns", [80, 120])
def test_the_page_fits_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    long = [line for line in page({name: one.help for name, one in commands().items()}).splitlines() if len(line) > columns]
    assert long == []


def test_help_goes_to_stdout_and_leaves_with_0(run_module):
    done = run_module("harness", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == HELP.strip()


def keys_of(schema: type, prefix: str = "") -> list[str]:
    """Dotted keys of single values."""
    found = []
    for field in fields(schema):
        section = next((kind for kind in (field.type, *get_args(field.type)) if is_dataclass(kind)), None)
        found += keys_of(section, f"{prefix}{field.name}.") if section else [prefix + field.name]
    return found


KEYS = [key for key in keys_of(RunConfig) if key.partition(".")[0] not in DERIVED]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_a_sentence(key):
    sentence, _ = comment_of(key)
    assert re.fullmatch(r"[A-Z].{10,158}\.", sentence), "a capital, 12 to 160 characters, a full stop"
    assert not re.search(r"\b(likewise|None|beside|healed|lifted|looks|the same (of|for))\b", sentence), "plain English"


def test_the_name_by_which_a_pretraining_is_typed_has_a_help_too():
    page = page_of("pretrain.checkpoint").splitlines()
    assert page_of("pretrain.from").splitlines() == ["pretrain.from=null", *page[1:]]


def test_every_key_is_in_the_page_of_its_section():
    for section in {key.rpartition(".")[0] for key in KEYS} - {""}:
        listed = re.findall(rf"^  {re.escape(section)}\.(\w+)=", page_of(section), re.MULTILINE)
        assert listed == [key.rpartition(".")[2] for key in KEYS if key.rpartition(".")[0] == section]


@pytest.mark.long
def test_defaults_are_those_that_a_command_without_arguments_composes(compose):
    """Of a task that is no set; what composition computes from other keys is null before it."""
    resolved = {"measure.length", "pretrain.length", "pretrain.tokens", "pretrain.seed", "tokenizer.trained_on"}
    resolved |= {
        "pretrain.decay_fraction",
        "finetune.learning_rate",
        "tokenizer.kind",
        "tokenizer.vocab_size",
        "tokenizer.lowercase",
        "tokenizer.multilingual",
        "tokenizer.separators",
    }
    composed = flatten(to_dict(compose("task=bag")[0]))
    for key in KEYS:
        if key.partition(".")[0] in ("task", "arm") or key in resolved:
            continue
        typed = page_of(key).splitlines()[0].partition("=")[2]
        value = eval(typed) if " / " in typed else OmegaConf.to_container(OmegaConf.from_dotlist([f"value={typed}"]))["value"]
        assert key in composed or value == {}, key  # an empty mapping has no keys
        assert (value or None) == (composed.get(key) or None), key


def test_keys_of_a_model_are_under_the_headings_of_the_schema():
    page = page_of("model")
    assert re.search(r"^  Attention\n  model\.position=learned ", page, re.MULTILINE)
    assert re.search(r"^  model\.hidden_size=128 +int +Hidden size: features per token", page, re.MULTILINE), (
        "the default scale is tiny"
    )


def test_key_has_its_comment_and_its_choices_have_theirs(capsys):
    assert main(["-h", "model.position"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("model.position=learned\n")
    assert re.search(r"^ +rotary +rotation of queries and keys \(arXiv:2104\.09864\)$", out, re.MULTILINE)
    assert page_of("model.attention_window").splitlines()[2].endswith("Example: 32.")
    assert page_of("task.grammar.depth").startswith("task.grammar.depth=3\n  int, at least 1\n  Nesting depth")
    its_lines = [
        "float, above 0 and below 1",
        "read where a run pretrains",
        "role: condition (must agree between compared runs)",
    ]
    assert {*its_lines} <= {line.strip() for line in page_of("pretrain.mask_rate").splitlines()}


@pytest.mark.parametrize(
    ("topic", "near"),
    [("finetune.lr", "finetune.learning_rate"), ("finetunes", "finetune"), ("task.gramar.seed", "task.grammar.seed")],
)
def test_unknown_topic_gets_the_nearest(topic, near, capsys):
    assert main(["--help", topic]) == 2
    assert f"did you mean '{near}'?" in capsys.readouterr().err


@pytest.mark.parametrize("topic", ["nope", "seed.x", "model.", "published.hidden_size", "model_name"])
def test_what_is_no_key_is_refused(topic):
    with pytest.raises(InputError, match=f"unknown key '{topic}'"):
        page_of(topic)


def test_a_group_with_a_choice_has_the_help_of_the_group(capsys):
    assert main(["--help", "scale=tiny"]) == 0
    assert capsys.readouterr().out.startswith("scale: ")
    assert main(["--help", "scale=tyny"]) == 2
    assert "unknown scale 'tyny'; did you mean 'tiny'?" in capsys.readouterr().err
