"""`python -m harness clean`: what no run needs is listed with its size, and goes; what any run needs stays."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from harness import paths
from harness.study import leftovers
from harness.tracking import run_log


def file(path: Path, size: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


@pytest.fixture
def ended() -> int:
    """Id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def results(tmp_path, ended) -> tuple[Path, set[Path], set[Path]]:
    """A folder of results; what of it goes, and what stays."""
    out = tmp_path / "out"
    run, begun, pretraining = out / "s" / "base-1", out / "s" / "base-2", out / "pretrained" / "base-3"
    for folder, inputs in ((run, {"data": "aaaa1111"}), (begun, {"data": "bbbb2222"}), (pretraining, {"corpus": "cccc3333"})):
        folder.mkdir(parents=True)
        run_log.write_json(folder / "run.json", {"inputs": inputs})
    run_log.write_json(run / "result.json", {"status": "finished", "metrics": {}})
    (begun / "config.yaml").write_text("tokenizer: {file: /elsewhere/cache/corpus-dddd4444/tokenizer.json}\n")
    (out / "sessions" / "open").mkdir(parents=True)
    run_log.write_json(out / "sessions" / "open" / paths.SESSION, {"done": False})
    (out / "sessions" / "over").mkdir()
    run_log.write_json(out / "sessions" / "over" / paths.SESSION, {"done": True})
    goes = {
        file(out / "cache" / "eeee5555" / "train.safetensors", 5000).parent,
        file(out / "cache" / "eeee5555.lock", 0),
        file(out / "cache" / "corpus-ffff6666" / "text").parent,
        file(out / "cache" / "aaaa1111.tmp" / "train.safetensors").parent,
        file(out / "sessions" / "older" / "launch-0" / "measured.json").parent.parent,
        file(out / "sessions" / "over" / "launch-0" / "measured.json").parent.parent,
        file(run / "checkpoints" / "step-000000001" / "weights.safetensors").parent.parent,
        file(run / f".result.json.{ended}"),
        file(begun / "checkpoints" / f".step-000000002.{ended}" / "weights.safetensors").parent,
    }
    stays = {
        file(out / "cache" / "aaaa1111" / "train.safetensors"),
        file(out / "cache" / "corpus-cccc3333" / "text"),
        file(out / "cache" / "corpus-dddd4444" / "tokenizer.json"),
        file(out / "sessions" / "open" / "launch-0" / "measured.json"),
        file(begun / "checkpoints" / "step-000000001" / "weights.safetensors"),
        file(run / f".result.json.{os.getpid()}"),
        file(run / "timing.json.gz"),
        file(run / ".lock", 0),
        file(out / "mlflow.db"),
    }
    return out, goes, stays


def test_what_no_run_needs_is_found_and_nothing_else(results):
    out, goes, _ = results
    assert {one.path for one in leftovers.find(out)} == goes


def test_it_is_removed_and_the_rest_stays(results, run_harness):
    out, goes, stays = results
    done = run_harness("clean", "--output", str(out), "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert not any(path.exists() for path in goes)
    assert all(path.exists() for path in stays)
    again = run_harness("clean", "--output", str(out))
    assert (again.returncode, again.stdout) == (0, f"nothing to remove in {out}\n")


def test_torn_files_do_not_stop_it(results):
    out, goes, _ = results
    (out / "sessions" / "open" / paths.SESSION).write_text("{")
    (out / "s" / "base-1" / "result.json").write_text("{")
    found = {one.path for one in leftovers.find(out)}
    assert found == goes - {out / "s" / "base-1" / "checkpoints"} | {out / "sessions" / "open"}


def test_a_dry_run_lists_sizes_largest_first_and_removes_nothing(results, run_harness):
    out, goes, _ = results
    done = run_harness("clean", "--output", str(out), "--dry-run")
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["cache/eeee5555", "5.0", "kB", "data", "of", "no", "run"]
    assert lines[-1].startswith(f"{len(goes)} files and folders, 12.")
    assert all(path.exists() for path in goes)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("no", 1)])
def test_it_asks_before_it_removes(results, run_harness, monkeypatch, answer, code):
    out, goes, _ = results
    monkeypatch.setattr("builtins.input", lambda question: answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert run_harness("clean", "--output", str(out)).returncode == code
    assert any(path.exists() for path in goes) == (code == 1)


def test_where_nobody_can_answer_nothing_is_removed(results, run_harness):
    out, goes, _ = results
    done = run_harness("clean", "--output", str(out))
    assert done.returncode == 2
    assert (
        done.stderr
        == "harness clean: clean asks before it removes anything, and stdin is no terminal: add --yes, or --dry-run\n"
    )
    assert all(path.exists() for path in goes)


@pytest.mark.parametrize("lock", ["s/base-2/.worker.lock", "s/base-1/.lock", ".timing.lock", "cache/aaaa1111.lock"])
def test_beside_a_command_that_runs_nothing_is_removed(results, run_harness, lock):
    out, goes, _ = results
    with FileLock(out / lock):
        done = run_harness("clean", "--output", str(out), "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"harness clean: --output={str(out)!r} is used by a command that runs ({lock}): wait for its end\n"
    assert all(path.exists() for path in goes)


def test_old_temporary_files_of_another_machine_go_too(tmp_path):
    """Its process ids mean nothing here."""
    torn = file(tmp_path / "s" / "base-1" / f".run.json.{os.getpid()}")
    assert leftovers.find(tmp_path) == []
    long_ago = time.time() - 2 * leftovers.SETTLED_S
    os.utime(torn, (long_ago, long_ago))
    assert [one.path for one in leftovers.find(tmp_path)] == [torn]


def test_a_folder_that_is_not_there_is_one_line(run_harness):
    done = run_harness("clean", "--output", "nowhere")
    assert (done.returncode, done.stderr) == (2, "harness clean: --output='nowhere' is not a folder\n")
