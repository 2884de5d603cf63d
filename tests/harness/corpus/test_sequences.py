"""Sequences: the whole stream and nothing twice, an order that can be resumed anywhere, pairs inside of documents."""

from itertools import pairwise

import numpy as np
import pytest
from numbered_words import config_on, read, words

from harness.corpus import sequences
from harness.corpus.sequences import Corpus, Sequences
from harness.errors import InputError
from harness.models.objectives.config import PairKind

LENGTH = 16
WORDS = 3000
PAD, CLS, SEP, STOP = 0, 2, 3, 5


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """60 documents of 1 to 60 tokens: numbered words that never occur twice, with a full stop after every fourth."""
    lengths = np.random.default_rng(0).permutation(60) + 1
    numbers = iter(range(WORDS))
    texts = [" ".join(f"w{next(numbers)}" if place % 5 < 4 else "." for place in range(length)) for length in lengths]
    return read(config_on(tmp_path_factory.mktemp("sequences"), "\n\n".join(texts), words(WORDS - 40, WORDS), WORDS, "."))


def all_of(chosen: Sequences) -> np.ndarray:
    """(N, T) every sequence in the order of their numbers."""
    ids = np.arange(len(chosen))
    return chosen.batch(ids, np.zeros_like(ids)).input_ids.numpy()


def stream_with_separators(corpus: Corpus) -> list[int]:
    stream, starts = corpus.stream("train"), corpus.starts("train")
    documents = [stream[begin:end].tolist() for begin, end in pairwise(starts)]
    return [token for document in documents for token in (*document, SEP)][:-1]


def test_every_token_of_the_stream_is_in_exactly_one_sequence(corpus):
    rows = all_of(Sequences(corpus, "train", LENGTH, None, 0))
    stream = stream_with_separators(corpus)
    assert rows.shape[1] == LENGTH
    assert {*rows[:, 0]} | {*rows[:, -1]} == {CLS, SEP}
    assert rows[:, 1:-1].flatten().tolist() == stream[: rows.shape[0] * (LENGTH - 2)]
    assert len(stream) - rows.shape[0] * (LENGTH - 2) < LENGTH - 2


@pytest.mark.parametrize("block", [7, 65_536])
def test_an_epoch_takes_every_sequence_once_in_an_order_of_its_own(corpus, monkeypatch, block):
    monkeypatch.setattr(sequences, "BLOCK", block)
    chosen = Sequences(corpus, "train", LENGTH, None, 0)
    orders = []
    for epoch in range(3):
        ids, epochs = chosen.chosen(epoch * len(chosen), len(chosen))
        assert sorted(ids.tolist()) == list(range(len(chosen)))
        assert set(epochs.tolist()) == {epoch}
        orders.append(ids.tolist())
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert orders[0] != sorted(orders[0])


@pytest.mark.long
@pytest.mark.parametrize("block", [7, 65_536])
def test_the_order_does_not_depend_on_the_portions_it_is_asked_for_in(corpus, monkeypatch, block):
    monkeypatch.setattr(sequences, "BLOCK", block)
    total = 3 * len(Sequences(corpus, "train", LENGTH, None, 0)) + 5
    whole = np.stack(Sequences(corpus, "train", LENGTH, None, 0).chosen(0, total))
    for portion in (1, 10, total - 3):
        starts = range(0, total, portion)
        resumed = [Sequences(corpus, "train", LENGTH, None, 0).chosen(at, min(portion, total - at)) for at in starts]
        assert (np.concatenate([np.stack(part) for part in resumed], axis=1) == whole).all()


def test_the_seed_decides_the_order_and_the_pairs(corpus):
    first, again, other = (Sequences(corpus, "train", LENGTH, PairKind.order, seed) for seed in (0, 0, 1))
    ids, epochs = first.chosen(0, len(first))
    assert (ids == again.chosen(0, len(first))[0]).all()
    assert (ids != other.chosen(0, len(first))[0]).any()
    assert first.batch(ids, epochs).input_ids.equal(again.batch(ids, epochs).input_ids)
    assert not first.batch(ids, epochs).input_ids.equal(other.batch(ids, epochs).input_ids)


def test_the_random_choices_of_a_sequence_depend_on_its_number_and_epoch_alone(corpus):
    chosen = Sequences(corpus, "train", LENGTH, PairKind.next, 0)
    ids, epochs = np.arange(10), np.zeros(10, dtype=np.int64)
    whole, part = chosen.batch(ids, epochs), chosen.batch(ids[7:3:-1], epochs[7:3:-1])
    assert part.input_ids.equal(whole.input_ids[[7, 6, 5, 4]])
    assert part.labels.equal(whole.labels[[7, 6, 5, 4]])
    assert not whole.input_ids.equal(chosen.batch(ids, epochs + 1).input_ids)


