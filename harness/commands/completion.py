"""`harness -sc install=bash` and the queries of the shell: Hydra's completion of keys and choices, and our commands."""

import os

from harness.commands import COMMANDS
from harness.config import compose

LINE = "COMP_LINE"
"""Variable in which a shell passes the command line so far."""


def main(arguments: list[str]) -> int:
    """Prints what the last word may become; 0."""
    line = os.environ.get(LINE, "")
    _, _, rest = line.partition(" ")
    first, space, others = rest.lstrip().partition(" ")
    if space and first in COMMANDS:  # Hydra does not know commands
        os.environ[LINE] = f"harness {others}"
    elif line and not space:
        for name in COMMANDS:
            if name.startswith(first):
                print(name)
    return compose.main(arguments, lambda runs: 0)
