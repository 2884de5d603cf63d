"""Secrets in the address of a store are in no file of a run, in no tracking server and in no line, and still connect."""

import contextlib
import io
import shutil
import sqlite3
from pathlib import Path

import pytest
from tracking_server import serving

MARK = "zq7Kv9Rx"
"""In every secret; no other text has it."""

SHAPES = {
    "token": "http://{mark}1@{host}",
    "user and password": "http://{mark}2:{mark}2@{host}",
    "password with an apostrophe": "http://{mark}3:it's{mark}3@{host}",
    "password with a quotation mark": 'http://{mark}4:a"{mark}4@{host}',
    "password with a blank": "http://{mark}5:a {mark}5 b@{host}",
    "password that is percent-encoded": "http://{mark}6:a%40{mark}6%2F@{host}",
    "password with marks of addresses": "http://{mark}7:a?{mark}7#b=/@{host}",
    "query": "http://{host}?access_token={mark}8",
    "keys in a query": "http://{host}/?api_key={mark}9&key={mark}10&secret=a%20{mark}11&sslmode=require",
    "fragment": "http://{host}#{mark}12",
    "database": "postgresql://{mark}13:{mark}14@127.0.0.1:9/db?sslpassword={mark}15&sslmode=require",
    "database without a driver": "nosuchdb://{mark}16@host/db",
}
CONNECTS = ("token", "user and password", "password with a blank", "password that is percent-encoded")


@pytest.fixture
def host(tmp_path, store_template, monkeypatch):
    """Host and port of a tracking server that takes any user."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "1")
    (tmp_path / "server").mkdir()
    shutil.copy(store_template, tmp_path / "server" / "server.db")
    with serving(tmp_path / "server" / "server.db", lambda path: None) as address:
        yield address.removeprefix("http://")


def assert_nowhere(folder: Path, *printed: str) -> None:
    """Neither in what was printed, nor in the name or the content of any file."""
    for text in printed:
        assert MARK not in text, text
    for path in folder.rglob("*"):
        assert MARK not in str(path)
        assert not path.is_file() or MARK.encode() not in path.read_bytes(), path


def runs(server: Path) -> int:
    with contextlib.closing(sqlite3.connect(server)) as database:
        return database.execute("select count(*) from tags where key = 'role' and value = 'run'").fetchone()[0]


def reports(*arguments: str) -> str:
    from harness.reports.__main__ import main

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        main([*arguments, "--out", "report"])
    return text.getvalue()


@pytest.mark.slow
def test_no_shape_of_secret_gets_anywhere(run_harness, small, tmp_path, host):
    """A run, then the same command with every address: what is there is skipped, planned, tracked and reported again."""
    command = ["-m", *small, "measure=none", "finetune.max_steps=2", "study=s", "seed=1,2", "output=out"]
    for name, shape in SHAPES.items():
        address = shape.format(mark=MARK, host=host)
        quoted = address.replace("'", "\\'")
        before = runs(tmp_path / "server" / "server.db")
        for arguments in (
            [*command, f"tracking.uri='{quoted}'"],
            ["plan", *command, f"tracking.uri={address}"],
            ["status", "s", "output=out"],
            ["sync", "output=out", f"tracking.uri={address}"],
            ["export", "0" * 32, "output=out", f"tracking.uri={address}"],
        ):
            done = run_harness(*arguments)
            assert "Traceback" not in done.stderr
            assert_nowhere(tmp_path, done.stdout, done.stderr)
        if name in CONNECTS:
            assert runs(tmp_path / "server" / "server.db") == 2, name
        else:
            assert runs(tmp_path / "server" / "server.db") == before
        assert_nowhere(
            tmp_path, reports("--uri", address, "--study", "s"), reports("--urii", address), reports(f"--uri={address}")
        )


@pytest.mark.long
@pytest.mark.parametrize("shape", ["user and password", "keys in a query"])
def test_no_secret_of_the_environment_or_of_a_file_gets_anywhere(run_harness, small, tmp_path, host, monkeypatch, shape):
    address = SHAPES[shape].format(mark=MARK, host=host)
    monkeypatch.setenv("STORE", address)
    monkeypatch.setenv("WANDB_API_KEY", f"{MARK}17")
    folder = tmp_path.with_name(f"{tmp_path.name}-conf") / "tracking"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(f'mlflow: true\nuri: "{address}"\n')
    command = [*small, "measure=none", "finetune.max_steps=2", "study=s", "output=out"]
    for words in (["tracking.uri='${oc.env:STORE}'"], ["--config-dir", str(folder.parent), "tracking=[mine]"]):
        done = run_harness(*command, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_nowhere(tmp_path, done.stdout, done.stderr)
    assert runs(tmp_path / "server" / "server.db") == (shape == "user and password")


@pytest.mark.long
def test_nothing_that_a_library_prints_has_a_secret(run_module, small, tmp_path):
    """In a process of its own, whose libraries log to stderr as they do for a user."""
    address = SHAPES["keys in a query"].format(mark=MARK, host="127.0.0.1:9")
    command = [*small, "measure=none", "finetune.max_steps=2", "study=s", f"tracking.uri={address}", "output=out"]
    done = run_module("harness", *command, "hydra.verbose=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MLflow is unreachable" in done.stdout
    synced = run_module("harness", "sync", "output=out", f"tracking.uri={address}")
    assert (synced.returncode, synced.stderr.count("\n")) == (2, 1)
    assert_nowhere(tmp_path, done.stdout, done.stderr, synced.stdout, synced.stderr)


def test_the_printed_command_says_that_it_lacks_its_secret(run_harness, small, tmp_path):
    """A command that is repeated as it was kept is refused before anything runs."""
    command = [*small, "study=s", "tracking.uri='http://***@127.0.0.1:9'", "output=out"]
    done = run_harness(*command)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the secrets of this address are not kept: expected the whole address" in done.stderr
    for arguments in (["sync", f"output={tmp_path}"], ["export", "0" * 32, f"output={tmp_path}"]):
        done = run_harness(*arguments, "tracking.uri=http://***@127.0.0.1:9")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "the secrets of this address are not kept" in done.stderr
