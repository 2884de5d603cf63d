"""Documents of a data set, read in batches of rows: from the hub by name, or from a local folder laid out as the hub's."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from harness.config.choices import DataSource
from harness.config.schema import CorpusConfig, RunConfig
from harness.errors import InputError, unknown

BATCH_ROWS = 1000
"""Rows that are held at once."""


def documents(config: RunConfig, split: str) -> Iterator[str]:
    """Rows joined to documents, blank rows dropped; InputError names what does not load, is missing or is not text."""
    corpus = config.corpus
    begins = _beginnings(corpus)
    lines: list[str] = []
    for text, mark in _rows(config, split):
        line = text.strip()
        if begins(text, mark) and lines:
            yield "\n".join(lines)
            lines = []
        if line:
            lines.append(line)
    if lines:
        yield "\n".join(lines)


def _beginnings(corpus: CorpusConfig) -> Any:
    """Whether a row begins a document: function of its text and of its value in column `corpus.document`."""
    if corpus.document and corpus.heading:
        raise InputError(f"corpus.document={corpus.document!r} and corpus.heading={corpus.heading!r} exclude each other")
    if corpus.heading:
        try:
            pattern = re.compile(corpus.heading)
        except re.error as error:
            raise InputError(f"corpus.heading={corpus.heading!r} is not a regular expression: {error}") from error
        return lambda text, mark: pattern.search(text) is not None
    if not corpus.document:
        return lambda text, mark: True
    last: list[object] = []

    def changed(text: str, mark: object) -> bool:
        other = last != [mark]
        last[:] = [mark]
        return other

    return changed


def _rows(config: RunConfig, split: str) -> Iterator[tuple[str, object]]:
    corpus = config.corpus
    where = f"corpus {corpus.name!r}, {split}"
    number = 0
    for batch in _batches(config, split, where):
        for key in ("text", "document"):
            column = getattr(corpus, key)
            if column not in batch and (column or key == "text"):
                raise unknown(f"column of {where}", column, batch, f"corpus.{key}")
        texts = batch[corpus.text]
        for text, mark in zip(texts, batch[corpus.document] if corpus.document else texts, strict=True):
            if not isinstance(text, str):
                raise InputError(f"{where}, row {number}: corpus.text={corpus.text!r} must hold text, got {text!r:.60}")
            yield text, mark
            number += 1


def _batches(config: RunConfig, split: str, where: str) -> Iterator[dict[str, list]]:
    """Batches of rows; a local folder is streamed, a data set of the hub is fetched once and mapped to memory."""
    import datasets
    from datasets.exceptions import DatasetsError

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # what does not load is told in one line, by us
    corpus, local = config.corpus, config.data.source is DataSource.local
    path, name = _path(config), _split_name(corpus, split)
    with tempfile.TemporaryDirectory() as empty:  # the library's own cache overlooks that local files are others than before
        cache = empty if local else None
        try:
            rows = datasets.load_dataset(path, corpus.subset or None, split=name, streaming=local, cache_dir=cache)
            batches = iter(rows.iter(BATCH_ROWS))
            while (batch := next(batches, None)) is not None:
                yield batch
        except (DatasetsError, OSError, ValueError, KeyError) as error:
            raise _load_error(config, where, path, error) from error


def _split_name(corpus: CorpusConfig, split: str) -> str:
    return corpus.validation_split if split == "validation" and corpus.validation_split else corpus.train_split


def _path(config: RunConfig) -> str:
    """What `load_dataset` is given; InputError when there is no such name or folder."""
    corpus = config.corpus
    if config.data.source is DataSource.hub:
        if not corpus.hub:
            raise InputError(f"corpus {corpus.name!r} has no name on the hub (corpus.hub): use data=local data.root=FOLDER")
        return corpus.hub
    if not config.data.root:
        raise InputError("data=local needs the folder of the data: set data.root")
    root = Path(config.data.root)
    if not root.is_dir():
        raise InputError(f"data.root={config.data.root!r} is not a folder")
    if not corpus.folder:
        raise InputError(f"corpus {corpus.name!r} has no folder below data.root={config.data.root!r}: set corpus.folder")
    folder = root / corpus.folder
    if not folder.is_dir():
        raise unknown("corpus folder", corpus.folder, (path.name for path in root.iterdir() if path.is_dir()), "corpus.folder")
    return str(folder)


def _load_error(config: RunConfig, where: str, path: str, error: Exception) -> InputError:
    """The one line for a data set that does not load: the torn file if there is one, else the loader's own reason."""
    reason = " ".join(str(error.__cause__ or error).split())
    if config.data.source is DataSource.local:
        torn = _torn_file(Path(path))
        if torn:
            return InputError(f"{where}: {torn} is not a readable parquet file; restore it or change data.root")
    elif os.environ.get("HF_HUB_OFFLINE") == "1" or "offline" in reason or isinstance(error, ConnectionError):
        return InputError(f"{where}: the hub cannot be reached for {path!r}; use data=local data.root=FOLDER")
    told = f"{path!r} with corpus.subset={config.corpus.subset!r} cannot be loaded"
    return InputError(f"{where}: {told}: {reason}")


def _torn_file(folder: Path) -> Path | None:
    for path in sorted(folder.rglob("*.parquet")):
        try:
            parquet.read_metadata(path)
        except (pyarrow.ArrowException, OSError):
            return path
    return None
