"""No secret is in a file of a run or in a line: an address that holds one is refused, and those of variables are hidden."""

import contextlib
import io
from pathlib import Path

import pytest

MARK = "zq7Kv9Rx"
"""In every secret; no other text has it."""

SHAPES = (
    "http://{mark}@127.0.0.1:9",
    "http://ada:it's{mark}@127.0.0.1:9",
    "http://ada:a?{mark}#b=/@127.0.0.1:9",
    "http://127.0.0.1:9?access_token={mark}",
    "postgresql://ada:{mark}@127.0.0.1:9/db?sslmode=require",
)


def assert_nowhere(folder: Path, *printed: str) -> None:
    """Neither in what was printed, nor in the name or the content of any file."""
    for text in printed:
        assert MARK not in text, text
    for path in folder.rglob("*"):
        assert MARK not in str(path)
        assert not path.is_file() or MARK.encode() not in path.read_bytes(), path


def reports(*arguments: str) -> str:
    from harness.reports.__main__ import main

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        main([*arguments, "--out", "report"])
    return text.getvalue()


@pytest.mark.long
def test_an_address_with_a_secret_is_refused_everywhere_before_anything_is_written(run_harness, small, tmp_path, monkeypatch):
    """On the command line, in a variable, and in a file."""
    command = [*small, "study=s", "output=out"]
    for number, shape in enumerate(SHAPES):
        address = shape.format(mark=MARK)
        quoted = address.replace("'", "\\'")
        monkeypatch.setenv("STORE", address)
        folder = tmp_path.with_name(f"{tmp_path.name}-conf{number}") / "tracking"
        folder.mkdir(parents=True)
        (folder / "mine.yaml").write_text(f'mlflow: true\nuri: "{address}"\n')
        ways = [[*command, f"tracking.uri='{quoted}'"], ["sync", f"output={tmp_path}", f"tracking.uri={address}"]]
        of_others = [["tracking.uri='${oc.env:STORE}'"], ["--config-dir", str(folder.parent), "tracking=[mine]"]]
        for arguments in [*ways, *([*command, *words] for words in of_others if number == 0)]:
            done = run_harness(*arguments)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
            assert "may hold a secret, which would be kept and shown: leave it out, and set" in done.stderr
            assert_nowhere(tmp_path, done.stderr)
        assert_nowhere(tmp_path, reports("--uri", address, "--study", "s"))


@pytest.mark.long
def test_no_secret_of_the_environment_gets_anywhere(run_module, small, tmp_path, monkeypatch):
    """In a process of its own, whose libraries log to stderr as they do for a user."""
    for name in ("WANDB_API_KEY", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_USERNAME"):
        monkeypatch.setenv(name, f"{MARK}{name}")
    command = [*small, "measure=none", "finetune.max_steps=2", "study=s", "tracking.uri=http://127.0.0.1:9", "output=out"]
    done = run_module("harness", *command, "hydra.verbose=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MLflow failed" in done.stdout
    assert_nowhere(tmp_path, done.stdout, done.stderr)
