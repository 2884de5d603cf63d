"""Receptive field of the layers in tokens, from the config alone; classes of other packages state their own."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

from harness.models.config import Body, EncoderConfig, Position, Sharing, class_of


@dataclass(frozen=True)
class Reach:
    """Tokens to the right and to the left at most; a `hub` is a token that sees all and is seen by all.

    `once` of those to the right count once for all layers: within a segment, whose borders are those of every layer.
    """

    rightwards: float
    leftwards: float
    hub: bool = False
    once: float = 0

    def then(self, other: "Reach") -> "Reach":
        """Receptive field layer by layer: two layers with a hub connect all tokens, one to the hub and one from it."""
        if self.hub and other.hub:
            return Reach(math.inf, math.inf, hub=True)
        once = min(self.once, other.once)
        return Reach(self.rightwards + other.rightwards - once, self.leftwards + other.leftwards, self.hub or other.hub, once)


NOWHERE, EVERYWHERE = Reach(0, 0), Reach(math.inf, math.inf)

ADDED_OR_NONE = (Position.learned, Position.sinusoidal, Position.none)
"""Positions that attention does not use: they are added to the embeddings, or there are none."""


def receptive_field(config: EncoderConfig) -> Reach:
    """Receptive field of all layers."""
    if config.layers is not None or config.encoder is not None:
        return _stated(config, "receptive_field", EVERYWHERE)
    if config.body is not Body.transformer:
        return NOWHERE if config.body is Body.static else EVERYWHERE
    return reduce(Reach.then, (of_layer(config, number) for number in attentions(config)))


def attentions(config: EncoderConfig) -> list[int]:
    """Number of the attention that each layer runs."""
    of_their_own = config.sharing is Sharing.feed_forward
    return [layer if of_their_own else config.group_of(layer) for layer in range(config.depth)]


def of_layer(config: EncoderConfig, number: int) -> Reach:
    """Receptive field of the attention of this number."""
    if config.attention is not None:
        return _stated(config, "receptive_field", EVERYWHERE)
    if config.position is Position.disentangled:
        return EVERYWHERE
    if config.position is not Position.relative:
        window = config.window_of(number)
        side = math.inf if window is None else window // 2
        return Reach(side, 0 if config.causal else side, hub=bool(config.global_tokens))
    if config.segment_length is None or not config.causal:
        return Reach(math.inf, 0) if config.causal else EVERYWHERE
    # from the end of its segment to the beginning of the memory; a further layer adds only whole segments, as tokens of one
    # segment all read from one place on
    reach = config.segment_length - 1 + config.memory_length
    further = -(-config.memory_length // config.segment_length) * config.segment_length
    return Reach(reach, 0, once=reach - further)


def depends_on_order(config: EncoderConfig) -> bool:
    """Whether the output depends on the order of the tokens, not only on their set."""
    if (
        config.layers is not None
        or config.encoder is not None
        or (config.body is Body.transformer and config.attention is not None)
    ):
        return _stated(config, "depends_on_order", True)
    if config.body is not Body.transformer:
        return config.body is not Body.static
    windowed = any(config.window_of(number) is not None for number in attentions(config))
    return config.causal or windowed or config.position not in ADDED_OR_NONE


def _stated(config: EncoderConfig, name: str, default: Any) -> Any:
    """What the class of another package says of itself."""
    key = next(key for key in ("encoder", "layers", "attention") if getattr(config, key) is not None)
    return getattr(class_of(key, getattr(config, key)), name, default)
