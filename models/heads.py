"""The heads above an encoder, and the mask decoder before one. B sequences, T tokens, D hidden, C outputs."""

import copy
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from harness.models.batch import Batch, as_batch
from harness.models.config import EncoderConfig, Pooling, Position
from harness.models.encoder import Encoder, initialise, looked_up, seeded, without_values
from harness.models.foreign import Foreign, make_encoder
from harness.models.layers import ACTIVATIONS
from harness.models.losses import IGNORED
from harness.models.norms import Dropout, make_norm
from harness.models.stack import Stack

PASSES = 2
"""Number of runs of the last layer in the decoder, as in the paper."""


class MaskDecoder(nn.Module):
    """Adds absolute positions before masked tokens are predicted (DeBERTa, arXiv:2006.03654, section 3.2).

    It runs the encoder's last layer again, with its weights: queries include absolute positions, keys and values are the
    layer's inputs. Only the table of positions is new.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.position_embedding = nn.Embedding(config.longest_text, config.hidden_size)

    def forward(self, encoder: Encoder, keys: Tensor, batch: Batch) -> Tensor:
        """(B, T, D) that the last layer reads -> (B, T, D); ValueError for a text longer than the table."""
        stack = cast(Stack, encoder.layers)
        context, (attention, feed_forward) = stack.context(batch), stack.execution_order()[-1]
        query = keys + looked_up(self.position_embedding, batch)
        for _ in range(PASSES):
            query = stack.through(lambda query: feed_forward(attention(keys, context, query)), query)
        return query if stack.norm is None else stack.norm(query)

    def flops(self, encoder: Encoder, length: int) -> int:
        """FLOPs of one text."""
        attention, feed_forward = cast(Stack, encoder.layers).execution_order()[-1]
        return PASSES * (attention.attention.flops(length) + feed_forward.feed_forward.flops(length))


def make_mask_decoder(config: EncoderConfig) -> MaskDecoder | None:
    """None where the config has none."""
    return MaskDecoder(config) if config.position is Position.disentangled and config.mask_decoder else None


POOLED = {
    Pooling.cls: "first token",
    Pooling.last: "last real token",
    Pooling.mean: "mean of the real tokens",
    Pooling.max: "maximum of the real tokens",
}
"""Name of a pooling in descriptions of models."""


def pool(hidden: Tensor, mask: Tensor | None, pooling: Pooling) -> Tensor:
    """(B, T, D) and the (B, T) mask of real tokens -> (B, D)."""
    if pooling is Pooling.cls:
        return hidden[:, 0]
    if mask is None:
        mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if pooling is Pooling.last:
        last = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
        return hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[-1]))[:, 0]
    if pooling is Pooling.mean:
        return (hidden * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return hidden.masked_fill(~mask[..., None], float("-inf")).amax(dim=1)


class Pooler(nn.Module):
    """One vector a text, through a dense layer where the variant has one (arXiv:1810.04805, section 3.1)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.pooling = config.pooling
        size = config.hidden_size
        self.dense = None if config.pooler is None else nn.Linear(size, size, bias=config.pooler_bias)
        self.non_linearity = config.pooler
        self.norm = make_norm(config, size) if config.pooler_norm else None
        self.size = size

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) and the (B, T) mask of real tokens -> (B, D)."""
        pooled = pool(hidden, mask, self.pooling)
        if self.dense is not None and self.non_linearity is not None:
            pooled = ACTIVATIONS[self.non_linearity](self.dense(pooled))
        return pooled if self.norm is None else self.norm(pooled)

    def flops(self) -> int:
        """FLOPs of one text."""
        return 0 if self.dense is None else 2 * self.dense.weight.numel()


class MaskedHead(nn.Module):
    """Scores over the vocabulary for masked tokens, from what is `read`. Abstract."""

    decoder: MaskDecoder | None
    output: Any  # with the size of the vocabulary as `out_features`

    def read(self, encoder: Encoder, batch: Batch) -> tuple[Tensor, Tensor]:
        """Hidden states of the encoder, and those that this head scores, each (B, T, D): the same without a mask decoder."""
        if self.decoder is None:
            hidden = encoder(batch)
            return hidden, hidden
        *_, before, hidden = encoder.hidden_states(batch)
        return hidden, self.decoder(encoder, before, batch)

    @abstractmethod
    def flops(self) -> int:
        """FLOPs of one token, without the mask decoder."""

    def flops_of_decoder(self, encoder: Encoder, length: int) -> int:
        """FLOPs of the mask decoder on one text."""
        return 0 if self.decoder is None else self.decoder.flops(encoder, length)


class MaskedLMHead(MaskedHead):
    """Scores over the vocabulary: dense, non-linearity and norm at the embedding size, then the token embedding again.

    What it scores is `read`: hidden states of the encoder, or of a mask decoder on it.
    """

    output: nn.Linear

    def __init__(self, config: EncoderConfig, embedding: nn.Embedding, decoder: MaskDecoder | None = None) -> None:
        super().__init__()
        width = config.embedding_width
        self.dense = nn.Linear(config.hidden_size, width)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.norm = make_norm(config, width)
        self.output = nn.Linear(width, config.vocab_size)
        if config.tie_masked_lm_head:
            self.output.weight = embedding.weight
        self.decoder = decoder

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V) logits."""
        return self.output(self.norm(self.activation(self.dense(hidden))))

    def flops(self) -> int:
        """FLOPs of one token, without the mask decoder."""
        return 2 * (self.dense.weight.numel() + self.output.weight.numel())


