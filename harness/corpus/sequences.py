"""Sequences of one length from a prepared corpus, in an endless shuffled order with random access.

B sequences, T tokens. Memory does not grow with the corpus: ids and offsets are memory-mapped.
"""

import json
import math
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from harness.corpus.prepare import folder_of, token_dtype
from harness.data.seeds import derive
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.config import PairKind

BLOCK = 65_536
"""Sequences are shuffled within blocks of this many; the order of blocks is shuffled too."""


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus: its facts, and its token ids on disk."""

    key: str
    folder: Path
    text: str  # hash of the documents, independent of the tokenizer
    vocab_size: int
    pad: int
    unk: int | None
    cls: int
    sep: int
    mask: int
    sentence_ends: list[int]  # ids of . ! ?
    unknown_share: float  # of the training tokens
    unigram_entropy: float  # nats, of the validation tokens
    documents: dict[str, int]  # of each split
    tokens: dict[str, int]  # of each split, without special pieces
    text_bytes: dict[str, int]
    sentinels: list[int] = field(default_factory=list)  # ids; text that was prepared by an earlier version has none

    def vocabulary(self) -> Vocabulary:
        """The tokenizer's facts that objectives need."""
        starts = torch.from_numpy(np.load(self.folder / "word_start.npy"))
        return Vocabulary(self.vocab_size, self.pad, self.cls, self.sep, self.mask, starts, tuple(self.sentinels))

    def bits_per_byte(self, nats_per_token: float) -> float:
        """A loss on the tokens of the held-out text, by the bytes of that text: it compares vocabularies of another coarseness.

        As many bytes stand for a token as the whole text has for each of its tokens, so that white space, case and accents that
        a vocabulary drops, and letters that it does not know, count for each vocabulary alike. Those are not predicted: a
        vocabulary that drops much has fewer bits.
        """
        bytes_per_token = self.text_bytes["validation"] / self.tokens["validation"]
        return nats_per_token / (math.log(2) * bytes_per_token)

    def stream(self, split: str) -> np.ndarray:
        """(tokens,) concatenated ids of all documents, memory-mapped."""
        return np.asarray(np.memmap(self.folder / f"{split}.tokens", dtype=token_dtype(self.vocab_size), mode="r"))

    def starts(self, split: str) -> np.ndarray:
        """(documents + 1,) int64: document i is `stream[starts[i] : starts[i + 1]]`, memory-mapped."""
        return np.asarray(np.memmap(self.folder / f"{split}.documents", dtype="<i8", mode="r"))


def read(output: str, key: str) -> Corpus:
    """The prepared corpus with this key; FileNotFoundError when it is not cached."""
    folder = folder_of(output, key)
    return Corpus(key=key, folder=folder, **json.loads((folder / "facts.json").read_text()))


