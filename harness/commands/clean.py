"""Removes what no run needs: unused data, launches of old timing sessions, torn and temporary files; asks first.

python -m harness clean [--output multirun] [--dry-run] [--yes]
"""

import sys
from pathlib import Path

from harness import paths
from harness.commands.arguments import Parser, folder_of_runs
from harness.errors import InputError
from harness.study import leftovers
from harness.terminal import table

PREFIXES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
MOST = 40
"""Lines of the list; the others are summed up."""


def main(arguments: list[str]) -> int:
    """0, also where nothing is to be removed; 1 where the answer was no, or something stays.

    InputError for a folder that the harness has not made, and while a command runs in it.
    """
    parser = Parser("clean", __doc__.splitlines()[0])
    parser.add_argument("--output", default="multirun", help="folder of the runs (multirun)")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args(arguments)
    output = folder_of_runs(options.output)
    if not paths.is_ours(output):
        raise InputError(f"--output={options.output!r} was not made by the harness: expected the `output` of a run")
    if (used := leftovers.in_use(output)) is not None:
        raise InputError(f"--output={options.output!r} is used by a command that runs ({used}): wait for its end")
    found = leftovers.find(output)
    if not found:
        print(f"nothing to remove in {options.output}")
        return 0
    total = sum(one.size for one in found)
    print(_listed(found, output))
    print(f"{len(found)} files and folders, {size_text(total)}")
    if options.dry_run:
        return 0
    if not options.yes and not _agreed():
        print("nothing was removed")
        return 1
    left = [one for one in found if not leftovers.remove(one)]
    print(f"removed {size_text(total - sum(one.size for one in left))}")
    for one in left:
        print(f"could not be removed: {one.path}")
    return 1 if left else 0


def _listed(found: list[leftovers.Leftover], output: Path) -> str:
    largest = sorted(found, key=lambda one: -one.size)
    rows = [(str(one.path.relative_to(output.absolute())), size_text(one.size), one.why) for one in largest[:MOST]]
    if len(found) > MOST:
        rows.append((f"{len(found) - MOST} smaller ones", size_text(sum(one.size for one in largest[MOST:])), ""))
    return table(("below the folder", "size", "why"), rows, "lrl")


def _agreed() -> bool:
    """InputError where nobody can answer."""
    if not sys.stdin.isatty():
        raise InputError("clean asks before it removes anything, and stdin is no terminal: add --yes, or --dry-run")
    return input("remove them? [y/N] ").strip().lower() in ("y", "yes")


def size_text(size: float) -> str:
    """`12.3 MB`."""
    return next((f"{size / unit:.1f} {name}" for unit, name in PREFIXES if size >= unit), f"{size:.0f} B")
