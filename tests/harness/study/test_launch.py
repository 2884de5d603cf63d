"""Which rank of several that failed is the reason of the end of a run."""

import json
import signal
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from harness.study.ranks import cause, message_of

LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer"


def failure(folder: Path, rank: int, code: int, message: str, time: int) -> ProcessFailure:
    """As torch's launcher finds it: with the file of an exception, or without one after a signal."""
    path = folder / f"{rank}.json"
    if code > 0:
        path.write_text(json.dumps({"message": {"message": message, "extraInfo": {"timestamp": str(time)}}}))
    return ProcessFailure(rank, 1000 + rank, code, str(path))


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([(1, LOST, 10), (-signal.SIGKILL, "", 11)], 1),
        ([(1, LOST, 10), (1, "ValueError: a defect", 10)], 1),
        ([(1, "ValueError: a defect", 10), (1, LOST, 10)], 0),
        ([(1, "ValueError: later", 12), (1, "ValueError: earlier", 10)], 1),
    ],
    ids=["killed", "lost at once", "lost after", "both"],
)
def test_the_rank_that_ended_the_others_is_named(tmp_path: Path, ends: list, expected: int):
    failures = {rank: failure(tmp_path, rank, *end) for rank, end in enumerate(ends)}
    rank, found = cause(failures)
    assert rank == expected
    assert found is failures[expected]
    assert message_of(found) == (ends[expected][1] or f"Signal 9 (SIGKILL) received by PID {1000 + expected}")
