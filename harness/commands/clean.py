"""Removes what no run needs: unused data, launches of old timing sessions, torn and temporary files; asks first.

python -m harness clean [output=multirun] [--dry-run] [--yes]
"""

import sys
from pathlib import Path

from harness import paths
from harness.commands.options import Clean
from harness.errors import InputError
from harness.study import leftovers
from harness.terminal import table

PREFIXES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
MOST = 40
"""Lines of the list; the others are summed up."""


def main(options: Clean) -> int:
    """0, also where nothing is to be removed; 1 where the answer was no, or something stays.

    InputError for a folder that the harness has not made, and while a command runs in it.
    """
    output = Path(options.output)
    if not paths.is_ours(output):
        raise InputError(f"output={options.output!r} was not made by the harness: expected the `output` of a run")
    if (used := leftovers.in_use(output)) is not None:
        raise InputError(f"output={options.output!r} is used by a command that runs ({used}): wait for its end")
    unused = leftovers.find(output)
    if not unused:
        print(f"nothing to remove in {options.output}")
        return 0
    total = sum(leftover.size for leftover in unused)
    print(_listed(unused, output))
    print(f"{len(unused)} files and folders, {size_text(total)}")
    if options.dry_run:
        return 0
    if not options.yes:
        if not sys.stdin.isatty():
            raise InputError("clean asks before it removes anything, and stdin is no terminal: add --yes, or --dry-run")
        if input("remove them? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was removed")
            return 1
    left = [leftover for leftover in unused if not leftovers.remove(leftover)]
    print(f"removed {size_text(total - sum(leftover.size for leftover in left))}")
    for leftover in left:
        print(f"could not be removed: {leftover.path}")
    return 1 if left else 0


def _listed(unused: list[leftovers.Leftover], output: Path) -> str:
    largest = sorted(unused, key=lambda leftover: -leftover.size)
    rows = [(str(it.path.relative_to(output.absolute())), size_text(it.size), it.why) for it in largest[:MOST]]
    if len(largest) > MOST:
        rows.append((f"{len(largest) - MOST} smaller ones", size_text(sum(it.size for it in largest[MOST:])), ""))
    return table(("below the folder", "size", "why"), rows, "lrl")


def size_text(size: float) -> str:
    """`12.3 MB`."""
    return next((f"{size / unit:.1f} {name}" for unit, name in PREFIXES if size >= unit), f"{size:.0f} B")
