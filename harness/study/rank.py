"""One of the processes that execute a run on several devices.

python -m harness.study.rank FOLDER [NUMBER]     NUMBER: that of the run, where an outer launcher has started the commands
"""

import contextlib
import os
import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import record

from harness.config import resolve
from harness.study import hosts
from harness.study.execute import execute
from harness.training import distributed


@record  # leaves the exception to the launcher
def main(folder: Path, number: int | None = None) -> None:
    """Executes the run as one of its ranks; only the first one prints."""
    store = None if number is None else hosts.meeting_point(number)
    ranks = distributed.join(resolve.load(folder / "config.yaml").hardware, store)
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(sys.stdout if ranks.first else nothing):
        execute(folder, ranks)
    distributed.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the interpreter's end aborts the process where a thread of the communication is still at work
