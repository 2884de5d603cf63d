"""`run` where torchrun has started the command in several processes: the first one leads, the others follow."""

from harness.commands import run
from harness.hardware import outer_launcher
from harness.study import ranks


def main(arguments: list[str]) -> int:
    """0 when every run finished, 1 when one failed; of a command that follows 0. InputError for a wrong input."""
    return ranks.lead(lambda: run.main(arguments)) if outer_launcher.number() == 0 else ranks.follow()
