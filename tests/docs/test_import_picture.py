"""docs/design.md names what there is, and its picture is drawn from the imports of the code."""

import re

import import_picture
import pytest


@pytest.mark.long
def test_the_picture_has_the_packages_that_there_are():
    """`python tests/docs/import_picture.py` draws it anew."""
    picture = import_picture.PICTURE.read_text(encoding="utf-8")
    assert import_picture.boxes(picture) == import_picture.boxes(import_picture.drawn(import_picture.imports()))


def test_a_line_that_follows_from_others_is_left_out():
    picture = import_picture.drawn({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert import_picture.boxes(picture) == {"a", "b", "c"}
    assert picture.count("<path") == 2
    with pytest.raises(ValueError, match="cycle"):
        import_picture.drawn({"a": {"b"}, "b": {"a"}})


def test_the_files_that_the_page_names_are_there():
    page = (import_picture.ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:harness|models|reports|plugins|tests)/[\w/.]+)`", page))
    assert len(named) > 10
    assert [name for name in named if not (import_picture.ROOT / name).exists()] == []
