"""JSON files of the harness: whole or not at all, typed where they are read, set aside where they cannot be."""

import json
import os
from pathlib import Path
from typing import TypedDict

import pytest

from harness import records
from harness.records import CorruptError


class Named(TypedDict):
    name: str
    values: dict[str, int | float]


VALUE = {"name": "é", "values": {"a": 0.1 + 0.2, "b": 1e-30, "c": 3}}


def test_a_value_is_read_as_it_was_written_without_what_its_type_lacks(tmp_path):
    records.write(tmp_path / "a", VALUE | {"crc32": 12})
    assert records.read(tmp_path / "a", Named) == VALUE


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_crash_leaves_the_file_before(tmp_path, monkeypatch, broken):
    def crash(*_: object) -> None:
        raise OSError("no space left on device")

    records.write(tmp_path / "a", VALUE)
    monkeypatch.setattr(*((os, "fsync") if broken == "fsync" else (Path, "replace")), crash)
    with pytest.raises(OSError, match="no space"):
        records.write(tmp_path / "a", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert records.read(tmp_path / "a", Named) == VALUE


def test_a_number_that_json_lacks_leaves_the_file_before(tmp_path):
    records.write(tmp_path / "a", VALUE)
    with pytest.raises(ValueError, match="JSON compliant"):
        records.write(tmp_path / "a", {"raw": [float("nan")]})
    assert records.read(tmp_path / "a", Named) == VALUE


def test_no_cut_of_a_file_is_read(tmp_path):
    path = tmp_path / "a"
    whole = json.dumps(VALUE).encode()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptError, match=rf"^{path} is corrupt: [^\n]+$"):
            records.read(path, Named)


@pytest.mark.parametrize(
    "content", [b"\xff", b"[" * 100_000, b"{}", b'{"name": 3, "values": {}}', b'{"name": "a", "values": {"b": 1e999}}', b"[]"]
)
def test_another_content_is_one_line(content):
    with pytest.raises(CorruptError, match=r"^here is corrupt: [^\n]+$"):
        records.decoded(content, Named, "here")


def test_what_is_set_aside_replaces_nothing(tmp_path, capsys):
    for _ in range(3):
        (tmp_path / "a").write_text("{")
        assert records.read_or_set_aside(tmp_path / "a", dict[str, float]) == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.corrupt", "a.corrupt-2", "a.corrupt-3"]
    assert capsys.readouterr().out.splitlines()[2].endswith("a is kept as a.corrupt-3")
    assert records.read_or_set_aside(tmp_path / "a", dict[str, float]) == {}
