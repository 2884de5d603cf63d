"""The shapes that a variant may be resized to, in steps, and the one of them whose cost is nearest to the baseline's."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.config.choices import MatchBy
from harness.config.schema import ModelConfig
from harness.errors import InputError
from models.choices import Position
from models.keys import refuse_unread, unmet

FEED_FORWARD_STEP = 8
"""Of a feed-forward width: the multiple that gated ones are rounded to."""

LARGEST = 64
"""Times the published value up to which a key is raised."""

OTHER_WIDTHS = ("intermediate_size", "feed_forward_size", "head_size")
"""Keys that a width takes along, in proportion."""


def keys_of(by: MatchBy) -> tuple[str, ...]:
    """Keys of a model that may change with this one."""
    return (by.value, *OTHER_WIDTHS) if by is MatchBy.hidden_size else (by.value,)


@dataclass(frozen=True)
class Ladder:
    """The shapes of one variant, by the number of steps: a key has that many times its step."""

    model: ModelConfig  # as published
    by: MatchBy

    def __post_init__(self) -> None:
        """InputError for a key that the variant does not read."""
        try:
            refuse_unread(self.model, [self.by.value])
        except ValueError as error:
            raise InputError(f"match.by={self.by.value}: {error}; set match.by to another key") from error
        if self.by is MatchBy.intermediate_size and self.model.feed_forward_size is not None:
            raise InputError("match.by=intermediate_size: model.feed_forward_size sets the width; set match.by to another key")

    @property
    def published(self) -> int:
        """Value of the key as published."""
        return getattr(self.model, self.by.value)

    @functools.cached_property
    def step(self) -> int:
        """Of the key: heads divide a width, and rotary positions need even heads, LSTMs an even width."""
        if self.by is MatchBy.num_hidden_layers:
            return 1
        if self.by is MatchBy.intermediate_size:
            return FEED_FORWARD_STEP
        heads = self.model.num_attention_heads if self.model.head_size is None else 1
        return heads * 2 if self.model.position is Position.rotary else math.lcm(heads, 2)

    @property
    def most(self) -> int:
        """Steps of the largest shape."""
        return LARGEST * max(1, math.ceil(self.published / self.step))

    def keys(self, steps: int) -> dict[str, int]:
        """Key of the model -> value of this shape, of the keys that the variant reads."""
        value = steps * self.step
        found = {self.by.value: value}
        if self.by is MatchBy.hidden_size:
            for key in keys_of(self.by)[1:]:
                size = getattr(self.model, key)
                if size is not None and not unmet(self.model, key):
                    found[key] = max(1, round(size * value / self.published))
        return found

    def shape(self, steps: int) -> ModelConfig | None:
        """None for one that cannot be, such as one with fewer layers than groups of them."""
        try:
            return replace(self.model, **self.keys(steps))
        except ValueError:
            return None


def nearest(ladder: Ladder, cost: Callable[[ModelConfig], float], target: float) -> int:
    """Steps of the shape whose cost is nearest to the target in ratio: costs rise with the steps."""

    @functools.cache
    def of(steps: int) -> float:
        shape = ladder.shape(steps)
        return -math.inf if shape is None else cost(shape)

    low, high = 0, max(1, round(ladder.published / ladder.step))
    while of(high) < target and high < ladder.most:
        low, high = high, min(2 * high, ladder.most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if of(middle) < target else (low, middle)
    possible = [steps for steps in (low, high) if steps and of(steps) > 0]
    return min(possible, key=lambda steps: abs(math.log(of(steps) / target)))
