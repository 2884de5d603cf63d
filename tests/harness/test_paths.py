"""Files that are read back: regular ones of a limited size alone; their text is printed on one line."""

import os
import shutil
from pathlib import Path

import pytest

from harness import paths, records
from harness.errors import InputError, on_one_line


def test_a_regular_file_is_read_up_to_its_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("a")
    assert [paths.read(tmp_path / name, 5) for name in ("a", "link")] == [b"12345", b"12345"]
    with pytest.raises(InputError, match="has 5 bytes: expected at most 4"):
        paths.read(tmp_path / "a", 4)
    with pytest.raises(FileNotFoundError):
        paths.read(tmp_path / "b", 4)


@pytest.mark.parametrize("kind", ["FIFO", "device", "folder", "link to a device", "file of the kernel"])
def test_what_may_have_no_end_is_not_opened(tmp_path, kind):
    place = tmp_path / "x"
    made = {"FIFO": os.mkfifo, "folder": os.mkdir, "link to a device": lambda path: path.symlink_to("/dev/zero")}
    path = {"device": Path("/dev/zero"), "file of the kernel": Path("/proc/self/maps")}.get(kind, place)
    made.get(kind, lambda path: None)(place)
    with pytest.raises(InputError, match=r"not a regular file|has over 16 bytes"):
        paths.read(path, 16)
    if path == place:
        with pytest.raises(records.CorruptError, match="not a regular file"):
            records.read(place, dict)
        assert not paths.is_record(place)


def test_text_that_is_read_back_is_printed_on_one_line():
    assert on_one_line("plain, ü, 中, 😀") == "plain, ü, 中, 😀"
    assert on_one_line("a\nb\r\x1b[2J\x9b\u202e\u2028\t") == r"a\nb\r\x1b[2J\x9b\u202e\u2028\t"
    assert on_one_line("\x1b" * 9, 2) == r"\x1b\x1b..."
    assert on_one_line("\udcff") == r"\udcff"


def test_a_folder_that_goes_while_others_are_read_is_left_out(tmp_path, monkeypatch):
    """Commands share an output: one must not fail because another just removed a temporary folder of its own."""
    for name in ("kept", "goes"):
        (tmp_path / "study" / name).mkdir(parents=True)
        (tmp_path / "study" / name / "run.json").write_text("{}")
    scan = os.scandir

    def scan_too_late(folder):
        if str(folder).endswith("goes"):
            monkeypatch.undo()
            shutil.rmtree(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scan_too_late)
    assert paths.matching(tmp_path, "*/*/*.json") == [tmp_path / "study" / "kept" / "run.json"]
