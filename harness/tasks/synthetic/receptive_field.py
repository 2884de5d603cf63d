"""What the one vector that a text is pooled to can know of the text, read from a variant's shape alone.

Windowed attention carries information half a window a layer, causal attention to the right only; a global token sees and is
seen by all; an LSTM of two directions and an encoder-decoder carry it everywhere; static vectors stay where they are.
"""

import math
from dataclasses import dataclass

from harness.tasks.synthetic.base import Theory
from models.config import Body, EncoderConfig, Pooling, Position


@dataclass(frozen=True)
class Reach:
    """Tokens that information travels to the right and to the left through all layers, at most."""

    rightwards: float
    leftwards: float


def reach_of(model: EncoderConfig) -> Reach:
    """Of any token that is not global."""
    if model.body is Body.static:
        return Reach(0, 0)
    if model.body is not Body.transformer:
        return Reach(math.inf, math.inf)
    windows = [model.window_of(layer) for layer in range(model.depth)]
    through_global = model.global_tokens > 0 and model.depth > 1
    far = math.inf if None in windows or through_global else sum(window // 2 for window in windows)
    return Reach(far, 0 if model.causal else far)


def travels(model: EncoderConfig, theory: Theory) -> tuple[float, int, int]:
    """(reach towards the pooled vector, fewest and most tokens that what decides must travel).

    A mean or maximum takes every token, so that one token in the middle which sees all is enough; nothing is then ever wholly
    out of sight.
    """
    reach = reach_of(model)
    if model.pooling is Pooling.cls:
        seen = math.inf if model.global_tokens > 0 else reach.leftwards
        return seen, theory.to_first.least, theory.to_first.most
    if model.pooling is Pooling.last:
        return reach.rightwards, theory.to_last.least, theory.to_last.most
    return reach.leftwards + reach.rightwards, 0, theory.span


def is_order_free(model: EncoderConfig) -> bool:
    """Whether any order of the same words gives the same answer.

    Without positions attention is a function of a set, unless it is causal or windowed; the mean of static vectors with
    positions added is the sum of two bags, unless a norm mixes word and position before.
    """
    if model.body is Body.static and model.pooling is Pooling.mean:
        return model.position is Position.none or not model.embedding_norm
    if model.body is Body.static:
        return model.position is Position.none and model.pooling is Pooling.max
    blind = model.body is Body.transformer and model.position is Position.none
    return blind and not model.causal and model.attention_window is None


def is_linear(model: EncoderConfig) -> bool:
    """Whether the answer is a weighted count of words: the mean of static vectors under the classifier alone."""
    return is_order_free(model) and model.body is Body.static and model.pooling is Pooling.mean and model.pooler is None
