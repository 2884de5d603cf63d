"""Files that were damaged after a study wrote them whole: what a run is and found is kept aside and made again."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_study import STUDY, results, runs

from harness import paths
from harness.tracking import run_log

pytestmark = pytest.mark.long

NEVER_READ = {paths.LOCK, paths.WORKER_LOCK, paths.TRACKING_LOCK, "log.txt"}
"""Files of a run's folder that no command reads again."""

DAMAGES = {
    "empty": lambda content: b"",
    "cut at a quarter": lambda content: content[: len(content) // 4],
    "cut at the end": lambda content: content[:-2],
}


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


def test_every_cut_of_what_says_what_a_run_is_and_found_is_noticed(study):
    for folder in (next((study / "torn").glob("base-*")), next((study / "pretrained").glob("base-*"))):
        for name in ("run.json", "result.json"):
            for damage in damaged(folder / name):
                assert [*run_log.faults(folder)] == [name], damage
        lines = (folder / "metrics.jsonl").read_bytes()
        (folder / "metrics.jsonl").write_bytes(lines.replace(b'"step"', b'"step', 1))
        assert [*run_log.faults(folder)] == ["metrics.jsonl"]


def test_damaged_runs_are_made_again_and_the_others_are_skipped(study, whole, run_harness):
    base, second = sorted((study / "torn").glob("base-*"))
    albert, untouched = sorted((study / "torn").glob("albert-*"))
    broken = {
        base / "result.json": b"",
        second / "run.json": (second / "run.json").read_bytes()[:99],
        albert / "metrics.jsonl": (albert / "metrics.jsonl").read_bytes().replace(b"step", b"step\0"),
        next((study / "cache").glob("*/overlap-*")): b'{"share":',
    }
    for path, content in broken.items():
        path.write_bytes(content)
    done = run_harness(*STUDY, "output=out")
    assert done.returncode == 0, done.stdout + done.stderr
    for folder in (base, second, albert):
        assert f"{folder}: " in done.stdout
    assert untouched.name not in done.stdout
    assert done.stdout.count("finished already, skipped") == 5
    assert done.stdout.count("is corrupt: ") == 4
    assert results(study) == results(whole)
    assert [run_log.faults(folder) for folder in runs(study)] == [{}] * 8
    assert (base / "result.json.corrupt").read_bytes() == b""
    assert "corrupt" not in run_harness(*STUDY, "output=out").stdout


@pytest.mark.slow
def test_every_cut_of_every_kind_of_file_leaves_the_results_as_they_are_or_is_one_line(whole, tmp_path, run_harness):
    folders = [next((whole / place).glob(name)) for place, name in (("torn", "base-*"), ("pretrained", "base-*"))]
    files = [path for folder in [*folders, whole / "cache"] for path in sorted(folder.rglob("*")) if path.is_file()]
    expected, output = results(whole), tmp_path / "out"
    for path in (path for path in files if path.name not in NEVER_READ and path.suffix not in (".lock", ".parquet")):
        for name in ("empty", "cut at a quarter"):
            shutil.copytree(whole, output)
            broken = output / path.relative_to(whole)
            broken.write_bytes(DAMAGES[name](broken.read_bytes()))
            done = run_harness(*STUDY, "output=out")
            said = done.stdout + done.stderr
            assert "Traceback" not in said, f"{path}, {name}: {said}"
            assert broken.name in said or results(output) == expected, f"{path}, {name}: {said}"
            shutil.rmtree(output)


def test_sync_names_a_corrupt_run_and_sends_the_others(study, run_harness):
    corrupt, *others = runs(study)
    (corrupt / "metrics.jsonl").write_bytes(b"{\n" + (corrupt / "metrics.jsonl").read_bytes())
    (others[0] / "run.json").write_bytes(b"{")
    done = run_harness("sync", "output=out")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "synced 6 runs")
    for path in (corrupt / "metrics.jsonl", others[0] / "run.json"):
        assert f"{path} is corrupt: " in done.stdout


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["checkpoint"], "has no checkpoint/: expected a finished pretraining, or a fine-tuning with finetune.keep=last"),
        (["checkpoint", "result.json"], "has not finished: `python -m harness status` says why"),  # as that of one that runs
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
