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
    (tmp_path / ".key.4194305").mkdir()
    (tmp_path / ".key.4194305" / "old").write_text("")
    write_once(folder, lambda temporary: (temporary / "a").write_text("whole"))
    assert sorted(path.name for path in folder.iterdir()) == [paths.MARK, "a"]
    assert not (tmp_path / ".key.4194305").exists()
