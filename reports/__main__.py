"""`python -m reports`, in a checkout: `python -m harness report`."""

import gc
import sys

from harness import __main__ as harness_main
from harness.reports.options import GC_THRESHOLDS


def main(arguments: list[str] | None = None) -> int:
    """The command's exit code, for a report 0 and its path on stdout; 2 and one line on stderr for a wrong input."""
    return harness_main.main(["report", *(sys.argv[1:] if arguments is None else arguments)], called=arguments is not None)


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    sys.exit(main())
