"""Token ids of many texts at once: word by word from a table where the tokenizer allows it, else line by line in parallel."""

import json
import re
from collections.abc import Callable
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

from harness.corpus.documents import paragraphs

MOST_WORDS = 300_000
"""Words kept with their ids, about 60 MB; beyond it the table begins anew."""

UNLIKE = re.compile(r"[\x0b\x0c\x1c-\x1f\x85]")
"""White space for `str.split` that some normaliser removes; all other characters mean the same to both."""

BETWEEN = re.compile(r"[^\S\x0b\x0c\x1c-\x1f\x85]+")
"""All other white space."""

BY_CHARACTER = ({"NFKC"}, {"NFKC", "NFKD", "StripAccents", "Lowercase"})
"""Normalisers after `Nmt` that change no white space and join nothing across it."""

Encode = Callable[[list[str]], tuple[np.ndarray, np.ndarray]]
"""From texts to their concatenated ids, (tokens,) int64, and the number of ids of each text, (texts,) int64."""


def encoder(tokenizer: Tokenizer) -> Encode:
    """The faster way that gives the ids of `tokenizer` for every line of a text, without special pieces."""
    return _ByWords(tokenizer) if cuts_at_white_space(tokenizer) else lambda texts: _by_lines(tokenizer, texts)


def cuts_at_white_space(tokenizer: Tokenizer) -> bool:
    """Whether the ids of a text are those of its words one after the other, whatever stands around a word.

    So it is where BERT's normaliser, or SentencePiece's, and BERT's words come first, and nothing is added to the first word
    alone. An added piece that is not special is looked for in the whole text, and may contain white space.
    """
    spec = json.loads(tokenizer.to_str())
    normalizer, cut = spec["normalizer"] or {}, spec["pre_tokenizer"] or {}
    first, *later = (cut["pretokenizers"] if cut.get("type") == "Sequence" else [cut]) or [{}]
    nmt, *others = [one["type"] for one in normalizer.get("normalizers", [])] or [None]
    return (
        (normalizer.get("clean_text", False) or (nmt == "Nmt" and set(others) in BY_CHARACTER))
        and first.get("type") == "BertPreTokenizer"
        and all(one["type"] == "Split" or one.get("prepend_scheme") == "always" for one in later)
        and tokenizer.encode_special_tokens
        and all(piece["special"] for piece in spec["added_tokens"])
    )


def _by_lines(tokenizer: Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Lines are tokenised separately, on all cores."""
    lines = [paragraphs(text) for text in texts]
    ids, lengths = _flat(tokenizer, list(chain.from_iterable(lines)))
    return ids, np.add.reduceat(lengths, np.cumsum([0, *map(len, lines[:-1])]))


class _ByWords:
    """Keeps the ids of words that it has seen: most words of a text are among them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._forget()

    def _forget(self) -> None:
        self.numbers: dict[str, int] = {}
        self.ids, self.starts, self.lengths = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)

    def __call__(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        split = [BETWEEN.split(text) if UNLIKE.search(text) else text.split() for text in texts]
        words = list(chain.from_iterable(split))
        self._learn(set(words))
        numbers = np.fromiter(map(self.numbers.__getitem__, words), np.int64, len(words))
        lengths = self.lengths[numbers]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[numbers] - ends[:-1], lengths) + np.arange(ends[-1])
        return self.ids[places], np.diff(ends[np.cumsum([0, *map(len, split)])])

    def _learn(self, words: set[str]) -> None:
        new = list(words - self.numbers.keys())
        if not new:
            return
        if len(self.numbers) + len(new) > MOST_WORDS:
            self._forget()
            new = list(words)
        ids, lengths = _flat(self.tokenizer, new)
        self.numbers.update(zip(new, range(len(self.numbers), len(self.numbers) + len(new)), strict=True))
        self.starts = np.concatenate([self.starts, len(self.ids) + np.cumsum(lengths) - lengths])
        self.ids, self.lengths = np.concatenate([self.ids, ids]), np.concatenate([self.lengths, lengths])


def _flat(tokenizer: Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The concatenated ids of the texts and their numbers."""
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
    ids = chain.from_iterable(encoding.ids for encoding in encodings)
    return np.fromiter(ids, np.int64, int(lengths.sum())), lengths
