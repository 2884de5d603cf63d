"""The tables for a paper: LaTeX compiles them, no column leaves the page, and names are text."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tools

from harness import tags
from harness.comparison.compare import compare
from harness.document import Cell, Document, Section
from harness.plugins.chapters import tuning
from harness.plugins.formats import latex
from harness.reports.reading.study import Options, Study
from harness.reports.render import render
from harness.reports.writing import formats
from harness.reports.writing.tables import MARKS, SELECTED

HOSTILE = ("<script>alert(1)</script>", "a|b & c\\\\d", "50% #1 $x$ ^ ~ {y}", "\\input{/etc/passwd}", "x_y_z", "[t] `q`", "*")
HOSTILE += ("漢字 é Ł \x01", "enhanced attention_window=32 hidden_act=gelu_new", "W" * 60, '"=1+1"', "\\end{longtable}")
ARMS = ("base", "albert")
OPEN = re.compile(r"\\(begin|end)\{(\w+)\}")


CELLS: list[Cell | str] = [
    Cell("900.7 k", change="−73.8 % ▲ better"),
    Cell("0.985", change="[−10.6, +1.5] points ▽ worse?"),
    "– ± × ≈ ≤ ≥ → ↑ ↓ † ‡ ∞ …",
    "MMMM WWWW mmmm wwww %%%%",
]
CELLS += ["over and over again, " * 12, Cell("[a]", change=r"\*")]


@pytest.fixture
def document() -> str:
    """Tables of arms with hostile names as rows and as columns, with long and short cells."""
    names = [formats.escape(name) for name in HOSTILE]
    rows = formats.table(["arm", *(f"metric {number}" for number in range(len(CELLS)))], [[name, *CELLS] for name in names])
    columns = formats.table(["metric", *names], [[f"[{number}]", *CELLS, *CELLS] for number in range(60)])
    return latex.document(Document("s\\_1 & more", [Section("", [rows]), Section(names[2], [columns])])).decode()


def bodies(document: str) -> list[tuple[int, list[str]]]:
    """Of every table the number of its columns, and its rows."""
    found = re.findall(
        r"\\begin\{longtable\}\{@\{\}((?:[LR]\{[\d.]+em\})+)@\{\}\}\n(.*?)\\end\{longtable\}", document, re.DOTALL
    )
    return [
        (len(re.findall("[LR]{", columns)), [row for row in text.split("\\tabularnewline\n") if " & " in row])
        for columns, text in found
    ]


def test_every_row_has_every_column(document):
    found = bodies(document)
    assert len(found) >= 3
    for columns, rows in found:
        assert len(rows) >= 2
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {columns}


def test_groups_and_environments_are_closed(document):
    bare = re.sub(r"\\[\\{}%&#$_]", "", document)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    opened = []
    for kind, name in OPEN.findall(document):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []


def test_names_are_text(document):
    assert document.count(r"\input") == 0
    assert r"\textbackslash{}" in document
    assert "50\\% \\#1 \\$x\\$ \\textasciicircum{} $\\sim$ \\{y\\}" in document
    assert "[U+6F22][U+5B57] é [U+0141]" in document
    assert all(letter.isprintable() or letter == "\n" for letter in document)


def test_overview_and_every_task_have_a_table(timed, study_of):
    runs = [timed(name, [10.0, 10.1, 9.9], values={"eval/score": 0.8}, task=task) for task in ("sst2", "a_b%") for name in ARMS]
    document = render(study_of(compare("s_1 & more", runs)), "latex")["report.tex"].decode()
    captions = re.findall(r"\\caption\{(.*)\}\\tabularnewline", document)
    assert captions[0] == r"Report: s\_1 \& more"
    assert any(caption.startswith("sst2: before and after") for caption in captions)
    assert any(caption.startswith(r"a\_b\%: before and after") for caption in captions)


def test_wide_table_is_cut_with_its_first_column_in_each_part():
    cells = [f"{number} tokens/s of something" for number in range(20)]
    text = formats.table(["arm", *(f"metric {number}" for number in range(20))], [["albert", *cells]])
    document = latex.document(Document("t", [Section("", [text])])).decode()
    found = bodies(document)
    assert len(found) > 2
    assert all(rows[-1].removeprefix("\\midrule\n\\endhead\n").startswith("albert & ") for _, rows in found)
    assert sum(columns - 1 for columns, _ in found) == 20
    for columns in re.findall(r"\\begin\{longtable\}\{(.*)\}", document):
        assert sum(map(float, re.findall(r"([\d.]+)em", columns))) < latex.TEXT_WIDTH * latex.EM


def test_tables_below_the_third_heading_are_left_out():
    table = formats.table(["arm", "x"], [["a", "1"]])
    parts = [Section("c", [table]), Section("e", [table], for_paper=True), Section("", [table])]
    report = Document("t", [Section("", [table]), Section("b", [table, *parts]), Section("d", [table])])
    document = latex.document(report).decode()
    assert re.findall(r"\\caption\{(.*)\}\\tabularnewline", document) == ["t", "b", "b", "b", "d"]


def test_every_mark_of_the_report_is_known():
    shown = {*"".join(MARKS.values()), *"−±×≤≥→", formats.DASH, formats.MINUS, SELECTED, formats.plain(math.inf, 1)}
    shown |= {*tuning.FAILED.partition(" ")[0]}
    assert not [mark for mark in shown if "[U+" in latex.escape(mark)]


def compiled(folder: Path, name: str) -> str:
    """The log of LaTeX, which ends well."""
    program = shutil.which("pdflatex") or tools.missing("latex")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    text = (folder / Path(name).with_suffix(".log").name).read_text(errors="replace")
    assert [float(size) for size in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", text) if float(size) > 1] == []
    assert "Missing character" not in text
    return text


@pytest.mark.long
def test_document_compiles_and_nothing_leaves_the_page(document, tmp_path: Path):
    (tmp_path / "report.tex").write_text(document)
    compiled(tmp_path, "report.tex")
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


PAPER = r"""\documentclass{article}
\usepackage{booktabs,graphicx,amssymb}
\begin{document}
Tables \ref{tab:c} and \ref{tab:c-2}.
\input{tables/c}
\input{tables/c-2}
\end{document}
"""


@pytest.mark.long
def test_a_table_compiles_alone_and_in_a_paper(tmp_path: Path):
    rows = [[formats.escape(name), *CELLS] for name in HOSTILE]
    table = formats.table(["arm", *(f"metric {number}" for number in range(len(CELLS)))], rows)
    (tmp_path / "tables").mkdir()
    made = latex.files(Document("t", [Section("c", [table, table])]))
    assert [*made] == ["report.tex", "tables/c.tex", "tables/c-2.tex"]
    assert len(latex.files(Document("t", [Section("c 2", [table]), Section("c", [table, table])]))) == 4
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    compiled(tmp_path, "tables/c.tex")
    (tmp_path / "paper.tex").write_text(PAPER)
    compiled(tmp_path, "paper.tex")
    assert "undefined" not in compiled(tmp_path, "paper.tex")


def test_the_caption_of_a_paper_names_a_warning_alone(make_run):
    runs = [make_run(arm, 0, {"eval/score": 0.8}, **{tags.WARNING: "it fell", tags.NOTES: "falling"}) for arm in ARMS]
    overview = render(Study(compare("s", runs)), "latex")["tables/overview.tex"].decode()
    assert "$\\dagger$ Training warning." in overview
    assert "see the report" not in overview


def test_the_overview_has_the_columns_that_are_asked_for(timed):
    runs = [timed(name, [10.0, 10.1, 9.9], values={"eval/score": 0.8, "model/params_total": 1e6}) for name in ARMS]
    study = Study(compare("s", runs), options=Options(columns=("parameters",)))
    overview = render(study, "latex")["tables/overview.tex"].decode()
    assert "\\label{tab:overview}" in overview
    assert "\\caption{Study s. Changes from " in overview
    assert "parameters" in overview
    assert "latency" not in overview
