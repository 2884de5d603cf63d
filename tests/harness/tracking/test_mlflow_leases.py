"""Leases of runs in the tracking store: one holder at a time, whoever is faster, slower, gone or away."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from child_processes import wait_for

from harness.errors import InputError
from harness.tracking import attempts, mlflow_leases
from harness.tracking.mlflow_leases import Leases, StoreError
from harness.tracking.mlflow_store import MlflowClient, MlflowException, Tracker
from harness.tracking.states import State

NEVER = 1e6
RUN = "0f" * 32


@pytest.fixture
def uri(output: Path) -> str:
    return f"sqlite:///{output}/mlflow.db"


def leases(uri: str, renewed_s: float = NEVER, expires_s: float = NEVER, study: str = "s") -> Leases:
    return Leases(uri, study, renewed_s, expires_s)


def names(uri: str) -> list[str]:
    return [one.name for one in MlflowClient(tracking_uri=uri).search_registered_models()]


def test_of_many_who_want_a_run_at_once_one_holds_it(uri):
    several = [leases(uri) for _ in range(6)]
    with ThreadPoolExecutor(len(several)) as beside:
        taken = list(beside.map(lambda one: one.take(RUN, "base, seed 1"), several))
    assert sorted(taken) == [False] * 5 + [True]
    assert len(names(uri)) == 1


def test_other_runs_and_studies_are_free(uri):
    assert leases(uri).take(RUN, "base, seed 1")
    assert leases(uri).take("1e" * 32, "base, seed 2")
    assert leases(uri, study="t").take(RUN, "base, seed 1")


def test_a_released_run_is_free_and_leaves_nothing(uri):
    one, other = leases(uri), leases(uri)
    assert one.take(RUN, "base, seed 1")
    assert not other.take(RUN, "base, seed 1")
    one.release(RUN)
    assert names(uri) == []
    assert other.take(RUN, "base, seed 1")
    one.release(RUN)  # it holds it no more
    assert len(names(uri)) == 1


def test_a_lease_expires_that_is_not_renewed_while_another_looks(uri):
    one, other = leases(uri), leases(uri, expires_s=0.0)
    assert one.take(RUN, "base, seed 1")
    assert not other.take(RUN, "base, seed 1")  # its first look
    MlflowClient(tracking_uri=uri).set_registered_model_tag(names(uri)[0], mlflow_leases.RENEWED, "1")
    assert not other.take(RUN, "base, seed 1")  # renewed since
    assert other.take(RUN, "base, seed 1")
    assert len(names(uri)) == 2
    one.release(RUN)  # its own term alone
    assert len(names(uri)) == 1
    assert not leases(uri).take(RUN, "base, seed 1")


def test_a_holder_learns_that_its_lease_has_expired(uri):
    one, other = leases(uri, renewed_s=0.02), leases(uri)
    assert one.take(RUN, "base, seed 1")
    assert not one.is_lost(RUN)
    other._has_expired = lambda lease: True
    assert other.take(RUN, "base, seed 1")
    wait_for(lambda: RUN not in one._held)
    assert one.is_lost(RUN)
    assert not other.is_lost(RUN)
    other.release(RUN)
    assert one.take(RUN, "base, seed 1")
    assert not one.is_lost(RUN)


def test_a_lease_is_renewed_while_its_holder_lives(uri):
    one, client = leases(uri, renewed_s=0.02), MlflowClient(tracking_uri=uri)
    assert one.take(RUN, "base, seed 1")
    (name,) = names(uri)
    wait_for(lambda: int(client.get_registered_model(name).tags[mlflow_leases.RENEWED]) > 2)


def test_the_lease_of_a_process_of_this_machine_that_is_gone_is_free_at_once(uri, monkeypatch):
    with monkeypatch.context() as patch:
        host = attempts.this_process().partition(":")[0]
        patch.setattr(attempts, "this_process", lambda: f"{host}:1:1")  # process 1 began at another time
        assert leases(uri).take(RUN, "base, seed 1")
    assert leases(uri).take(RUN, "base, seed 1")


def test_a_run_that_has_ended_elsewhere_is_not_run_before_its_result_is_in_the_store(uri, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(attempts, "this_process", lambda: "far:1:1")
        one = leases(uri)
        assert one.take(RUN, "base, seed 1")
    other = leases(uri, expires_s=-1.0)
    assert other.result(RUN) is None
    one.end(RUN, State.finished)
    assert other.result(RUN) == (State.finished, "far")
    assert not other.take(RUN, "base, seed 1")


def test_a_run_that_was_killed_has_no_result(uri):
    one = leases(uri)
    assert one.take(RUN, "base, seed 1")
    one.end(RUN, State.killed)
    assert leases(uri).result(RUN) is None


def test_a_store_that_is_away_is_named(uri, monkeypatch):
    one = leases(uri)

    def away(*_: object, **__: object) -> None:
        raise MlflowException("no route to host\nand more")

    monkeypatch.setattr(MlflowClient, "search_registered_models", away)
    with pytest.raises(StoreError, match=r"the tracking store that leases runs does not answer: no route to host$"):
        one.take(RUN, "base, seed 1")
    for call in (one.result, one.release):
        with pytest.raises(StoreError):
            call(RUN)
    with pytest.raises(InputError, match=r"sweep\.lease=tracking needs the store sqlite:.* no route to host$"):
        leases(uri)


def test_a_lease_that_somebody_has_deleted_is_released(uri, monkeypatch):
    one = leases(uri)
    assert one.take(RUN, "base, seed 1")
    (lease,) = MlflowClient(tracking_uri=uri).search_registered_models()
    MlflowClient(tracking_uri=uri).delete_registered_model(lease.name)
    monkeypatch.setattr(one, "_terms", lambda run: [lease])  # found a moment before
    one.release(RUN)
    assert leases(uri).take(RUN, "base, seed 1")


def test_a_tag_that_two_processes_set_at_once_is_set(output, monkeypatch):
    """MLflow refuses the slower one, where both found that there is none yet."""
    tracker, refused = Tracker(None, str(output), "s"), []
    at_once = tracker._client.set_experiment_tag

    def slower(*arguments: object) -> None:
        if not refused:
            refused.append(arguments)
            raise MlflowException("(sqlite3.IntegrityError) UNIQUE constraint failed: experiment_tags.key")
        at_once(*arguments)

    monkeypatch.setattr(tracker._client, "set_experiment_tag", slower)
    tracker.open_study([], {})
    assert refused
    assert "s" in tracker._client.get_experiment_by_name("s").tags["mlflow.note.content"]
