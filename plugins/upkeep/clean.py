"""Removes files that no run needs: unused data, launches of old timing sessions, temporary files; asks first.

python -m harness clean [output=multirun] [--dry-run] [--yes]
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness import paths
from harness.errors import InputError
from harness.plugins.upkeep import leftovers
from harness.plugins.upkeep.options import Clean
from harness.terminal import scaled, table

MOST = 40
"""Lines of the list; the others are summed up."""


def main(options: Clean) -> int:
    """0, also where nothing is to be removed; 1 where the answer was no, or something stays.

    InputError for a folder that the harness has not made, and while a command runs in it.
    """
    output = Path(options.output)
    if not paths.is_ours(output):
        raise InputError(f"output={options.output!r} was not made by the harness: expected the `output` of a run")
    with alone(paths.made(output)):
        unused = leftovers.find(output)
    if not unused:
        print(f"nothing to remove in {options.output}")
        return 0
    print(_listed(unused, output))
    print(f"{len(unused)} files and folders, {_size(unused)}")
    if options.dry_run:
        return 0
    if not confirmed(options.yes, "clean"):
        return 1
    with alone(output):
        still = {leftover.path for leftover in leftovers.find(output)}  # a run may have begun meanwhile
        unused = [leftover for leftover in unused if leftover.path in still]
        left = [leftover for leftover in unused if not leftovers.remove(leftover)]
    print(f"removed {_size(leftover for leftover in unused if leftover not in left)}")
    for leftover in left:
        print(f"could not be removed: {leftover.path}")
    return 1 if left else 0


def confirmed(yes: bool, command: str) -> bool:
    """Whether the user agrees; InputError where nobody can be asked."""
    if not yes and not sys.stdin.isatty():
        raise InputError(f"{command} asks for confirmation, but stdin is not a terminal: add --yes")
    agrees = yes
    with contextlib.suppress(EOFError):  # Ctrl-D is no
        agrees = yes or input(f"{command} them? [y/N] ").strip().lower() in ("y", "yes")
    if not agrees:
        print("nothing was removed")
    return agrees


@contextlib.contextmanager
def alone(output: Path) -> Iterator[None]:
    """InputError where a command runs in the folder; those that begin meanwhile wait."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(paths.in_use(output, alone=True))
        except BlockingIOError as error:
            raise InputError(f"output={str(output)!r} is in use by a running command: wait until it ends") from error
        yield


def _size(unused: Iterable[leftovers.Leftover]) -> str:
    return scaled(sum(leftover.size for leftover in unused), "B")


def _listed(unused: list[leftovers.Leftover], output: Path) -> str:
    largest = sorted(unused, key=lambda leftover: -leftover.size)
    rows = [(str(it.path.relative_to(output.absolute())), scaled(it.size, "B"), it.why) for it in largest[:MOST]]
    if len(largest) > MOST:
        rows.append((f"{len(largest) - MOST} smaller ones", _size(largest[MOST:]), ""))
    return table(("path", "size", "reason"), rows, "lrl")