def pairs_of(chosen: Sequences) -> list[tuple[list[int], list[int], int]]:
    """Both segments and the label of every sequence over a few epochs, cut where the segment numbers say."""
    found = []
    for epoch in range(8):
        ids = np.arange(len(chosen))
        batch = chosen.batch(ids, np.full_like(ids, epoch))
        assert batch.input_ids.shape == batch.token_type_ids.shape == (len(chosen), LENGTH)
        for row, types, label in zip(
            batch.input_ids.tolist(), batch.token_type_ids.tolist(), batch.labels.tolist(), strict=True
        ):
            cut = types.index(1)
            assert types == [0] * cut + [1] * (LENGTH - cut)
            assert (row[0], row[cut - 1], row[-1]) == (CLS, SEP, SEP)
            found.append((row[1 : cut - 1], row[cut:-1], label))
    return found


def spoilt(corpus: Corpus, kind: PairKind) -> list[tuple[list[int], list[int]]]:
    """Segments of the pairs that are not in order."""
    return [(first, second) for first, second, label in pairs_of(Sequences(corpus, "train", LENGTH, kind, 0)) if label]


def documents_of(corpus: Corpus) -> list[str]:
    """Each document's ids between commas, so that a run of them can be looked for."""
    stream, starts = corpus.stream("train"), corpus.starts("train")
    return [f",{','.join(map(str, stream[begin:end]))}," for begin, end in pairwise(starts)]


def places(documents: list[str], segment: list[int]) -> set[int]:
    """Documents in which the segment stands."""
    text = f",{','.join(map(str, segment))},"
    return {number for number, document in enumerate(documents) if text in document}


@pytest.mark.parametrize("kind", PairKind)
def test_segments_of_label_0_follow_each_other_in_one_document(corpus, kind):
    documents = documents_of(corpus)
    made = pairs_of(Sequences(corpus, "train", LENGTH, kind, 0))
    assert np.mean([label for *_, label in made]) == pytest.approx(0.5, abs=4 * 0.5 / len(made) ** 0.5)
    for first, second, label in made:
        assert first
        assert second
        assert SEP not in first + second
        assert len(first) + len(second) == LENGTH - 3
        assert bool(places(documents, first + second)) == (label == 0)


def test_segments_of_swapped_pairs_are_in_the_other_order(corpus):
    documents = documents_of(corpus)
    swapped = spoilt(corpus, PairKind.order)
    assert swapped
    assert all(places(documents, second + first) for first, second in swapped)


def test_replaced_segments_are_of_another_document(corpus):
    documents = documents_of(corpus)
    replaced = spoilt(corpus, PairKind.next)
    sure = [(first, second) for first, second in replaced if min(len(first), len(second)) > 1]
    assert len(sure) > 100
    for first, second in sure:
        assert len(places(documents, first)) == len(places(documents, second)) == 1
        assert places(documents, first) != places(documents, second)


def test_pairs_are_cut_behind_a_full_stop(corpus):
    cuts = []
    for first, second, label in pairs_of(Sequences(corpus, "train", LENGTH, PairKind.order, 0)):
        before, behind = (second, first) if label else (first, second)
        assert before[-1] == STOP, (before, behind)
        cuts.append(len(before))
    assert len(set(cuts)) > 3


def test_short_documents_are_left_out_of_pairs(corpus):
    chosen = Sequences(corpus, "train", LENGTH, PairKind.order, 0)
    lengths = np.diff(corpus.starts("train"))
    assert (lengths < LENGTH - 3).sum() == LENGTH - 4
    assert len(chosen) == (lengths // (LENGTH - 3)).sum()


@pytest.mark.parametrize(
    ("split", "length", "pairs"),
    [("validation", 50, None), ("train", 70, PairKind.order), ("validation", LENGTH, PairKind.next)],
)
def test_too_little_text_names_the_length(corpus, split, length, pairs):
    with pytest.raises(InputError, match=f"pretrain.length={length}") as caught:
        Sequences(corpus, split, length, pairs, 0)
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_a_real_corpus_gives_the_same_batches_for_every_variant_of_one_vocabulary(compose, shared_data, tmp_path):
    batches = []
    for model in ("model=base", "model=albert"):
        (config,) = compose(
            "corpus=books_and_wikipedia", "corpus.subset=wikipedia", "data=local", f"data.root={shared_data}", "task=bag",
            "corpus.train_documents=6", "pretrain=mlm", "tokenizer=wordpiece", "tokenizer.vocab_size=1000", model,
        )  # fmt: skip
        config.output = str(tmp_path / "out")
        found = read(config)
        assert found.documents["train"] == 6
        assert found.documents["validation"] == 50
        assert found.unknown_share < 0.001
        chosen = Sequences(found, "train", 128, PairKind.next, config.seed)
        batches.append(chosen.batch(*chosen.chosen(0, 8)))
    assert batches[0].input_ids.equal(batches[1].input_ids)
    assert batches[0].labels.equal(batches[1].labels)


def test_replaced_segments_begin_anywhere_in_their_window(corpus):
    """Not at its beginning alone, where a document, too, may begin."""
    chosen = Sequences(corpus, "train", LENGTH, PairKind.next, seed=0)
    whole = [chosen._source._window(number).tolist() for number in range(len(chosen))]
    pairs = [chosen._source._pair(number, epoch) for epoch in range(4) for number in range(len(chosen))]
    starts = [int(second[0]) for _, second, label in pairs if label and second[0] > STOP]
    assert len({next(window.index(start) for window in whole if start in window) for start in starts}) > LENGTH // 2
