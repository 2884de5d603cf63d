"""What is masked and by what, drawn from one seed a sequence: every variant of a seed is asked the same.

B sequences, T tokens, K predicted places.
"""

from dataclasses import replace

import torch
from torch import Tensor

from models.batch import Batch
from models.objectives.config import Masking, ObjectiveConfig
from models.objectives.question import IGNORED, Question, Vocabulary

LONGEST_SPAN = 10
"""Words (arXiv:1907.10529, section 3.1)."""


def predictions(rate: float, length: int) -> int:
    """Tokens of a sequence that are predicted."""
    return max(1, round(rate * length))


def masked_question(batch: Batch, seeds: list[int], config: ObjectiveConfig, vocabulary: Vocabulary) -> Question:
    """Of each sequence `mask_rate` is asked for: most of it shown as [MASK], some as another piece, some as it is."""
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    places = drawn_places(batch, draws, config, vocabulary)
    return asked(batch, places, _shown(batch, places, draws, config, vocabulary))


def drawn_places(batch: Batch, draws: list[torch.Generator], config: ObjectiveConfig, vocabulary: Vocabulary) -> Tensor:
    """(B, K) places in rising order, -1 in front where a sequence has too few; special pieces are never among them."""
    count = predictions(config.mask_rate, batch.input_ids.shape[1])
    candidates = ~torch.isin(batch.input_ids, torch.tensor(vocabulary.special))
    if config.masking is Masking.token:
        noise = torch.stack([torch.rand(batch.input_ids.shape[1], generator=draw) for draw in draws])
        first = noise.masked_fill(~candidates, 2.0).argsort(dim=1)[:, :count]
        return first.masked_fill(~candidates.gather(1, first), -1).sort(dim=1).values
    starts = vocabulary.word_start[batch.input_ids] | ~candidates
    starts[:, 1:] |= ~candidates[:, :-1]  # a sequence, or what follows a special piece, may begin inside of a word
    rows = zip(starts, candidates, draws, strict=True)
    chosen = [_units(start, candidate, config, draw, count) for start, candidate, draw in rows]
    return torch.stack([torch.tensor([-1] * (count - len(places)) + sorted(places)) for places in chosen])


def _units(starts: Tensor, candidates: Tensor, config: ObjectiveConfig, draw: torch.Generator, count: int) -> list[int]:
    """At most `count` places of one sequence, in whole words; a word or span that would not fit is passed over.

    Spans are of words that stand together and have geometric lengths (arXiv:1907.10529, section 3.1).
    """
    words: list[list[int]] = []
    for place, (start, candidate) in enumerate(zip(starts.tolist(), candidates.tolist(), strict=True)):
        if start:
            words.append([])
        if candidate:
            words[-1].append(place)
    chosen: dict[int, None] = {}
    order = torch.randperm(len(words), generator=draw).tolist()
    spans = _lengths(len(words), config, draw)
    for first, length in zip(order, spans, strict=True):
        span = _together(words, first, length)
        new = [place for place in span if place not in chosen]
        if len(chosen) + len(new) <= count:
            chosen |= dict.fromkeys(new)
    return list(chosen)


def _together(words: list[list[int]], first: int, length: int) -> list[int]:
    """Places of up to so many words in a row, none across a special piece, which is a word without places."""
    span: list[int] = []
    for word in words[first : first + length]:
        if not word:
            break
        span += word
    return span


def _lengths(count: int, config: ObjectiveConfig, draw: torch.Generator) -> list[int]:
    """Words of each span: 1 for whole words, else geometric, none above the longest."""
    if config.masking is Masking.word:
        return [1] * count
    shares = torch.tensor(span_shares(config.mean_span), dtype=torch.float64)
    noise = torch.rand(count, generator=draw, dtype=torch.float64)
    return (1 + torch.searchsorted(shares.cumsum(0), noise).clamp(max=LONGEST_SPAN - 1)).tolist()


def span_shares(mean: float) -> list[float]:
    """How often spans of 1, 2, ... words are drawn: geometric, cut off behind the longest, of the mean nearest to this one."""
    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        kept = (low + high) / 2  # share of each length against the one before
        weights = [kept**k for k in range(LONGEST_SPAN)]
        reached = sum(k * weight for k, weight in enumerate(weights, 1)) / sum(weights)
        low, high = (low, kept) if reached > mean else (kept, high)
    return [weight / sum(weights) for weight in weights]


def _shown(
    batch: Batch, places: Tensor, draws: list[torch.Generator], config: ObjectiveConfig, vocabulary: Vocabulary
) -> Tensor:
    """(B, K) pieces that stand in the places of those that are asked for."""
    kinds = torch.stack([torch.rand(places.shape[1], generator=draw) for draw in draws])
    ordinary = torch.ones(vocabulary.size, dtype=torch.bool)
    ordinary[list(vocabulary.special)] = False
    pieces = ordinary.nonzero()[:, 0]
    others = pieces[torch.stack([torch.randint(len(pieces), places.shape[1:], generator=draw) for draw in draws])]
    kept = batch.input_ids.gather(1, places.clamp(min=0))
    shown = torch.where(kinds < config.masked + config.random, others, kept)
    return shown.masked_fill(kinds < config.masked, vocabulary.mask)


def asked(batch: Batch, places: Tensor, shown: Tensor) -> Question:
    """The batch with the pieces (B, K) standing in the (B, K) places, -1 for a slot that is unused."""
    used, ids = places >= 0, batch.input_ids.clone()
    places = places.clamp(min=0)
    targets = batch.input_ids.gather(1, places).masked_fill(~used, IGNORED)
    rows = torch.arange(len(ids))[:, None].expand_as(places)
    ids[rows[used], places[used]] = shown[used]
    return Question(replace(batch, input_ids=ids), places, targets, max(1, int(used.sum())), len(ids))
