"""Puts the chapters together: names and content of all files, before anything is written."""

from reports.chapters import CHAPTERS
from reports.formats import escape
from reports.study import Study
from reports.summary import summary


def render(study: Study) -> dict[str, bytes]:
    """File name -> content of `report.md`, `summary.csv` and the files of every chapter."""
    chapters = [chapter(study) for chapter in CHAPTERS]
    paragraphs = [f"# Report: {escape(study.comparison.study)}", *(part for one in chapters for part in one.paragraphs)]
    files = {name: content for one in chapters for name, content in one.files.items()}
    return files | {
        "summary.csv": summary(study.comparison, [line for one in chapters for line in one.summary]),
        "report.md": ("\n\n".join(paragraphs) + "\n").encode(),
    }
