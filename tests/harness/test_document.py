"""A report as objects: what Markdown and plain text make of them, and that JSON keeps all of them."""

import msgspec
import pytest

from harness.document import Bullets, Cell, Document, Picture, Screen, Section, Table, is_detail, markdown, unmarked, without
from harness.reports.html import marked_up
from harness.reports.writing.formats import escape, table

HOSTILE = (
    "<script>alert(1)</script>",
    "a|b",
    "a\nb",
    "a\r\n# b",
    '"quoted\' name"',
    "=1+1",
    "@x",
    "[a](javascript:alert(1))",
    "![a](x.svg)",
    "<img src=x onerror=alert(1)>",
    "<br>",
    "</details>",
    "`code` *em* __strong__",
    "&lt;b&gt; &amp;",
    "http://example.com",
    "</style></script><!--",
    "{policy} {0} %s $x$ \\input{y}",
)
TABLE = table(["arm", "score"], [["a", Cell("0.5", 0.5, "score", "+1 ▲", "better")]])
DETAIL = Section("Tests", ["more", TABLE], detail=True)
LAST = Section("", ["end", Section("Last", ["z"])])
CHAPTER = Section("Chapter", ["text", Bullets(["b", "c"]), Picture("x.svg", "It"), DETAIL, LAST])


@pytest.mark.parametrize("name", HOSTILE)
def test_an_escaped_name_is_its_text_and_makes_no_element(name: str):
    assert unmarked(escape(name)) == " ".join(name.split())
    assert "<" not in marked_up(f"Arm {escape(name)}.")
    assert "|" not in escape(name).replace(r"\|", "")


def test_html_is_shown_as_text():
    assert marked_up("a <b onclick=x>b</b>") == "a &lt;b onclick=x&gt;b&lt;/b&gt;"


def test_sections_are_headings_by_depth_and_one_without_a_title_goes_on():
    assert [*markdown(CHAPTER)] == [
        *("## Chapter", "text", "- b\n- c", "![It](x.svg)", "*It.*"),
        *("### Tests", "more", "| arm | score |\n| :-- | --: |\n| a | 0.5<br>+1 ▲ |", "end", "### Last", "z"),
    ]
    assert [*markdown(Section("", ["a", Section("Part", ["b"])]))] == ["a", "## Part", "b"]


def test_a_section_without_content_has_no_heading():
    """Such as one whose pictures an archive leaves out."""
    assert [*markdown(Section("", ["a", Section("Part", [Section("Inner")])]))] == ["a"]


def test_detail_is_left_out_at_any_depth():
    outer = Section("", [CHAPTER, DETAIL])
    assert [*markdown(without(outer, is_detail))][-3:] == ["end", "### Last", "z"]


def test_another_process_reads_the_same_objects():
    report = Document("r", [CHAPTER], Screen("a", TABLE, ["n"]), is_small=True)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Document) == report


def test_a_count_has_its_number():
    assert table(["a"], [[1200]]) == Table(["a"], [[Cell("1,200", 1200)]])
