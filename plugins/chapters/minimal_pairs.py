"""Minimal pairs: the share of pairs in which an arm prefers the acceptable sentence, by paradigm."""

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import pyarrow

from harness.comparison import paired
from harness.comparison.items import MOST_PAIRS
from harness.comparison.paired import grouped
from harness.comparison.section import Section
from harness.document import DASH, Cell
from harness.document import Section as Part
from harness.reports.chapters import Added, timing
from harness.reports.reading.predictions import predictions
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape

HEADING = "Minimal pairs"
INTRO = """\
Share of pairs in which an arm gives the acceptable sentence the higher likelihood, without fine-tuning: mean over up to five
seeds, with the 95 % CI over pairs. Chance is 0.5. *Needs*: distance in tokens from the differing words to the deciding word,
and its side; a smaller receptive field cannot do better than chance. *Word frequencies*: a control that scores each token by
its frequency in the pretraining text; a tie counts half."""


@dataclass(frozen=True)
class Paradigm:
    """Results of a run on the minimal pairs of one kind."""

    pairs: int
    right: float  # share of them
    unigram: float | None  # share that word frequencies alone decide
    distance: int | None  # tokens from the differing words to the deciding word; None where unknown
    side: str | None  # of the differing words, on which that is


def paradigms(table: pyarrow.Table | None) -> dict[str, Paradigm]:
    """Name -> paradigm, in the order of the data; empty for anything but predictions of minimal pairs."""
    if table is None or not {"paradigm", "label", "prediction", "distance", "side"} <= {*table.column_names}:
        return {}
    return {
        name: Paradigm(
            pairs=len(own),
            right=float(np.mean([row["label"] == row["prediction"] for row in own])),
            unigram=float(np.mean([row["unigram"] for row in own])) if "unigram" in own[0] else None,
            distance=own[0]["distance"],
            side=own[0]["side"],
        )
        for name, own in grouped((row["paradigm"], row) for row in table.to_pylist()).items()
    }


def chapter(study: Study) -> Chapter:
    """Empty where no predictions of minimal pairs are found."""
    parts = [part for section in study.comparison.sections for part in _section(study, section)]
    return Chapter([Part(HEADING, [INTRO, *parts])] if parts else [])


def _section(study: Study, section: Section) -> list[Part]:
    arms = {}  # label -> paradigm -> its results, one for each replicate
    for row in section.rows:
        runs = row.runs[:MOST_PAIRS]
        if of_row := grouped(result for run in runs for result in paradigms(predictions(run, study.output)).items()):
            arms[row.label] = of_row
    if not arms:
        return []
    known = {name: paradigm for of_arm in arms.values() for name, (paradigm, *_) in of_arm.items()}
    lines = []
    for name, paradigm in known.items():
        needs = f"{paradigm.distance}, {paradigm.side}" if paradigm.distance else DASH
        each = [_share(of_arm[name]) if name in of_arm else DASH for of_arm in arms.values()]
        lines.append([escape(name), paradigm.pairs, needs, _mean([paradigm.unigram]), *each])
    means = [_mean([one.right for replicates in of_arm.values() for one in replicates]) for of_arm in arms.values()]
    unigrams = _mean([paradigm.unigram for paradigm in known.values()])
    lines.append(["**mean**", sum(paradigm.pairs for paradigm in known.values()), "", unigrams, *means])
    head = ["paradigm", "pairs", "needs", "word frequencies", *map(escape, arms)]
    return [Part(f"Minimal pairs: {escape(section.name)}", [formats.table(head, lines)])]


def _share(replicates: list[Paradigm]) -> Cell:
    """`0.620 [0.521, 0.709]`; all seeds answer the same pairs."""
    share, pairs = fmean(one.right for one in replicates), replicates[0].pairs
    half = paired.t_quantile(math.inf) * paired.item_error(share, pairs)
    low, high = (formats.plain(end, 2) for end in paired.score_interval(share, half, items=pairs))
    return Cell(f"{formats.plain(share, 2)} [{low}, {high}]", share)


def _mean(shares: list[float | None]) -> Cell:
    """With three digits; a dash where one is missing."""
    known = [share for share in shares if share is not None]
    return Cell(DASH) if len(known) < len(shares) else Cell(formats.plain(fmean(known), 3), fmean(known))


CHAPTER = Added(chapter, before=timing.chapter, order=-3)
