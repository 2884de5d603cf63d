"""How wrong a baseline and an arm are on each item of a task that is no classification."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.paired import pair
from harness.verdict_rules import item_errors
from harness.verdict_rules.item_errors import CLASSES, Errors
from reports.comparison.compare import Row
from reports.comparison.items import MOST_PAIRS
from reports.reading import folders
from reports.reading.store import Run

NO_ERROR = 1e-9
"""Differences up to this are those of rounding."""


@dataclass(frozen=True)
class BothErrors:
    """Of the baseline and an arm on the same items, means over paired replicates."""

    what: str
    items: tuple[object, ...]
    replicates: int
    before: np.ndarray  # (N,)
    after: np.ndarray  # (N,)

    @property
    def change(self) -> np.ndarray:
        """(N,) after minus before: above 0 the arm errs more."""
        return self.after - self.before

    def counts(self) -> tuple[int, int, int]:
        """Items on which the arm errs less, as much, and more."""
        less, more = int((self.change < -NO_ERROR).sum()), int((self.change > NO_ERROR).sum())
        return less, len(self.items) - less - more, more


def errors(run: Run, output: Path | None) -> Errors | None:
    """None where the folder or its predictions are gone or cannot be read, or the task is a classification."""
    folder = folders.folder_of(run, output)
    found = item_errors.read(folder / item_errors.FILE) if folder else None
    return found if found and found.what != CLASSES else None


def both(before: Row, after: Row, output: Path | None) -> BothErrors | None:
    """Of the first MOST_PAIRS paired replicates whose predictions are there, on the same items; None without any."""
    pairs: list[tuple[Errors, Errors]] = []
    for one, other in pair(before.runs, after.runs):
        mine, theirs = errors(before.runs[one], output), errors(after.runs[other], output)
        known = pairs[0][0].items if pairs else mine.items if mine else None
        if mine and theirs and mine.items == theirs.items == known and len(pairs) < MOST_PAIRS:
            pairs.append((mine, theirs))
    if not pairs or not pairs[0][0].items:
        return None
    first, second = (np.mean([pair[side].values for pair in pairs], axis=0) for side in (0, 1))
    return BothErrors(pairs[0][0].what, pairs[0][0].items, len(pairs), first, second)
