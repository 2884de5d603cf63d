"""Doubled names and empty texts, which trained without a word."""

from dataclasses import replace

import pytest

from harness import tasks
from harness.config.choices import TokenizerKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.tasks.classification import refuse_empty_texts

TASK = TaskConfig(name="mine", fields=["a", "b"], labels=["no", "yes"], scores=["accuracy"], headline="accuracy")


@pytest.mark.parametrize(
    ("key", "values"), [("labels", ["no", "yes", "no"]), ("fields", ["a", "a"]), ("scores", ["accuracy", "accuracy"])]
)
def test_doubled_names_are_refused(key, values):
    tasks.refuse_impossible(TASK)
    with pytest.raises(InputError, match=rf"task\.{key}=.* of task 'mine' must be different names"):
        tasks.refuse_impossible(replace(TASK, **{key: values}))


@pytest.mark.parametrize("key", ["labels", "fields", "scores"])
def test_what_is_no_name_is_refused(key):
    with pytest.raises(InputError, match=rf"task\.{key}=\[{{'a': 1}}\] of task 'mine' must be a list of names"):
        tasks.refuse_impossible(replace(TASK, **{key: [{"a": 1}]}))


def test_rows_whose_texts_are_all_empty_are_refused():
    refuse_empty_texts([["", ""], ["word", ""]], "train")
    with pytest.raises(InputError, match="train: the texts of all 2 rows are empty"):
        refuse_empty_texts([["", " "], ["", "\n"]], "train")


def test_a_vocabulary_with_a_piece_twice_is_refused(tmp_path):
    path = tmp_path / "vocab.txt"
    config = TokenizerConfig(kind=TokenizerKind.wordpiece, vocab_file=str(path))
    path.write_text("\n".join([*tokenizer.SPECIAL, "a", "b"]))
    assert tokenizer.build(config, ["a"]).get_vocab_size() == 7
    path.write_text("\n".join([*tokenizer.SPECIAL, "a", "b", "a"]))
    with pytest.raises(InputError, match="has the piece 'a' twice"):
        tokenizer.build(config, ["a"])
