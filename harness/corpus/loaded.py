"""Documents of a data set, read in batches of rows: from the hub, or from a local folder with the layout of the hub."""

import re
from collections.abc import Iterator
from typing import Any

from harness.config.choices import DataSource
from harness.config.schema import RunConfig
from harness.data.sources import Source, library, local_folder
from harness.errors import InputError, unknown

BATCH_ROWS = 1000
"""Rows in memory at a time."""


def documents(config: RunConfig, split: str) -> Iterator[str]:
    """Rows joined to documents, without blank rows; InputError names what cannot be loaded, is missing or is not text."""
    corpus = config.corpus
    if corpus.document and corpus.heading:
        raise InputError(
            f"corpus.document={corpus.document!r} and corpus.heading={corpus.heading!r} exclude each other: set one of them"
        )
    try:
        heading = re.compile(corpus.heading)
    except re.error as error:
        raise InputError(f"corpus.heading={corpus.heading!r} is not a regular expression: {error}") from error
    lines: list[str] = []
    last: object = None
    for text, mark in _rows(config, split):
        begins = heading.search(text) if corpus.heading else mark != last or not corpus.document
        last = mark
        if begins and lines:
            yield "\n".join(lines)
            lines = []
        if line := text.strip():
            lines.append(line)
    if lines:
        yield "\n".join(lines)


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


def _batches(config: RunConfig, split: str, where: str) -> Iterator[dict[str, list[Any]]]:
    """Batches of rows; a local folder is streamed, a data set of the hub is downloaded once and memory-mapped."""
    corpus, is_hub = config.corpus, config.data.source is DataSource.hub
    if is_hub and not corpus.hub:
        raise InputError(f"corpus {corpus.name!r} has no name on the hub (corpus.hub): use data=local data.root=FOLDER")
    path = corpus.hub if is_hub else local_folder(config.data, corpus.folder, "corpus.folder")
    name = corpus.validation_split if split == "validation" and corpus.validation_split else corpus.train_split
    with library(Source(path, corpus.subset or None, where, cached=is_hub, key="corpus.subset")) as (datasets, cache):
        rows = datasets.load_dataset(path, corpus.subset or None, split=name, streaming=not is_hub, cache_dir=cache)
        yield from rows.iter(BATCH_ROWS)
