"""A tracking server that does not answer in time: a run does not wait for it, the end of a command does, and not for ever."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.commands.sync import sync
from harness.tracking import run_log
from harness.tracking.background import Background


class Holding(ThreadingHTTPServer):
    """Holds every answer until it is released, and notes what happens."""

    daemon_threads = True

    def __init__(self) -> None:
        self.released, self.events = threading.Event(), []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.server.events.append("asked")
        self.server.released.wait()
        self.server.events.append("answered")
        with contextlib.suppress(BrokenPipeError):  # who asked has gone
            self.send_error(503)

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing: the test reads the console."""


@pytest.fixture
def server() -> Iterator[Holding]:
    with Holding() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.released.set()
        made.shutdown()
        thread.join()


@pytest.mark.long
def test_a_server_that_holds_every_answer_costs_a_run_nothing_and_sync_sends_it(
    server, run_harness, small, output, runs_of, monkeypatch
):
    monkeypatch.setattr(Background.wait, "__defaults__", (2.0, 1.0))
    done = run_harness(
        *small,
        *("finetune.max_steps=4", "measure=none", "study=held", f"output={output}"),
        f"tracking.uri=http://127.0.0.1:{server.server_port}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (path.parent for path in output.glob("held/*/result.json"))
    assert set(server.events) == {"asked"}
    assert done.stdout.count("MLflow is unreachable (") == 1
    assert "run `python -m harness sync` later" in done.stdout
    assert sync(str(output), None) == 1
    (run,) = runs_of(output, "held")
    result = run_log.result(folder)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["eval/score"] == result["metrics"]["eval/score"]
