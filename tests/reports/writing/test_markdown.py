"""The report's Markdown as other formats read it: text as text, HTML of the report alone."""

import pytest

from harness.reports.writing import formats, markdown

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


@pytest.mark.parametrize("name", HOSTILE)
def test_escaped_name_is_its_text_in_a_table(name: str):
    text = formats.table(["arm", "score"], [[formats.escape(name), "1<br>2"]])
    ((_, table),) = markdown.tables(text)
    assert [markdown.lines(cell) for cell in table.rows[0]] == [[" ".join(name.split())], ["1", "2"]]


@pytest.mark.parametrize("name", HOSTILE)
def test_escaped_name_makes_no_element(name: str):
    shown = markdown.to_html(markdown.blocks(f"Arm {formats.escape(name)}."))
    assert shown.count("<") == 2
    assert shown.startswith("<p>Arm ")


def test_html_in_the_text_is_shown_but_for_line_breaks_and_what_folds():
    text = "<details>\n<summary>more</summary>\n\na<br>b <b>c</b>\n\n</details>\n\n<div onclick=x>\nd\n</div>"
    shown = markdown.to_html(markdown.blocks(text))
    assert shown == (
        "<details>\n<summary>more</summary>\n<p>a<br>b &lt;b&gt;c&lt;/b&gt;</p>\n</details>\n"
        "&lt;div onclick=x&gt;\nd\n&lt;/div&gt;"
    )


def test_tables_have_the_headings_above_them():
    text = "# R\n\n## *bag*: a\n\n| x |\n| :-- |\n\n### more\n\n| y |\n| :-- |\n\n## b\n\n| z |\n| :-- |"
    assert [above for above, _ in markdown.tables(text)] == [["R", "bag: a"], ["R", "bag: a", "more"], ["R", "b"]]
