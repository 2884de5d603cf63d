"""The command line: `python -m harness.profile model=base,windowed scale=mini [--trace [DIR]] [--json FILE]`."""

import sys

from harness.commands.profile.command import main

if __name__ == "__main__":
    sys.exit(main())
