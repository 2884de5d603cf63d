"""What runs predicted for each item of the validation data, from the files in their folders; texts as their tokens read."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from harness import checksums, paths
from harness.paired import pair
from harness.verdict_rules.item_errors import FILE
from reports.comparison.items import MOST_PAIRS
from reports.comparison.section import Row
from reports.reading import folders
from reports.reading.store import Run

COLUMNS = {"item", "label", "prediction", "logit_0"}
"""Of the predictions of a classification; tags also have `position`, regressions no `logit_1`."""


@dataclass(frozen=True)
class Answers:
    """Of one run, in the order of the validation data."""

    items: tuple[object, ...]
    labels: np.ndarray  # (N,)
    predictions: np.ndarray  # (N,)

    @property
    def right(self) -> np.ndarray:
        """(N,) whether each is."""
        return self.labels == self.predictions


@dataclass(frozen=True)
class Both:
    """Two arms on the same items, by paired replicate."""

    before: list[Answers]
    after: list[Answers]

    @property
    def balance(self) -> np.ndarray:
        """(N,) share of replicates in which the first alone is right, minus that in which the second alone is."""
        return np.mean(
            [one.right.astype(float) - other.right for one, other in zip(self.before, self.after, strict=True)], axis=0
        )

    def shares(self) -> dict[tuple[bool, bool], float]:
        """(first is right, second is right) -> mean number of items over replicates."""
        pairs = list(zip(self.before, self.after, strict=True))
        return {
            (first, second): float(np.mean([np.sum((a.right == first) & (b.right == second)) for a, b in pairs]))
            for first in (True, False)
            for second in (True, False)
        }


@dataclass(frozen=True)
class Texts:
    """The validation data as a model reads it: tokens of each item, and its text put together from them."""

    ids: np.ndarray
    starts: np.ndarray
    tokenizer: Tokenizer

    @property
    def lengths(self) -> np.ndarray:
        """(N,) tokens, markers of beginning and end among them."""
        return np.diff(self.starts)

    def of(self, index: int) -> str:
        """Of one item, without markers."""
        return self.tokenizer.decode(self.ids[self.starts[index] : self.starts[index + 1]].tolist(), skip_special_tokens=True)


def answers(run: Run, output: Path | None) -> Answers | None:
    """None where the folder or its predictions are gone or torn, or the task is no classification."""
    table = _table(run, output)
    if table is None or not set(table.column_names) >= {*COLUMNS, "logit_1"} or "position" in table.column_names:
        return None
    columns = {name: table.column(name).to_pylist() for name in ("item", "label", "prediction")}
    return Answers(tuple(columns["item"]), np.array(columns["label"]), np.array(columns["prediction"]))


def torn(rows: Iterable[Row], output: Path | None) -> list[Path]:
    """Records and predictions of these arms that are not as they were written, or cannot be read."""
    runs = (run for row in rows for run in row.runs.values())
    found = (folders.torn(run, output, FILE) or _unreadable(run, output) for run in runs)
    return [path for path in found if path]


def _unreadable(run: Run, output: Path | None) -> Path | None:
    """The predictions, of which the result has no checksum, where they are no parquet file."""
    folder = folders.folder_of(run, output)
    is_there = folder is not None and (folder / FILE).is_file()
    return folder / FILE if is_there and _table(run, output) is None else None


def _table(run: Run, output: Path | None) -> pyarrow.Table | None:
    folder = folders.folder_of(run, output)
    if folder is None or not (folder / FILE).is_file() or folders.torn(run, output, FILE):
        return None
    try:
        return parquet.read_table(folder / FILE)
    except (pyarrow.ArrowException, OSError):
        return None


def both(before: Row, after: Row, output: Path | None) -> Both | None:
    """The first MOST_PAIRS paired replicates whose predictions are there, on the same items; None without any."""
    found = Both([], [])
    for one, other in pair(before.runs, after.runs):
        mine, theirs = answers(before.runs[one], output), answers(after.runs[other], output)
        if mine and theirs and mine.items == theirs.items and len(found.before) < MOST_PAIRS:
            known = found.before[0].items if found.before else mine.items
            if mine.items == known:
                found.before.append(mine)
                found.after.append(theirs)
    return found if found.before else None


def texts(run: Run, output: Path | None, items: int) -> Texts | None:
    """Of the validation data of a run; None where the cache of it is gone or torn, or an item has several sequences."""
    folder = folders.folder_of(run, output)
    key = folders.record_of(folder).get("inputs", {}).get("data") if folder else None
    if key is None:
        return None
    try:
        cache = paths.data_folder(str(folder.parent.parent), key)
    except ValueError:  # a name that leads elsewhere
        return None
    if not (cache / "validation.safetensors").is_file() or not (cache / "tokenizer.json").is_file():
        return None
    if (cache / checksums.FILE).exists() and checksums.broken_seal(cache):
        return None
    arrays = load_file(cache / "validation.safetensors")
    if len(arrays["starts"]) != items + 1:
        return None
    return Texts(arrays["ids"], arrays["starts"], Tokenizer.from_file(str(cache / "tokenizer.json")))
