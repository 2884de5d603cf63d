"""How far information travels through layers, in tokens; attention and bodies state theirs as `receptive_field`."""

import math
from dataclasses import dataclass


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
        """Reach of one layer after the other: two hubs carry everything everywhere, one layer to the hub and one from it."""
        if self.hub and other.hub:
            return Reach(math.inf, math.inf, hub=True)
        once = min(self.once, other.once)
        rightwards = self.rightwards + other.rightwards - once
        return Reach(rightwards, self.leftwards + other.leftwards, self.hub or other.hub, once)


NOWHERE, EVERYWHERE = Reach(0, 0), Reach(math.inf, math.inf)
