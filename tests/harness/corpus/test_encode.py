"""Ids of texts by words: those of the tokenizer for each line, and by words only where that is so for every text."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer

from harness.config.choices import TokenizerKind
from harness.config.schema import TokenizerConfig
from harness.corpus import encode
from harness.corpus.documents import paragraphs
from harness.data import tokenizer as tokenizers

TEXTS = [
    "The fox sees a hare.\nIt runs, doesn't it?\n\nAn owl hears Élan, ŝi, İstanbul and ΣΊΣΥΦΟΣ.",
    "再び fox [SEP] a[MASK]b ##ox ▁fox  don't\tstop\r\n$5.00 +1 `x` ~y^2 <b>",
]
SPACES = [character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace()]
ODD = [
    *SPACES,
    "\0",
    "\x7f",
    "\x80",
    "\xad",
    "\u0301",
    "\u0345",
    "\u180e",
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\ufffd",
    "🦊",
    "▁",
]
PIECES = [*"aéΣ .,x再", "fox", "[SEP]", "don't"]


def trained(kind: TokenizerKind, lowercase: bool = True) -> Tokenizer:
    config = TokenizerConfig(kind=kind, vocab_size=300, min_frequency=1, lowercase=lowercase)
    tokenizer = tokenizers.build(config, [*TEXTS, "".join(ODD)])
    tokenizer.encode_special_tokens = True
    return tokenizer


def by_lines(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    encode_line = partial(tokenizer.encode, add_special_tokens=False)
    return [[number for line in paragraphs(text) for number in encode_line(line).ids] for text in texts]


def by_encoder(encoder: encode.Encode, texts: list[str]) -> list[list[int]]:
    ids, lengths = encoder(texts)
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


BY_WORDS = {
    "wordpiece": trained(TokenizerKind.wordpiece),
    "cased": trained(TokenizerKind.wordpiece, lowercase=False),
    "unigram": trained(TokenizerKind.unigram),
    "cased unigram": trained(TokenizerKind.unigram, lowercase=False),
}


@pytest.mark.long
@pytest.mark.parametrize("name", BY_WORDS)
@given(
    texts=st.lists(
        st.lists(st.sampled_from([*ODD, *PIECES]) | st.characters(codec="utf-8"), min_size=1).map("".join),
        min_size=1,
        max_size=4,
    )
)
def test_words_have_the_ids_that_they_have_in_their_line(name, texts):
    encoder = encode.encoder(BY_WORDS[name])
    assert isinstance(encoder, encode._ByWords)
    expected = by_lines(BY_WORDS[name], texts)
    assert by_encoder(encoder, texts) == expected
    assert by_encoder(encoder, texts) == expected  # now from the table


def test_a_full_table_begins_anew(monkeypatch):
    monkeypatch.setattr(encode, "MOST_WORDS", 5)
    encoder = encode.encoder(BY_WORDS["wordpiece"])
    for texts in (TEXTS, TEXTS[1:], ["fox sees", "owl"], ["a hare", "runs fox"], TEXTS):
        assert by_encoder(encoder, texts) == by_lines(BY_WORDS["wordpiece"], texts)
    assert len(encoder.numbers) > 5  # one batch may have more words
    by_encoder(encoder, ["otter"])
    assert set(encoder.numbers) == {"otter"}


def with_added_piece() -> Tokenizer:
    tokenizer = trained(TokenizerKind.wordpiece)
    tokenizer.add_tokens([AddedToken("fox sees")])
    return tokenizer


def of_words(cut: pre_tokenizers.PreTokenizer, **normalizer) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "▁fox": 1, "fox": 2}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(**normalizer), cut
    tokenizer.encode_special_tokens = True
    return tokenizer


FIRST = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Metaspace(prepend_scheme="first")])


@pytest.mark.parametrize(
    "tokenizer",
    [
        trained(TokenizerKind.bpe),
        with_added_piece(),
        of_words(FIRST),
        of_words(pre_tokenizers.BertPreTokenizer(), clean_text=False),
        of_words(pre_tokenizers.WhitespaceSplit()),
        of_words(pre_tokenizers.Sequence([])),
    ],
    ids=[
        "byte-level",
        "an added piece of two words",
        "the first word differs",
        "control characters stay",
        "no words of BERT",
        "no words",
    ],
)
def test_other_tokenizers_see_whole_lines(tokenizer):
    assert not encode.cuts_at_white_space(tokenizer)
    assert by_encoder(encode.encoder(tokenizer), TEXTS) == by_lines(tokenizer, TEXTS)


def test_a_vocabulary_file_is_read_by_words(tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("\n".join([*tokenizers.SPECIAL, "fox", "##es", "a"]))
    tokenizer = tokenizers.build(TokenizerConfig(vocab_file=str(tmp_path / "vocab.txt")), TEXTS)
    assert not encode.cuts_at_white_space(tokenizer)  # a text could name a special piece
    tokenizer.encode_special_tokens = True
    assert encode.cuts_at_white_space(tokenizer)
