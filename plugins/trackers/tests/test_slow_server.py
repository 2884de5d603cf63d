"""A tracking server that does not answer in time: a run does not wait for it, the end of a command does, and not for ever."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from child_processes import wait_for
from tracking_server import serving

from harness import tags
from harness.plugins.trackers.mlflow_store import MlflowClient, Tracker
from harness.plugins.upkeep.sync import sync
from harness.study import run_folder
from harness.tracking import run_log
from harness.tracking.trackers import Background

SWEEP = ("-m", "finetune.max_steps=4", "measure=none", "seed=1,2", "study=s")


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
    assert done.stdout.count("MLflow still has ") == 1
    assert "`python -m harness sync` sends them" in done.stdout
    assert sync(str(output), None) == 1
    (run,) = runs_of(output, "held")
    result = run_log.result(folder)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["eval/score"] == result["metrics"]["eval/score"]


def runs_at(uri: str) -> dict[str, tuple[str, float]]:
    """Seed -> state and score of each run on the server."""
    client = MlflowClient(uri)
    study = client.get_experiment_by_name("s")
    found = client.search_runs([study.experiment_id], f"tags.{tags.PREFIX}{tags.ROLE} = '{tags.ROLE_RUN}'")
    return {run.data.tags["harness.seed"]: (run.info.status, run.data.metrics["eval/score"]) for run in found}


def scores_in(output: Path) -> dict[str, tuple[str, float]]:
    """The same of the folders."""
    folders = [path.parent for path in output.glob("s/*/result.json")]
    seeds = {folder: run_folder.read(folder)["tags"]["seed"] for folder in folders}
    return {seed: ("FINISHED", run_log.result(folder)["metrics"]["eval/score"]) for folder, seed in seeds.items()}


@pytest.mark.long
def test_a_sweep_ends_all_its_runs_before_a_slow_server_has_answered_once(output, small, run_harness):
    answered: list[int] = []

    def once_all_have_ended(path: str) -> None:
        wait_for(lambda: len(scores_in(output)) == 2)
        answered.append(len(scores_in(output)))

    with serving(output / "mlflow.db", once_all_have_ended) as uri:
        done = run_harness(*small, *SWEEP, f"output={output}", f"tracking.uri={uri}")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "MLflow" not in done.stdout  # all of it arrived
        assert set(answered) == {2}
        assert runs_at(uri) == scores_in(output)


@pytest.mark.long
def test_what_a_server_is_too_slow_for_is_left_to_sync(output, small, run_harness, monkeypatch):
    monkeypatch.setattr(Background.wait, "__defaults__", (1.0, 60.0))
    delays = [0.5]
    with serving(output / "mlflow.db", lambda path: time.sleep(delays[-1])) as uri:
        done = run_harness(*small, *SWEEP, f"output={output}", f"tracking.uri={uri}")
        assert done.returncode == 0, done.stdout + done.stderr
        delays.append(0.0)
        assert sync(str(output), uri) == 2
        assert runs_at(uri) == scores_in(output)
    said = (
        r"MLflow still has \d+ updates? queued after \d+ s\. Results are saved locally; `python -m harness sync` sends them\."
    )
    assert len(re.findall(said, done.stdout)) == 1, done.stdout


@pytest.mark.long
def test_a_run_that_a_slow_server_adds_holds_up_no_other(sweep, output, monkeypatch):
    """As where two commands share a sweep on one server."""
    first, second = sweep.folder("base"), sweep.folder("enhanced")
    both = [Tracker(None, str(output), "s") for _ in range(2)]
    entered, answers = threading.Event(), threading.Event()
    create = both[0]._client.create_run

    def create_slowly(*arguments: object, **options: object) -> object:
        entered.set()
        answers.wait()
        return create(*arguments, **options)

    monkeypatch.setattr(both[0]._client, "create_run", create_slowly)
    with ThreadPoolExecutor(2) as beside:
        held = beside.submit(both[0].begin, run_folder.read(first), first)
        entered.wait()
        other = beside.submit(both[1].begin, run_folder.read(second), second)
        try:
            other.result(timeout=120)
            assert not held.done()
        finally:
            answers.set()
        held.result()
