"""Damaged files of users: read, or one line that names the file or its key; never a traceback."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import yaml
from fuzzing import ALL, changed, changes, places, tried
from hypothesis import strategies as st
from pyarrow import parquet
from safetensors.numpy import save

from harness.checkpoints import huggingface
from harness.config import own_files
from harness.config.choices import CorpusSource, TaskKind
from harness.config.schema import CorpusConfig, RunConfig, TaskConfig, TokenizerConfig
from harness.corpus.documents import documents
from harness.data import tokenizer
from harness.errors import InputError
from harness.plugins.audit import claims
from harness.tasks import kind_of
from harness.tasks.rows import load_table, with_labels

pytestmark = pytest.mark.long

PIECES = [*tokenizer.SPECIAL, *"abcdefghij", *(f"##{letter}" for letter in "abcdefghij")]
BERT = {"model_type": "bert", "vocab_size": 25, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT |= {
    "intermediate_size": 64,
    "hidden_act": "gelu",
    "max_position_embeddings": 96,
    "pad_token_id": 0,
    "layer_norm_eps": 1e-12,
}
CLAIM = {"claim": "a", "claimed": -0.5, "readings": {"x": {"measure": "flops", "of": "model=windowed", "lengths": [64]}}}


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


@dataclass(frozen=True)
class Kind:
    """A file of users: its sound content, what reads it, and files beside it."""

    name: str
    content: bytes
    read: Callable[[Path], object]
    beside: tuple[tuple[str, bytes], ...] = ()


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
    "claims": Kind("mine.yaml", yaml.safe_dump({"source": "s", "claims": {"c": CLAIM}}).encode(), claims.read),
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

noise = st.binary(max_size=8)
odd = st.sampled_from(
    [b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b'"', b"'", b"[" * 300, b"{" * 300, b"9" * 5000, b"\n\n", b"\xe2\x80\xa8"]
)
damages = st.lists(st.tuples(places, places, st.one_of(noise, odd, st.none())), min_size=1, max_size=3)


def damaged(content: bytes, drawn: list[tuple[float, float, bytes | None]]) -> bytes:
    """Parts of the content replaced, or, with None, all that follows cut off."""
    for begin, length, replacement in drawn:
        at = int(begin * len(content))
        rest = b"" if replacement is None else replacement + content[at + int(length * 9) :]
        content = content[:at] + rest
    return content


def refusal(kind: Kind, path: Path) -> str | None:
    try:
        kind.read(path)
    except InputError as error:
        return str(error)
    return None


def answered(kind: Kind, content: bytes, folder: Path) -> None:
    """Reads the content from a file; InputError must be one line that names the file or a key."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, beside in (*kind.beside, (kind.name, content)):
        (folder / name).write_bytes(beside)
    line = refusal(kind, folder / kind.name)
    named = (kind.name, str(folder), "corpus 'own'", "task 'own'", "task.")
    assert line is None or ("\n" not in line and any(name in line for name in named)), line
    assert sorted(path.name for path in folder.iterdir()) == sorted({kind.name, *dict(kind.beside)})


def examples(kind: str, share: int) -> int:
    """Of one kind, so that all kinds together have ALL."""
    return max(1, int(os.environ.get("FUZZ_EXAMPLES", ALL)) // share)


@pytest.mark.parametrize("name", KINDS)
def test_a_sound_file_is_read(tmp_path, name):
    kind = KINDS[name]
    for beside, content in (*kind.beside, (kind.name, kind.content)):
        (tmp_path / beside).write_bytes(content)
    kind.read(tmp_path / kind.name)


def bytes_of(kind: Kind, folder: Path) -> Callable:
    return lambda drawn: answered(kind, damaged(kind.content, drawn), folder)


def values_of(kind: Kind, folder: Path) -> Callable:
    def check(drawn: list[tuple[float, object]]) -> None:
        value = yaml.safe_load(kind.content) if kind.name.endswith("yaml") else json.loads(kind.content)
        for place, new in drawn:
            value = changed(value, place, new)
        answered(kind, json.dumps(value).encode(), folder)  # JSON is YAML, too

    return check


BY_VALUE = ("model", "claims", "tokenizer", "config.json", "tokenizer_config")


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
