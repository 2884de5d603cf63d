"""Bytes that autograd keeps of a forward pass for the backward one; every module states its own as `activation_bytes`.

They are worked out operator by operator, for float32 on CPU in training mode and a text without padding. Each storage counts
once, and what a module keeps includes its input where a product needs it. Parameters and the batch are left out. None means
that nobody has worked it out.
"""

from collections.abc import Iterable

FLOAT, INTEGER, BOOLEAN = 4, 8, 1
"""Bytes of one element."""


def total(parts: Iterable[int | None]) -> int | None:
    """The sum; None where a part is None."""
    known = list(parts)
    return None if None in known else sum(known)
