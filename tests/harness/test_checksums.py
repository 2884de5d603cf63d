"""Checksums: every change of a file is found, whole files are read as they were written."""

import json

import pytest

from harness import checksums
from harness.checksums import TornError

VALUE = {"status": "finished", "metrics": {"eval/score": 0.1 + 0.2, "eval/loss": 1e-30}, "names": ["é", None, True]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "value.json"
    path.write_text(json.dumps(checksums.with_checksum(VALUE), indent=1))
    return path


def test_an_object_is_read_as_it_was_written(file):
    assert checksums.read(file) == VALUE
    again = checksums.with_checksum(json.loads(file.read_text()) | {"status": "failed"})
    assert checksums.parse(json.dumps(again), "again") == VALUE | {"status": "failed"}


def test_no_cut_of_a_file_is_read(file):
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(TornError, match=r"value\.json is torn"):
            checksums.read(file)


def test_no_changed_byte_is_read_as_another_value(file):
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            value = checksums.read(file)
        except TornError:
            continue
        assert {key: value.get(key) for key in VALUE} == VALUE, place  # white space, or the name of the checksum itself


def test_a_sealed_folder_is_whole_until_one_of_its_files_changes(tmp_path):
    (tmp_path / "a").write_bytes(b"first")
    (tmp_path / "b").write_bytes(b"")
    checksums.seal(tmp_path)
    assert checksums.broken_seal(tmp_path) is None
    for name in ("a", checksums.FILE):
        whole = (tmp_path / name).read_bytes()
        for damaged in (b"", whole[:-1], b"X" + whole[1:], whole + b"more"):
            (tmp_path / name).write_bytes(damaged)
            assert checksums.broken_seal(tmp_path) == name
            with pytest.raises(TornError, match=name):
                checksums.refuse_broken_seal(tmp_path)
        (tmp_path / name).write_bytes(whole)
    (tmp_path / "b").unlink()
    assert checksums.broken_seal(tmp_path) == "b"


def test_sizes_alone_are_compared_where_the_content_is_large(tmp_path):
    (tmp_path / "a").write_bytes(b"first")
    checksums.seal(tmp_path)
    (tmp_path / "a").write_bytes(b"other")
    assert (checksums.broken_seal(tmp_path, content=False), checksums.broken_seal(tmp_path)) == (None, "a")
    (tmp_path / "a").write_bytes(b"")
    assert checksums.broken_seal(tmp_path, content=False) == "a"


def test_a_file_that_grows_is_compared_as_far_as_it_was_written(tmp_path):
    (tmp_path / "log").write_bytes(b"one\n")
    sums = checksums.of_files(tmp_path, ["log"])
    (tmp_path / "log").write_bytes(b"one\ntwo\n")
    assert (checksums.fault(tmp_path, sums, growing="log"), checksums.fault(tmp_path, sums)) == (None, "log")
    (tmp_path / "log").write_bytes(b"One\ntwo\n")
    assert checksums.fault(tmp_path, sums, growing="log") == "log"


def test_what_is_kept_aside_replaces_nothing(tmp_path):
    names = []
    for _ in range(3):
        (tmp_path / "a").write_text("")
        names.append((tmp_path / "a").rename(checksums.aside(tmp_path / "a")).name)
    assert names == ["a.torn", "a.torn-2", "a.torn-3"]
