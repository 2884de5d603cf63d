"""What the pooled vector of a text can know of the text, from what the modules of a variant state."""

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
    """Of any token that is not global, through all layers."""
    return _encoder(model).layers.receptive_field


def _encoder(model: EncoderConfig) -> "Encoder":
    """Its modules without weights; kept, because several properties of the same shape are read."""
    return _built(tuple(getattr(model, field.name) for field in fields(EncoderConfig)))


@functools.lru_cache(maxsize=8)
def _built(values: tuple) -> "Encoder":
    import torch  # here, because it takes seconds to import, and only generated tasks need it

    from models.encoder import Encoder

    with torch.device("meta"):
        return Encoder(EncoderConfig(*values))


def travels(model: EncoderConfig, theory: Theory) -> tuple[float, int, int]:
    """(reach towards the pooled vector, fewest and most tokens that what decides must travel).

    A mean or maximum takes every token, so that one token in the middle that reads all is enough.
    """
    reach = reach_of(model)
    if model.pooling is Pooling.cls:
        return math.inf if reach.hub else reach.leftwards, theory.to_first.least, theory.to_first.most
    if model.pooling is Pooling.last:
        return reach.rightwards, theory.to_last.least, theory.to_last.most
    return reach.leftwards + reach.rightwards, 0, theory.span


def is_order_free(model: EncoderConfig) -> bool:
    """Whether any order of the same words gives the same answer.

    Without positions attention is a function of a set, unless it is causal or windowed; the mean of static vectors with
    positions added is the sum of two bags, unless a norm mixes word and position before.
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
    """Whether the answer is a weighted count of words: the mean of static vectors under the classifier alone."""
    return is_order_free(model) and model.body is Body.static and model.pooling is Pooling.mean and model.pooler is None
