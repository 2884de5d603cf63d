"""A disk that is full, at every point of a study: nothing half-written is left, and the same command completes it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_disk import fill, free, mounted
from small_study import STUDY, results, runs

from harness import paths
from harness.checkpoints import native
from harness.tracking import run_log

SIZE = 64_000_000
LEVELS = 12
"""Free space is every twelfth of what the study takes, and a few bytes."""

COMMAND = [*STUDY, "seed=0", "output=disk/out"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own at the place of the output."""
    with mounted(tmp_path / "disk", SIZE) as folder:
        yield folder


def assert_sound(output: Path) -> None:
    """Every file can be read, and so can weights and prepared data that are there."""
    for folder in runs(output):
        assert run_log.faults(folder) == {}
        if run_log.result(folder) is not None:
            native.read(folder / paths.WEIGHTS)
    for entry in output.glob("cache/[!.]*/facts.json"):
        assert {path.name for path in entry.parent.iterdir()} >= {paths.MARK, "tokenizer.json"}


@pytest.mark.slow
def test_a_study_survives_a_full_disk_at_every_point(disk, run_harness: Callable):
    output = disk / "out"
    before = free(disk)
    calm = run_harness(*COMMAND)
    assert calm.returncode == 0, calm.stdout + calm.stderr
    expected, taken = results(output), before - free(disk)
    shutil.rmtree(output)
    ended = {}
    for leave in [0, 4096, 40_000, *(taken * part // LEVELS for part in range(1, LEVELS))]:
        filler = fill(disk, leave)
        done = run_harness(*COMMAND)
        text = done.stdout + done.stderr
        assert done.returncode in (0, 1), text
        assert done.stderr.count("\n") <= 1, text
        assert "Traceback" not in text, text

        ended[leave] = done.returncode
        if output.exists():
            assert_sound(output)
        filler.unlink()
        again = run_harness(*COMMAND)
        assert again.returncode == 0, f"{leave}: {again.stdout}{again.stderr}"
        assert results(output) == expected, leave
        assert_sound(output)
        assert run_harness("sync", "output=disk/out").returncode == 0
        shutil.rmtree(output)
    print(f"a study of {taken:,} bytes; exit codes by free bytes: {ended}")
    assert ended[0] == 1
