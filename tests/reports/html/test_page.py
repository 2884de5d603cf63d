"""The page as text: one file, nothing from elsewhere, names without effect, ids of their own."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from harness.comparison.compare import compare
from harness.document import Bullets, Cell, Document, Section
from harness.reports.html import cell_lines, page
from harness.reports.html.picture import dark_rules, inline
from harness.reports.render import render
from harness.reports.writing import formats

pytestmark = pytest.mark.long

VALUES = {"eval/score": 0.8, "model/params_total": 1e6, "inference/latency_ms_p50": 3.0, "eval/majority_score": 0.5}
VALUES |= {"model/params_component_layers": 6e5, "model/params_component_token_embedding": 4e5}
HOSTILE = ("<script>alert(1)</script>", "a\"b'c|d", "=1+1", "x\ny", "</style><b>", "{policy}{0}", "x" * 30)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="72pt" height="36pt" viewBox="0 0 72 36"><rect id="a" width="3"/></svg>'


class Elements(HTMLParser):
    """Every element of the page as (name, attributes), and the text of the scripts and styles."""

    def __init__(self, content: bytes):
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.texts.setdefault(self.found[-1][0], []).append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def shown_of(*sections: Section, small: bool = False, files: dict[str, bytes] | None = None) -> str:
    """The page of a report with these sections."""
    return page(Document("r", [*sections], is_small=small), files or {}).decode()


@pytest.fixture(scope="module")
def plain() -> bytes:
    return shown_of(Section("", ["text"])).encode()


@pytest.fixture
def hostile(make_run, study_of) -> dict[str, bytes]:
    """All files of a study whose arms have hostile names, with every kind of picture of a fine-tuning."""
    runs = [
        make_run(name, values=VALUES | {"model/params_total": 1e6 + index, "inference/latency_ms_p50": 3.0 + index})
        for index, name in enumerate(("base", *HOSTILE))
    ]
    curves = {run.run_id: {step: 1 / (step + 1) for step in range(50)} for run in runs}
    return render(study_of(compare("<b>s</b>", runs), {"finetune/loss": curves}))


def test_policy_allows_the_style_and_the_script_of_the_page_alone(plain):
    elements = Elements(plain)
    (policy,) = [meta["content"] for meta in elements.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert {name for name in rules if name not in ("default-src", "base-uri", "form-action")} == {"style-src", "script-src"}
    for tag in ("style", "script"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", plain.decode(), re.DOTALL)[1]
        assert rules[f"{tag}-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_hostile_names_are_text(hostile):
    content = hostile["report.html"]
    elements = Elements(content)
    assert len(elements.of("script")) == len(elements.of("style")) == 1
    assert not elements.of("b")
    names = " ".join(elements.texts["th"])
    assert "<script>alert(1)</script>" in names
    assert "a\"b'c|d" in names
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on") or name == "style"]


def test_nothing_is_loaded(hostile):
    for tag, attributes in Elements(hostile["report.html"]).found:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "image")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert b"@import" not in hostile["report.html"]
    assert not re.search(rb"url\((?!#)", hostile["report.html"])


def test_ids_are_unique_and_references_have_one(hostile):
    elements = Elements(hostile["report.html"])
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(elements.of("svg")) > 2
    assert len(ids) == len(set(ids))
    wanted = {attributes["href"][1:] for _, attributes in elements.found if "href" in attributes}
    wanted |= {
        name for _, one in elements.found for value in one.values() for name in re.findall(r"url\(#(.*?)\)", value or "")
    }
    assert wanted
    assert wanted <= set(ids)


def test_a_table_with_arms_across_sorts_no_column_of_several_units():
    """Milliseconds and megabytes have no order; a table with one unit a column has."""
    times, counts = (
        [formats.cell(value, unit) for value in values] for unit, values in (("ms", (2, 3)), ("parameters", (1, 2)))
    )
    across = formats.table(["arm", "base", "new"], [["latency", *times], ["parameters", *counts]])
    down = formats.table(["arm", "latency", "parameters"], [["base", times[0], counts[0]], ["new", "–", counts[1]]])
    text = shown_of(Section("", [across, down]))
    assert [head.count("data-mixed") for head in text.split("<thead>")[1:]] == [2, 0]
    assert '"mixed" in head.dataset' in text


def test_a_short_change_keeps_its_verdict():
    changes = ("+1.0 points △", "+1.0 points (+1.3 %) △ better?")
    assert [" " in cell_lines(Cell("a", change=change), False)[1] for change in changes] == [False, True]


def test_a_mark_stays_with_its_meaning():
    assert "<p>▲\u00a0better, ~\u00a0inconclusive. †\u00a0Training warning</p>" in shown_of(
        Section("", ["▲ better, ~ inconclusive. † Training warning"])
    )


def test_long_detail_folds():
    many = formats.table(["arm", "x", "y"], [[f"a{row}", "1", "2"] for row in range(21)])
    few = formats.table(["arm", "x", "y"], [["a", "1", "2"]])
    facts = Bullets([f"**fact {number}**: {number}" for number in range(13)])
    shown = shown_of(Section("all", [many, Section("large", [many]), Section("small", [few, facts])]))
    assert shown.count("<details>") == 4  # with the contents, and the first part, which opens the report
    assert '<details><summary><h3 id="large">large</h3></summary>' in shown
    assert "<summary>13 items</summary>" in shown


def test_detail_folds_and_so_do_parts_of_what_the_report_opens_with():
    opening = Section("", ["answer", Section("arm by arm", [Bullets(["**a**: 1"])])])
    parts = [Section("tests \\*", ["1"], detail=True), Section("table", ["2"])]
    shown = shown_of(opening, Section("all", parts), Section("items", [Section("of a", ["3"])], detail=True))
    folded = re.findall(r"<details><summary><h(.)[^>]*>(.*?)</h.></summary>", shown)
    assert folded == [("2", "arm by arm"), ("3", "tests *"), ("3", "of a")]


def test_a_folded_chapter_holds_its_parts_and_ends_before_the_next():
    chapters = [Section("all", ["1", Section("tests", ["2"], detail=True)]), Section("more", ["3"])]
    body = re.search(r"<main>(.*)</main>", shown_of(*chapters, small=True), re.DOTALL)[1]
    tags = re.findall(r"</?details>|(?<=<p>)\d", body)
    assert "".join(tags).replace("<details>", "(").replace("</details>", ")") == "(1(2))(3)"


def test_headings_of_equal_text_have_ids_of_their_own():
    parts = [Section(title, []) for title in ("a-b", "?", "↓")]
    shown = shown_of(Section("a b", []), Section("a b", [*parts]))
    assert re.findall(r'<h\d id="(.*?)"', shown) == ["r", "a-b", "a-b-2", "a-b-3", "part", "part-2"]


def test_styles_of_a_picture_become_attributes():
    svg = SVG.replace(b'<rect id="a"', b'<rect id="a" style="fill: #ff0000; stroke: url(#b)" d="M 1\n2" ')
    shown = inline(svg, "p7", "n")
    assert 'fill="#ff0000"' in shown
    assert 'stroke="url(#p7-b)"' in shown
    assert 'd="M 1 2"' in shown
    assert "style" not in shown


def test_control_characters_make_no_broken_picture():
    svg = SVG.replace(b"</svg>", b"<!-- \x01 --><text>a\x08b</text></svg>")
    assert "<text>a\ufffdb</text>" in inline(svg, "p1", "n")


def test_greys_turn_in_the_dark_and_colours_stay():
    rules = dark_rules('fill="#000000" fill="#ffffff" stroke="#808080" fill="#0072b2"', (0x10, 0x10, 0x10), (0xF0, 0xF0, 0xF0))
    assert rules.splitlines() == [
        '[fill="#000000"] { fill: #f0f0f0 }',
        '[fill="#ffffff"] { fill: #101010 }',
        '[stroke="#808080"] { stroke: #808080 }',
    ]
