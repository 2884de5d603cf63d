"""The page in a headless Chromium: no error, nothing cut at three widths, accessible, and its script at work."""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import Page, axe_core, chromium
from child_processes import wait_for

from harness.comparison.compare import compare
from harness.document import MOST_ARMS, Cell, Document, Section
from harness.reports.html import page as page_of
from harness.reports.render import render
from harness.reports.writing import formats

pytestmark = pytest.mark.long

WIDTHS = (400, 1000, 1600)
A4 = 718
"""Pixels across a sheet, without its margins of 1 cm."""
SHEET = 1047
"""Pixels down."""
MOST_SHEETS = 6
"""Of seven arms and five tasks."""
SIZES = [3.44e6, 900.7e3, 11.7e6, 12.0] + [1e6 * (number + 1) for number in range(6)]
"""Parameters of the arms, of which the first is the baseline."""
NAMES = ["base", "<script>alert(1)</script>", "a|b `c` *d*", "enhanced attention_window=32 hidden_act=gelu_new norm=rms"]
NAMES += [f"variant_{number}" for number in range(len(SIZES) - len(NAMES))]
TOO_WIDE = """
(() => {
  const width = document.documentElement.clientWidth;
  const cut = [...document.body.querySelectorAll("*")].filter(one => {
    if (one.parentElement.closest(".scroll") || !one.checkVisibility()) return false;
    const { left, right } = one.getBoundingClientRect();
    return right > width + 1 || left < -1;
  });
  const page = document.documentElement.scrollWidth > width ? ["the page"] : [];
  return [...page, ...cut.map(one => one.outerHTML.slice(0, 200))];
})()
"""
HIDDEN_IN_A_BOX = """
[...document.querySelectorAll(".scroll")].filter(one => {
  if (!one.checkVisibility()) return false;
  one.scrollLeft = 1e6;
  const end = one.firstElementChild.getBoundingClientRect().right - one.getBoundingClientRect().right;
  const first = one.querySelector("tbody th, thead th");
  const moved = first && Math.abs(first.getBoundingClientRect().left - one.getBoundingClientRect().left) > 1;
  one.scrollLeft = 0;
  return end > 1 || moved;
}).map(one => one.outerHTML.slice(0, 200))
"""
"""Boxes whose end cannot be reached, or whose first column moves away."""
HIDDEN = "(box => box.scrollWidth - box.clientWidth)(document.querySelector('.scroll'))"
"""Pixels of the first table that are hidden."""
VIOLATIONS = """
axe.run(document, { resultTypes: ["violations"] }).then(found => found.violations
  .map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(" ")}`))
"""
ROWS = "[...{table}.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[{column}].innerText)"
TABLE = "document.querySelectorAll('table')[{}]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Page]:
    with chromium(folder / "profile") as tab:
        yield tab


@pytest.fixture
def report_of(folder: Path, timed: Callable, study_of: Callable) -> Callable[..., Path]:
    """The page of so many arms on these tasks, made once."""

    def report_of(arms: int, *tasks: str) -> Path:
        path = folder / f"report-{arms}-{'-'.join(tasks)}.html"
        if path.exists():
            return path
        runs = []
        for task in tasks:
            for number, (name, size) in enumerate(zip(NAMES[:arms], SIZES, strict=False)):
                values = {"model/params_total": size, "model/params_component_layers": size, "eval/majority_score": 0.5}
                values |= {"eval/score": 0.8 + number / 200, "finetune/tokens_per_s": 3000.0 + number}
                times = [10.0 + number, 10.1 + number, 9.9 + number]
                runs.append(timed(name, times, values=values, task=task))
        curves = {run.run_id: {step: 1 / (step + 1) for step in range(50)} for run in runs}
        path.write_bytes(render(study_of(compare("many", runs), {"finetune/loss": curves}), "html")["report.html"])
        return path

    return report_of


@pytest.fixture
def report(report_of: Callable[..., Path]) -> Path:
    """The page of 10 arms on two tasks."""
    return report_of(len(NAMES), "sst2", "mrpc")


@pytest.fixture
def page(browser: Page, report: Path) -> Page:
    """The report in the browser, wide and light."""
    browser.show(1600)
    browser.open(report.as_uri())
    return browser


