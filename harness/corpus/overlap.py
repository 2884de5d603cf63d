"""How much of an evaluation set stands in the corpus word for word (arXiv:2005.14165, appendix C)."""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.corpus.sequences import Corpus

LENGTH = 13
"""Tokens of an n-gram, as in the paper."""

CHUNK = 1_000_000
"""Tokens of the corpus that are looked at together."""

SIEVE_BITS = 22


def overlap(corpus: Corpus, items: Sequence[np.ndarray], n: int = LENGTH) -> float:
    """Share of the items with at least one n-gram that stands in a training document, special pieces not counted in.

    `items` are (tokens,) ids without special pieces. One shorter than n counts by its whole text, an empty one never. Memory is
    bounded by the items; n-grams are compared by hashes of 64 bits. ValueError where there are no items.
    """
    if not len(items):
        raise ValueError("there are no evaluation items")
    lengths = sorted({min(len(item), n) for item in items if len(item)})
    found = np.zeros(len(items), dtype=bool)
    for length in lengths:
        owners = [number for number, item in enumerate(items) if min(len(item), n) == length]
        hashes = [_hashes(np.asarray(items[number]), length) for number in owners]
        seen = _seen(corpus, np.unique(np.concatenate(hashes)), length)
        found[owners] = [bool(np.isin(own, seen).any()) for own in hashes]
    return float(found.mean())


def _hashes(ids: np.ndarray, length: int) -> np.ndarray:
    """(tokens - length + 1,) uint64, one for each n-gram of this length."""
    factors = np.random.default_rng(length).integers(0, 2**63, size=length, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = _mix(ids.astype(np.uint64) + np.uint64(1))
    count = len(ids) - length + 1
    total = np.zeros(count, dtype=np.uint64)
    for place, factor in enumerate(factors):
        total += mixed[place : place + count] * factor
    return _mix(total)


def _mix(values: np.ndarray) -> np.ndarray:
    """Spreads numbers over all 64 bits, one to one (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _seen(corpus: Corpus, wanted: np.ndarray, length: int) -> np.ndarray:
    """Those of the wanted hashes that the corpus has; `wanted` is sorted."""
    shift = np.uint64(64 - SIEVE_BITS)
    sieve = np.zeros(2**SIEVE_BITS, dtype=bool)
    sieve[wanted >> shift] = True
    seen = np.zeros(len(wanted), dtype=bool)
    for hashes in _corpus_hashes(corpus, length):
        likely = hashes[sieve[hashes >> shift]]
        places = np.minimum(np.searchsorted(wanted, likely), len(wanted) - 1)
        seen[places[wanted[places] == likely]] = True
    return wanted[seen]


def _corpus_hashes(corpus: Corpus, length: int) -> Iterator[np.ndarray]:
    """Of every n-gram inside of a document, chunk by chunk."""
    stream, starts = corpus.stream("train"), corpus.starts("train")
    for begin in range(0, len(stream) - length + 1, CHUNK):
        ids = stream[begin : begin + CHUNK + length - 1]
        hashes = _hashes(ids, length)
        first, last = np.searchsorted(starts, (begin, begin + len(ids)), side="right")
        inside = np.ones(len(hashes), dtype=bool)
        borders = np.asarray(starts[first:last]) - begin
        for back in range(1, length):
            across = borders - back
            inside[across[(across >= 0) & (across < len(hashes))]] = False
        yield hashes[inside]
