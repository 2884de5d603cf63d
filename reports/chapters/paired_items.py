"""What the chapters on single items of the validation data share: arms and their baseline, item by item."""

from collections.abc import Callable

from reports.comparison.section import Row, Section
from reports.comparison.study import Study
from reports.writing import plots
from reports.writing.chapter import Chapter
from reports.writing.formats import escape

MOST_ARMS = 3
"""Arms of which items are shown."""


def on_items(study: Study, title: str, intro: str, of_section: Callable[[Study, Section], list[str]]) -> Chapter:
    """The paragraphs of every comparison on a task, after an introduction that names the baseline; empty if there are none."""
    sections = [one for one in study.comparison.sections if one.before is not None and not one.is_pretraining]
    paragraphs = [part for section in sections for part in of_section(study, section)]
    intro = intro.format(baseline=escape(study.comparison.baseline), most=MOST_ARMS)
    return Chapter([title, intro, *paragraphs] if paragraphs else [])


def drawn_rows(study: Study, section: Section) -> list[Row]:
    """The arms that the pictures show, without the baseline."""
    chosen = plots.drawn_arms(study.comparison)
    return [row for row in section.rows if row is not section.before and row.label in chosen]
