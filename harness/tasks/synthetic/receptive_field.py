"""Which tokens can influence the pooled vector of a text: the receptive field that the modules of a variant state."""

import functools
import math
from dataclasses import fields
from typing import TYPE_CHECKING

from harness.tasks.synthetic.base import Theory
from models.config import Body, EncoderConfig, Pooling

if TYPE_CHECKING:
    from models.encoder import Encoder
    from models.reach import Reach


def reach_of(model: EncoderConfig) -> "Reach":
    """Receptive field, through all layers, of a token that is not global."""
    return _encoder(model).layers.receptive_field


def _encoder(model: EncoderConfig) -> "Encoder":
    """The encoder without weights, cached because several properties of one shape are read."""
    return _built(tuple(getattr(model, field.name) for field in fields(EncoderConfig)))


@functools.lru_cache(maxsize=8)
def _built(values: tuple) -> "Encoder":
    from models.encoder import Encoder, without_values  # torch takes seconds to import, and only generated tasks need it

    with without_values():
        return Encoder(EncoderConfig(*values))


def reach_and_distance(model: EncoderConfig, theory: Theory) -> tuple[float, int, int]:
    """Receptive field of the pooled vector in tokens, and the minimum and maximum distance of the deciding words from it.

    Mean and max pooling read every token: there one token between the deciding words that reaches all of them is enough. Where
    a word is labelled, the field is that of its own vector.
    """
    reach = reach_of(model)
    if theory.to_right is not None:
        return reach.leftwards, theory.to_right.least, theory.to_right.most
    if model.pooling is Pooling.cls:
        return math.inf if reach.hub else reach.leftwards, theory.to_first.least, theory.to_first.most
    if model.pooling is Pooling.last:
        return reach.rightwards, theory.to_last.least, theory.to_last.most
    return reach.leftwards + reach.rightwards, 0, theory.span


def is_order_free(model: EncoderConfig) -> bool:
    """Whether the pooled vector is invariant to the order of the words.

    Without positions attention is permutation-invariant, unless it is causal or windowed. The mean of static vectors with
    added positions is the sum of two bags, unless a norm mixes word and position first.
    """
    encoder = _encoder(model)
    if encoder.layers.depends_on_order:
        return False
    if model.body is not Body.static:
        return not encoder.embeddings.adds_positions
    if model.pooling is Pooling.mean:
        return not encoder.embeddings.adds_positions or encoder.embeddings.norm is None
    return not encoder.embeddings.adds_positions and model.pooling is Pooling.max


def is_linear(model: EncoderConfig) -> bool:
    """Whether the logits are a weighted count of words: the mean of static vectors with a linear classifier.

    A norm of the mean is no linear function of it. A norm of word and type together weighs a word in each sentence anew.
    """
    normed = model.pooler_norm or (model.embedding_norm and model.type_vocab_size > 1)
    plain = model.pooler is None and not normed
    return is_order_free(model) and model.body is Body.static and model.pooling is Pooling.mean and plain
