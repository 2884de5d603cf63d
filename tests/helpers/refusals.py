"""What a command that was refused has said and left."""

from dataclasses import dataclass


@dataclass
class Printed:
    """What a command said and left."""

    code: int
    out: str
    err: str
    left: list[str]


def assert_refused(printed: Printed, *fragments: str) -> None:
    """One line with all of the fragments, and nothing else anywhere."""
    assert printed.code == 2, printed.out + printed.err
    assert printed.out == ""
    assert printed.err.startswith("harness: ")
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.endswith("\n")
    assert "Traceback" not in printed.err
    for fragment in fragments:
        assert fragment in printed.err
    assert printed.left == []
