"""Padded batches of prepared examples, grouped by length to reduce padding."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from harness.config.choices import Dtype
from harness.config.schema import HardwareConfig
from harness.data.seeds import derive
from harness.hardware import facts
from harness.models.batch import Batch
from harness.models.losses import IGNORED
from harness.tasks.base import Split

POOL_BATCHES = 200
"""Batches that are shuffled, then sorted by length together. More means less padding, fewer means better mixing."""


STEPS = {Dtype.fp32: 1, Dtype.bf16: 4}
"""Training batches have a multiple of so many tokens. In bfloat16 a CPU makes and keeps kernels for each shape (20 ms each; 280
MB more in 120 steps with 1); in float32 a new shape costs 1 ms and no memory, and padding the rest."""


def step_of_lengths(hardware: HardwareConfig) -> int:
    """Lengths of training batches are multiples of it, or that of the longest text."""
    return STEPS[facts.chosen_dtype(hardware)]


def collate(split: Split, rows: np.ndarray, pad_token_id: int, step: int = 1) -> Batch:
    """The chosen examples padded to the longest of them; without a mask where nothing is padded.

    The length is a multiple of `step`, or that of the longest example of the split.
    """
    sequences = (rows[:, None] * split.group + np.arange(split.group)).ravel()
    starts, lengths = split.starts[sequences], split.starts[sequences + 1] - split.starts[sequences]
    columns = np.arange(padded_length(split, rows, step))
    real = columns < lengths[:, None]  # (B, T)
    positions = np.where(real, starts[:, None] + columns, 0)
    labels = np.where(real, split.labels[positions], IGNORED) if split.labels_of_tokens else split.labels[rows]
    answers = None
    if split.answers is not None:
        answers = torch.from_numpy(split.answers[positions if len(split.answers) == len(split.ids) else rows])
    return Batch(
        input_ids=torch.from_numpy(np.where(real, split.ids[positions], pad_token_id).astype(np.int64)),
        token_type_ids=torch.from_numpy(np.where(real, split.types[positions], 0).astype(np.int64)),
        attention_mask=None if real.all() else torch.from_numpy(real),
        labels=torch.from_numpy(labels),
        tokens=int(lengths.sum()),
        answers=answers,
        group=split.group,
    )


def padded_length(split: Split, rows: np.ndarray, step: int) -> int:
    """Tokens of each row of the batch: a multiple of `step`, or those of the longest example of the split."""
    return int(min(-(-split.lengths[rows].max() // step) * step, split.lengths.max()))


def training_order(split: Split, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Every example once, in batches of similar length; the order depends on seed and epoch alone."""
    rng = np.random.default_rng(derive(seed, "order", epoch))
    shuffled = rng.permutation(len(split))
    pool = batch_size * POOL_BATCHES
    batches: list[np.ndarray] = []
    for start in range(0, len(shuffled), pool):
        rows = shuffled[start : start + pool]
        rows = rows[np.argsort(split.lengths[rows], kind="stable")]
        batches += [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def evaluation_order(split: Split, batch_size: int) -> list[np.ndarray]:
    """Every example once, shortest first."""
    by_length = np.argsort(split.lengths, kind="stable")
    return [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]


def training_batches(split: Split, batch_size: int, seed: int, pad_token_id: int, step: int) -> Iterator[Batch]:
    """Batches of one epoch after the other, without end; lengths are multiples of `step`."""
    epoch = 0
    while True:
        for rows in training_order(split, batch_size, seed, epoch):
            batch = collate(split, rows, pad_token_id, step)
            if split.second is not None:
                batch.second = collate(split.second, split.labels[rows], pad_token_id, step)
            yield batch
        epoch += 1


def padded_shapes(split: Split, batch_size: int, seed: int, steps: int, step: int) -> Iterator[tuple[int, int]]:
    """Rows and tokens of each row of the first batches of `training_batches`, without making them; both sides of pairs."""
    orders = (rows for epoch in itertools.count() for rows in training_order(split, batch_size, seed, epoch))
    for rows in itertools.islice(orders, steps):
        yield len(rows) * split.group, padded_length(split, rows, step)
        if split.second is not None:
            yield len(rows), padded_length(split.second, split.labels[rows], step)


def pieces(batch: Batch, count: int) -> list[Batch]:
    """The batch cut into at most `count` parts for gradient accumulation."""
    if count == 1:
        return [batch]
    size = -(-batch.items // count)
    return [batch.part(slice(start, start + size)) for start in range(0, batch.items, size)]
