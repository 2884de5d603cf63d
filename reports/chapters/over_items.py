"""Scores with intervals over the items, of tasks whose scores are no share of right answers."""

from harness.metrics import SCORE_TITLES
from reports.comparison.compare import Study
from reports.comparison.section import Row, Section
from reports.writing import formats
from reports.writing.formats import DASH, Chapter, escape
from reports.writing.tables import section_name

HEADING = "## Scores over the items"
INTRO = """\
Means over replicates with 95 % intervals over the items (texts, pairs or questions of the validation data): 1.96 standard
deviations over 200 samples of as many items with replacement. They say how far other items move a score, not other seeds."""
TITLES = {name: title for name, title in SCORE_TITLES.items() if name != "score"} | {"loss": "squared error"}


def chapter(study: Study) -> Chapter:
    """Empty where no run has such an interval."""
    paragraphs = [part for section in study.comparison.sections for part in _section(study, section)]
    return Chapter([HEADING, INTRO, *paragraphs] if paragraphs else [])


def _section(study: Study, section: Section) -> list[str]:
    names = [name for name in TITLES if any(row.mean(f"eval/{name}_low") is not None for row in section.rows)]
    if not names:
        return []
    lines = [[escape(row.label), *(_interval(row, name) for name in names)] for row in section.rows]
    head = ["arm", *(TITLES[name] for name in names)]
    return [f"### Over the items: {section_name(study.comparison, section)}", formats.table(head, lines)]


def _interval(row: Row, name: str) -> str:
    """`0.870 [0.855, 0.884]`; a dash where it is unknown."""
    ends = [row.mean(f"eval/{name}{end}") for end in ("", "_low", "_high")]
    if None in ends:
        return DASH
    value, low, high = (formats.plain(end, 3) for end in ends)
    return f"{value} [{low}, {high}]"