class Sequences:
    """All sequences of one length, numbered; equal for all variants with one seed.

    Without pairs: `[CLS]`, length - 2 tokens of the documents joined by `[SEP]`, `[SEP]`. With pairs: `[CLS] A [SEP] B [SEP]`,
    where A and B are successive segments of a document; half of the pairs are swapped, or have a B from another document.
    InputError when the text is too short for one sequence.
    """

    def __init__(self, corpus: Corpus, split: str, length: int, pairs: PairKind | None, seed: int) -> None:
        self.length, self.seed = length, seed
        self._source = _Pairs(corpus, split, length, pairs, seed) if pairs else _Windows(corpus, split, length)
        self._shuffled: tuple[tuple[int, int], np.ndarray] | None = None

    def __len__(self) -> int:
        return self._source.count

    def chosen(self, position: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and epochs, both (count,) int64, of `count` sequences from this position of the endless order."""
        epochs, within = np.divmod(np.arange(position, position + count), len(self))
        ids = np.empty(count, dtype=np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            ids[here] = self._ordered(int(epoch), within[here])
        return ids, epochs

    def first(self, most: int, size: int) -> list[np.ndarray]:
        """Numbers of the first sequences, at most so many, in batches of this size."""
        count = min(most, len(self))
        return [np.arange(start, min(count, start + size)) for start in range(0, count, size)]

    def _ordered(self, epoch: int, within: np.ndarray) -> np.ndarray:
        """Numbers of the sequences at ascending positions of one epoch."""
        order = np.random.default_rng(derive(self.seed, "corpus", epoch)).permutation(-(-len(self) // BLOCK))
        ends = np.cumsum(np.minimum(BLOCK, len(self) - order * BLOCK))
        turn = np.searchsorted(ends, within, side="right")
        ids = np.empty(len(within), dtype=np.int64)
        for number in np.unique(turn):
            here, block = turn == number, int(order[number])
            shuffled = self._block(epoch, block)
            ids[here] = block * BLOCK + shuffled[within[here] - (ends[number] - len(shuffled))]
        return ids

    def _block(self, epoch: int, block: int) -> np.ndarray:
        """The order within a block; the last one is cached, because training reads a block in small steps."""
        if self._shuffled is None or self._shuffled[0] != (epoch, block):
            size = min(BLOCK, len(self) - block * BLOCK)
            order = np.random.default_rng(derive(self.seed, "corpus", epoch, block)).permutation(size)
            self._shuffled = (epoch, block), order
        return self._shuffled[1]

    def batch(self, ids: np.ndarray, epochs: np.ndarray) -> Batch:
        """(B, T) sequences without padding; the random choices of a pair depend only on its number and epoch."""
        return self._source.batch(ids, epochs)


class _Windows:
    """Consecutive windows of the stream, across the boundaries of documents."""

    def __init__(self, corpus: Corpus, split: str, length: int) -> None:
        self._corpus, self._tokens = corpus, length - 2
        self._stream, self._starts = corpus.stream(split), corpus.starts(split)
        self._separators = corpus.documents[split] - 1
        total = corpus.tokens[split] + self._separators
        self.count = total // self._tokens
        if not self.count:
            raise InputError(
                f"pretrain.length={length} is longer than the {split} text of {total + 2} tokens: reduce it or add text"
            )

    def batch(self, ids: np.ndarray, epochs: np.ndarray) -> Batch:
        framed = np.full((len(ids), self._tokens + 2), self._corpus.sep, dtype=np.int64)
        framed[:, 0] = self._corpus.cls
        for row, number in enumerate(ids.tolist()):
            framed[row, 1:-1] = self._window(number * self._tokens)
        return Batch(torch.from_numpy(framed), tokens=framed.size)

    def _window(self, first: int) -> np.ndarray:
        """The tokens from position `first` of the stream with separators."""
        before, until = self._separators_before(first), self._separators_before(first + self._tokens)
        begin = first - before
        ids = self._stream[begin : first + self._tokens - until].astype(np.int64)
        return np.insert(ids, self._starts[before + 1 : until + 1] - begin, self._corpus.sep)

    def _separators_before(self, position: int) -> int:
        return bisect_left(range(self._separators), position, key=lambda number: self._starts[number + 1] + number)


class _Pairs:
    """Consecutive windows within documents; the remainder of a document is not used."""

    def __init__(self, corpus: Corpus, split: str, length: int, kind: PairKind, seed: int) -> None:
        self._corpus, self._kind, self._seed, self._tokens = corpus, kind, seed, length - 3
        self._stream, self._starts = corpus.stream(split), corpus.starts(split)
        windows = np.diff(self._starts) // self._tokens
        self._first = np.concatenate([[0], np.cumsum(windows)])  # (documents + 1,) number of each document's first window
        self.count = int(self._first[-1])
        needed = 2 if kind is PairKind.next else 1
        if np.count_nonzero(windows) < needed:
            raise InputError(
                f"pretrain.length={length}: {needed} or more documents of the {split} text must have {self._tokens} tokens, "
                f"the longest has {int(np.diff(self._starts).max())}: reduce it or add longer documents"
            )

    def batch(self, ids: np.ndarray, epochs: np.ndarray) -> Batch:
        framed = np.full((len(ids), self._tokens + 3), self._corpus.sep, dtype=np.int64)
        framed[:, 0] = self._corpus.cls
        types, labels = np.zeros_like(framed), np.zeros(len(ids), dtype=np.int64)
        for row, (number, epoch) in enumerate(zip(ids.tolist(), epochs.tolist(), strict=True)):
            first, second, labels[row] = self._pair(number, epoch)
            cut = len(first) + 1
            framed[row, 1:cut], framed[row, cut + 1 : -1] = first, second
            types[row, cut + 1 :] = 1
        tensors = torch.from_numpy(framed), torch.from_numpy(types)
        return Batch(*tensors, labels=torch.from_numpy(labels), tokens=framed.size)

    def _pair(self, number: int, epoch: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Both segments, and 1 where they were swapped or the second was replaced."""
        rng = np.random.default_rng(derive(self._seed, "pairs", number, epoch))
        window = self._window(number)
        cut = self._cut(window, int(rng.integers(1, self._tokens)))
        first, second = window[:cut], window[cut:]
        if rng.random() < 0.5:
            return first, second, 0
        if self._kind is PairKind.order:
            return second, first, 1
        document = self._document(number)
        start, end = int(self._first[document]), int(self._first[document + 1])
        drawn = int(rng.integers(0, self.count - (end - start)))  # of a window of another document
        other = self._window(drawn if drawn < start else drawn + end - start)
        begin = int(rng.integers(0, len(first) + 1))
        return first, other[begin : begin + len(second)], 1

    def _cut(self, window: np.ndarray, position: int) -> int:
        """End of the sentence that ends nearest to `position`; `position` itself where no sentence ends."""
        ends = np.flatnonzero(np.isin(window[:-1], self._corpus.sentence_ends)) + 1
        return int(ends[np.abs(ends - position).argmin()]) if len(ends) else position

    def _document(self, number: int) -> int:
        return int(np.searchsorted(self._first, number, side="right")) - 1

    def _window(self, number: int) -> np.ndarray:
        document = self._document(number)
        begin = int(self._starts[document] + (number - self._first[document]) * self._tokens)
        return self._stream[begin : begin + self._tokens]
