"""The file of the default store: whole or absent, checked before use, and right after its folder was moved."""

import contextlib
import shutil
import signal
import sqlite3
from pathlib import Path
from urllib.parse import unquote

import pytest
from child_processes import wait_for

from harness.plugins.trackers import sqlite_store
from harness.plugins.trackers.mlflow_store import MlflowClient, Tracker, _create_database
from harness.tracking import database
from harness.tracking.database import BrokenStoreError

OPEN = "import sys; from harness.plugins.trackers.mlflow_store import Tracker; Tracker(None, sys.argv[1], 'study')"


def studies(output: Path) -> list[str]:
    return [study.name for study in MlflowClient(f"sqlite:///{output / 'mlflow.db'}").search_experiments()]


def refuse(address: str) -> None:
    raise AssertionError(f"{address} was made anew")


def has_content(path: Path) -> bool:
    """False for one that has gone meanwhile, such as SQLite's journal."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size > 0
    return False


@pytest.mark.long
def test_a_killed_creation_leaves_nothing_that_breaks_the_next(tmp_path, start_process):
    """MLflow writes the schema in many steps, and a file that has some of them could be neither used nor completed."""
    process = start_process("-c", OPEN, str(tmp_path))
    wait_for(lambda: any(map(has_content, tmp_path.glob(".mlflow.db.making-*"))), process)
    process.kill()
    process.wait()
    assert not (tmp_path / "mlflow.db").exists()
    Tracker(None, str(tmp_path), "study")
    assert studies(tmp_path) == ["study"]
    assert not list(tmp_path.glob(".mlflow.db.making-*"))


@pytest.mark.long
def test_an_interrupted_creation_leaves_no_file(tmp_path, start_process):
    process = start_process("-c", OPEN, str(tmp_path))
    wait_for(lambda: any(map(has_content, tmp_path.glob(".mlflow.db.making-*"))), process)
    process.send_signal(signal.SIGINT)
    process.wait()
    assert not list(tmp_path.glob(".mlflow.db.making-*"))
    assert not (tmp_path / "mlflow.db").exists()


def torn_copy(path: Path, folder: Path) -> Path:
    """As a full disk or a broken copy leaves it, in a folder of ours: the beginning is there, the rest is not."""
    (folder / "s").mkdir(parents=True)
    (folder / "s" / "plan.json").write_text('{"a": {"time": 1, "folder": "/", "runs": [{"folder": "s/run"}]}}')
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(folder / path.name)) as target:
        source.backup(target)
    content = (folder / path.name).read_bytes()
    (folder / path.name).write_bytes(content[: len(content) // 2])
    return folder / path.name


def test_torn_store_is_named_and_never_replaced_unasked(output, tmp_path):
    Tracker(None, str(output), "study").begin({"attempt": "a", "name": "n", "started": 1, "tags": {}, "parameters": {}})
    path = torn_copy(output / "mlflow.db", tmp_path / "torn")
    before = path.read_bytes()
    with pytest.raises(BrokenStoreError, match=rf"^{path} is corrupt: .*`python -m harness sync` sets it aside"):
        sqlite_store.ready(f"sqlite:///{path}", refuse)
    assert path.read_bytes() == before
    kept = sqlite_store.renewed(f"sqlite:///{path}")
    assert kept.read_bytes() == before
    assert not path.exists()


def test_text_in_place_of_a_store_is_torn_and_a_whole_store_is_not(output, tmp_path):
    path = output / "mlflow.db"
    assert database.fault(path) is None
    assert sqlite_store.renewed(f"sqlite:///{path}") is None
    path.write_text("no database " * 1000)
    assert database.fault(path) == "is corrupt: file is not a database"
    assert sqlite_store.renewed("sqlite:////nowhere/mlflow.db") is None
    assert sqlite_store.renewed("http://127.0.0.1:5000") is None


def test_a_store_that_cannot_be_opened_is_not_kept_aside(tmp_path):
    (tmp_path / "mlflow.db").mkdir()
    with pytest.raises(BrokenStoreError, match=r"mlflow\.db cannot be read: "):
        sqlite_store.renewed(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert (tmp_path / "mlflow.db").is_dir()


def test_existing_store_is_left_as_it_is(output):
    before = (output / "mlflow.db").stat().st_mtime_ns
    sqlite_store.ready(f"sqlite:///{output / 'mlflow.db'}", refuse)
    sqlite_store.ready("http://127.0.0.1:9", refuse)
    assert (output / "mlflow.db").stat().st_mtime_ns == before
    _create_database(f"sqlite:///{output / 'mlflow.db'}")


def artifacts_of(output: Path, study: str) -> dict[str, Path]:
    client = MlflowClient(f"sqlite:///{output / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name(study).experiment_id])
    return {run.info.run_name: Path(run.info.artifact_uri.removeprefix("file://")) for run in runs}


@pytest.mark.long
def test_files_of_a_moved_store_are_found_in_the_new_place(sweep, tmp_path):
    """Of a copy whose original is gone, so that nothing can be read from there."""
    first, second = tmp_path / "first", tmp_path / "with space" / "second"
    shutil.copytree(sweep.output, first, ignore=shutil.ignore_patterns("cache", "*.lock"))
    Tracker(None, str(first), "sweep")
    second.parent.mkdir()
    first.rename(second)
    assert all(str(first) in str(path) for path in artifacts_of(second, "sweep").values())
    Tracker(None, str(second), "sweep")
    found = artifacts_of(second, "sweep")
    assert len(found) == 4
    client = MlflowClient(f"sqlite:///{second / 'mlflow.db'}")
    for run in client.search_runs([client.get_experiment_by_name("sweep").experiment_id], "tags.harness.role = 'run'"):
        assert run.info.artifact_uri.startswith((second / "artifacts" / "sweep").as_uri() + "/")
        place = Path(unquote(run.info.artifact_uri.removeprefix("file://")))
        assert "model_name" in (place / "config.yaml").read_text()
    new = Tracker(None, str(second), "another").begin({"attempt": "a", "name": "n", "started": 1, "tags": {}, "parameters": {}})
    assert str(tmp_path / "with%20space" / "second") in client.get_run(new).info.artifact_uri


def test_files_elsewhere_keep_their_address(output):
    client = MlflowClient(f"sqlite:///{output / 'mlflow.db'}")
    places = {
        "bucket": "s3://bucket/artifacts/bucket",
        "own": "file:///somewhere/else/own",
        "gone": "file:///old/artifacts/gone",
    }
    for name, place in places.items():
        client.create_experiment(name, artifact_location=place)
    sqlite_store.follow_the_folder(f"sqlite:///{output / 'mlflow.db'}", output / "artifacts")
    assert {study.name: study.artifact_location for study in client.search_experiments()} == places


def sqlite_of_another(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table bookmarks (address text)")


def torn_of_another(path: Path) -> None:
    """A store that MLflow itself made, under a name of its own, and that was torn."""
    sqlite_of_another(path)
    path.write_bytes(path.read_bytes()[:4096])


FOREIGN = {
    "a text": ("notes.txt", lambda path: path.write_text("my notes\n" * 1000), "is corrupt: file is not a database"),
    "a text in the place of the store": (
        "mlflow.db",
        lambda path: path.write_text("x" * 9000),
        "is corrupt: file is not a data",
    ),
    "an empty file": ("empty", lambda path: path.touch(), "is not a complete tracking store"),
    "a database of another program": ("places.sqlite", sqlite_of_another, "is not a complete tracking store"),
    "that in the place of the store": ("mlflow.db", sqlite_of_another, "is not a complete tracking store"),
    "a torn database": ("places.sqlite", torn_of_another, "; it was not made by the harness"),
    "a link to nothing": ("link", lambda path: path.symlink_to("nowhere"), "is not a file"),
    "a device": ("null", lambda path: path.symlink_to("/dev/null"), "is not a file"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("scheme", ["sqlite:///", "sqlite+pysqlite:///"])
def test_a_file_that_is_not_ours_is_refused_and_stays(run_harness, sweep, tmp_path, name, scheme):
    """By `sync`, and by a run before anything is prepared."""
    place, make, fragment = FOREIGN[name]
    (tmp_path / "theirs").mkdir()
    path = tmp_path / "theirs" / place
    make(path)
    before = path.read_bytes() if path.is_file() else path.readlink()
    address = f"{scheme}{path}"
    sync, run = ["sync", f"output={sweep.output}", f"tracking.uri={address}"], ["task=bag", "scale=tiny", "output=out"]
    for command in (sync, [*run, f"tracking.uri='{address}'"]):
        done = run_harness(*command)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        assert done.stderr.count("\n") == 1
        assert f"{path} " in done.stderr
        assert fragment in done.stderr
        assert [one.name for one in path.parent.iterdir()] == [place]
        assert (path.read_bytes() if path.is_file() else path.readlink()) == before
