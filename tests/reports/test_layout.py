"""How the package is laid out: every chapter registered."""

import importlib
import inspect
from pathlib import Path

import pytest

from harness.comparison.compare import compare
from harness.reports import chapters
from harness.reports.reading.study import Study
from harness.reports.writing.formats import Chapter

FOLDER = Path(__file__).parents[2] / "reports"


def is_chapter(function: object) -> bool:
    """Whether it makes a chapter of a study and needs nothing else."""
    return inspect.isfunction(function) and function.__annotations__ == {"study": Study, "return": Chapter}


def test_every_chapter_is_registered():
    modules = [
        importlib.import_module(f"harness.reports.chapters.{path.stem}") for path in (FOLDER / "chapters").glob("[a-z]*.py")
    ]
    assert {one for module in modules for one in vars(module).values() if is_chapter(one)} == set(chapters.BUILT_IN)
    assert len(set(chapters.chapters())) == len(chapters.chapters())


@pytest.mark.parametrize("chapter", chapters.chapters())
def test_every_chapter_reads_a_study_and_may_be_empty(make_run, chapter):
    """Of the smallest study, which has one run without any metric."""
    made = chapter(Study(compare("s", [make_run()])))
    assert isinstance(made, Chapter)
    assert all(isinstance(paragraph, str) and paragraph for paragraph in made.paragraphs)
