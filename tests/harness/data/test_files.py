"""Files of the user's own that are torn: the line is named before a loader guesses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.config.schema import RunConfig, TaskConfig
from harness.errors import InputError
from harness.tasks.rows import load_table

KINDS = ("csv", "tsv", "jsonl", "parquet")


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str, bytes], str]:
    """The one-line error for a file of this name with these bytes."""

    def message_of(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        task = TaskConfig(name="own", fields=["text"], label="y", labels=["neg", "pos"], train_file=str(tmp_path / name))
        with pytest.raises(InputError) as error:
            load_table(RunConfig(task=task), "train")
        assert "\n" not in str(error.value)
        return str(error.value)

    return message_of


@pytest.mark.parametrize("kind", KINDS)
def test_empty_file_is_refused(refused, kind):
    message = refused(f"a.{kind}", b"")
    assert message.startswith("task.train_file=")
    assert message.endswith(f"a.{kind}' is empty")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", b"text,y\nfine,pos\nna\xefve,neg\n"), ("a.jsonl", b'{"text": "a"}\n{}\n{"text": "na\xefve"}\n')],
)
def test_other_encoding_names_line_and_byte(refused, name, content):
    message = refused(name, content)
    assert message.startswith(f"task 'own', train ({name}), line 3: byte 0xef is not UTF-8")
    assert "task.train_file" in message


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_nul_byte_names_the_line(refused, name):
    message = refused(name, b"text,y\nfi\0ne,pos\n")
    assert message == f"task 'own', train ({name}), line 2: there is a NUL byte; remove it from the file of task.train_file"


@pytest.mark.parametrize(("line", "columns"), [(b"c,pos,more", 3), (b"c", 1)])
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_ragged_line_is_named(refused, kind, line, columns):
    content = b"text,y\na,pos\n" + line + b"\nd,neg\n"
    message = refused(f"a.{kind}", content if kind == "csv" else content.replace(b",", b"\t"))
    assert f"(a.{kind}), line 3: {columns} columns, but the header has 2; fix the file of task.train_file" in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b'text,y\n"open,pos\nb,neg\n', "unexpected end of data"), (b"text,y,y\na,pos,neg\n", "two columns of the header")],
)
def test_csv_that_is_none_is_one_line(refused, content, expected):
    assert expected in refused("a.csv", content)


@pytest.mark.parametrize(("line", "expected"), [(b'{"text": "b", "y"', "not JSON"), (b'["b", "pos"]', "expected an object")])
def test_broken_line_of_json_is_named(refused, line, expected):
    content = b'{"text": "a", "y": "pos"}\n\n' + line + b"\n"
    assert refused("a.jsonl", content).startswith(f"task 'own', train (a.jsonl), line 3: {expected}")


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_carriage_return_is_no_end_of_a_line(refused, kind):
    separator = "," if kind == "csv" else "\t"
    message = refused(f"a.{kind}", f"text{separator}y\na\rb{separator}pos\n".encode())
    assert f"(a.{kind}), line 2: there is a carriage return without a line feed; fix the file of task.train_file" in message


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x0c", "\x1c"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_other_ends_of_lines_are_characters_of_a_text(tmp_path, kind, character):
    rows = {"csv": f"text,y\na{character}b,pos\n", "tsv": f"text\ty\na{character}b\tpos\n"}
    rows["jsonl"] = json.dumps({"text": f"a{character}b", "y": "pos"}, ensure_ascii=False) + "\n"
    (tmp_path / f"a.{kind}").write_bytes(rows[kind].encode())
    task = TaskConfig(name="own", fields=["text"], label="y", labels=["neg", "pos"], train_file=str(tmp_path / f"a.{kind}"))
    assert load_table(RunConfig(task=task), "train").columns["text"] == [f"a{character}b"]
