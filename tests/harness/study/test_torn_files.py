"""Torn files that a study left: each is found, kept aside and made again, and the results are those of an undisturbed study."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_study import STUDY, results, runs

from harness import checksums, paths
from harness.tracking import run_log

pytestmark = pytest.mark.long

NEVER_READ = {paths.LOCK, paths.WORKER_LOCK, paths.TRACKING_LOCK, "log.txt"}
"""Files of a run's folder that no command reads again."""

DAMAGES = {
    "empty": lambda content: b"",
    "cut at a quarter": lambda content: content[: len(content) // 4],
    "cut at the last byte": lambda content: content[:-1] if content.endswith(b"}") else content[:-2],
    "first byte flipped": lambda content: bytes([content[0] ^ 4]) + content[1:],
    "middle byte flipped": lambda content: _flipped(content, len(content) // 2),
    "last byte flipped": lambda content: _flipped(content, len(content) - 2),
}


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


@pytest.fixture(scope="session")
def whole(once: Callable, store_template: Path) -> Path:
    """The output of an undisturbed study; nothing may change it."""

    def make(folder: Path) -> None:
        from harness.__main__ import main

        (folder / "out").mkdir()
        shutil.copy(store_template, folder / "out")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr("sys.argv", ["harness"])
            assert main([*STUDY, "output=out"]) == 0

    return once("torn", make) / "out"


@pytest.fixture
def study(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to damage, where a command that runs in `tmp_path` finds it under the same name."""
    return shutil.copytree(whole, tmp_path / "out")


def damaged(path: Path) -> Iterator[str]:
    """Damages the file in every way, one after the other, and restores it."""
    content = path.read_bytes()
    for name, damage in DAMAGES.items():
        path.write_bytes(damage(content))
        yield name
    path.write_bytes(content)


def test_a_whole_study_has_no_fault(whole):
    assert [run_log.torn(folder, weights=True) for folder in runs(whole)] == [{}] * 8
    entries = [path for path in (whole / "cache").iterdir() if path.is_dir()]
    assert [checksums.broken_seal(entry) for entry in entries] == [None] * 2


def test_every_damage_to_every_file_of_a_run_is_found(study):
    tried = set()
    for folder in (next((study / "torn").glob("base-*")), next((study / "pretrained").glob("base-*"))):
        for path in (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in NEVER_READ):
            for damage in damaged(path):
                assert run_log.torn(folder, weights=True), f"{path.relative_to(study)}, {damage}"
            tried.add(path.relative_to(folder).as_posix())
    assert tried >= {"run.json", "result.json", "config.yaml", "metrics.jsonl", "predictions.parquet", "environment.json"}
    assert tried >= {f"checkpoint/{name}" for name in ("model.safetensors", "model.json", "tokenizer.json", "task.json")}


def test_every_damage_to_every_file_of_the_cache_is_found(study):
    for entry in (path for path in (study / "cache").iterdir() if path.is_dir()):
        for path in (path for path in sorted(entry.iterdir()) if not path.name.startswith("overlap")):
            for damage in damaged(path):
                assert checksums.broken_seal(entry) == path.name, f"{path.relative_to(study)}, {damage}"


def test_a_damaged_entry_of_an_unfinished_log_is_found(study):
    folder = next((study / "pretrained").glob("base-*"))
    (folder / "result.json").unlink()
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        digit = next(place for place in range(len(line) - 1, 0, -1) if line[place : place + 1].isdigit())
        for place in (len(line) // 2, digit):
            path.write_bytes(b"".join([*lines[:number], _flipped(line, place), *lines[number + 1 :]]))
            assert run_log.torn(folder) == {"metrics.jsonl": run_log.CHANGED}, (line, place)


def test_damaged_runs_and_data_are_made_again_and_the_others_are_skipped(study, whole, run_harness):
    base, second = sorted((study / "torn").glob("base-*"))
    albert, untouched = sorted((study / "torn").glob("albert-*"))
    pretraining = next((study / "pretrained").glob("albert-tiny-mlm-0-*"))
    broken = {
        base / "result.json": b"",
        second / "run.json": (second / "run.json").read_bytes()[:99],
        albert / "predictions.parquet": _flipped((albert / "predictions.parquet").read_bytes(), 500),
        pretraining / "checkpoint" / "model.safetensors": b"x",
        next((study / "cache").glob("corpus-*[!k]")) / "train.tokens": b"",
        next((study / "cache").glob("*/overlap-*")): b'{"share": 0.5, "crc32": 1}',
    }
    for path, content in broken.items():
        path.write_bytes(content)
    done = run_harness(*STUDY, "output=out")
    assert done.returncode == 0, done.stdout + done.stderr
    for folder in (base, second, albert, pretraining):
        assert f"{folder}: " in done.stdout
    assert untouched.name not in done.stdout
    assert done.stdout.count("finished already, skipped") == 4
    assert done.stdout.count("is torn or has changed") == 4 + 1
    assert results(study) == results(whole)
    assert [run_log.torn(folder, weights=True) for folder in runs(study)] == [{}] * 8
    assert (base / "result.json.torn").read_bytes() == b""
    assert "torn" not in run_harness(*STUDY, "output=out").stdout.replace("/torn/", "").replace(str(study), "")


@pytest.mark.slow
def test_every_damage_to_every_kind_of_file_leaves_the_results_of_an_undisturbed_study(whole, tmp_path, run_harness):
    folders = [next((whole / place).glob(name)) for place, name in (("torn", "base-*"), ("pretrained", "base-*"))]
    files = [path for folder in [*folders, whole / "cache"] for path in sorted(folder.rglob("*")) if path.is_file()]
    expected, output = results(whole), tmp_path / "out"
    for path in (path for path in files if path.name not in NEVER_READ and path.suffix != ".lock"):
        for name in ("empty", "middle byte flipped"):
            shutil.copytree(whole, output)
            broken = output / path.relative_to(whole)
            broken.write_bytes(DAMAGES[name](broken.read_bytes()))
            done = run_harness(*STUDY, "output=out")
            assert done.returncode == 0, f"{path}, {name}: {done.stdout}{done.stderr}"
            assert results(output) == expected, f"{path}, {name}"
            shutil.rmtree(output)


def test_sync_names_a_torn_run_and_sends_the_others(study, run_harness):
    torn, *others = runs(study)
    (torn / "metrics.jsonl").write_bytes((torn / "metrics.jsonl").read_bytes()[:-3])
    (others[0] / "run.json").write_bytes(b"{")
    done = run_harness("sync", "output=out")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "synced 6 runs")
    assert f"{torn / 'metrics.jsonl'} is torn or has changed" in done.stdout
    assert f"{others[0] / 'run.json'} is torn" in done.stdout


def test_torn_weights_of_a_named_run_are_one_line(study, run_harness):
    run = next((study / "torn").glob("base-*"))
    source = next((study / "pretrained").glob("base-*"))
    Path("in.txt").write_text("a text\n")
    (run / "checkpoint" / "tokenizer.json").write_bytes(b"{}")
    config = (source / "config.yaml").read_bytes()
    (source / "config.yaml").write_bytes(config[:-9])
    for arguments in (["predict", str(run), "input=in.txt", "to=o.jsonl"], [f"pretrain.from={source}", "task=bag"]):
        done = run_harness(*arguments)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert "is torn or has changed since it was written" in done.stderr
    assert json.loads((run / "result.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["checkpoint"], "has no checkpoint/: expected a finished pretraining, or a fine-tuning with finetune.keep=last"),
        (["checkpoint", "result.json"], "has no checkpoint/: expected a finished pretraining"),  # as that of one that runs
        (["checkpoint/model.safetensors"], "checkpoint lacks model.safetensors: expected the weights of a run"),
        (["config.yaml"], "config.yaml is missing: expected the folder of a run"),
        (["run.json"], "run.json is missing: expected the folder of a run"),
    ],
)
def test_a_named_run_without_what_its_weights_need_is_one_line(study, run_harness, names, message):
    source = next((study / "pretrained").glob("base-*"))
    for path in map(source.joinpath, names):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = run_harness(f"pretrain.from={source}", "task=bag", "output=out", "study=from")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert message in done.stderr
    assert not (study / "from").exists()


def test_a_run_writes_through_no_link(run_harness, small, output, tmp_path):
    """Links in a copied folder are renamed with what is torn, and the run is made again."""
    command = [*small, "measure=none", "study=s", f"output={output}"]
    assert run_harness(*command).returncode == 0
    (folder,) = (path.parent for path in output.glob("s/*/run.json"))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("log.txt", "metrics.jsonl"):
        (theirs / name).write_text("theirs")
        (folder / name).unlink()
        (folder / name).symlink_to(theirs / name)
    (theirs / "checkpoints").mkdir()
    (folder / "checkpoints").symlink_to(theirs / "checkpoints")
    done = run_harness(*command)
    assert done.returncode == 0, done.stdout
    assert "log.txt is a link, which is not followed" in done.stdout
    assert {path.name: path.read_text() for path in theirs.iterdir() if path.is_file()} == dict.fromkeys(
        ("log.txt", "metrics.jsonl"), "theirs"
    )
    assert (theirs / "checkpoints").is_dir()
    assert not (folder / "log.txt").is_symlink()


def test_a_run_folder_that_is_a_link_is_refused(run_harness, small, output, tmp_path):
    command = [*small, "measure=none", "study=s", f"output={output}"]
    assert run_harness(*command).returncode == 0
    (folder,) = (path.parent for path in output.glob("s/*/run.json"))
    theirs = folder.rename(tmp_path / "theirs")
    before = sorted(path.name for path in theirs.rglob("*"))
    folder.symlink_to(theirs)
    done = run_harness(*command, "rerun=true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{folder} is reached by a link, which is not followed" in done.stderr
    assert sorted(path.name for path in theirs.rglob("*")) == before
