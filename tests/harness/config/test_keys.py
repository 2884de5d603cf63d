"""Near misses by meaning: names of papers and libraries find our keys and choices."""

import pytest

from harness.config.help import GROUPS, names, synonyms
from harness.config.keys import known_keys, meant_keys, unknown_choice, unknown_key

KNOWN = {*known_keys(), *GROUPS}


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("position_embedding_type", ["model.position"]),
        ("finetune.lr", ["finetune.learning_rate"]),
        ("lr", ["finetune.learning_rate", "pretrain.learning_rate"]),
        ("batch_size", ["finetune.batch_size", "pretrain.batch_size", "measure.batch_size"]),
        ("max-seq-length", ["task.max_length"]),
        ("device", ["hardware.device"]),
        ("model.dtype", ["hardware.dtype"]),
        ("LR", ["finetune.learning_rate", "pretrain.learning_rate"]),
        ("modle", ["model"]),
        ("model.atention_window", ["model.attention_window"]),
        ("atention_window", ["model.attention_window"]),
        ("modle.attention_window", ["model.attention_window"]),
        ("+model.layers", ["model.num_hidden_layers"]),
        ("task.train", ["task.train_file"]),
        ("nothing", []),
        ("zzz", []),
    ],
)
def test_key_is_found_by_its_meaning_its_last_part_or_its_spelling(unknown, meant):
    assert meant_keys(unknown) == meant


@pytest.mark.parametrize(
    ("group", "unknown", "meant"),
    [
        ("model", "BERT-base", "base"),
        ("model", "gpt-2", "gpt2"),
        ("model", "albrt", "albert"),
        ("task", "SQuAD2", "squad_v2"),
        ("finetune", "off", "none"),
    ],
)
def test_choice_is_found_by_its_meaning_its_letters_or_its_spelling(group, unknown, meant):
    line = str(unknown_choice(group, unknown, names(group)))
    assert line == f"unknown {group} {unknown!r}; did you mean {meant!r}? all choices: python -m harness --help {group}"


def test_synonyms_are_of_keys_and_choices_that_there_are_and_no_names_of_others():
    assert set(synonyms()["keys"]) <= {key.rpartition(".")[2] for key in KNOWN}
    for group, choices in synonyms()["choices"].items():
        assert set(choices) <= set(names(group)), group
        assert not set(names(group)) & {other for others in choices.values() for other in others.split()}, group


@pytest.mark.parametrize(
    ("key", "said"),
    {
        "finetune.lr": "; did you mean 'finetune.learning_rate'? all choices: python -m harness --help finetune",
        "task.gramar.seed": "; did you mean 'task.grammar.seed'? all choices: python -m harness --help task",
        "finetune.qqqq": "; all choices: python -m harness --help finetune",
        "qqqq": "; all choices: python -m harness --help groups",
        "match.qqqq": "; choices for `match`: match.by, match.cost, match.rounds, match.to, match.tolerance, match.within",
    }.items(),
)
def test_error_names_what_may_be_meant_and_the_choices_of_the_section_or_their_page(key, said):
    assert str(unknown_key(key)) == f"unknown key {key!r}{said}"
