"""The environment of a command that torchrun, or another launcher with the same variables, has started in several processes."""

import os


def processes() -> int:
    """Processes of the launcher on all hosts; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def number() -> int:
    """Number of this process among them; the first one, 0, plans and tracks."""
    return int(os.environ.get("RANK", "0")) if processes() > 1 else 0


def processes_here() -> int:
    """Processes of the launcher on this host."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if processes() > 1 else 1
