"""The one kind of error that a user sees: one line, no traceback."""

import sys
from collections.abc import Sequence

from harness.errors import InputError, on_one_line
from harness.redact import redacted

LONGEST = 4000
"""Characters of an error: names that it lists may be those of others."""


ReportError = InputError
"""What was given, what was expected and the valid choices."""


def refused(error: object) -> int:
    """Says it on stderr, in one line without passwords and control characters; the exit code of a wrong input."""
    print(f"python -m reports: {on_one_line(redacted(' '.join(str(error).split())), LONGEST)}", file=sys.stderr)
    return 2


def some_of(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """`a, b and 3 more`: of more than `most` the first ones."""
    return between.join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")
