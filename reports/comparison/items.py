"""What the items of the validation data say of a difference, by the predictions of both arms where they are there."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from harness import verdict_rules
from harness.verdict_rules import item_errors
from harness.verdict_rules.item_errors import Errors
from reports.reading import folders
from reports.reading.store import Run

MOST_PAIRS = 5
"""Replicates of an arm whose predictions are read."""
NO_ERROR = 1e-9
"""Differences up to this are those of rounding."""


@dataclass(frozen=True)
class Paired:
    """Errors of a baseline and an arm on the same items, by paired replicate: (R, N) each."""

    what: str  # as `item_errors` names it
    items: tuple[object, ...]
    before: np.ndarray
    after: np.ndarray

    @property
    def change_of_items(self) -> np.ndarray:
        """(N,) after minus before, means over the replicates: above 0 the arm errs more."""
        return np.mean(self.after, axis=0) - np.mean(self.before, axis=0)

    def counts(self) -> tuple[int, int, int]:
        """Items on which the arm errs less, as much, and more."""
        less, more = int((self.change_of_items < -NO_ERROR).sum()), int((self.change_of_items > NO_ERROR).sum())
        return less, self.count - less - more, more

    @property
    def count(self) -> int:
        """N."""
        return self.before.shape[1]

    @property
    def share_apart(self) -> float:
        """Share of the scatter over items that the two do not have in common."""
        return verdict_rules.share_apart(self.before, self.after)

    @property
    def change(self) -> float:
        """Mean error of the arm minus that of the baseline: above 0 it errs more."""
        return float(np.mean(self.after - self.before))

    @property
    def error(self) -> float:
        """Standard error of the change over the items, of these replicates; one item more or less counts."""
        return math.sqrt(self.count * float(np.var(np.mean(self.after - self.before, axis=0))) + 1) / self.count

    @property
    def p(self) -> float:
        """Two-sided, of a paired normal test over the items: whether other items could turn the change, not other seeds."""
        return float(2 * ndtr(-abs(self.change) / self.error))

    def interval_at(self, confidence: float) -> tuple[float, float]:
        """Ends for the change over the items."""
        half = float(ndtri((1 + confidence) / 2)) * self.error
        return self.change - half, self.change + half


def errors(run: Run, output: Path | None) -> Errors | None:
    """None where the folder or its predictions are gone, torn, or of no known kind."""
    folder = folders.folder_of(run, output)
    if folder is None or folders.torn(run, output, item_errors.FILE):
        return None
    return item_errors.read(folder / item_errors.FILE)


def of_both(pairs: Iterable[tuple[Errors | None, Errors | None]]) -> Paired | None:
    """The first pairs whose predictions are there, on the same items; None without any."""
    known: list[tuple[Errors, Errors]] = []
    for before, after in pairs:
        if before and after and len(known) < MOST_PAIRS and before.items == after.items == (known or [(before,)])[0][0].items:
            known.append((before, after))
    if not known or not known[0][0].items:
        return None
    return Paired(known[0][0].what, known[0][0].items, *(np.stack([pair[side].values for pair in known]) for side in (0, 1)))
