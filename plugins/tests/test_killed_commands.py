"""Commands that are killed at random moments and typed again: they end as undisturbed ones do, and leave nothing behind.

`make chaos` runs it; the seed of the kills is printed, and CHAOS_SEED repeats it.
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from child_processes import PATIENCE_S, started, wait_for, workers

from harness import paths
from harness.plugins.upkeep import leftovers
from harness.tracking import run_log

HARNESS, REPORTS = [sys.executable, "-m", "harness"], [sys.executable, "-m", "reports"]
SMALL = ["scale=tiny", "task=bag", "task.grammar.train_examples=64", "task.grammar.validation_examples=40"]
SMALL += ["finetune.max_steps=4", "hardware.threads=1", "output=out"]
TIMING = ["seed=0", "measure.rounds=2", "measure.min_rounds=2"]


def call(words: list[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def killed(words: list[str], folder: Path, kills: int, chance: random.Random, takes_s: float) -> None:
    """Types the command and ends it at a random moment, so many times; then lets it end. One that has ended earlier counts."""
    for _ in range(kills):
        with started(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(chance.uniform(0, takes_s))
            of_command = workers(process.pid) if chance.random() < 0.5 else []
            if process.poll() is None:
                process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
            for worker in of_command:
                if worker.is_running():
                    worker.kill()
            process.wait(PATIENCE_S)
    wait_for(lambda: running(folder) == [])
    call(words, folder)


def running(folder: Path) -> list[list[str]]:
    """Command lines of processes that work in the folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(folder):
                found.append(process.cmdline())
    return found


def left(folder: Path) -> list[Path]:
    """Files and folders that are half-written, and what `clean` would remove."""
    half = [path for path in folder.rglob("*") if paths.TEMPORARY.fullmatch(path.name) or path.suffix == ".tmp"]
    found = leftovers.find(folder / "out")
    return half + [one.path for one in found if "timing session" not in one.why]  # which undisturbed commands keep, too


def fixed(folder: Path) -> dict[str, object]:
    """Name of a run -> its numbers that do not depend on the clock; A/A replicates have the name of their session."""
    found = {}
    for path in sorted((folder / "out").glob("*/[!r]*/result.json")):
        metrics = run_log.result(path.parent)["metrics"]
        found[path.parent.name] = {key: metrics[key] for key in sorted(metrics) if key.startswith(("eval/", "model/"))}
    return found


def trained(folder: Path) -> None:
    """Two runs of one study, with weights, and texts for them."""
    words = ["-m", "model=base,static", "seed=0", *SMALL, "measure=none", "finetune.keep=last", "report=false", "study=s"]
    call([*HARNESS, *words], folder)
    (folder / "rows.txt").write_text("".join(f"the keeper of number {number} ||| is here\n" for number in range(3000)))


def sweep(*words: str) -> Callable[[Path], list[str]]:
    return lambda folder: [*HARNESS, "-m", "model=base,static", *SMALL, "study=t", *words]


def of_a_run(*words: str) -> Callable[[Path], list[str]]:
    return lambda folder: [*HARNESS, words[0], next((folder / "out" / "s").glob("base-*")).name, *words[1:], "output=out"]


def answers(folder: Path) -> bytes:
    return (folder / "answers.jsonl").read_bytes()


def archived(folder: Path) -> list[str]:
    """Names of its files, whose numbers agree; runs of two folders differ in their ids and times."""
    assert "all agree" in call([*REPORTS, "verify", "archived"], folder)
    return sorted(path.name for path in (folder / "archived").iterdir())


COMMANDS = {
    "timing session": (sweep(*TIMING), None, fixed),
    "tour": (lambda folder: [*HARNESS, "tour", "text=The bank was robbed.", "to=out/tour.html"], None, lambda folder: None),
    "until resolved": (sweep("measure=none", "sweep.until=resolved", "sweep.most_seeds=6"), None, fixed),
    "predict": (of_a_run("predict", "input=rows.txt", "to=answers.jsonl"), trained, answers),
    "vectors": (of_a_run("predict", "kind=vectors", "input=rows.txt", "to=answers.jsonl"), trained, answers),
    "archive": (lambda folder: [*REPORTS, "archive", "s", "output=out", "to=archived"], trained, archived),
}
"""A command; what has run before it; what it leaves that does not depend on the clock."""


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_again_and_again_ends_as_an_undisturbed_one(name, tmp_path):
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    words, before, result = COMMANDS[name]
    folders = [tmp_path / "calm", tmp_path / "wild"]
    for folder in folders:
        folder.mkdir()
        if before is not None:
            before(folder)
    began = time.monotonic()
    call(words(folders[0]), folders[0])
    killed(words(folders[1]), folders[1], 4 if name == "tour" else 14, random.Random(seed), time.monotonic() - began)
    assert result(folders[1]) == result(folders[0])
    assert left(folders[1]) == []
    wait_for(lambda: running(folders[1]) == [])
    if before is None and name != "tour":
        said = call([*HARNESS, "status", "t", "output=out"], folders[1])
        assert re.search(r"Complete\.", said), said
