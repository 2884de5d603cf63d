"""Named random streams: what one stream draws never shifts another, and a step's draws depend on the step alone."""

import hashlib


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for the stream of this name, the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
