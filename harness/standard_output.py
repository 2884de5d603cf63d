"""Standard output whose reader may end before the command does, as in `python -m harness describe | head`."""

import functools
import os
import select
import sys
from collections.abc import Callable
from typing import ParamSpec

READER_ENDED = 141
"""Exit code of a command that a shell reports as ended by SIGPIPE: 128 + 13."""

Arguments = ParamSpec("Arguments")


def ends_with_its_reader(main: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """`main`, which ends quietly with READER_ENDED where nobody reads its output any more."""

    @functools.wraps(main)
    def quiet(*arguments: Arguments.args, **options: Arguments.kwargs) -> int:
        try:
            try:
                return main(*arguments, **options)
            finally:
                sys.stdout.flush()  # at the exit of Python it would fail beyond any handler
        except BrokenPipeError:
            if not _is_unread():  # a pipe to another process
                raise
            with open(os.devnull, "w") as sink:
                os.dup2(sink.fileno(), sys.stdout.fileno())  # Python writes what is left at its exit
            return READER_ENDED

    return quiet


def _is_unread() -> bool:
    """Whether nobody can read standard output any more."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
