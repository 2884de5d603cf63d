"""Files of a stranger: each is a sound one with a part that is wrong, by one seed; and that no command obeys them."""

import json
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watched import outside, watched

MOST_BYTES = 2 << 30
"""Memory that a command may take more than the process has."""

CODE = "__import__('os').system('touch executed')"

VALUES = [
    *(None, True, -1, 0, 2**31, 10**30, 1e308, float("inf"), float("nan"), 0.5),
    *(
        "",
        "x",
        "\x1b]0;forged\x07\x1b[2J\nfinished\r",
        "\u202eforged",
        "../../../private",
        "/etc/passwd",
        "a" * 100_000,
        "\ud800",
    ),
    *("${oc.env:SECRET_OF_TEST}", "${oc.create:{_target_:os.system}}", "$(touch executed)", "'; touch executed #", CODE),
    *([], {}, [[]], [None], ["a"] * 1000, {"_target_": "os.system", "command": "touch executed"}, {"()": "os.system"}),
]
"""What stands in the place of a value of another type, size or meaning."""


def make_sound(root: Path) -> Path:
    """`out` below the folder, with a study of one finished run; the folder of the run."""
    from harness import paths, records, tags
    from harness.config import compose, resolve
    from harness.study import run_folder
    from harness.tracking import run_log

    configs: list = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["harness"])
        compose.main(["task=bag", "scale=tiny", "study=s", f"output={root / 'out'}"], lambda found: configs.extend(found) or 0)
    run = root / "out" / "s" / "base-1"
    run.mkdir(parents=True)
    paths.made(root / "out")
    resolve.save(configs[0], run / "config.yaml")
    log = run_log.RunLog(run)
    log.stage("finetune", 2)
    log.curve("finetune/loss", 1, 0.5, 10)
    log.value("eval/score", 0.5)
    log.finish("finished")
    named = {tags.STUDY: "s", "arm": "base", tags.COMMAND: "harness task=bag", tags.LIFTED: "[]"}
    record = {"attempt": "a1", "name": "base", "started": 1, "tags": named, "parameters": {"seed": "0"}, "inputs": {}}
    run_folder.write(run, record)
    entry = {"folder": "s/base-1", "title": "base", "timed": False, "needs": None}
    plan = {"python -m harness task=bag study=s": {"time": 1, "folder": str(root), "sweep": None, "runs": [entry]}}
    records.write(root / "out" / "s" / "plan.json", plan)
    return run


Case = tuple[str, Path, bytes | Callable[[Path], Any]]
"""What is wrong, the file, and its content or what makes it."""


def places(value: Any, at: tuple = ()) -> Iterator[tuple]:
    """Each place in a nested value."""
    yield at
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*at, key))


def changed(content: Any, chance: random.Random) -> tuple[str, Any]:
    """The content with one value that is another, left out, or under another name."""
    content = json.loads(json.dumps(content))
    at = chance.choice([place for place in places(content) if place])
    parent = content
    for key in at[:-1]:
        parent = parent[key]
    kind, value = chance.random(), chance.choice(VALUES)
    if kind < 0.75:
        parent[at[-1]] = value
    elif isinstance(parent, dict) and kind < 0.9:
        parent[str(value)] = parent.pop(at[-1])
    else:
        del parent[at[-1]]
    return f"{'.'.join(map(str, at))} {kind:.1f} {str(value)[:30]!r}", content


def json_cases(path: Path, count: int, seed: int) -> Iterator[Case]:
    """JSON files: wrong values, and wholes that are no such object."""
    chance, content = random.Random(seed), json.loads(path.read_bytes())
    yield from whole_cases(path)
    deep = b"[" * 3000 + b"]" * 3000
    for text in (b"", b"[]", b"null", b"\xff\xfe{}", deep, b'{"a": %s}' % deep, b"1" * 5000, b'{"a": Infinity}'):
        yield text[:10].decode(errors="replace"), path, text
    for _ in range(count):
        what, value = changed(content, chance)
        yield what, path, json.dumps(value).encode()


def whole_cases(path: Path) -> Iterator[Case]:
    """In the place of a file: what has no end, what leads elsewhere, what is larger than memory."""
    yield "FIFO", path, os.mkfifo
    yield "device", path, lambda place: place.symlink_to("/dev/zero")
    yield "folder", path, os.mkdir
    yield "nothing", path, lambda place: None
    yield "a terabyte", path, lambda place: (place.touch(), os.truncate(place, 1 << 40))


def put(case: Case, root: Path) -> None:
    _, path, content = case
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)


def restored(case: Case, sound: Path, root: Path) -> None:
    """The sound file in its place again."""
    put((case[0], case[1], (sound / case[1].relative_to(root)).read_bytes()), root)


def disobeyed(seen: list[tuple[str, str]], root: Path, private: Path) -> list[tuple[str, str]]:
    """What is written elsewhere, read of the private file, started or connected; libraries keep what they have compiled."""
    caches = {"__pycache__", ".cache", ".config"}
    done = [one for one in outside(seen, root, Path("/dev")) if not caches & {*Path(one[1]).parts}]
    done = [one for one in done if one[0] != "subprocess.Popen" or "executed" in one[1]]
    return done + [one for one in seen if one[1] == str(private)]


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of the user beside the working directory, which no test may change."""
    file = tmp_path.parent / f"{tmp_path.name}-private"
    file.write_text("kept")
    monkeypatch.setenv("SECRET_OF_TEST", "value-of-the-environment")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield file
    assert file.read_text() == "kept"
    assert not list(tmp_path.rglob("executed"))


@pytest.fixture
def obey_nothing(private: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> Callable[..., None]:
    """Runs commands on a case: each ends by itself with at most one line of a mistake, and nothing was obeyed."""

    from harness.__main__ import main

    def tried(case: Case, *commands: list[str]) -> None:
        put(case, tmp_path)
        for command in commands:
            capsys.readouterr()
            limits = resource.getrlimit(resource.RLIMIT_AS)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            signal.alarm(120)  # ends a test that would wait for ever
            resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, limits[1]))
            try:
                with watched() as seen:
                    code = main(command)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, limits)
                signal.alarm(0)
            out, err = capsys.readouterr()
            err = "".join(line for line in err.splitlines(keepends=True) if "WARNING mlflow" not in line)  # that it cuts a tag
            where = f"{case[0][:60]} of {case[1].name}: {command}\n{out[:2000]}{err[:2000]}"
            assert code in (0, 1, 2), where
            assert err.count("\n") == (code == 2), where
            assert not {*"\x1b\x07\r\u202e"} & {*out, *err}, where
            assert "Traceback" not in out + err, where
            assert "value-of-the-environment" not in out + err, where
            assert len(out + err) < 10_000, where
            assert disobeyed(seen, tmp_path, private) == [], where

    return tried


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
