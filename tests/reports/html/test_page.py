"""The page as text: one file, nothing from elsewhere, names without effect, ids of their own."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from harness.comparison.compare import compare
from harness.reports.html import page
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


@pytest.fixture(scope="module")
def plain() -> bytes:
    return page("r", "# r\n\ntext", {})


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


def test_contents_name_every_chapter(hostile):
    elements = Elements(hostile["report.html"])
    assert [f"#{one['id']}" for one in elements.of("h2")] == [one["href"] for one in elements.of("a")]


def test_cells_have_their_number_and_rows_their_name():
    text = formats.table(["arm", "parameters"], [["base", "3.44 M"], ["albert", "900.7 k<br>−73.8 % ▲ better"], ["x", "–"]])
    shown = page("r", f"# r\n\n{text}", {}).decode()
    assert '<td class="number" data-value="3440000.0">3.44\u00a0M</td>' in shown
    assert (
        '<td class="number better" data-value="900700.0">900.7\u00a0k<br><span class="change">−73.8\u00a0% ▲\u00a0better</span>'
        in shown
    )
    assert '<td class="number">–</td>' in shown
    assert '<th scope="row">albert</th>' in shown


def test_long_detail_folds():
    many = formats.table(["arm", "x", "y"], [[f"a{row}", "1", "2"] for row in range(21)])
    few = formats.table(["arm", "x", "y"], [["a", "1", "2"]])
    facts = "\n".join(f"- **fact {number}**: {number}" for number in range(9))
    findings = facts.replace("\n", "\n\n", 1)  # a list in two parts
    shown = page(
        "r", f"# r\n\n{findings}\n\n## all\n\n{many}\n\n### large\n\n{many}\n\n### small\n\n{few}\n\n{findings}", {}
    ).decode()
    assert shown.count("<details>") == 3  # with the contents
    assert '<details><summary><h3 id="large">large</h3></summary>' in shown
    assert "<summary>9 items: fact 0, fact 1" in shown


def test_detail_under_a_heading_folds_and_so_does_what_the_report_opens_with():
    text = "# r\n\nanswer\n\n### arm by arm\n\n- **a**: 1\n\n## all\n\n### tests \\*\n\n1\n\n### table\n\n2"
    shown = page("r", text, {}, ["### tests \\*"]).decode()
    folded = re.findall(r"<details><summary><h3[^>]*>(.*?)</h3></summary>", shown)
    assert folded == ["arm by arm", "tests *"]


def test_a_folded_chapter_holds_its_parts_and_ends_before_the_next():
    shown = page(
        "r", "# r\n\n## all\n\n1\n\n### tests\n\n2\n\n## more\n\n3\n\n## open\n\n4", {}, ["## all", "### tests", "## more"]
    )
    body = re.search(r"<main>(.*)</main>", shown.decode(), re.DOTALL)[1]
    tags = re.findall(r"</?details>|(?<=<p>)\d", body)
    assert "".join(tags).replace("<details>", "(").replace("</details>", ")") == "(1(2))(3)4"


def test_headings_of_equal_text_have_ids_of_their_own():
    shown = page("r", "# r\n\n## a b\n\n## a b\n\n### a-b\n\n### ?\n\n### ↓", {}).decode()
    assert re.findall(r'<h\d id="(.*?)"', shown) == ["r", "a-b", "a-b-2", "a-b-3", "part", "part-2"]


def test_picture_has_its_caption_once_and_a_name():
    shown = page("r", "# r\n\n![a < b](x.svg)\n\n*a < b.*\n\nnext", {"x.svg": SVG}).decode()
    assert '<svg viewBox="0 0 72 36" width="96" role="img" aria-label="a &lt; b"' in shown
    assert '<rect id="p1-a" width="3" />' in shown
    assert shown.count("a &lt; b.") == 2  # in the name of the box and in the caption
    assert "<figcaption>a &lt; b.</figcaption>" in shown
    assert "<p>next</p>" in shown


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


def test_page_is_the_same_again(hostile, make_run, study_of):
    text = "# r\n\n## a\n\n![p](x.svg)"
    assert page("r", text, {"x.svg": SVG}) == page("r", text, {"x.svg": SVG})


def test_marks_stay_beside_their_words_in_long_lines_and_names_break():
    cells = ["a name of a task", "0.752<br>−3.2 points (−4.2 %) ~ not resolved: needs 400 seeds"]
    shown = page("r", f"# r\n\n{formats.table(['arm', 'x', 'y'], [['a b', *cells]])}", {}).decode()
    assert ">a name of a task<" in shown
    assert "−3.2 points (−4.2\u00a0%) ~\u00a0not resolved: needs 400 seeds" in shown
