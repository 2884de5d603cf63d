"""Damaged files of users: read, or one line that names the file or its key; never a traceback."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from damaged_files import Kind, bytes_of, damages, examples, values_of
from fuzzing import changes, tried
from pyarrow import parquet
from safetensors.numpy import save

from harness.checkpoints import huggingface
from harness.config import own_files
from harness.config.choices import CorpusSource, TaskKind
from harness.config.schema import CorpusConfig, RunConfig, TaskConfig, TokenizerConfig
from harness.corpus.documents import documents
from harness.data import tokenizer
from harness.tasks import kind_of
from harness.tasks.rows import load_table, with_labels

pytestmark = pytest.mark.long

PIECES = [*tokenizer.SPECIAL, *"abcdefghij", *(f"##{letter}" for letter in "abcdefghij")]
BERT = {"model_type": "bert", "vocab_size": 25, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT |= {"intermediate_size": 64, "hidden_act": "gelu", "max_position_embeddings": 96, "pad_token_id": 0}


def read_rows(path: Path) -> None:
    task = TaskConfig(name="own", fields=["text"], label="y", labels=["neg", "pos"], train_file=str(path))
    load_table(RunConfig(task=task), "train")


def read_sentences(path: Path) -> None:
    task = TaskConfig(name="own", kind=TaskKind.tokens, fields=["text"], label="y", labels=["O", "B-a"], train_file=str(path))
    kind_of(task).examples(task, load_table(RunConfig(task=task), "train"))


def read_answers(path: Path) -> None:
    fields = {"kind": TaskKind.spans, "fields": ["question", "context"], "label": "answers"}
    task = TaskConfig(name="own", train_file=str(path), **fields)
    kind_of(task).examples(task, load_table(RunConfig(task=task), "train"))


def read_labels(path: Path) -> None:
    task = TaskConfig(name="own", kind=TaskKind.multilabel, fields=["text"], label="y", train_file=str(path))
    load_table(with_labels(RunConfig(task=task)), "train")


def read_text(path: Path) -> None:
    list(documents(RunConfig(corpus=CorpusConfig(name="own", source=CorpusSource.files, files=[str(path)])), "train"))


def read_tokenizer(path: Path) -> None:
    made = tokenizer.build(TokenizerConfig(file=str(path)), ())
    made.encode("abc hij")
    tokenizer.word_starts(made)


def read_vocabulary(path: Path) -> None:
    tokenizer.build(TokenizerConfig(vocab_file=str(path)), ()).encode("abc hij")


def read_published(path: Path) -> None:
    config = RunConfig()
    config.model.init_from = str(path.parent)
    huggingface.checkpoint_of(config)


def _tokenizer() -> bytes:
    return tokenizer.build(TokenizerConfig(vocab_size=60, min_frequency=1), ["abc hij", "cab jig"]).to_str().encode()


def _parquet() -> bytes:
    out = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({"text": ["a film", "no film"] * 9, "y": ["pos", "neg"] * 9}), out)
    return out.getvalue().to_pybytes()


WEIGHTS = ("model.safetensors", save({"a": np.zeros(1)}))
FOLDER = (WEIGHTS, ("vocab.txt", "\n".join(PIECES).encode()))
WITH_CONFIG = (WEIGHTS, ("config.json", json.dumps(BERT).encode()), FOLDER[1])
QUESTION = {"id": "a", "question": "Where?", "answers": [{"text": "Mel", "answer_start": 13}], "is_impossible": False}
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": "Ana lives in Mel.", "qas": [QUESTION]}]}]}
ROWS = [{"text": "a film", "y": "pos"}, {"text": "no film", "y": "neg"}]
KINDS = {
    "model": Kind(
        "mine.yaml", b"# mine\nattention_window: 8\ntokenizer:\n  kind: bpe\n  vocab_size: 90\n", own_files.refuse_unsound
    ),
    "csv": Kind("rows.csv", b'text,y\n"a film, old",pos\nno film,neg\n', read_rows),
    "tsv": Kind("rows.tsv", b"text\ty\na film\tpos\nno film\tneg\n", read_rows),
    "jsonl": Kind("rows.jsonl", "\n".join(map(json.dumps, ROWS)).encode(), read_rows),
    "parquet": Kind("rows.parquet", _parquet(), read_rows),
    "json": Kind("rows.json", json.dumps(SQUAD).encode(), read_answers),
    "conll": Kind("rows.conll", b"-DOCSTART- O\n\n# id = 1\nAna B-a\nlives O\n\nin O\nMel B-a\n", read_sentences),
    "gzip": Kind("rows.csv.gz", gzip.compress(b'text,y\n"a film, old",pos\nno film,neg\n', mtime=0), read_rows),
    "labels": Kind("rows.csv", b"text,y\na,\"['joy', 'fear']\"\nb,\"[1, 0]\"\nc,joy|fear\n", read_labels),
    "text": Kind("text.txt", "ein Fuchs läuft\n\nnoch einer\n".encode() * 3, read_text),
    "vocabulary": Kind("vocab.txt", "\n".join(PIECES).encode(), read_vocabulary),
    "tokenizer": Kind("tokenizer.json", _tokenizer(), read_tokenizer),
    "config.json": Kind("config.json", json.dumps(BERT).encode(), read_published, FOLDER),
    "tokenizer_config": Kind("tokenizer_config.json", b'{"do_lower_case": false}', read_published, WITH_CONFIG),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_sound_file_is_read(tmp_path, name):
    kind = KINDS[name]
    for beside, content in (*kind.beside, (kind.name, kind.content)):
        (tmp_path / beside).write_bytes(content)
    kind.read(tmp_path / kind.name)


BY_VALUE = ("model", "tokenizer", "config.json", "tokenizer_config")


@pytest.mark.parametrize("name", KINDS)
def test_a_few_damaged_files(tmp_path, name):
    tried(bytes_of(KINDS[name], tmp_path / "file"), 15, damages, shrinks=False)


@pytest.mark.parametrize("name", BY_VALUE)
def test_a_few_changed_values(tmp_path, name):
    tried(values_of(KINDS[name], tmp_path / "file"), 25, changes, shrinks=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_all_damaged_files(tmp_path, name):
    tried(bytes_of(KINDS[name], tmp_path / "file"), examples(name, 4), damages)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_VALUE)
def test_all_changed_values(tmp_path, name):
    tried(values_of(KINDS[name], tmp_path / "file"), examples(name, 4), changes)
