"""Scores with intervals over the items, for tasks whose score is not an accuracy."""

import math

from harness.comparison import paired
from harness.comparison.section import Row
from harness.document import DASH, Block, Cell, Section
from harness.metrics import SCORE_TITLES
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape
from harness.reports.writing.tables import present

HEADING = "Scores with test-set sampling error"
INTRO = """\
Means over seeds with 95 % CI over the validation items (texts, pairs or questions): by the delta method for F1, precision,
recall, Matthews' correlation and means over paradigms, from 200 bootstrap samples for other scores. They show how much a score
varies with the items, not with the seeds."""
TITLES = {name: title for name, title in SCORE_TITLES.items() if name != "score"} | {"loss": "squared error"}


def chapter(study: Study) -> Chapter:
    """Empty where no run has such an interval."""
    blocks: list[Block] = [INTRO]
    for section in study.comparison.sections:
        if names := [name for name in TITLES if present(section, [f"eval/{name}_low"])]:
            lines = [[escape(row.label), *(_interval(row, name) for name in names)] for row in section.rows]
            table = formats.table(["arm", *(TITLES[name] for name in names)], lines)
            blocks.append(Section(f"Sampling error: {escape(section.name)}", [table]))
    return Chapter([Section(HEADING, blocks)] if len(blocks) > 1 else [])


def _interval(row: Row, name: str) -> Cell:
    """`0.870 [0.855, 0.884]`; a dash where it is unknown."""
    means = [row.mean(f"eval/{name}{end}") for end in ("", "_low", "_high")]
    ends = [mean for mean in means if mean is not None]
    if len(ends) < len(means):
        return Cell(DASH)
    least, most = paired.ends(name) if name != "loss" else (0.0, math.inf)  # runs of before knew no such ends
    value, low, high = (formats.plain(min(most, max(least, end)), 3) for end in ends)
    return Cell(f"{value} [{low}, {high}]", ends[0])


CHAPTER = Added(chapter, before=timing.chapter, order=-2)
