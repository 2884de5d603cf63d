"""Near misses by meaning: names of papers and libraries find our keys and choices."""

import pytest

from harness.config import mistakes, synonyms
from harness.config.mistakes import unknown_key
from harness.config.synonyms import CHOICES, KEYS
from harness.paths import conf_directory

KNOWN = {*mistakes.known_keys(), *mistakes.groups()}


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("model.position_embedding", ["model.position"]),
        ("position_embedding_type", ["model.position"]),
        ("finetune.lr", ["finetune.learning_rate"]),
        ("pretrain.lr", ["pretrain.learning_rate"]),
        ("lr", ["finetune.learning_rate", "pretrain.learning_rate"]),
        ("epochs", ["finetune.epochs"]),
        ("num_train_epochs", ["finetune.epochs"]),
        ("batch_size", ["finetune.batch_size", "pretrain.batch_size", "measure.batch_size"]),
        ("bs", ["finetune.batch_size", "pretrain.batch_size", "measure.batch_size"]),
        ("window", ["model.attention_window"]),
        ("layers", ["model.num_hidden_layers"]),
        ("model.n_layer", ["model.num_hidden_layers"]),
        ("heads", ["model.num_attention_heads"]),
        ("dropout", ["model.attention_probs_dropout_prob", "model.hidden_dropout_prob"]),
        ("max_len", ["task.max_length", "pretrain.length", "measure.length"]),
        ("max-seq-length", ["task.max_length"]),
        ("device", ["hardware.device"]),
        ("dtype", ["hardware.dtype"]),
        ("model.dtype", ["hardware.dtype"]),
        ("precision", ["hardware.dtype"]),
        ("d_model", ["model.hidden_size"]),
        ("mlm_probability", ["pretrain.mask_rate"]),
        ("output_dir", ["output"]),
        ("dataset", ["task"]),
        ("LR", ["finetune.learning_rate", "pretrain.learning_rate"]),
        ("finetune.steps", ["finetune.max_steps"]),
        ("modle", ["model"]),
        ("seeds", ["seed"]),
        ("model.atention_window", ["model.attention_window"]),
        ("atention_window", ["model.attention_window"]),
        ("modle.attention_window", ["model.attention_window"]),
        ("+model.layers", ["model.num_hidden_layers"]),
        ("zzz", []),
    ],
)
def test_key_is_found_by_its_meaning_its_last_part_or_its_spelling(unknown, meant):
    assert synonyms.keys(unknown, KNOWN) == meant


@pytest.mark.parametrize(
    ("group", "unknown", "meant"),
    [
        ("model", "bert", "base"),
        ("model", "BERT-base", "base"),
        ("model", "gpt-2", "gpt2"),
        ("model", "DeBERTa-v3", "deberta_v3"),
        ("model", "albrt", "albert"),
        ("task", "sst-2", "sst2"),
        ("task", "STS-B", "stsb"),
        ("task", "SQuAD2", "squad_v2"),
        ("scale", "bert-mini", "mini"),
        ("hardware", "cuda", "gpu"),
        ("pretrain", "electra", "rtd"),
        ("tokenizer", "sentencepiece", "unigram"),
        ("finetune", "off", "none"),
    ],
)
def test_choice_is_found_by_its_meaning_its_letters_or_its_spelling(group, unknown, meant):
    assert synonyms.choices(group, unknown, [path.stem for path in (conf_directory() / group).glob("*.yaml")]) == [meant]


def test_synonyms_are_of_keys_and_choices_that_there_are():
    assert set(KEYS) <= {key.rpartition(".")[2] for key in KNOWN}
    for group, choices in CHOICES.items():
        assert set(choices) <= {path.stem for path in (conf_directory() / group).glob("*.yaml")}, group


def test_a_synonym_is_no_name_of_a_choice():
    for group, choices in CHOICES.items():
        taken = {path.stem for path in (conf_directory() / group).glob("*.yaml")}
        assert not taken & {other for others in choices.values() for other in others.split()}, group


def test_error_names_what_may_be_meant_and_the_choices_of_the_section():
    line = str(unknown_key("finetune.lr"))
    assert line.startswith("unknown key 'finetune.lr'; did you mean 'finetune.learning_rate'? choices for `finetune`: ")
    assert line.endswith("; all 35: python -m harness --help finetune")
    assert str(unknown_key("batch_size")).startswith(
        "unknown key 'batch_size'; did you mean 'finetune.batch_size' or 'pretrain.batch_size' or 'measure.batch_size'? "
    )
    assert "choices for `task`: task.grammar, " in str(unknown_key("task.gramar.seed"))
