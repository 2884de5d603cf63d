"""The documents of a corpus: generated, from plain text files, or from a data set, and their hash. A line is a paragraph."""

import hashlib
import json
import os
import random
import re
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from harness import paths, records
from harness.config.choices import CorpusSource, DataSource
from harness.config.schema import CorpusConfig, RunConfig, to_dict
from harness.corpus import generated
from harness.data.files import Wanted, rows, text_lines
from harness.data.sources import Source, library, local_folder
from harness.errors import InputError, Mistakes, unknown
from harness.paths import TABLES, ending


def documents(config: RunConfig, split: str) -> Iterator[str]:
    """The non-empty documents of `train` or `validation`, in a fixed order.

    Without a validation split of its own, the corpus is split by a hash of each document's text, so that copies of a text are
    in the same split. Held-out text is never shuffled. InputError for files that are missing or not text, and for a split
    without documents.
    """
    corpus = config.corpus
    limit = corpus.train_documents if split == "train" else None
    text = None
    shuffles = corpus.shuffled_words and split == "train"
    for text in islice(_all_documents(config, split), limit):
        yield "\n".join(map(_shuffled, paragraphs(text))) if shuffles else text
    if text is None:
        cure = f"; corpus.validation_share={corpus.validation_share} may hold out none" if split == "validation" else ""
        raise InputError(f"corpus {corpus.name!r}, {split}: there are no documents, or all of them are empty{cure}")


def paragraphs(text: str) -> list[str]:
    """The lines of a document, which end at line feeds only, not at other line breaks of Unicode."""
    return text.replace("\r\n", "\n").split("\n")


def _shuffled(line: str) -> str:
    """The words of each sentence in a random order that its text decides; punctuation stays with its word."""
    sentences = [sentence.split() for sentence in re.split(r"(?<=[.!?])\s+", line)]
    for words in sentences:
        random.Random(" ".join(words)).shuffle(words)
    return " ".join(word for words in sentences for word in words)


def held_out(text: str, share: float) -> bool:
    """Whether a document with this text is held out; the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") < share * 2**64


def _all_documents(config: RunConfig, split: str) -> Iterator[str]:
    corpus = config.corpus
    if corpus.source is CorpusSource.builtin:
        return generated.generate(corpus, split)
    is_files = corpus.source is CorpusSource.files
    texts = _file_documents(corpus, split) if is_files else _data_set_documents(config, split)
    if corpus.validation_files if is_files else corpus.validation_split:
        return texts
    return (text for text in texts if held_out(text, corpus.validation_share) == (split == "validation"))


def _file_documents(corpus: CorpusConfig, split: str) -> Iterator[str]:
    if not corpus.files:
        raise InputError(f"corpus {corpus.name!r} needs plain text files: set corpus.files=[a.txt,b.txt]")
    both = {Path(name).resolve() for name in corpus.files} & {Path(name).resolve() for name in corpus.validation_files}
    if both:
        raise InputError(f"corpus.validation_files: {min(both)} is in corpus.files too; remove it from one of them")
    key = "validation_files" if split == "validation" and corpus.validation_files else "files"
    for name in getattr(corpus, key):
        path, where = Path(name), f"corpus.{key}"
        if ending(path) in TABLES and path.is_file():
            yield from _texts_of_rows(path, corpus.text, where)
        elif path.is_file():
            lines = (line.strip() for _, line in text_lines(path, f"{where}: {path}", where))
            yield from ("\n".join(paragraphs) for are_text, paragraphs in groupby(lines, bool) if are_text)  # between blanks
        else:
            raise InputError(f"{where}: {name!r} is not a file")


def _texts_of_rows(path: Path, column: str, key: str) -> Iterator[str]:
    """Each row's text, a document; rows are read as those of a task."""
    where = f"{key}: {path}"
    for number, (line, row) in enumerate(rows(path, where, key, Wanted((column,)), Mistakes(first_ends=True))):
        if column not in row:
            raise unknown(f"column of {path}:", column, row, "corpus.text")
        if not isinstance(row[column], str):
            place = f"row {number}" if line is None else f"line {line}"
            raise InputError(f"{where}, {place}: expected text in {column!r} (corpus.text), got {row[column]!r:.60}")
        if text := "\n".join(filter(None, map(str.strip, row[column].split("\n")))):
            yield text


BATCH_ROWS = 1000
"""Rows in memory at a time."""


def _data_set_documents(config: RunConfig, split: str) -> Iterator[str]:
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
    for text, mark in _data_set_rows(config, split):
        begins = heading.search(text) if corpus.heading else mark != last or not corpus.document
        last = mark
        if begins and lines:
            yield "\n".join(lines)
            lines = []
        if line := text.strip():
            lines.append(line)
    if lines:
        yield "\n".join(lines)


def _data_set_rows(config: RunConfig, split: str) -> Iterator[tuple[str, object]]:
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


VERSION = 1
"""Increased when the same files are read as other documents."""

SPLITS = ("train", "validation")


def text_hash(config: RunConfig) -> str:
    """Hash of all documents of both splits, independent of the tokenizer; InputError for what cannot be read."""
    files = _files(config)
    if files is None:
        return _hash_of_documents(config)
    settings = {"corpus": to_dict(config.corpus), "version": VERSION, "files": [_state(path) for path in files]}
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    path = paths.cache_folder(config.output) / "texts" / f"{key}.json"
    try:
        return records.read(path, dict[str, str])["sha256"]
    except (FileNotFoundError, records.CorruptError, KeyError):
        entries = _hash_of_documents(config)
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, {"sha256": entries})
    return entries


def _hash_of_documents(config: RunConfig) -> str:
    digest = hashlib.sha256()
    for split in SPLITS:
        digest.update(f"\0{split}".encode())
        for text in documents(config, split):
            digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:16]


def _files(config: RunConfig) -> list[Path] | None:
    """Every file that the documents may be read from; None where they do not come from files of the user."""
    corpus = config.corpus
    if corpus.source is CorpusSource.files:
        return [Path(name) for name in (*corpus.files, *corpus.validation_files)]
    if corpus.source is CorpusSource.data and config.data.source is DataSource.local:
        folder = Path(local_folder(config.data, corpus.folder, "corpus.folder"))
        return sorted(_below(folder)) or None
    return None


def _below(folder: Path) -> Iterator[Path]:
    """Every file below the folder, also through links to other folders, each folder once."""
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(here)) in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(here) / name for name in files)


def _state(path: Path) -> list[object]:
    """What changes whenever the file is written."""
    status = path.stat() if path.is_file() else None
    return [str(path.resolve()), *([status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino] if status else [])]
