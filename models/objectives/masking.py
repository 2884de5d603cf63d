"""Which tokens are predicted, and what replaces them in the inputs; sampled from one seed per sequence.

B sequences, T tokens, K predicted positions.
"""

from dataclasses import replace

import torch
from torch import Tensor

from harness.models.batch import Batch
from harness.models.losses import IGNORED
from harness.models.objectives.base import PretrainBatch, Vocabulary
from harness.models.objectives.config import Masking, ObjectiveConfig

LONGEST_SPAN = 10
"""Words (arXiv:1907.10529, section 3.1)."""


def num_predictions(rate: float, length: int) -> int:
    """Predicted tokens per sequence."""
    return max(1, round(rate * length))


def masked_batch(batch: Batch, seeds: list[int], config: ObjectiveConfig, vocabulary: Vocabulary) -> PretrainBatch:
    """`mask_rate` of each sequence is predicted: most of it replaced by [MASK], some by a random token, some unchanged."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    positions = sample_positions(batch, generators, config, vocabulary)
    noise = torch.stack([torch.rand(positions.shape[1], generator=generator) for generator in generators])
    ordinary = torch.ones(vocabulary.size, dtype=torch.bool)
    ordinary[list(vocabulary.special)] = False
    tokens = ordinary.nonzero()[:, 0]
    choices = [torch.randint(len(tokens), positions.shape[1:], generator=generator) for generator in generators]
    unchanged = batch.input_ids.gather(1, positions.clamp(min=0))
    replaced = torch.where(noise < config.mask_token_share + config.random_token_share, tokens[torch.stack(choices)], unchanged)
    return with_targets(batch, positions, replaced.masked_fill(noise < config.mask_token_share, vocabulary.mask))


def sample_positions(
    batch: Batch, generators: list[torch.Generator], config: ObjectiveConfig, vocabulary: Vocabulary
) -> Tensor:
    """(B, K) ascending positions, padded with -1 in front in a short sequence; special tokens are never sampled."""
    T = batch.input_ids.shape[1]
    count = num_predictions(config.mask_rate, T)
    candidates = ~torch.isin(batch.input_ids, torch.tensor(vocabulary.special))
    if config.masking is Masking.token:
        noise = torch.stack([torch.rand(T, generator=generator) for generator in generators])
        first = noise.masked_fill(~candidates, 2.0).argsort(dim=1)[:, :count]
        return first.masked_fill(~candidates.gather(1, first), -1).sort(dim=1).values
    starts = vocabulary.word_start[batch.input_ids] | ~candidates
    starts[:, 1:] |= ~candidates[:, :-1]  # a sequence, or the text behind a special token, may begin inside a word
    rows = zip(starts, candidates, generators, strict=True)
    sampled = [_sample_words(start, candidate, config, generator, count) for start, candidate, generator in rows]
    return torch.stack([torch.tensor([-1] * (count - len(positions)) + sorted(positions)) for positions in sampled])


def _sample_words(
    starts: Tensor, candidates: Tensor, config: ObjectiveConfig, generator: torch.Generator, count: int
) -> list[int]:
    """At most `count` positions of one sequence, in whole words; a word or span that does not fit is skipped.

    Spans are neighbouring words and have geometric lengths (arXiv:1907.10529, section 3.1).
    """
    words: list[list[int]] = []
    for position, (start, candidate) in enumerate(zip(starts.tolist(), candidates.tolist(), strict=True)):
        if start:
            words.append([])
        if candidate:
            words[-1].append(position)
    sampled: dict[int, None] = {}
    order = torch.randperm(len(words), generator=generator).tolist()
    for first, length in zip(order, _span_lengths(len(words), config, generator), strict=True):
        new = [position for position in _span(words, first, length) if position not in sampled]
        if len(sampled) + len(new) <= count:
            sampled |= dict.fromkeys(new)
    return list(sampled)


def _span(words: list[list[int]], first: int, length: int) -> list[int]:
    """Positions of up to `length` consecutive words; a special token, which is a word without positions, ends the span."""
    span = []
    for word in words[first : first + length]:
        if not word:
            break
        span += word
    return span


def _span_lengths(count: int, config: ObjectiveConfig, generator: torch.Generator) -> list[int]:
    """Words per span: 1 for whole-word masking, else geometric and cut off at the longest."""
    if config.masking is Masking.word:
        return [1] * count
    shares = torch.tensor(span_shares(config.mean_span), dtype=torch.float64)
    noise = torch.rand(count, generator=generator, dtype=torch.float64)
    return (1 + torch.searchsorted(shares.cumsum(0), noise).clamp(max=LONGEST_SPAN - 1)).tolist()


def span_shares(mean: float) -> list[float]:
    """Probabilities of spans of 1, 2, ... words: the truncated geometric distribution with the nearest possible mean."""
    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        ratio = (low + high) / 2  # probability of each length over that of the one before
        weights = [ratio**k for k in range(LONGEST_SPAN)]
        reached = sum(k * weight for k, weight in enumerate(weights, 1)) / sum(weights)
        low, high = (low, ratio) if reached > mean else (ratio, high)
    return [weight / sum(weights) for weight in weights]


def with_targets(batch: Batch, positions: Tensor, replacements: Tensor) -> PretrainBatch:
    """The batch with (B, K) replacements at (B, K) positions, -1 for an unused slot, and the original tokens as targets."""
    used, ids = positions >= 0, batch.input_ids.clone()
    positions = positions.clamp(min=0)
    targets = batch.input_ids.gather(1, positions).masked_fill(~used, IGNORED)
    rows = torch.arange(len(ids))[:, None].expand_as(positions)
    ids[rows[used], positions[used]] = replacements[used]
    return PretrainBatch(replace(batch, input_ids=ids), positions, targets, max(1, int(used.sum())), len(ids))
