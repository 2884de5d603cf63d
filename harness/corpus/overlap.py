"""Contamination: how much of an evaluation set occurs verbatim in the corpus (arXiv:2005.14165, appendix C)."""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.corpus.sequences import Corpus

LENGTH = 13
"""Tokens of an n-gram, as in the paper."""

CHUNK = 1_000_000
"""Tokens of the corpus that are hashed at a time."""

SIEVE_BITS = 22
"""Leading bits of a hash that index a table of candidates, which excludes most n-grams before the search."""


def overlap(corpus: Corpus, items: Sequence[np.ndarray], n: int = LENGTH) -> float:
    """Share of items with at least one n-gram that occurs in a training document.

    `items` are (tokens,) ids without special pieces. An item shorter than n is compared as a whole, an empty one never matches.
    Memory is bounded by the items; n-grams are compared by 64-bit hashes. ValueError without items.
    """
    if not len(items):
        raise ValueError("there are no evaluation items")
    lengths, overlaps = np.minimum([len(item) for item in items], n), np.zeros(len(items), dtype=bool)
    for length in np.unique(lengths[lengths > 0]):
        owners = np.flatnonzero(lengths == length).tolist()
        hashes = [_hashes(items[number], length) for number in owners]
        in_corpus = _in_corpus(corpus, np.unique(np.concatenate(hashes)), length)
        overlaps[owners] = [bool(np.isin(own, in_corpus).any()) for own in hashes]
    return float(overlaps.mean())


def _hashes(ids: np.ndarray, length: int) -> np.ndarray:
    """(tokens - length + 1,) uint64 hashes of all n-grams of this length."""
    factors = np.random.default_rng(length).integers(0, 2**63, size=length, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return _mix(np.convolve(_mix(ids.astype(np.uint64) + np.uint64(1)), factors[::-1], "valid"))


def _mix(values: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit numbers that mixes all bits (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _in_corpus(corpus: Corpus, targets: np.ndarray, length: int) -> np.ndarray:
    """The sorted `targets`, hashes of n-grams, that occur in the corpus."""
    shift = np.uint64(64 - SIEVE_BITS)
    sieve = np.zeros(2**SIEVE_BITS, dtype=bool)
    sieve[targets >> shift] = True
    overlaps = np.zeros(len(targets), dtype=bool)
    for hashes in _corpus_hashes(corpus, length):
        overlaps |= np.isin(targets, hashes[sieve[hashes >> shift]])
    return targets[overlaps]


def _corpus_hashes(corpus: Corpus, length: int) -> Iterator[np.ndarray]:
    """Hashes of all n-grams that are within one document, chunk by chunk."""
    stream, starts = corpus.stream("train"), corpus.starts("train")
    for begin in range(0, len(stream) - length + 1, CHUNK):
        ids = stream[begin : begin + CHUNK + length - 1]
        hashes = _hashes(ids, length)
        first, last = np.searchsorted(starts, (begin, begin + len(ids)), side="right")
        inside = np.ones(len(hashes), dtype=bool)
        across = (starts[first:last, None] - begin - np.arange(1, length)).ravel()
        inside[across[(across >= 0) & (across < len(hashes))]] = False
        yield hashes[inside]
