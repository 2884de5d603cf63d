"""What the items of the validation data say in words, where too few replicates decide on a score."""

from harness.verdict_rules import LEVEL
from harness.verdict_rules.item_errors import CLASSES, SPANS, TAGS
from reports.comparison import overall
from reports.comparison.compare import Comparison
from reports.comparison.evidence import Verdict
from reports.comparison.items import Paired
from reports.comparison.section import HEADLINE, Row, Section
from reports.writing import formats, tables
from reports.writing.formats import escape

WRONG = {CLASSES: "wrong on", SPANS: "wrong on", TAGS: "wrong, as a share of the words, on"}
"""What the error of an item is -> how it is said; of the others an error is no count."""


def losers(comparison: Comparison) -> set[str]:
    """Arms that are worse in score over all tasks or on one of them, by replicates or by items."""
    over = overall.of_tasks(comparison)
    changes = [(row.label, section.change(row, HEADLINE)) for section in over.sections for row in section.rows]
    changes += [(label, over.change(label, HEADLINE)) for label in over.labels]
    by_replicates = {label for label, one in changes if one and one.verdict is Verdict.WORSE}
    return by_replicates | {row.label for _, row, paired, _ in by_items(comparison) if paired.change > 0}


def by_items(comparison: Comparison) -> list[tuple[Section, Row, Paired, int]]:
    """Differences of single items that no other sample of them explains, where too few replicates decide on the score.

    With the number of comparisons that they are corrected for; the largest ones first.
    """
    every = [
        (section, row, paired)
        for section in overall.of_tasks(comparison).sections
        for row in section.rows
        if (paired := section.errors_of_both(row.label)) and paired.what in WRONG
    ]
    undecided = (Verdict.DIRECTION_BETTER, Verdict.DIRECTION_WORSE, Verdict.NOT_RESOLVED)
    found = [
        (section, row, paired, len(every))
        for section, row, paired in every
        if (change := section.change(row, HEADLINE)) and change.verdict in undecided and len(every) * paired.p <= LEVEL
    ]
    return sorted(found, key=lambda one: -abs(one[2].change))


def sentence(comparison: Comparison, section: Section, row: Row, paired: Paired, count: int) -> str:
    """`**windowed** on distance: wrong on 124 items more of 500 (...)`."""
    seeds = tables.replicates_text(row) if len(paired.before) == len(row.runs) else f"{len(paired.before)} seeds"
    ends = tuple(100 * end for end in paired.interval_at(1 - LEVEL / count))
    number, more = round(abs(paired.change) * paired.count, 1), "more" if paired.change > 0 else "fewer"
    family = f", corrected for {count} comparisons" if count > 1 else ""
    return (
        f"**{escape(row.label)}** on {tables.section_name(comparison, section)}: {WRONG[paired.what]} {number:g} {more} of "
        f"{paired.count:,} items than {escape(section.baseline)} ({formats.difference(100 * paired.change, '%', ends)} of the "
        f"items: 95 % interval over items, paired{family}; {seeds}). Another sample of items does not explain this; how other "
        "seeds would turn out it does not say."
    )