class ForeignMaskedHead(MaskedHead):
    """Scores over the vocabulary by the head for masked tokens of the encoder's package, `make_masked_head` of its class."""

    decoder = None
    is_foreign = True  # it gives its parameters their first values itself, as the encoder does

    def __init__(self, encoder: Foreign) -> None:
        super().__init__()
        body: Any = encoder.body
        self.model = body.make_masked_head(body)
        self.output = SimpleNamespace(out_features=encoder.config.vocab_size)
        self._size, self._flops = encoder.config.hidden_size, 0

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V) logits."""
        return self.model(hidden.reshape(1, -1, hidden.shape[-1])).reshape(*hidden.shape[:-1], -1)

    def flops(self) -> int:
        """FLOPs of one token, counted."""
        if not self._flops:
            shapes = copy.deepcopy(self.model).to("meta")
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                shapes(torch.zeros(1, 1, self._size, device="meta"))
            self._flops = counter.get_total_flops()
        return self._flops


def make_masked_head(config: EncoderConfig, encoder: Encoder) -> MaskedHead:
    """The masked-LM head of the encoder's package if it has one, else the native one."""
    if isinstance(encoder, Foreign) and hasattr(encoder.body, "make_masked_head"):
        return ForeignMaskedHead(encoder)
    return MaskedLMHead(config, encoder.embeddings.token_embedding, make_mask_decoder(config))


class PlainLMHead(nn.Module):
    """Scores over the vocabulary by one matrix alone, as in T5 (arXiv:1910.10683, section 2.1).

    Where it is the token embedding, it reads hidden states over the root of their size, as published weights are computed.
    """

    def __init__(self, config: EncoderConfig, embedding: nn.Embedding) -> None:
        super().__init__()
        self.output = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.scale = 1.0
        if config.tie_masked_lm_head:
            self.output.weight, self.scale = embedding.weight, config.hidden_size**-0.5

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V) logits."""
        return self.output(hidden * self.scale)

    def flops(self) -> int:
        """FLOPs of one token."""
        return 2 * self.output.weight.numel()


class Classifier(nn.Module, ABC):
    """Encoder and a head: one linear output on texts or on tokens, or none. Abstract."""

    class_weights: Tensor | None  # (C,) of the loss

    def __init__(self, config: EncoderConfig, num_outputs: int = 0) -> None:
        super().__init__()
        self.encoder = make_encoder(config)
        self.pooler: Pooler | None = None
        self.head: nn.Linear | None = None
        self.register_buffer("class_weights", None, persistent=False)

    def forward(self, inputs: Batch | Tensor) -> Tensor:
        """Batch, or (B, T) ids without padding -> what `of_hidden` gives."""
        batch = as_batch(inputs)
        return self.of_hidden(self.encoder(batch), batch)

    @abstractmethod
    def of_hidden(self, hidden: Tensor, batch: Batch) -> Tensor:
        """(B, T, D) of the last layer -> the output."""

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """() mean over the labels."""

    @abstractmethod
    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text of `length` tokens, by the shapes of all matrix products."""


