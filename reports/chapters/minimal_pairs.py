"""Minimal pairs: the share of pairs in which an arm finds the right sentence likelier, by paradigm."""

import math
from collections.abc import Mapping

from scipy.special import ndtri

from harness import paired
from reports.comparison import items
from reports.comparison.compare import Comparison, Study
from reports.comparison.items import MOST_PAIRS, Paradigm
from reports.comparison.section import Row, Section
from reports.writing import formats
from reports.writing.formats import DASH, Chapter, escape
from reports.writing.tables import section_name

HEADING = "## Minimal pairs"
INTRO = """\
Share of the pairs in which an arm finds the right sentence likelier, without fine-tuning: mean over replicates (at most five),
with its 95 % interval over the pairs. Guessing reaches 0.5. *Needs*: tokens between the words in which the sentences differ and
what decides, and on which side of them that is; a receptive field of less cannot tell. *Word frequencies*: a control that
scores each token by its share of the pretraining text alone; a tie counts half."""


def chapter(study: Study) -> Chapter:
    """Empty where no predictions of minimal pairs are found."""
    paragraphs = [part for section in study.comparison.sections for part in _section(study, study.comparison, section)]
    return Chapter([HEADING, INTRO, *paragraphs] if paragraphs else [])


def _section(study: Study, comparison: Comparison, section: Section) -> list[str]:
    arms = {row.label: paradigms for row in section.rows if (paradigms := _of_row(row, study))}
    if not arms:
        return []
    known: dict[str, Paradigm] = {name: paradigm for of_arm in arms.values() for name, (paradigm, *_) in of_arm.items()}
    lines = []
    for name, paradigm in known.items():
        needs = f"{paradigm.distance}, {paradigm.side}" if paradigm.distance else DASH
        each = [_share(of_arm.get(name, [])) for of_arm in arms.values()]
        lines.append([escape(name), f"{paradigm.pairs:,}", needs, _mean([paradigm.unigram]), *each])
    means = [_mean([one.right for replicates in of_arm.values() for one in replicates]) for of_arm in arms.values()]
    unigrams = _mean([paradigm.unigram for paradigm in known.values()])
    lines.append(["**mean**", f"{sum(paradigm.pairs for paradigm in known.values()):,}", "", unigrams, *means])
    head = ["paradigm", "pairs", "needs", "word frequencies", *map(escape, arms)]
    return [f"### Minimal pairs: {section_name(comparison, section)}", formats.table(head, lines)]


def _of_row(row: Row, study: Study) -> Mapping[str, list[Paradigm]]:
    """Paradigm -> its results, one for each replicate."""
    paradigms: dict[str, list[Paradigm]] = {}
    for run in list(row.runs.values())[:MOST_PAIRS]:
        for name, paradigm in items.paradigms(run, study.output).items():
            paradigms.setdefault(name, []).append(paradigm)
    return paradigms


def _share(replicates: list[Paradigm]) -> str:
    """`0.620 [0.521, 0.709]`, by Agresti and Coull; all replicates answer the same pairs."""
    if not replicates:
        return DASH
    share, pairs = math.fsum(one.right for one in replicates) / len(replicates), replicates[0].pairs
    middle = (share * pairs + 2) / (pairs + 4)
    half = float(ndtri(0.975)) * paired.item_error(share, pairs)
    low, high = (formats.plain(end, 2) for end in (max(0.0, middle - half), min(1.0, middle + half)))
    return f"{formats.plain(share, 2)} [{low}, {high}]"


def _mean(shares: list[float | None]) -> str:
    """With three digits; a dash where one is missing."""
    return DASH if None in shares else formats.plain(math.fsum(shares) / len(shares), 3)