def write(folder: Path, *sections: Section, small: bool = False) -> str:
    """Address of the page of a report with these sections."""
    path = folder / f"small-{len([*folder.glob('small-*')])}.html"  # a change behind the # alone loads nothing
    path.write_bytes(page_of(Document("r", [*sections], is_small=small), {}))
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_and_nothing_fails(page: Page, report: Path, width: int, scheme: str):
    page.show(width, scheme=scheme)
    page.open(report.as_uri())
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.run(TOO_WIDE) == []
    assert page.run(HIDDEN_IN_A_BOX) == []
    assert page.errors == []
    assert page.requests() == [report.as_uri()]


CUT = """
[...document.querySelectorAll(".scroll:has(table)")].filter(one => one.scrollWidth > one.clientWidth)
  .map(one => one.getAttribute("aria-label"))
"""
"""Tables that do not fit."""


def test_long_verdicts_wrap_so_that_the_last_column_is_seen(browser: Page, folder: Path):
    verdict = "−1.4 points (−2.3 %) ~ inconclusive: sampling error ± 1 point; 7 pretrainings if the effect is as measured"
    tested = "~ inconclusive: needs 46 rounds, 5.6 min more, p 0.0012, 9 rounds"
    cells = [Cell("0.585 ± 0.008", 0.585, "score", change=verdict), Cell("−9.8 [−15.4, −4.0] %", 1.0, "ms", change=tested)]
    heads = ["inference throughput, device time", "score: accuracy"]
    tables = [formats.table(["arm", *heads * 3], [["base", *cells[:1] * 6]])]
    tables += formats.readable(["arm", *heads * 3], [["base", *cells[1:] * 6]], formats.MOST_TESTED)
    browser.show(1280)
    browser.open(write(folder, Section("", tables)))
    assert browser.run(CUT) == []


def test_a_link_to_a_folded_chapter_opens_it(browser: Page, folder: Path):
    chapters = [Section(name, ["text"]) for name in ("one", "two", "three")]
    browser.open(f"{write(folder, *chapters, small=True)}#two")
    shown = "[...document.querySelectorAll('main details')].map(one => one.open)"
    assert browser.run(shown) == [False, True, False]
    browser.run("document.querySelector('nav a[href=\"#three\"]').click()")
    assert browser.settled(shown) == [False, True, True]


def test_a_printed_page_is_light_and_has_all_of_every_table_and_picture(page: Page):
    page.show(A4, scheme="dark", media="print")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run(TOO_WIDE.replace('one.parentElement.closest(".scroll") || ', "")) == []


def test_no_picture_is_higher_than_a_sheet_and_none_is_torn(page: Page):
    page.show(A4, media="print")
    heights = page.run("[...document.querySelectorAll('figure > .scroll')].map(one => one.getBoundingClientRect().height)")
    assert heights
    assert max(heights) <= SHEET
    kept = page.run("[...document.querySelectorAll('figure, .scroll, tr')].map(one => getComputedStyle(one).breakInside)")
    assert set(kept) == {"avoid"}


def test_seven_arms_and_five_tasks_are_a_few_sheets_in_portrait(browser: Page, report_of: Callable[..., Path]):
    browser.show(A4, media="print")
    browser.open(report_of(7, "a", "b", "c", "d", "e").as_uri())
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= MOST_SHEETS
    width, height = (float(number) for number in re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)[0])
    assert width < height
    heads = "[...document.querySelectorAll('h1, h2, h3, p:has(+ .scroll)')].filter(one => one.checkVisibility())"
    assert set(browser.run(f"{heads}.map(one => getComputedStyle(one).breakAfter)")) == {"avoid"}


def test_text_above_a_table_with_a_filter_stays_with_it_on_paper(page: Page):
    page.show(A4, media="print")
    above = "[...document.querySelectorAll('p:has(+ .filter)')].filter(one => one.checkVisibility())"
    assert set(page.run(f"{above}.map(one => getComputedStyle(one).breakAfter)")) == {"avoid"}


def test_arms_after_the_eighth_are_shown_on_demand_and_on_paper(page: Page):
    shown = "[...document.querySelectorAll('table')[0].tBodies[0].rows].filter(row => row.checkVisibility()).length"
    assert page.run(shown) == MOST_ARMS < len(NAMES)
    page.show(A4, media="print")
    assert page.run(shown) == len(NAMES)
    page.show(1000)
    page.run("document.querySelector('.all').click()")
    assert page.run(shown) == len(NAMES)
    assert page.run("document.querySelector('.scroll').nextElementSibling.className") != "all"


