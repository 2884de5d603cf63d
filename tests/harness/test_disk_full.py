"""A disk that is full is one line with exit code 1, whichever library says so."""

import errno

import pytest

from harness.__main__ import main
from harness.config import compose
from harness.errors import is_disk_full

FULL = [
    OSError(errno.ENOSPC, "No space left on device", "out/cache/x"),
    OSError(errno.EDQUOT, "Disk quota exceeded", "out/cache/x"),
    Exception("No space left on device (os error 28)"),
    OSError("1024 requested and 96 written"),
    RuntimeError("(sqlite3.OperationalError) database or disk is full"),
]


@pytest.mark.parametrize("error", FULL, ids=repr)
def test_a_command_ends_with_one_line(monkeypatch, capsys, error):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(compose, "main", fail)
    assert is_disk_full(error)
    assert main(["task=bag"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("harness: ")
    assert err.endswith(": free some, and the same command continues\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "Permission denied"), ValueError("28"), KeyError("x")])
def test_another_error_is_not_hidden(monkeypatch, error):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(compose, "main", fail)
    with pytest.raises(type(error)):
        main(["task=bag"])
