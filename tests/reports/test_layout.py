"""How the package is laid out: no import cycles, imports at the top of files, every chapter registered, small files."""

import ast
import graphlib
import importlib
from pathlib import Path

import pytest

from reports import chapters
from reports.comparison.compare import compare
from reports.comparison.study import Study
from reports.writing.chapter import Chapter

FOLDER = Path(__file__).parents[2] / "reports"
FILES = sorted(FOLDER.rglob("*.py"))
LAZY = {"__init__.py", "__main__.py", "connect.py", "report.py", "summary.py"}
"""Files that import inside a function, to save start-up time; each place says so in a comment."""


def module_name(path: Path) -> str:
    return ".".join(("reports", *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_name(path) for path in FILES}


def imported(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found & MODULES


def test_imports_have_no_cycle():
    graph = {module_name(path): imported(path) - {module_name(path)} for path in FILES}
    assert graph["reports.chapters.tasks"] >= {"reports.writing.before_after", "reports.chapters.glue"}
    assert tuple(graphlib.TopologicalSorter(graph).static_order())


def test_imports_are_at_the_top_but_for_start_up_time():
    inside = set()
    for path in FILES:
        functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
        nested = [node for one in functions for node in ast.walk(one) if isinstance(node, (ast.Import, ast.ImportFrom))]
        if nested:
            inside.add(path.name)
    assert inside == LAZY


def test_every_file_with_a_chapter_is_registered():
    modules = [importlib.import_module(module_name(path)) for path in sorted((FOLDER / "chapters").glob("*.py"))]
    made = {module.chapter for module in modules if hasattr(module, "chapter")}
    assert made == set(chapters.CHAPTERS)
    assert len(made) == len(chapters.CHAPTERS)


@pytest.mark.parametrize("chapter", chapters.CHAPTERS, ids=lambda chapter: chapter.__module__.rpartition(".")[2])
def test_every_chapter_reads_a_study_and_may_be_empty(make_run, chapter):
    """Of the smallest study, which has one run without any metric."""
    made = chapter(Study(compare("s", [make_run()])))
    assert isinstance(made, Chapter)
    assert all(isinstance(paragraph, str) and paragraph for paragraph in made.paragraphs)
