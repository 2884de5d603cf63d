"""Span corruption: an encoder reads a text without some spans, which a decoder writes (arXiv:1910.10683, 3.1.4 and 3.3.4).

B sequences, T tokens, N of the inputs, M of the targets, D hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.decoder import EncoderDecoder
from harness.models.heads import PlainLMHead
from harness.models.losses import IGNORED
from harness.models.objectives.base import PretrainBatch
from harness.models.objectives.config import ObjectiveConfig
from harness.models.objectives.masked_lm import LanguageModel
from harness.models.objectives.masking import num_predictions

FRAME = 2
"""The first and the last token of a sequence, which are in no span."""


class SpanCorruption(LanguageModel):
    """Each span is one sentinel in the inputs; the targets are the spans, each behind its sentinel, and a final sentinel.

    A sequence of one length has inputs and targets of one length: no padding. A separator between documents is
    text here and may be in a span. The decoder reads the targets one step late, behind the padding token; what else it reads of
    its own text is what is before: it is causal.
    """

    head, part = PlainLMHead, "span"

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """An architecture without a decoder, or whose output matrix would be a table of another width."""
        factorised = shape.tie_masked_lm_head and shape.embedding_width != shape.hidden_size
        decoder = "it needs a decoder, as model=t5_full and model=encoder_decoder have one"
        return {
            f"body={shape.body.value}: {decoder}": shape.body is not Body.encoder_decoder,
            f"embedding_size={shape.embedding_width}": factorised,
        }

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """Inputs (B, N) and targets (B, M), each row from its seed alone. ValueError for too few sentinels."""
        length, sentinels = batch.input_ids.shape[1], self.vocabulary.sentinels
        refuse_few_sentinels(self._config, length, len(sentinels))
        spans = Spans.of(length, self._config)
        sentinels = sentinels[: spans.sentinels]
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        rows = [
            corrupted(ids, spans.sample(generator), sentinels)
            for ids, generator in zip(batch.input_ids, generators, strict=True)
        ]
        ids, targets = (torch.stack(part) for part in zip(*rows, strict=True))
        positions = torch.arange(targets.shape[1]).repeat(len(targets), 1)
        return PretrainBatch(
            replace(batch, input_ids=ids, token_type_ids=None), positions, targets, targets.numel(), len(targets)
        )

    def states(self, batch: PretrainBatch) -> Tensor:
        """(B, M, D) of the decoder, each from the inputs and the targets before its own."""
        start = self.vocabulary.pad
        shifted = F.pad(batch.targets[:, :-1], (1, 0), value=start)
        late, embeddings = Batch(shifted.masked_fill(shifted == IGNORED, start)), self.encoder.embeddings
        return cast(EncoderDecoder, self.encoder.layers).translated(
            embeddings(batch.inputs), batch.inputs, embeddings(late), late
        )

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one sequence: of its inputs in the encoder, and of its targets in the decoder."""
        spans, embeddings = Spans.of(length, self._config), self.encoder.embeddings
        body = cast(EncoderDecoder, self.encoder.layers)
        inputs, targets = length - spans.noise + spans.count, spans.noise + spans.sentinels
        tables = embeddings.flops(inputs) + embeddings.flops(targets)
        return tables + body.encoder.flops(inputs) + body.decoder.flops(targets, inputs) + targets * self.lm_head.flops()


@dataclass(frozen=True)
class Spans:
    """How many tokens of a text of one length are in spans, and how many spans there are."""

    text: int  # tokens, the frame left out
    noise: int  # of them in spans
    count: int

    @classmethod
    def of(cls, length: int, config: ObjectiveConfig) -> Self:
        """The spans of a sequence with its frame; at least one token stays between two spans, and before the first one."""
        text = length - FRAME
        noise = min(num_predictions(config.noise_density, text), text - 1)
        return cls(text, noise, max(1, min(round(noise / config.mean_noise_span_length), noise, text - noise)))

    @property
    def sentinels(self) -> int:
        """One a span, and the final one."""
        return self.count + 1

    def sample(self, generator: torch.Generator) -> list[int]:
        """Lengths of what stays and of a span in turn, uniform among those with these sums; the text ends with a span."""
        kept, noise = (_lengths(total, self.count, generator) for total in (self.text - self.noise, self.noise))
        return [*chain.from_iterable(zip(kept, noise, strict=True))]


def refuse_few_sentinels(config: ObjectiveConfig, length: int, available: int) -> None:
    """ValueError where the vocabulary has fewer sentinels than the spans of a sequence of this length need."""
    needed = Spans.of(length, config).sentinels
    if available < needed:
        raise ValueError(
            f"pretrain.objective=span_corruption needs {needed} sentinels for {length} tokens, the tokenizer has {available}: "
            f"set tokenizer.sentinels={needed}, or give a tokenizer.file with <extra_id_0> to <extra_id_{needed - 1}>"
        )


def _lengths(total: int, count: int, generator: torch.Generator) -> list[int]:
    """So many positive numbers with this sum."""
    cuts = 1 + torch.randperm(total - 1, generator=generator)[: count - 1].sort().values
    return torch.tensor([0, *cuts, total]).diff().tolist()


def corrupted(ids: Tensor, lengths: list[int], sentinels: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(T,) ids -> (N,) inputs in the frame, and (M,) targets; `lengths` of what stays and of a span in turn."""
    begin, *parts, end = ids.split([1, *lengths, 1])
    *marks, final = ids.new_tensor(sentinels).split(1)
    kept, spans = parts[::2], parts[1::2]
    inputs = [begin, *chain.from_iterable(zip(kept, marks, strict=True)), end]
    return torch.cat(inputs), torch.cat([*chain.from_iterable(zip(marks, spans, strict=True)), final])
