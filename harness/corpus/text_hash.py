"""Hash of the documents of a corpus, kept as long as its files are unchanged: to read a large one takes minutes."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from harness import paths, records
from harness.config.choices import CorpusSource, DataSource
from harness.config.schema import RunConfig
from harness.corpus.documents import documents
from harness.data.sources import local_folder

VERSION = 1
"""Increased when the same files are read as other documents."""

SPLITS = ("train", "validation")


def text_hash(config: RunConfig) -> str:
    """Hash of all documents of both splits, independent of the tokenizer; InputError for what cannot be read."""
    files = _files(config)
    if files is None:
        return _read(config)
    settings = {"corpus": asdict(config.corpus), "version": VERSION, "files": [_state(path) for path in files]}
    key = hashlib.sha256(json.dumps(settings, sort_keys=True, default=lambda choice: choice.name).encode()).hexdigest()[:16]
    path = paths.text_hashes(config.output) / f"{key}.json"
    try:
        return records.read(path, dict[str, str])["sha256"]
    except (FileNotFoundError, records.CorruptError, KeyError):
        entries = _read(config)
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, {"sha256": entries})
    return entries


def _read(config: RunConfig) -> str:
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
