"""Batches: every example once, little padding, and the same order for the same seed."""

from itertools import islice

import numpy as np
import pytest
import torch

from harness.config.choices import Dtype
from harness.config.schema import HardwareConfig
from harness.tasks.batches import collate, evaluation_order, pieces, step_of_lengths, training_batches, training_order
from harness.tasks.prepared import Split

PAD = 7


@pytest.fixture(scope="module")
def split() -> Split:
    """300 examples of 3 to 40 tokens."""
    stream = np.random.default_rng(0)
    lengths = stream.integers(3, 41, 300)
    total = int(lengths.sum())
    return Split(
        ids=stream.integers(8, 99, total).astype(np.int32),
        types=stream.integers(0, 2, total).astype(np.uint8),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        labels=stream.integers(0, 2, 300).astype(np.int64),
        items=np.arange(300),
    )


def flat(order: list[np.ndarray]) -> list[int]:
    return [int(index) for chosen in order for index in chosen]


@pytest.mark.parametrize("batch_size", [1, 32, 300, 1000])
def test_every_example_comes_once_an_epoch(split, batch_size):
    order = training_order(split, batch_size, seed=3, epoch=0)
    assert sorted(flat(order)) == list(range(300))
    assert max(len(chosen) for chosen in order) <= batch_size
    assert sorted(flat(evaluation_order(split, batch_size))) == list(range(300))


def test_order_depends_on_seed_and_epoch_alone(split):
    torch.manual_seed(1)
    first = flat(training_order(split, 32, seed=3, epoch=1))
    np.random.default_rng(5).random(100)
    torch.manual_seed(2)
    assert flat(training_order(split, 32, seed=3, epoch=1)) == first
    assert flat(training_order(split, 32, seed=4, epoch=1)) != first
    assert flat(training_order(split, 32, seed=3, epoch=2)) != first


def test_endless_batches_are_the_epochs_in_turn(split):
    expected = [chosen for epoch in (0, 1) for chosen in training_order(split, 32, 3, epoch)]
    got = list(islice(training_batches(split, 32, 3, PAD, 4), len(expected)))
    for batch, chosen in zip(got, expected, strict=True):
        assert torch.equal(batch.labels, torch.from_numpy(split.labels[chosen]))


def test_collate_equals_a_naive_one(split):
    chosen = np.array([5, 17, 2, 100])
    batch = collate(split, chosen, PAD)
    longest = max(split.lengths[chosen])
    for row, index in enumerate(chosen):
        start, end = split.starts[index], split.starts[index + 1]
        padding = longest - (end - start)
        assert batch.input_ids[row].tolist() == [*split.ids[start:end], *[PAD] * padding]
        assert batch.token_type_ids[row].tolist() == [*split.types[start:end], *[0] * padding]
        assert batch.attention_mask[row].tolist() == [True] * (end - start) + [False] * padding
        assert batch.labels[row] == split.labels[index]


def test_padding_is_never_counted_as_tokens(split):
    chosen = np.arange(50)
    batch = collate(split, chosen, PAD)
    assert batch.tokens == split.lengths[:50].sum() == batch.attention_mask.sum()
    assert batch.tokens < batch.input_ids.numel()
    epoch = [collate(split, chosen, PAD).tokens for chosen in training_order(split, 32, 3, 0)]
    assert sum(epoch) == len(split.ids)


def test_mask_is_none_if_and_only_if_nothing_is_padded(split):
    for chosen in [*training_order(split, 2, 3, 0), np.array([4])]:
        same = len(set(split.lengths[chosen])) == 1
        assert (collate(split, chosen, PAD).attention_mask is None) == same


def test_grouped_batches_pad_less_than_random_ones(split):
    def padded(order: list[np.ndarray]) -> int:
        return sum(collate(split, chosen, PAD).input_ids.numel() for chosen in order) - len(split.ids)

    random = np.array_split(np.random.default_rng(0).permutation(300), 10)
    assert padded(training_order(split, 30, 3, 0)) < padded(random) / 4
    assert padded(evaluation_order(split, 30)) < padded(random) / 4


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_pieces_put_together_are_the_batch(split, count):
    batch = collate(split, np.arange(8), PAD)
    cut = pieces(batch, count)
    assert len(cut) <= count
    for name in ("input_ids", "token_type_ids", "attention_mask", "labels"):
        assert torch.equal(torch.cat([getattr(piece, name) for piece in cut]), getattr(batch, name))


@pytest.mark.parametrize(("dtype", "expected"), [("bf16", [4, 8, 12, 16, 18]), ("fp32", [*range(1, 19)])])
def test_training_batches_have_few_shapes_in_bfloat16_and_none_is_longer_than_the_longest_text(dtype, expected):
    """For each shape kernels are made and kept."""
    lengths = np.arange(1, 19)
    starts = np.concatenate([[0], lengths.cumsum()])
    ids, labels = np.arange(1, starts[-1] + 1, dtype=np.int32), np.zeros(len(lengths), dtype=np.int64)
    split = Split(ids, np.zeros(len(ids), dtype=np.uint8), starts, labels, range(len(lengths)))
    batches = list(islice(training_batches(split, 1, 0, 0, step_of_lengths(HardwareConfig(dtype=Dtype[dtype]))), len(lengths)))
    assert sorted({batch.input_ids.shape[1] for batch in batches}) == expected
    assert sorted(batch.tokens for batch in batches) == lengths.tolist()
    for batch in batches:
        real = batch.input_ids != 0
        assert real.sum() == batch.tokens
        assert (batch.attention_mask is None) == bool(real.all())
