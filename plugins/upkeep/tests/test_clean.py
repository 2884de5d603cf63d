"""`python -m harness clean`: what no run needs is listed with its size, and goes; what any run needs stays."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from harness import paths, records
from harness.plugins.upkeep import leftovers

pytestmark = pytest.mark.long


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
        records.write(folder / "run.json", {"attempt": "a", "tags": {}, "parameters": {}, "inputs": inputs})
    planned = [{"folder": "s/base-1"}, {"folder": "s/base-2"}, {"folder": "s/base-4"}]
    records.write(out / "s" / paths.PLAN, {"harness": {"time": 1, "folder": "/", "runs": planned}})
    records.write(run / "result.json", {"status": "finished", "metrics": {}})
    (begun / "config.yaml").write_text("tokenizer: {file: /elsewhere/cache/corpus-dddd4444/tokenizer.json}\n")
    (out / "sessions" / "open").mkdir(parents=True)
    records.write(out / "sessions" / "open" / paths.SESSION, {"done": False})
    (out / "sessions" / "over").mkdir()
    session = {"shapes": {}, "conditions": {}, "rounds": 1, "done": True}
    records.write(out / "sessions" / "over" / paths.SESSION, session)
    for name in (
        "cache/aaaa1111.tmp",
        f"cache/.abab1212.{ended}",
        "cache/eeee5555",
        "cache/corpus-ffff6666",
        "sessions/older",
        f"reports/s/.writing.{ended}",
    ):
        paths.made(out / name)
    report = file(out / "reports" / "s" / f".writing.{ended}" / "report.md").parent
    before_marks = file(out / "reports" / "s" / ".writing-abc" / "report.md").parent
    long_ago = time.time() - 2 * leftovers.SETTLED_S
    os.utime(before_marks, (long_ago, long_ago))
    corpus = file(out / "cache" / "corpus-ffff6666" / "text").parent
    goes = {
        file(out / "cache" / "eeee5555" / "train.safetensors", 5000).parent,
        file(out / "cache" / "eeee5555.lock", 0),
        corpus,
        out / "cache" / f".abab1212.{ended}",
        report,
        before_marks,
        file(out / "s" / f".plan.json.{ended}"),
        file(out / "s" / "base-4" / f".run.json.{ended}"),
        file(out / f".probe-abc.{ended}" / "config.yaml").parent,
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
        file(out / "reports" / "s" / "report.md"),
        file(out / "reports" / "s" / ".writing-new" / "report.md"),
        file(out / "s" / f".plan.json.{os.getpid()}"),
        file(out / f".key.{ended}"),
    }
    return out, goes, stays


def test_it_is_removed_and_the_rest_stays(results, run_harness):
    out, goes, stays = results
    assert {one.path for one in leftovers.find(out)} == goes
    asked = run_harness("clean", f"output={out}")
    assert (asked.returncode, "stdin is not a terminal: add --yes" in asked.stderr) == (2, True)
    done = run_harness("clean", f"output={out}", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert not any(path.exists() for path in goes)
    assert all(path.exists() for path in stays)
    again = run_harness("clean", f"output={out}")
    assert (again.returncode, again.stdout) == (0, f"nothing to remove in {out}\n")


def test_corrupt_files_do_not_stop_it(results):
    out, goes, _ = results
    paths.made(out / "sessions" / "open")
    (out / "sessions" / "open" / paths.SESSION).write_text("{")
    (out / "s" / "base-1" / "result.json").write_text("{")
    found = {one.path for one in leftovers.find(out)}
    assert found == goes - {out / "s" / "base-1" / "checkpoints"} | {out / "sessions" / "open"}


def test_a_dry_run_lists_sizes_largest_first_and_removes_nothing(results, run_harness):
    out, goes, _ = results
    done = run_harness("clean", f"output={out}", "--dry-run")
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["cache/eeee5555", "5.09", "kB", "unused", "data"]
    assert lines[-1].startswith(f"{len(goes)} files and folders, 17.")
    assert all(path.exists() for path in goes)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("no", 1), (EOFError, 1)])
def test_it_asks_before_it_removes(results, run_harness, monkeypatch, answer, code):
    out, goes, _ = results
    monkeypatch.setattr("builtins.input", Mock(side_effect=[answer]))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert run_harness("clean", f"output={out}").returncode == code
    assert any(path.exists() for path in goes) == (code == 1)


def test_beside_a_command_that_has_just_begun_nothing_is_removed(results, run_harness, monkeypatch):
    out, goes, _ = results
    paths.made(out)
    with paths.in_use(out):
        done = run_harness("clean", f"output={out}", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is in use by a running command" in done.stderr
    assert all(path.exists() for path in goes)


@pytest.mark.parametrize("words", [["model=base"], ["plan", "model=base"]])
def test_a_command_uses_its_output_from_its_composition_on(words, run_harness, monkeypatch, tmp_path):
    """While it prepares data, no run holds a lock."""
    from harness.commands import run
    from harness.plugins.costs import plan

    def uses(*arguments: object) -> int:
        with pytest.raises(BlockingIOError), paths.in_use(tmp_path / "out", alone=True):
            pass
        return 17

    paths.made(tmp_path / "out")
    monkeypatch.setattr(plan, "main", uses)
    monkeypatch.setattr(run, "_supervisor", lambda: SimpleNamespace(run_study=uses))
    assert run_harness(*words, "scale=tiny", "task=bag", f"output={tmp_path / 'out'}").returncode == 17


def test_old_temporary_files_of_another_machine_go_too(tmp_path):
    """Its process ids mean nothing here."""
    torn = file(tmp_path / "s" / "base-1" / f".run.json.{os.getpid()}")
    plan = {"harness": {"time": 1, "folder": "/", "runs": [{"folder": "s/base-1"}]}}
    records.write(tmp_path / "s" / paths.PLAN, plan)
    assert leftovers.find(tmp_path) == []
    long_ago = time.time() - 2 * leftovers.SETTLED_S
    os.utime(torn, (long_ago, long_ago))
    assert [one.path for one in leftovers.find(tmp_path)] == [torn]


@pytest.fixture
def theirs(tmp_path, ended) -> Path:
    """Folders and files of others under the names that the harness has for its own."""
    folder = tmp_path / "theirs"
    for name in ("cache/precious", "cache/abcd1234", "sessions/alice", "src/x/checkpoints/step-1", "reports/x/.writing-book"):
        file(folder / name / "work.txt")
    for name in (
        f".key.{ended}",
        f"src/x/.key.{ended}",
        "cache/abcd1234.lock",
        "src/x/.lock",
        ".mlflow.db.making",
        f".probe.{ended}",
    ):
        file(folder / name)
    (folder / "src" / "x" / "result.json").write_text('{"status":"finished"}')
    (folder / "src" / "x" / "run.json").write_text('{"inputs": {}}')
    (folder / "src" / paths.PLAN).write_text('{"a": 1, "runs": [{"folder": "src/x"}]}')
    (folder / "sessions" / "alice" / paths.SESSION).write_text('{"done": true}')
    long_ago = time.time() - 2 * leftovers.SETTLED_S
    for path in sorted(folder.rglob("*"), reverse=True):
        os.utime(path, (long_ago, long_ago))
    return folder


def content(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_folder_that_the_harness_has_not_made_is_refused(theirs, run_harness, monkeypatch):
    before = content(theirs)
    for output in (str(theirs), ""):
        done = run_harness("clean", f"output={output}", "--yes") if output else in_folder(theirs, run_harness, monkeypatch)
        assert (done.returncode, done.stdout) == (2, "")
        reason = f"{output!r} was not made by the harness: expected the `output` of a run" if output else " is empty: "
        assert done.stderr.startswith(f"harness clean: output={reason}")
    assert content(theirs) == before


def in_folder(folder: Path, run_harness, monkeypatch) -> subprocess.CompletedProcess:
    monkeypatch.chdir(folder)
    return run_harness("clean", "output=", "--yes")


def test_what_is_of_others_stays_in_an_output_of_ours(theirs, run_harness):
    """Such as where `output` is a folder that had files before."""
    paths.made(theirs)
    before = content(theirs)
    done = run_harness("clean", f"output={theirs}", "--yes")
    assert (done.returncode, done.stdout) == (0, f"nothing to remove in {theirs}\n")
    assert content(theirs) == before


@pytest.mark.parametrize("name", ["cache", "sessions", "s", "s/base-1", "s/base-1/checkpoints", "cache/eeee5555"])
def test_what_is_behind_a_link_stays(results, run_harness, tmp_path, name):
    out, goes, _ = results
    elsewhere = (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(elsewhere)
    before = content(elsewhere)
    done = run_harness("clean", f"output={out}", "--yes")
    assert done.returncode == 0, done.stderr
    assert content(elsewhere) == before
    assert (out / name).is_symlink()
    assert not any(path.exists() for path in goes if name not in str(path.relative_to(out)))
    assert not [line for line in done.stdout.splitlines() if line.startswith((f"{name} ", f"{name}/"))]


def test_what_cannot_be_removed_is_said(results, run_harness, monkeypatch):
    out, goes, _ = results
    monkeypatch.setattr(leftovers.shutil, "rmtree", lambda path, ignore_errors: None)
    done = run_harness("clean", f"output={out}", "--yes")
    assert done.returncode == 1
    stays = [path for path in goes if path.is_dir()]
    assert {f"could not be removed: {path}" for path in stays} <= {*done.stdout.splitlines()}


def test_what_a_run_needs_again_is_neither_removed_nor_counted(results, run_harness, monkeypatch):
    out, _, _ = results
    found = iter([leftovers.find(out), []])
    monkeypatch.setattr(leftovers, "find", lambda output: next(found))
    assert run_harness("clean", f"output={out}", "--yes").stdout.splitlines()[-1] == "removed 0 B"


def test_an_output_of_before_there_were_marks_is_recognised(sweep, tmp_path, run_harness):
    """By its plan and records; a whole sweep that has just ended has nothing to remove but its session."""
    out = tmp_path / "out"
    shutil.copytree(sweep.output, out)
    for mark in out.rglob(paths.MARK):
        mark.unlink()
    done = run_harness("clean", f"output={out}", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "launches of a finished timing session" in done.stdout
    (tmp_path / "prepared").mkdir()
    shutil.copytree(sweep.output / "cache", tmp_path / "prepared" / "cache")
    assert run_harness("clean", "output=prepared", "--yes").returncode == 0
    assert not [path for path in (tmp_path / "prepared" / "cache").iterdir() if path.is_dir()]
