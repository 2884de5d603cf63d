"""What a command that was refused has said and left."""

from dataclasses import dataclass


@dataclass
class Told:
    """What a command said and left."""

    code: int
    out: str
    err: str
    left: list[str]


def assert_refused(told: Told, *fragments: str) -> None:
    """One line with all of the fragments, and nothing else anywhere."""
    assert told.code == 2, told.out + told.err
    assert told.out == ""
    assert told.err.startswith("harness: ")
    assert told.err.count("\n") == 1, told.err
    assert told.err.endswith("\n")
    assert "Traceback" not in told.err
    for fragment in fragments:
        assert fragment in told.err
    assert told.left == []