class _WithOutput(Classifier):
    """With dropout and one linear output. Abstract."""

    pools: ClassVar[bool] = False
    head: nn.Linear

    def __init__(self, config: EncoderConfig, num_outputs: int) -> None:
        super().__init__(config)
        self.pooler = Pooler(config) if self.pools else None
        own = config.classifier_dropout
        self.dropout = Dropout(config.hidden_dropout_prob if own is None else own)
        self.head = nn.Linear(config.hidden_size, num_outputs, bias=config.classifier_bias)


class SequenceClassifier(_WithOutput):
    """Encoder, pooler and one linear output: (B, C) logits, or (B, 1) scores of a regression."""

    pools = True
    pooler: Pooler

    def of_hidden(self, hidden: Tensor, batch: Batch) -> Tensor:
        """(B, T, D) of the last layer -> (B, C)."""
        return self.head(self.dropout(self.pooler(hidden, batch.attention_mask)))

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy in nats over classes, times their weights, squared error for a regression; mean over the batch."""
        if self.head.out_features == 1:
            return F.mse_loss(logits.squeeze(-1).float(), labels)
        if self.class_weights is None:
            return F.cross_entropy(logits.float(), labels)
        return F.cross_entropy(logits.float(), labels, self.class_weights, reduction="none").mean()

    def flops(self, length: int) -> int:
        return self.encoder.flops(length) + self.pooler.flops() + 2 * self.head.weight.numel()


class ChoiceClassifier(SequenceClassifier):
    """A score for each text by one linear output: (B / group, group) logits over the texts of an item."""

    def of_hidden(self, hidden: Tensor, batch: Batch) -> Tensor:
        """(B, T, D) of the last layer -> (B / group, group)."""
        return super().of_hidden(hidden, batch).view(-1, batch.group)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy in nats over the texts of an item, mean over the items."""
        return F.cross_entropy(logits.float(), labels)


class TokenClassifier(_WithOutput):
    """Encoder and one linear output on every token: (B, T, C) logits; start and end of a span are `span_loss`'s."""

    def of_hidden(self, hidden: Tensor, batch: Batch) -> Tensor:
        """(B, T, D) of the last layer -> (B, T, C)."""
        return self.head(self.dropout(hidden))

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy in nats, mean over the tokens of the (B, T) labels that are not IGNORED; 0 where all are."""
        labelled, (logits, labels) = (labels != IGNORED).sum().clamp(min=1), (logits.float().flatten(0, 1), labels.flatten())
        return F.cross_entropy(logits, labels, self.class_weights, ignore_index=IGNORED, reduction="sum") / labelled

    def flops(self, length: int) -> int:
        return self.encoder.flops(length) + 2 * length * self.head.weight.numel()


class TextVectors(Classifier):
    """Encoder and, of length 1, its last hidden states pooled over the real tokens: products are cosines."""

    def of_hidden(self, hidden: Tensor, batch: Batch) -> Tensor:
        """(B, T, D) of the last layer -> (B, D)."""
        return F.normalize(pool(hidden, batch.attention_mask, self.encoder.config.vector_pooling).float(), dim=-1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """NotImplementedError: vectors of texts are compared in pairs, by `losses.in_batch_loss`."""
        raise NotImplementedError

    def flops(self, length: int) -> int:
        return self.encoder.flops(length)


def span_loss(logits: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of the cross-entropies in nats of start and end over all real tokens (arXiv:1810.04805, section 4.2).

    (B, T, 2) logits, (B, 2) places of start and end, (B, T) mask of real tokens -> ().
    """
    return F.cross_entropy(span_scores(logits, mask), labels.flatten())


def span_scores(logits: Tensor, mask: Tensor | None) -> Tensor:
    """(B, T, 2) logits and the (B, T) mask of real tokens -> (2 B, T), minus infinity where a token is padding."""
    scores = logits.float() if mask is None else logits.float().masked_fill(~mask[..., None], float("-inf"))
    return scores.transpose(1, 2).flatten(0, 1)


def on_meta(config: EncoderConfig, num_outputs: int, head: type[Classifier] = SequenceClassifier) -> Classifier:
    """The classifier on the meta device, without values."""
    with without_values():
        return head(config, num_outputs)


def build_classifier(
    config: EncoderConfig, num_outputs: int, seed: int, head: type[Classifier] = SequenceClassifier
) -> Classifier:
    """A classifier on CPU, randomly initialised from `seed`."""
    with seeded(seed):
        model = head(config, num_outputs)
    initialise(model, config.initializer_range, seed, config.init, config.init_depth)
    return model
