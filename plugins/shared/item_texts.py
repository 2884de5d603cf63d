"""The texts of a run's validation items, and which of its files cannot be read, by its folder."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import paths
from harness.comparison.runs import Run
from harness.extensions import library
from harness.reports.reading import folders
from harness.reports.reading.predictions import FILE, read_table
from harness.reports.reading.store import Output, Packed


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
        paths += [folder / FILE] if folder and (folder / FILE).is_file() and read_table(folder / FILE) is None else []
    return paths


def texts(run: Run, output: Output, items: int) -> Texts | None:
    """The validation data of a run; None where its cache is gone or cannot be read, or an item has several sequences."""
    if isinstance(output, Packed):
        table = output.texts.get(run.run_id)
        if table is None or len(table) != items:
            return None
        return Texts(table["tokens"].to_numpy(), table["text"].to_pylist().__getitem__)
    folder = folders.folder_of(run, output)
    key = folders.record_of(folder).get("inputs", {}).get("data") if folder else None
    if folder is None or key is None:
        return None
    # what wrote the cache has these packages, what reads results of others may not
    safetensors, files, tokenizers = (library(name, "run") for name in ("safetensors", "safetensors.numpy", "tokenizers"))
    try:
        cache = paths.data_folder(str(folder.parent.parent), key)
        arrays, vocabulary = files.load_file(cache / "validation.safetensors"), (cache / "tokenizer.json").read_text()
    except (OSError, ValueError, safetensors.SafetensorError):  # a ValueError: a name that leads elsewhere
        return None
    if len(arrays["starts"]) != items + 1:
        return None
    tokenizer, parts = tokenizers.Tokenizer.from_str(vocabulary), np.split(arrays["ids"], arrays["starts"][1:-1])
    return Texts(np.diff(arrays["starts"]), lambda index: tokenizer.decode(parts[index].tolist(), skip_special_tokens=True))