def test_a_table_that_goes_on_has_a_shadow_at_its_end(browser: Page, folder: Path):
    """Which a layer of the page's colour hides that moves with the table."""
    browser.open(write(folder, Section("", [formats.table(["arm", "x"], [["a", "1"]])])))
    layers = browser.run("getComputedStyle(document.querySelector('.scroll')).backgroundAttachment")
    assert layers == "local, scroll"


def test_a_long_name_of_a_task_stays_in_its_column(browser: Page, folder: Path):
    name = "mnli_matched_validation_of_all_genres"
    browser.show(400)
    browser.open(write(folder, Section("", [formats.table(["arm", f"{name}: accuracy", f"{name}_2"], [["a", "1", "2"]])])))
    one, other = browser.run(
        "[...document.querySelectorAll('th button')].slice(1).map(one => one.getBoundingClientRect().toJSON())"
    )
    assert one["right"] <= other["left"]


@pytest.mark.parametrize(("width", "scheme"), [(WIDTHS[0], "dark"), (WIDTHS[-1], "light")])
def test_axe_finds_no_violation(page: Page, report: Path, width: int, scheme: str):
    page.show(width, scheme=scheme)
    page.open(report.as_uri())
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.run(axe_core())
    assert page.run(VIOLATIONS) == []


def test_heads_of_a_narrow_page_are_no_higher_than_three_lines(browser: Page, folder: Path):
    """A box that scrolls need not squeeze its columns: a head of a word a line would leave the first screen empty."""
    heads = ["arm", *(f"training throughput, tokens/s of device time {number}" for number in range(6))]
    browser.show(400)
    browser.open(write(folder, Section("", [formats.table(heads, [["a", *range(6)]])])))
    height, line = browser.run(
        "(head => [head.getBoundingClientRect().height, parseFloat(getComputedStyle(head).lineHeight)])"
        "(document.querySelector('thead tr'))"
    )
    assert height < 4.5 * line


def test_first_table_shows_all_of_its_columns_at_1000_pixels(page: Page):
    page.show(1000)
    assert page.run(HIDDEN) == 0


def test_table_of_short_verdicts_shows_all_of_its_columns_at_1000_pixels(browser: Page, folder: Path):
    cells = [
        Cell("3.44 M", 3.44e6, "parameters", "−73.8 % ▲ better", "better"),
        Cell("875.2 MFLOP", 875.2e6, "FLOP", "+0.30 % ▼ worse", "worse"),
        Cell("13.7 ± 0.2 ms", 13.7, "ms", "+17.2 % ▼ worse", "worse"),
        Cell("138.8 MB", 138.8e6, "bytes", "−45.8 % △ better?"),
        Cell("10,381 tokens/s", 10381, "tokens/s", "+2.3 % ~ inconclusive"),
        Cell("0.985", 0.985, "score", "−10.6 points ▽ worse?"),
    ]
    heads = [
        "arm",
        "parameters",
        "forward FLOPs",
        "latency",
        "inference memory",
        "training throughput",
        "score, mean of 3 tasks",
    ]
    browser.show(1000)
    browser.open(write(folder, Section("", [formats.table(heads, [["albert", *cells]])])))
    assert browser.run(HIDDEN) == 0


def test_tables_sort_by_number_and_back(page: Page):
    table = TABLE.format(0)
    column = page.run(f"[...{table}.tHead.rows[0].cells].findIndex(one => one.innerText.startsWith('parameters'))")
    head = f"{table}.tHead.rows[0].cells[{column}]"
    assert len(page.run(ROWS.format(table=table, column=column))) == len(SIZES)
    sizes = dict(zip(NAMES, SIZES, strict=True))
    for order in ("ascending", "descending"):
        page.run(f"{head}.querySelector('button').focus()")
        page.press("Enter")
        arms = page.run(ROWS.format(table=table, column=0))
        assert [sizes[arm] for arm in arms] == sorted(SIZES, reverse=order == "descending")
        assert page.run(f"{head}.ariaSort") == order


