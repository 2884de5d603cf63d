"""Folders of prepared data: written once, and never read incomplete."""

import pytest

from harness import paths
from harness.data.cache import write_once


def test_folder_is_filled_once_and_kept(tmp_path):
    folder = tmp_path / "cache" / "key"
    write_once(folder, lambda temporary: (temporary / "a").write_text("first"))
    write_once(folder, lambda temporary: (temporary / "a").write_text("second"))
    assert (folder / "a").read_text() == "first"


def test_failed_fill_leaves_no_folder_and_leftovers_do_not_hinder(tmp_path):
    folder = tmp_path / "key"

    def fail(temporary):
        (temporary / "half").write_text("")
        assert not folder.exists()
        raise RuntimeError("no space")

    with pytest.raises(RuntimeError, match="no space"):
        write_once(folder, fail)
    assert not list(tmp_path.glob("key*/"))
    (tmp_path / "key.tmp").mkdir()
    (tmp_path / "key.tmp" / "old").write_text("")
    write_once(folder, lambda temporary: (temporary / "a").write_text("whole"))
    assert sorted(path.name for path in folder.iterdir()) == [paths.MARK, "a", "checksums.json"]


def test_an_entry_with_a_torn_file_is_kept_aside_and_made_again(tmp_path, capsys):
    folder = tmp_path / "key"
    for number, damaged in enumerate((b"whol", b"Whole", b"", None)):
        write_once(folder, lambda temporary: (temporary / "a").write_text("whole"))
        assert capsys.readouterr().out.count("torn") == bool(number) * 3
        if damaged is None:
            (folder / "checksums.json").unlink()
        else:
            (folder / "a").write_bytes(damaged)
    write_once(folder, lambda temporary: (temporary / "a").write_text("whole"))
    assert (folder / "a").read_text() == "whole"
    assert capsys.readouterr().out == (
        f"{folder / 'checksums.json'} is torn or has changed: the folder is kept as key.torn-4, and made again\n"
    )
    assert (tmp_path / "key.torn").is_dir()
