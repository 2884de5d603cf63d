"""Where the errors of arms differ from the baseline's, in regression, tagging and spans: counts, and items with their text."""

import numpy as np

from harness.verdict_rules.item_errors import CLASSES
from reports.chapters import paired_items
from reports.chapters.paired_items import MOST_ARMS
from reports.comparison import predictions
from reports.comparison.items import NO_ERROR, Paired
from reports.comparison.predictions import Texts
from reports.comparison.section import Section
from reports.comparison.study import Study
from reports.writing import formats, tables
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape

INTRO = """\
Items of the validation data by how wrong an arm and the baseline {baseline} are on them: means over paired replicates (at most
five). They speak of these items, and hold no verdict. Items are shown of the {most} arms whose errors differ most."""
EXAMPLES = "Where {worse} errs more than {better}, the largest differences first:"
SHOWN, WIDTH = 3, 160


def chapter(study: Study) -> Chapter:
    """Empty where no such predictions are found for two arms of a task."""
    return paired_items.on_items(study, "## Where their errors differ", INTRO, _of_section)


def _of_section(study: Study, section: Section) -> list[str]:
    found = {row.label: section.errors_of_both(row.label) for row in paired_items.drawn_rows(study, section)}
    known = {label: both for label, both in found.items() if both and both.what != CLASSES}
    if not known:
        return []
    one = next(iter(known.values()))
    head = ["arm", "replicates", f"{escape(section.baseline)}: {one.what}", "the arm", "errs less on", "as much on", "more on"]
    title = f"### Errors: {tables.section_name(study.comparison, section)}"
    paragraphs = [title, formats.table(head, [_line(label, both) for label, both in known.items()])]
    texts = predictions.texts(next(iter(section.before.runs.values())), study.output, len(one.items))
    most = sorted(known, key=lambda label: -float(np.abs(known[label].change_of_items).sum()))[:MOST_ARMS]
    return paragraphs + [part for label in most for part in _examples(section.baseline, label, known[label], texts)]


def _line(label: str, both: Paired) -> list[str]:
    means = [formats.plain(float(values.mean()), 3) for values in (both.before, both.after)]
    return [escape(label), str(len(both.before)), *means, *(f"{count:,}" for count in both.counts())]


def _examples(baseline: str, label: str, both: Paired, texts: Texts | None) -> list[str]:
    """A list for each direction, of items whose errors differ."""
    paragraphs = []
    for worse, better, sign in ((label, baseline, 1), (baseline, label, -1)):
        order = np.argsort(-sign * both.change_of_items, kind="stable")[:SHOWN]
        lines = [_example(both, int(index), texts) for index in order if sign * both.change_of_items[index] > NO_ERROR]
        if lines:
            paragraphs += [EXAMPLES.format(worse=escape(worse), better=escape(better)), "\n".join(lines)]
    return paragraphs


def _example(both: Paired, index: int, texts: Texts | None) -> str:
    before, after = (formats.plain(float(values[:, index].mean()), 2) for values in (both.before, both.after))
    text = texts.of(index) if texts else DASH
    shown = text if len(text) <= WIDTH else f"{text[:WIDTH]}…"
    return f"- {escape(both.items[index])} (baseline {before}, arm {after}): {escape(shown)}"