def test_dashes_and_texts_come_last_either_way(browser: Page, folder: Path):
    cells = {"–": None, "order": None, "−0.5": -0.5, "+12.0 k": 12e3, "bag": None, "": None, "3 [−5, 8] M": 3e6, "1,000": 1e3}
    rows = [[f"a{number}", Cell(text, value)] for number, (text, value) in enumerate(cells.items())]
    browser.open(write(folder, Section("", [formats.table(["arm", "x"], rows)])))
    table, orders = TABLE.format(0), []
    for _ in range(2):
        browser.run(f"{table}.tHead.rows[0].cells[1].querySelector('button').click()")
        orders.append([text.replace("\u00a0", " ") for text in browser.run(ROWS.format(table=table, column=1))])
    assert orders == [
        ["−0.5", "1,000", "+12.0 k", "3 [−5, 8] M", "bag", "order", "–", ""],
        ["3 [−5, 8] M", "+12.0 k", "1,000", "−0.5", "order", "bag", "–", ""],
    ]


def test_a_column_of_several_units_does_not_sort(browser: Page, folder: Path):
    times = [formats.cell(value, "ms") for value in (2.0, 1.0)]
    rows = [["latency", *times], ["memory", formats.cell(3e6, "bytes"), "–"]]
    browser.open(write(folder, Section("", [formats.table(["arm", "base", "one"], rows)])))
    heads = f"[...{TABLE.format(0)}.tHead.rows[0].cells].map(head => head.querySelector('button') !== null)"
    assert browser.run(heads) == [True, False, True]


def test_filter_keeps_the_rows_that_have_all_words(page: Page):
    page.run("document.querySelector('.filter input').focus()")
    page.write("VARI ant")
    rows = page.run(ROWS.format(table="document.querySelector('.filter').nextElementSibling.querySelector('table')", column=0))
    assert rows == [name for name in NAMES if name.startswith("variant")]
    assert page.run("document.querySelector('.filter output').textContent") == f"6 of {len(SIZES)} rows"
    page.write("_1")
    assert page.run("document.querySelector('.filter output').textContent") == f"1 of {len(SIZES)} rows"


def test_values_of_marks_are_under_the_mouse_and_the_arrow_keys(page: Page):
    assert page.run("document.querySelectorAll('figure .marks').length") >= 3
    page.run("[...document.querySelectorAll('.marks')].at(-1).closest('figure').scrollIntoView()")
    mark = "[...document.querySelectorAll('.marks')].at(-1).querySelector('rect').getBoundingClientRect()"
    page.point(*page.run(f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])({mark})"))
    assert page.run("document.getElementById('values').textContent").startswith("base, ")
    page.point(0, 0)
    assert page.run("document.getElementById('values').textContent") == ""
    page.run("document.querySelector('figure .scroll').focus()")
    texts = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.press(key)
        texts.append(page.run("document.getElementById('values').textContent"))
    assert texts[0] == texts[2] != texts[1]
    assert texts[0].startswith(f"{NAMES[1]}, ")
    page.press("Escape")
    assert page.run("document.getElementById('values').textContent") == ""


def test_contents_are_open_on_a_wide_screen_alone(page: Page):
    assert page.run("document.querySelector('nav details').open")
    page.show(400)
    wait_for(lambda: not page.run("document.querySelector('nav details').open"))  # it closes after a layout


def test_black_of_a_picture_is_light_in_the_dark(page: Page):
    text = "getComputedStyle(document.querySelector('svg g text, svg g use')).fill"
    assert page.run(text) == "rgb(27, 29, 32)"
    page.show(1600, scheme="dark")
    assert page.run(text) == "rgb(232, 230, 227)"


def test_tests_see_what_is_wrong(browser: Page, folder: Path):
    """An error of the console, a refused style, a wide element and an image without a name."""
    (folder / "wrong.html").write_text(
        "<!DOCTYPE html><html><head><title>t</title>"
        "<meta http-equiv=Content-Security-Policy content=\"style-src 'none'\"></head>"
        "<body><p style='color: red'>x</p><img width=2000 height=9><script>undefined.x</script></body></html>"
    )
    browser.errors.clear()
    browser.show(400)
    browser.open((folder / "wrong.html").as_uri())
    browser.run(axe_core())
    assert len(browser.run(TOO_WIDE)) == 2
    assert "image-alt" in " ".join(browser.run(VIOLATIONS))
    assert "Content Security Policy" in " ".join(browser.errors)
    assert "TypeError" in " ".join(browser.errors)
    browser.errors.clear()
