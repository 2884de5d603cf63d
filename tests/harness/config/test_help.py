"""The help: every choice with its meaning, every key with its type, default and comment as composition has them."""

import re
from dataclasses import fields, is_dataclass
from typing import get_args

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from harness.__main__ import main
from harness.commands import commands
from harness.config.choices import DERIVED
from harness.config.command_line import read
from harness.config.help import GROUPS, PAGE, choices_of, first_page, further_pages, names
from harness.config.keys import comment_of, example_of, page_of
from harness.config.schema import GrammarConfig, RunConfig, TaskConfig, flatten, to_dict
from harness.errors import InputError
from harness.paths import CLAIMS, conf_directory

DESCRIPTIONS = {name: one.help for name, one in commands().items()}


def test_every_group_is_explained():
    assert set(GROUPS) == {path.name for path in conf_directory().iterdir() if path.is_dir()} - {CLAIMS, "reference"}


@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_is_listed_with_its_meaning_in_whole_clauses(group):
    listed = "\n".join(choices_of(group))
    for name in names(group):
        assert re.search(rf"^  [ *] {name} +\w.*", listed, re.MULTILINE), f"{name} says in no comment what it is"
    for line in re.sub(r"\n {8,}", " ", listed).splitlines():
        assert not re.search(r"([;,:(-]|\b(and|or|of|the|a))$", line), line


def test_default_choices_are_marked():
    marked = {choice for group in GROUPS for choice in re.findall(r"^  \* (\w+)", "\n".join(choices_of(group)), re.MULTILINE)}
    assert marked == {"base", "tiny", "builtin", "hub", "standard", "quick", "cpu", "mlflow", "own", "none", "small"}


def test_every_command_is_listed_and_has_a_help_of_its_own(capsys):
    for name in commands():
        assert re.search(rf"^  {name} +[A-Z].*", further_pages(DESCRIPTIONS)["commands"], re.MULTILINE), name
        for arguments in ([*name.split(), "--help"], ["--help", *name.split()]) if name != "run" else ():
            assert main(arguments) == 0
            assert capsys.readouterr().out.startswith(f"Usage: python -m harness {name} ")


def test_every_value_of_a_key_is_among_its_choices():
    """Also one without a comment, which was a blank line."""
    for page in map(page_of, KEYS):
        choices = page.partition("\n\nChoices\n")[2]
        values = re.search(r"^  Values +([\w,\s]+)\n  [A-Z]", page, re.MULTILINE)
        if choices and values:
            names = re.findall(r"^  (\w+)(?: {2,}|$)", choices, re.MULTILINE)
            assert names == re.split(r",\s+", values[1].replace(" or null", "")), page


@pytest.mark.parametrize("columns", [80, 120])
def test_pages_fit_the_terminal_and_the_first_one_screen(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    for topic in ([], ["commands"], ["groups"], ["finetune"], ["model"], ["finetune.optimizer"], ["report"]):
        assert main(["--help", *topic]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= columns
        assert topic or len(lines) <= 40


def test_first_page_leads_with_the_commands_that_people_need_and_three_examples():
    page = first_page(DESCRIPTIONS)
    listed = page.partition("Commands\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == PAGE["commands"]["names"]
    assert len(listed) == 10
    assert page.count("\n  python -m harness ") == 3


def test_groups_page_names_every_choice():
    page = further_pages(DESCRIPTIONS)["groups"]
    assert all(re.search(rf"\b{name}\b", page) for group in GROUPS for name in [group, *names(group)])


@pytest.mark.long
def test_help_goes_to_stdout_and_leaves_with_0(run_module):
    done = run_module("harness", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == first_page(DESCRIPTIONS)


def keys_of(schema: type, prefix: str = "") -> list[str]:
    """Dotted keys of single values."""
    found = []
    for field in fields(schema):
        section = next((kind for kind in (field.type, *get_args(field.type)) if is_dataclass(kind)), None)
        found += keys_of(section, f"{prefix}{field.name}.") if section else [prefix + field.name]
    return found


KEYS = [key for key in keys_of(RunConfig) if key.partition(".")[0] not in DERIVED]


@pytest.mark.long
def test_every_key_is_a_sentence():
    for key in KEYS:
        sentence, _ = comment_of(key)
        assert re.fullmatch(r"[A-Z].{10,158}\.", sentence), f"{key}: a capital, 12 to 160 characters, a full stop"
        assert not re.search(r"\b(likewise|None|beside|healed|lifted|looks|the same (of|for))\b", sentence), key


def test_the_name_by_which_a_pretraining_is_typed_has_a_help_too():
    page = page_of("pretrain.checkpoint").splitlines()
    assert page_of("pretrain.from").splitlines()[:3] == ["pretrain.from=null", *page[1:3]]


def test_every_key_is_in_the_page_of_its_section():
    for section in {key.rpartition(".")[0] for key in KEYS} - {""}:
        listed = re.findall(r"^  (\w+)(?! +--help)\b", page_of(section).partition("  Key of ")[2], re.MULTILINE)
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
    assert "\nAttention\n  position  " in page
    assert re.search(r"^  hidden_size +128 +at least 1\n +Hidden size: ", page, re.MULTILINE), "the default scale is tiny"


def test_key_has_its_comment_and_its_choices_have_theirs(capsys):
    assert main(["-h", "model.position"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("model.position=learned\n")
    assert re.search(r"^  rotary +rotation of queries and keys \(arXiv:2104\.09864\)$", out, re.MULTILINE)
    assert "\n  Example  model.attention_window=32\n" in page_of("model.attention_window")
    assert page_of("task.grammar.depth").startswith("task.grammar.depth=3\n\nNesting depth of the rule `brackets`.\n")
    page = page_of("pretrain.mask_rate")
    assert "\n  Values   number, above 0 and below 1\n" in page
    assert "\n  Read by  harness/training/pretrain.py, if the run pretrains" in page
    assert page.endswith("\n  Role     condition: must agree between compared runs")


@pytest.mark.long
def test_every_key_has_an_example_that_hydra_reads():
    schema = OmegaConf.structured(RunConfig(task=TaskConfig(grammar=GrammarConfig())))
    parser = OverridesParser.create()
    for key in KEYS:
        assert example_of(key) not in ("", "null", "[]", "{}"), key
        OmegaConf.update(schema, key, parser.parse_override(*read([f"{key}={example_of(key)}"]).overrides).value())


@pytest.mark.parametrize(
    ("topic", "near"),
    [
        ("finetune.lr", "finetune.learning_rate"),
        ("finetunes", "finetune"),
        ("task.gramar.seed", "task.grammar.seed"),
        ("statuss", "status"),
    ],
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
