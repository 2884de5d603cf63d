"""Configs, checkpoints and weights of a stranger: refused in one line or read as data, by the commands that read them."""

import json
import os
import pickle
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile import VALUES, Case, json_cases, make_sound, restored, whole_cases
from kept_runs import kept
from safetensors.torch import save_file

from harness.checkpoints import native
from harness.config.choices import TaskKind
from harness.config.schema import TokenizerConfig
from harness.data.tokenizer import build
from harness.plugins.export.checkpoint import export

pytestmark = pytest.mark.long

CHECKPOINT = Path("out", "s", "base-1", "checkpoint")
LOADED = ["predict", "s/base-1", "input=in.txt", "to=out.jsonl", "output=out", "hardware.threads=1"]
PUBLISHED = ["predict", "kind=vectors", "checkpoint=published", "input=in.txt", "to=out.jsonl", "hardware.threads=1"]
EXPORT = ["export", "s/base-1", "to=export", "output=out"]


@pytest.fixture(scope="module")
def sound(once: Callable) -> Path:
    """A run with weights, and beside it `published`, the same weights as an export."""

    def make(root: Path) -> None:
        run, tokenizer = make_sound(root), build(TokenizerConfig(vocab_size=60, min_frequency=1), ["the cat sat", "a dog"])
        kept(run, tokenizer, TaskKind.classification, ["a", "b"], ["text"])
        (run / "tokenizer.json").unlink()
        export(run / "checkpoint", root / "published")
        (root / "in.txt").write_text("the cat\n")

    return once("hostile_weights", make)


@pytest.fixture
def try_all(obey_nothing: Callable, sound: Path, copied: Path) -> Callable[..., None]:
    """Tries cases one after the other; what a command has made is gone, and the sound file in its place again."""

    def tried(command: list[str], cases: list[Case]) -> None:
        for case in cases:
            obey_nothing(case, command)
            restored(case, sound, copied)
            (copied / "out.jsonl").unlink(missing_ok=True)
            shutil.rmtree(copied / "export", ignore_errors=True)

    return tried


def test_sound_files_are_read(obey_nothing, copied):
    """The commands of these tests end with 0 where nothing is wrong."""
    for command in (LOADED, PUBLISHED, EXPORT):
        obey_nothing(("sound", copied / "in.txt", b"the cat\n"), command)
        (copied / "out.jsonl").unlink(missing_ok=True)
    assert (copied / "export" / "README.md").exists()


@pytest.mark.parametrize("command", [["predict", "run"], ["predict", "kind=vectors", "run"], ["export", "run"]], ids=" ".join)
def test_pickles_in_the_place_of_weights_are_refused(command, obey_nothing, copied):
    (copied / "run" / "checkpoint").mkdir(parents=True)
    names = ("model.safetensors", "model.json", "tokenizer.json", "task.json", "pytorch_model.bin")
    for path in (*(copied / "run" / "checkpoint" / name for name in names), copied / "run" / "run.json"):
        path.write_bytes(pickle.dumps(Payload()))
    more = ["input=in.txt", "to=out.jsonl"] if command[0] == "predict" else []
    obey_nothing(("none", copied / "in.txt", b"the cat\n"), [*command, *more])


def test_configs_of_runs_of_a_stranger_are_data(try_all, copied):
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
    for _ in range(12):
        place, value = chance.randrange(len(lines)), chance.choice(VALUES)
        key = lines[place].partition(":")[0]
        try:
            text = "\n".join([*lines[:place], f"{key}: {json.dumps(value)}", *lines[place + 1 :]]).encode()
        except UnicodeEncodeError:
            continue
        cases.append((f"{key} {str(value)[:30]!r}", path, text))
    try_all(EXPORT, cases)


@pytest.mark.parametrize(("name", "count"), [("model.json", 14), ("task.json", 10)])
def test_checkpoints_of_a_stranger_are_data(name, count, try_all, copied):
    try_all(LOADED, [*json_cases(copied / CHECKPOINT / name, count, 4)])


SIZES = {"hidden_size": 2**20, "vocab_size": 10**8, "num_hidden_layers": 10**5, "intermediate_size": 2**24}


@pytest.mark.parametrize(("key", "size"), [*SIZES.items(), ("head_size", 2**20)])
def test_a_shape_larger_than_memory_is_one_line(key, size, obey_nothing, copied):
    """The weights state the same shape, so that it is not refused as that of another model."""
    folder = copied / CHECKPOINT
    shape = json.dumps(json.loads((folder / "model.json").read_bytes()) | {key: size})
    save_file(native.tensors(folder / "model.safetensors")[0], folder / "model.safetensors", metadata={"shape": shape})
    obey_nothing((key, folder / "model.json", shape.encode()), LOADED)


class Payload:
    def __reduce__(self):
        return os.system, ("touch executed",)


def headers(path: Path) -> Iterator[Case]:
    """Safetensors files whose list of tensors is wrong."""

    def file(header: object, data: bytes = bytes(64), size: int | None = None) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if size is None else size) + text + data

    def tensor(dtype: str = "F32", shape: object = (4,), offsets: object = (0, 16)) -> dict:
        return {"dtype": dtype, "shape": shape, "data_offsets": offsets}

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


@pytest.mark.parametrize(("where", "command"), [(CHECKPOINT, LOADED), ("published", PUBLISHED)], ids=["run", "published"])
def test_weights_of_a_stranger_are_data(where, command, try_all, copied):
    path = copied / where / "model.safetensors"
    cases = [*whole_cases(path), *headers(path)]
    good, chance = path.read_bytes(), random.Random(5)
    for _ in range(8):  # torn: bytes of the list of tensors are others, or the end is missing
        place = chance.randrange(8, 8 + int.from_bytes(good[:8], "little"))
        torn = good[: chance.randrange(len(good))] if chance.random() < 0.3 else good[:place] + b"7" + good[place + 1 :]
        cases.append((f"torn at {place}", path, torn))
    try_all(command, cases)


def test_published_configs_of_a_stranger_are_data(try_all, copied):
    path = copied / "published" / "config.json"
    known = json.loads(path.read_bytes())
    sizes = SIZES | {"num_attention_heads": 0, "max_position_embeddings": 10**8, "type_vocab_size": 10**8}
    sizes |= {"layer_norm_eps": float("nan")}
    cases = [(key, path, json.dumps(known | {key: size}).encode()) for key, size in sizes.items()]
    try_all(PUBLISHED, [*json_cases(path, 16, 6), *cases, ("all at once", path, json.dumps(known | sizes).encode())])
