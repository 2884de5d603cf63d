"""Predictions of runs for the items of the validation data, and the texts of these items, by the files in their folders."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow

from harness import paths
from harness.comparison import items
from harness.comparison.items import ErrorsOf
from harness.comparison.runs import Run
from harness.errors import InputError
from harness.reports.reading import folders
from harness.reports.reading.store import Output, Packed
from harness.reports.reading.untrusted import LARGEST_TABLES, table_of

FILE = "predictions.parquet"


def predictions(run: Run, output: Output) -> pyarrow.Table | None:
    """The table of a run; None where they are gone or cannot be read."""
    if isinstance(output, Packed):
        return output.predictions.get(run.run_id)
    folder = folders.folder_of(run, output)
    return None if folder is None else _table(folder / FILE)


def _table(path: Path) -> pyarrow.Table | None:
    try:
        return table_of(paths.read(path, LARGEST_TABLES), str(path))
    except (OSError, InputError):
        return None


def errors_in(output: Output) -> ErrorsOf:
    """Reads the errors of runs whose files are in `output`."""
    known = output.errors if isinstance(output, Packed) else {}
    return lambda run: known.get(run.run_id) or items.errors(run, predictions(run, output))


@dataclass(frozen=True)
class Texts:
    """The validation data as a model reads it."""

    lengths: np.ndarray  # (N,) tokens, markers of beginning and end among them
    of: Callable[[int], str]  # the text of one item, put together from its tokens without markers


def corrupt(runs: Iterable[Run], output: Output) -> list[Path]:
    """Records and predictions of these runs that cannot be read."""
    paths = []
    for run in runs:
        places = [folder / folders.RECORD for folder in folders.candidates(run, output)]
        paths += [path for path in places if path.is_file() and not folders.record_of(path.parent)]
        folder = folders.folder_of(run, output)
        paths += [folder / FILE] if folder and (folder / FILE).is_file() and _table(folder / FILE) is None else []
    return paths


def texts(run: Run, output: Output, items: int) -> Texts | None:
    """The validation data of a run; None where its cache is gone or cannot be read, or an item has several sequences."""
    if isinstance(output, Packed):
        table = output.texts.get(run.run_id)
        if table is None or len(table) != items:
            return None
        return Texts(table["tokens"].to_numpy(), table["text"].to_pylist().__getitem__)
    from safetensors import SafetensorError  # what wrote the cache has these packages, what reads results of others may not
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = folders.folder_of(run, output)
    key = folders.record_of(folder).get("inputs", {}).get("data") if folder else None
    if folder is None or key is None:
        return None
    try:
        cache = paths.data_folder(str(folder.parent.parent), key)
        arrays, vocabulary = load_file(cache / "validation.safetensors"), (cache / "tokenizer.json").read_text()
    except (OSError, ValueError, SafetensorError):  # a ValueError: a name that leads elsewhere
        return None
    if len(arrays["starts"]) != items + 1:
        return None
    tokenizer, parts = Tokenizer.from_str(vocabulary), np.split(arrays["ids"], arrays["starts"][1:-1])
    return Texts(np.diff(arrays["starts"]), lambda index: tokenizer.decode(parts[index].tolist(), skip_special_tokens=True))
