"""A tracker in a thread: no error and no silence of a library reaches the run."""

import math
import threading
import time

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from harness.tracking.trackers import Background, complaint

KEPT = "Results are saved locally; `python -m harness sync` sends them."


@pytest.fixture
def background() -> Background:
    return Background("MLflow")


def test_calls_are_made_in_order(background):
    made = []
    for number in range(100):
        background.call(made.append, number)
    background.wait()
    assert made == list(range(100))
    assert background.error is None


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("no driver"), MemoryError("much"), RecursionError("deep"), KeyError("k")]
)
def test_whatever_a_library_raises_is_said_once_and_ends_the_calls(background, error, capsys):
    made = []

    def fail() -> None:
        raise error

    background.call(fail)
    background.call(made.append, 1)
    background.wait()
    background.call(made.append, 2)
    background.wait()
    assert background.error
    assert made == []
    assert capsys.readouterr().out == f"MLflow failed ({error}). {KEPT}\n"


def test_long_errors_and_passwords_are_cut(background, capsys):
    def fail() -> None:
        raise OSError("no answer from http://user:secret@host:5000/api\n" + "x" * 10000)

    background.call(fail)
    background.wait()
    assert capsys.readouterr().out == f"MLflow failed (no answer from http://***@host:5000/api). {KEPT}\n"


@pytest.mark.long
def test_a_call_that_never_returns_is_not_waited_for(background, capsys):
    never = threading.Event()
    background.call(never.wait)
    for _ in range(100):
        background.call(print, "late")
    background.wait(most_s=math.inf, patience_s=0.3)
    assert background.error
    never.set()
    background.wait(most_s=10)
    assert capsys.readouterr().out == f"MLflow still has 101 updates queued after 1 s. {KEPT}\n"


@pytest.mark.long
def test_slow_calls_are_waited_for_as_long_as_they_come_to_an_end(background):
    made = []

    def slow(number: int) -> None:
        time.sleep(0.2)
        made.append(number)

    for number in range(6):
        background.call(slow, number)
    background.wait(most_s=60, patience_s=1.0)
    assert made == list(range(6))
    for number in range(20):
        background.call(slow, number)
    background.wait(most_s=0.6, patience_s=math.inf)
    assert background.error
    assert len(made) < 6 + 20


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MlflowException("no such value", error_code=INVALID_PARAMETER_VALUE), "failed (no such value)"),
        (MlflowException("Invalid url: http:///api"), "failed (Invalid url: http:///api)"),
        (MlflowException("API request to http://h failed with exception"), "failed (API request to http://h failed"),
        (OSError("no route to host"), "failed (no route to host)"),
        (
            MlflowException(
                "API request to http://h:1/api failed with exception HTTPConnectionPool(host='h'): Max retries exceeded "
                "with url: /api?x=y (Caused by NewConnectionError(\"HTTPConnection(host='h', port=1): [Errno 111] Refused\"))"
            ),
            "failed (HTTPConnection(host='h', port=1): [Errno 111] Refused)",
        ),
        (MlflowException("word " * 100), "failed (word word "),
    ],
)
def test_what_was_refused_is_not_unreachable(error, said):
    assert complaint(error).startswith(said)
    assert len(complaint(error)) < 300
