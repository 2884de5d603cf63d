"""Running text as documents: every source, what is held out, and the one line for each wrong input."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from harness.config.choices import CorpusSource, DataSource
from harness.config.schema import CorpusConfig, DataConfig, RunConfig
from harness.corpus.documents import documents, paragraphs
from harness.errors import InputError
from harness.tasks.synthetic import families as tasks_grammar

README = """\
---
configs:
- config_name: tiny
  data_files: [{split: train, path: tiny/train*}, {split: validation, path: tiny/validation*}]
---
"""
ROWS = {
    "train": {"text": ["a fox", " ", "a hare \n", "an owl", "a vole"], "source": ["one", "one", "one", "two", "one"]},
    "validation": {"text": ["a wolf"], "source": ["three"]},
}


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., RunConfig]:
    """A config on a small local data set that is written first; keywords are those of the corpus."""

    def make(rows: dict[str, dict] = ROWS, **keys) -> RunConfig:
        folder = tmp_path / "root" / "set" / "tiny"
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / "README.md").write_text(README)
        for split, columns in rows.items():
            parquet.write_table(pyarrow.table(columns), folder / f"{split}-00000-of-00001.parquet")
        fields = {"name": "tiny", "source": CorpusSource.data, "folder": "set", "subset": "tiny"} | keys
        return RunConfig(corpus=CorpusConfig(**fields), data=DataConfig(source=DataSource.local, root=str(tmp_path / "root")))

    return make


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., RunConfig]:
    """A config on text files that are written first, the first one for training."""

    def make(*contents: bytes, **keys) -> RunConfig:
        paths = [tmp_path / f"text{number}.txt" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        fields = {"name": "own", "source": CorpusSource.files, "files": [str(paths[0])]}
        fields |= {"validation_files": [str(path) for path in paths[1:]]}
        return RunConfig(corpus=CorpusConfig(**(fields | keys)))

    return make


def error_of(config: RunConfig, split: str = "train") -> str:
    """The one line that this config is answered with."""
    with pytest.raises(InputError) as caught:
        list(documents(config, split))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_row_is_a_document_and_blank_rows_are_none(table):
    assert list(documents(table(), "train")) == ["a fox", "a hare", "an owl", "a vole"]
    assert list(documents(table(), "validation")) == ["a wolf"]


def test_rows_of_equal_value_that_stand_together_are_one_document(table):
    assert list(documents(table(document="source"), "train")) == ["a fox\na hare", "an owl", "a vole"]


def test_a_heading_begins_a_document(table):
    lines = ["", " before \n", " = Fox = \n", " runs \n", " = = Food = = \n", "", " = X = \n", " is a letter \n"]
    rows = {split: {"text": lines} for split in ("train", "validation")}
    config = table(rows, heading="^ = [^=](.*[^=])? = $")
    assert list(documents(config, "train")) == ["before", "= Fox =\nruns\n= = Food = =", "= X =\nis a letter"]


def test_held_out_documents_are_never_trained_on(table):
    texts = [f"number {number % 150}" for number in range(300)]  # each text twice
    config = table({split: {"text": texts} for split in ROWS}, validation_split=None, validation_share=0.2)
    train, validation = (list(documents(config, split)) for split in ("train", "validation"))
    assert not set(train) & set(validation)
    assert sorted(train + validation) == sorted(texts)
    assert 30 <= len(validation) <= 90


def test_what_is_held_out_does_not_depend_on_the_other_documents(table):
    texts = [f"number {number}" for number in range(200)]
    held = []
    for chosen in (texts, [*texts[::-1], "more"]):
        config = table({split: {"text": chosen} for split in ROWS}, validation_split=None, validation_share=0.2)
        held.append(set(documents(config, "validation")) - {"more"})
    assert held[0] == held[1]


def test_files_have_a_blank_line_between_documents(files):
    config = files("\ufeffa fox\r\nruns\r\n\r\n \r\nan owl".encode(), b"a wolf\n")
    assert list(documents(config, "train")) == ["a fox\nruns", "an owl"]
    assert list(documents(config, "validation")) == ["a wolf"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'id,text\n1,a fox\n2,"an owl\n\na vole"\n3, \n'),
        ("a.jsonl", '{"text": "a fox"}\n{"text": "an owl\\n\\na vole"}\n{"text": ""}\n'),
    ],
)
def test_each_row_of_a_table_is_a_document(tmp_path, name, content):
    for file, text in ((name, content), ("held.txt", "a wolf")):
        (tmp_path / file).write_text(text)
    files = {"files": [str(tmp_path / name)], "validation_files": [str(tmp_path / "held.txt")]}
    corpus = CorpusConfig(name="own", source=CorpusSource.files, **files)
    assert list(documents(RunConfig(corpus=corpus), "train")) == ["a fox", "an owl\na vole"]
    with pytest.raises(InputError, match=r"'body'; choices for `corpus\.text`: (id, )?text"):
        list(documents(RunConfig(corpus=replace(corpus, text="body")), "train"))


def test_builtin_text_is_the_same_each_time_and_other_with_another_seed():
    config = RunConfig(corpus=CorpusConfig(name="builtin", documents=20))
    other = replace(config, corpus=replace(config.corpus, seed=1))
    assert list(documents(config, "train")) == list(documents(config, "train"))
    assert not set(documents(config, "train")) & set(documents(other, "train"))
    assert not set(documents(config, "train")) & set(documents(config, "validation"))


def test_builtin_text_holds_every_word_of_the_builtin_tasks():
    words = [
        word
        for name in ("PRAISE", "BLAME", "HUNTERS", "PREY", "OPEN", "SHUT", "VERBS", "FILLERS")
        for word in getattr(tasks_grammar, name)
    ]
    text = " ".join(documents(RunConfig(corpus=CorpusConfig(name="builtin", documents=300)), "train"))
    assert not set(words) - set(text.lower().replace(".", " ").replace("!", " ").replace(",", " ").split())


@pytest.mark.parametrize(("content", "expected"), [(b"a fox\nna\xefve\n", "UTF-8"), (b"a fox\nx\0y\n", "NUL byte")])
def test_bytes_that_are_no_text_name_file_and_line(files, content, expected):
    assert "text0.txt, line 2" in (message := error_of(files(content, b"a wolf")))
    assert expected in message


def test_a_file_that_is_not_there_is_named(files):
    assert "corpus.files: 'none.txt' is not a file" in error_of(files(b"a fox", b"a wolf", files=["none.txt"]))


def test_a_file_on_both_sides_is_refused(files):
    config = files(b"a fox", b"a wolf")
    config.corpus.validation_files += config.corpus.files
    assert "corpus.validation_files" in error_of(config)


def test_empty_text_is_refused(files):
    assert "all of them are empty" in error_of(files(b" \n\n\n", b"a wolf"))
    assert "corpus.validation_share" in error_of(files(b"a fox", validation_share=1e-9), "validation")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"text": "texts"}, "did you mean 'text'? choices for `corpus.text`: source, text"),
        ({"document": "sourc"}, "did you mean 'source'? choices for `corpus.document`"),
        ({"folder": "sets"}, "did you mean 'set'? choices for `corpus.folder`"),
        ({"folder": ""}, "corpus.folder"),
        ({"heading": "("}, "corpus.heading='(' is not a regular expression"),
        ({"heading": "x", "document": "source"}, "exclude each other"),
        ({"subset": "small"}, "corpus.subset='small'"),
        ({"train_split": "training"}, "training"),
    ],
)
def test_wrong_keys_of_a_data_set_are_answered_in_one_line(table, keys, expected):
    assert expected in error_of(table(**keys))


def test_a_row_that_is_not_text_is_named(table):
    rows = {split: {"text": ["a fox", None]} for split in ROWS}
    assert "train, row 1: corpus.text='text' must hold text, got None" in error_of(table(rows))


def test_a_missing_root_is_named(table):
    config = table()
    for root, expected in ((None, "set data.root"), ("/nowhere", "data.root='/nowhere' is not a folder")):
        assert expected in error_of(replace(config, data=DataConfig(source=DataSource.local, root=root)))


def test_a_corpus_without_a_name_on_the_hub_asks_for_a_folder(table):
    assert "data=local data.root=FOLDER" in error_of(replace(table(), data=DataConfig()))


@pytest.mark.long
def test_real_documents_are_whole_articles(compose, shared_data):
    """Of WikiText each document begins with its title, of the other corpus none is in both parts."""
    (config,) = compose("corpus=wikitext", "data=local", f"data.root={shared_data}", "task=bag", "pretrain=mlm")
    articles = list(documents(config, "validation"))
    assert len(articles) == 60
    assert all(text.startswith("= ") and not text.startswith("= =") for text in articles)
    (config,) = compose(
        "corpus=books_and_wikipedia",
        "data=local",
        f"data.root={shared_data}",
        "task=bag",
        "corpus.train_documents=2",
        "pretrain=mlm",
    )
    assert [len(text.splitlines()) > 500 for text in documents(config, "train")] == [True, True]
    assert sum(1 for _ in documents(config, "validation")) == 53


def test_shuffled_words_stay_in_their_sentence_and_held_out_text_is_as_it_is(files):
    """Every sentence keeps its words, at another place; the same text is always shuffled alike."""
    text = b"one two three four five six. seven eight nine ten eleven!\ntwelve thirteen fourteen fifteen sixteen\n"
    plain, shuffled = files(text, text), files(text, text, shuffled_words=True)
    (before,), (after,) = documents(plain, "train"), documents(shuffled, "train")
    assert [len(line.split()) for line in after.splitlines()] == [11, 5]
    for first, last in ((0, 6), (6, 11), (11, 16)):
        one, other = before.split()[first:last], after.split()[first:last]
        assert one != other
        assert sorted(one) == sorted(other)
    assert [*documents(shuffled, "train")] == [after]
    assert [*documents(shuffled, "validation")] == [before]


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x0c", "\x1c", "\r"])
def test_a_line_ends_at_a_line_feed_alone(files, character):
    text = f"a{character}b\r\nc\n\nd\n"
    assert [*documents(files(text.encode(), b"x"), "train")] == [f"a{character}b\nc", "d"]
    assert paragraphs(f"a{character}b\r\nc") == [f"a{character}b", "c"]
