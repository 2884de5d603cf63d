"""A prepared corpus: what its key depends on, what lies on disk, and that the cache holds whole entries alone."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.config.choices import CorpusSource, TokenizerKind
from harness.config.schema import CorpusConfig, RunConfig, TokenizerConfig
from harness.corpus import prepare, sequences
from harness.corpus.documents import documents
from harness.data import tokenizer as tokenizers
from harness.errors import InputError

TRAIN = "The fox sees a hare.\nIt runs!\n\nAn owl [SEP] hears the vole. Is it there?\n"


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[..., RunConfig]:
    """A config on two text files that are written first."""

    def make(train: str = TRAIN, folder: str = "here", **tokenizer) -> RunConfig:
        (tmp_path / folder).mkdir(exist_ok=True)
        paths = {"files": tmp_path / folder / "a.txt", "validation_files": tmp_path / folder / "b.txt"}
        for path, text in zip(paths.values(), (train, "The hare sees a fox."), strict=True):
            path.write_text(text)
        files = {key: [str(path)] for key, path in paths.items()}
        corpus = CorpusConfig(name="own", source=CorpusSource.files, **files)
        return RunConfig(corpus=corpus, tokenizer=TokenizerConfig(min_frequency=1, **tokenizer), output=str(tmp_path / "out"))

    return make


@pytest.mark.parametrize("kind", TokenizerKind)
def test_the_stream_is_every_document_in_order_without_special_pieces(corpus_of, kind):
    config = corpus_of(kind=kind)
    corpus = sequences.read(config.output, prepare.prepare(config))
    tokenizer = Tokenizer.from_file(str(corpus.folder / "tokenizer.json"))
    stream, starts = corpus.stream("train"), corpus.starts("train")
    decoded = [tokenizer.decode(stream[begin:end].tolist()) for begin, end in pairwise(starts)]
    plain = ["".join(text.split()).lower() for text in TRAIN.split("\n\n")]
    assert ["".join(text.split()).lower() for text in decoded] == plain
    assert not {corpus.pad, corpus.cls, corpus.sep, corpus.mask} & set(stream.tolist())
    assert corpus.documents["train"] == 2
    assert corpus.tokens["train"] == len(stream) == starts[-1]


def test_facts_say_what_the_stream_holds(corpus_of):
    config = corpus_of()
    corpus = sequences.read(config.output, prepare.prepare(config))
    tokenizer = Tokenizer.from_file(str(corpus.folder / "tokenizer.json"))
    assert [corpus.pad, corpus.unk, corpus.cls, corpus.sep, corpus.mask] == [0, 1, 2, 3, 4]
    assert {tokenizer.id_to_token(number) for number in corpus.sentence_ends} == {".", "!", "?"}
    counts = np.unique(corpus.stream("validation"), return_counts=True)[1]
    shares = counts / counts.sum()
    assert corpus.unigram_entropy == pytest.approx(-(shares * np.log(shares)).sum())
    assert corpus.unknown_share == 0


def test_unknown_pieces_are_counted(corpus_of, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfox\n.\n")
    config = corpus_of("the fox sees. the fox", vocab_file=str(vocabulary))
    assert sequences.read(config.output, prepare.prepare(config)).unknown_share == pytest.approx(1 / 6)


@pytest.mark.long
def test_a_vocabulary_beyond_16_bits_keeps_its_numbers(corpus_of, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join([*tokenizers.SPECIAL, *(f"w{number}" for number in range(70_000))]))
    config = corpus_of("w69999 w1", vocab_file=str(vocabulary))
    assert sequences.read(config.output, prepare.prepare(config)).stream("train").tolist() == [70_004, 6]


def test_the_key_is_that_of_the_content(corpus_of):
    assert prepare.prepare(corpus_of()) == prepare.prepare(corpus_of(folder="there"))
    others = [{"train": TRAIN.replace("fox", "wolf")}, {"train": TRAIN.replace("\n\n", "\n")}, {"vocab_size": 40}]
    others += [{"lowercase": False}, {"kind": TokenizerKind.bpe}, {"train_characters": 10}, {"sentinels": 3}]
    keys = [prepare.prepare(corpus_of(**keys)) for keys in ({}, *others)]
    assert len(set(keys)) == len(keys)
    assert prepare.prepare(corpus_of(sentinels=0)) == keys[0]  # that of text which was prepared before there were any
    reserved = sequences.read(corpus_of().output, keys[-1])
    assert reserved.vocabulary().sentinels == tuple(reserved.vocab_size - place for place in (1, 2, 3))


def test_an_entry_is_used_again(corpus_of):
    config = corpus_of()
    folder = prepare.folder_of(config.output, prepare.prepare(config))
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert sorted(before) == [
        ".made-by-harness",
        "facts.json",
        "tokenizer.json",
        "train.documents",
        "train.tokens",
        "validation.documents",
        "validation.tokens",
        "word_start.npy",
    ]
    prepare.prepare(config)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_batches_leave_no_seam(corpus_of, monkeypatch):
    config = corpus_of("\n\n".join(f"fox {number} sees\nhare {number}" for number in range(30)))
    whole = sequences.read(config.output, prepare.prepare(config))
    monkeypatch.setattr(prepare, "BATCH_CHARACTERS", 50)
    small = sequences.read(f"{config.output}2", prepare.prepare(replace(config, output=f"{config.output}2")))
    assert whole.stream("train").tolist() == small.stream("train").tolist()
    assert whole.starts("train").tolist() == small.starts("train").tolist()


def test_a_tokenizer_without_special_pieces_is_refused(corpus_of, tmp_path):
    from tokenizers.models import WordLevel

    Tokenizer(WordLevel({"fox": 0, "[UNK]": 1}, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"no piece for \[PAD\], \[CLS\], \[SEP\], \[MASK\]"):
        prepare.prepare(corpus_of(file=str(tmp_path / "tokenizer.json")))


@pytest.mark.long
def test_bits_per_byte_are_those_of_the_text_whatever_the_vocabulary(compose, tmp_path):
    """Equal nats over one text, in fewer or more tokens."""
    bits, tokens = set(), set()
    for kind in ("wordpiece", "unigram"):
        (config,) = compose("task=bag", "pretrain=mlm", "corpus.documents=60", f"tokenizer={kind}", f"output={tmp_path}")
        corpus = sequences.read(config.output, prepare.prepare(config))
        held_out = list(documents(config, "validation"))
        assert corpus.text_bytes["validation"] == sum(len(text.encode()) for text in held_out)
        uniform = math.log(256) * corpus.text_bytes["validation"]  # 8 bits for each byte
        bits.add(round(corpus.bits_per_byte(uniform / corpus.tokens["validation"]), 9))
        tokens.add(corpus.tokens["validation"])
    assert bits == {8.0}
    assert len(tokens) == 2
