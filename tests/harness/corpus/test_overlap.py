"""How much of an evaluation set stands in the corpus word for word."""

import numpy as np
import pytest
from numbered_words import config_on, read

from harness.corpus import overlap as overlaps
from harness.corpus.overlap import overlap
from harness.corpus.sequences import Corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """300 documents of 40 tokens that are all different, so that no n-gram occurs twice but for chance."""
    stream = np.random.default_rng(0)
    texts = [" ".join(f"w{number}" for number in stream.integers(0, 2000, size=40)) for _ in range(300)]
    return read(config_on(tmp_path_factory.mktemp("overlap"), "\n\n".join(texts), "w1 w2", 2000))


def other(length: int) -> np.ndarray:
    """Text that is not in the corpus."""
    return np.random.default_rng(1).integers(5, 2005, size=length)


@pytest.mark.parametrize("chunk", [64, 1_000_000])
def test_every_planted_n_gram_is_found(corpus, monkeypatch, chunk):
    """Wherever it stands in its document, at the seams of chunks too."""
    monkeypatch.setattr(overlaps, "CHUNK", chunk)
    stream = corpus.stream("train")
    for begin in (0, 27, 28, 39, 55, 64 + 20, 40 * 299 + 27):
        planted = np.concatenate([other(5), stream[begin : begin + 13], other(7)])
        inside = begin % 40 <= 27
        assert overlap(corpus, [planted, other(60)]) == (0.5 if inside else 0), begin


def test_an_n_gram_that_falls_one_token_short_is_not_found(corpus):
    assert overlap(corpus, [np.concatenate([other(5), corpus.stream("train")[3:15], other(5)])]) == 0


def test_an_n_gram_across_two_documents_is_not_found(corpus):
    assert overlap(corpus, [np.asarray(corpus.stream("train")[34:47])]) == 0
    assert overlap(corpus, [np.asarray(corpus.stream("train")[34:40])]) == 1


def test_a_short_item_counts_by_its_whole_text(corpus):
    stream = np.asarray(corpus.stream("train"))
    assert overlap(corpus, [stream[3:8], stream[3:8][::-1], stream[:0]]) == pytest.approx(1 / 3)


def test_n_is_a_choice(corpus):
    item = np.concatenate([other(5), corpus.stream("train")[3:11], other(5)])
    assert (overlap(corpus, [item], n=8), overlap(corpus, [item], n=9)) == (1, 0)


def test_no_items_have_no_share(corpus):
    with pytest.raises(ValueError, match="no evaluation items"):
        overlap(corpus, [])
