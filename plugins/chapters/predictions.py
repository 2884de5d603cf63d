"""Single validation items: where an arm is right and the baseline is not, and where their errors differ."""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from harness.comparison import items
from harness.comparison.items import CLASSES, NO_ERROR, Paired
from harness.comparison.paired import grouped, pair
from harness.comparison.section import Row, Section
from harness.document import DASH, Block, Bullets, Cell
from harness.document import Section as Part
from harness.plugins.pictures import plots
from harness.plugins.shared import item_texts
from harness.plugins.shared.item_texts import Texts
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape, listed

MOST_ARMS = 3
"""Arms of which items are shown."""


PairedErrors = dict[str, Paired]
"""Label -> errors of the arm and the baseline on the same items."""


def on_items(
    study: Study,
    title: str,
    intro: str,
    classes: bool,
    of_section: Callable[[Study, Section, list[Row], PairedErrors], list[Block]],
) -> Chapter:
    """The parts of every comparison on a task, after an introduction that names the baseline; empty if there are none.

    `of_section` is given the baseline's row and those of the arms that the pictures show, and the errors of these:
    right or wrong if `classes`, else their size.
    """
    drawn, blocks = plots.drawn_arms(study.comparison), list[Block]()
    for section in study.comparison.tasks:
        if before := section.before:
            rows = [row for row in section.rows if row is not before and row.label in drawn]
            every = ((row.label, section.errors_of_both(row.label)) for row in rows)
            paired = {label: both for label, both in every if both and (both.what == CLASSES) is classes}
            blocks += of_section(study, section, [before, *rows], paired)
    intro = intro.format(baseline=escape(study.comparison.baseline), most=MOST_ARMS)
    return Chapter([Part(title, [intro, *blocks], detail=True)] if blocks else [])


DISAGREE = """\
Validation items on which an arm and the baseline ({baseline}) differ: mean counts over up to five paired seeds. Descriptive
only: two seeds of the same arm also disagree. Items are shown for at most {most} arms, those that disagree most."""
RIGHT_HERE = "{right} right, {errs} wrong, in most seeds (texts are detokenized):"
UNPAIRED = "Not paired with the baseline, no seed in common"
MISSING = "No predictions of the same items, neither in the archive nor in the run folders"
NO_TEXTS = "Texts not available: the cache of prepared data is missing or unreadable."
CORRUPT = "Corrupt run files, left out: {files}. Rerun their command to restore them."
SHOWN, WIDTH = 3, 160


def _disagreements(study: Study, section: Section, rows: list[Row], paired: PairedErrors) -> list[Block]:
    damaged, baseline = item_texts.corrupt((run for row in rows for run in row.runs), study.output), section.baseline
    corrupt = listed("/".join(path.parts[-3:]) for path in damaged)
    left_out: list[Block] = [CORRUPT.format(files=corrupt)] if damaged else []
    if not paired:
        return left_out
    run = rows[0].first
    texts = item_texts.texts(run, study.output, next(iter(paired.values())).count)
    head = ["arm", "seeds", "both right", f"only {escape(baseline)} right", "only the arm right", "both wrong"]
    lines = []
    for label, both in paired.items():
        replicates = len(both.before)
        counts = [both.both(*errs) for errs in itertools.product((False, True), repeat=2)]
        numbers = [Cell(formats.plain(count, 0 if replicates == 1 else 1), count) for count in counts]
        lines.append([escape(label), replicates, *numbers])
    blocks: list[Block] = [formats.table(head, lines), *_without_pairs(rows, paired), *left_out]
    names = items.labels_of(run)  # else the numbers of classes stand for them

    def class_of(both: Paired, index: int) -> str:
        number = both.labels[index]
        return escape(names[number] if number < len(names) else str(number))

    # of half of the replicates
    examples = _examples(RIGHT_HERE, baseline, paired, 0.5, texts, class_of) if texts else [NO_TEXTS]
    return [Part(f"Disagreements: {escape(section.name)}", [*blocks, *examples])]


ERR = """\
Errors of an arm and the baseline {baseline} on single validation items: means over up to five paired seeds. Descriptive only.
Items are shown for the {most} arms whose errors differ most."""
ERRS_MORE = "{errs} has a larger error than {right}, largest differences first:"


def _errors(study: Study, section: Section, rows: list[Row], paired: PairedErrors) -> list[Block]:
    if not paired:
        return []
    first = next(iter(paired.values()))
    head = [
        "arm",
        "seeds",
        f"{escape(section.baseline)}: {first.what}",
        "the arm",
        "smaller error on",
        "equal on",
        "larger on",
    ]
    lines = []
    for label, both in paired.items():
        cells = [Cell(formats.plain(mean, 3), mean) for mean in [float(values.mean()) for values in (both.before, both.after)]]
        lines.append([escape(label), len(both.before), *cells, *both.counts()])
    texts = item_texts.texts(rows[0].first, study.output, first.count)

    def errors_of(both: Paired, index: int) -> str:
        before, after = (formats.plain(float(values[:, index].mean()), 2) for values in (both.before, both.after))
        return f"baseline {before}, arm {after}"

    examples = _examples(ERRS_MORE, section.baseline, paired, NO_ERROR, texts, errors_of)
    return [Part(f"Errors: {escape(section.name)}", [formats.table(head, lines), *_without_pairs(rows, paired), *examples])]


def _without_pairs(rows: list[Row], paired: PairedErrors) -> list[str]:
    """Which arms have no errors to pair with the baseline's, and why."""
    first, missing = rows[0].by_replicate, [row for row in rows[1:] if row.label not in paired]
    why = grouped((MISSING if pair(first, row.by_replicate) else UNPAIRED, row.label) for row in missing)
    return [f"{text}: {listed(arms)}." for text, arms in why.items()]


def _examples(
    sentence: str,
    baseline: str,
    paired: PairedErrors,
    least: float,
    texts: Texts | None,
    facts: Callable[[Paired, int], str],
) -> list[Block]:
    """For each direction a sentence, and the items whose change is above `least`, of the arms with the largest changes."""
    blocks: list[Block] = []
    changes = {label: both.change_of_items for label, both in paired.items()}
    for label in sorted(paired, key=lambda label: -float(np.abs(changes[label]).sum()))[:MOST_ARMS]:
        for errs, right, sign in ((label, baseline, 1), (baseline, label, -1)):
            change, lines = sign * changes[label], []
            for index in map(int, np.argsort(-change, kind="stable")[:SHOWN]):
                if change[index] > least:
                    text = texts.of(index) if texts else DASH
                    cut = escape(text if len(text) <= WIDTH else f"{text[:WIDTH]}…")
                    lines.append(f"{escape(paired[label].items[index])} ({facts(paired[label], index)}): {cut}")
            blocks += [sentence.format(errs=escape(errs), right=escape(right)), Bullets(lines)] if lines else []
    return blocks


_DISAGREEMENTS = partial(on_items, title="Where they disagree", intro=DISAGREE, classes=True, of_section=_disagreements)
_ERRORS = partial(on_items, title="Where their errors differ", intro=ERR, classes=False, of_section=_errors)
DISAGREEMENTS, ERRORS = Added(_DISAGREEMENTS, timing.chapter, order=5), Added(_ERRORS, timing.chapter, order=5)
