"""Documents to one stream of token ids, once: cached by the hash of all that shapes it, written piece by piece."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from tokenizers import Tokenizer

from harness import paths
from harness.config.schema import RunConfig
from harness.corpus.documents import documents
from harness.data import tokenizer as tokenizers
from harness.data.tokenizer import vocabulary_bytes
from harness.errors import InputError

PREPARE_VERSION = 2
"""Raised when the same documents would be prepared otherwise; part of the cache key."""

SPLITS = ("train", "validation")

BATCH_CHARACTERS = 1_000_000
"""Text that is tokenised at once."""


def prepare(config: RunConfig) -> str:
    """Reads, checks and tokenises the corpus unless that is cached; returns its key.

    InputError for text that is missing or is not text, and for a tokenizer without the special pieces. Memory does not grow
    with the corpus. Nothing is left half-written.
    """
    text = _text_hash(config)
    key = _key(config, text)
    folder = folder_of(config.output, key)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            _write(config, folder, text)
    return key


def folder_of(output: str, key: str) -> Path:
    """Where the prepared corpus of this key lies."""
    return paths.cache_folder(output) / f"corpus-{key}"


@dataclass
class _Lines:
    """The paragraphs of the documents, read anew at each pass."""

    config: RunConfig
    split: str

    def __iter__(self) -> Iterator[str]:
        for text in documents(self.config, self.split):
            yield from text.splitlines()


@dataclass
class _Counts:
    """What is counted while a split is written."""

    pieces: np.ndarray  # (V,) int64, how often each occurs
    documents: int = 0
    tokens: int = 0


def _key(config: RunConfig, text: str) -> str:
    digest = hashlib.sha256(vocabulary_bytes(config.tokenizer))
    told = asdict(config.tokenizer)
    spec = {name: told[name] for name in ("kind", "train_characters", "vocab_size", "min_frequency", "lowercase")}
    spec |= {"vocab_file": bool(told["vocab_file"]), "file": bool(told["file"]), "version": PREPARE_VERSION}
    digest.update(json.dumps(spec, sort_keys=True, default=lambda kind: kind.name).encode())
    digest.update(text.encode())
    return digest.hexdigest()[:16]


def _text_hash(config: RunConfig) -> str:
    """Of all documents of both splits, whatever the tokenizer."""
    digest = hashlib.sha256()
    for split in SPLITS:
        digest.update(f"\0{split}".encode())
        for text in documents(config, split):
            digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:16]


def _write(config: RunConfig, folder: Path, text: str) -> None:
    """Builds the entry beside its place and moves it there whole; what a killed process left is swept away first."""
    building = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        _fill(config, building, text)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _fill(config: RunConfig, folder: Path, text: str) -> None:
    tokenizer = tokenizers.build(config.tokenizer, _Lines(config, "train"))
    special = _special(config, tokenizers.special_ids(tokenizer))
    tokenizer.save(str(folder / "tokenizer.json"))
    np.save(folder / "word_start.npy", tokenizers.word_starts(tokenizer))
    tokenizer.encode_special_tokens = True  # a document that speaks of [SEP] does not end there
    counts = {split: _write_split(tokenizer, documents(config, split), folder / split) for split in SPLITS}
    facts = {
        "text": text,
        "vocab_size": tokenizer.get_vocab_size(),
        **special,
        "sentence_ends": tokenizers.sentence_ends(tokenizer),
        "documents": {split: count.documents for split, count in counts.items()},
        "tokens": {split: count.tokens for split, count in counts.items()},
        "unknown_share": _share(counts["train"].pieces, special["unk"]),
        "unigram_entropy": _entropy(counts["validation"].pieces),
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


def _special(config: RunConfig, ids: dict[str, int | None]) -> dict[str, int | None]:
    """The ids; InputError for a tokenizer of others that lacks what sequences are framed and masked with."""
    missing = [f"[{role.upper()}]" for role, number in ids.items() if number is None and role != "unk"]
    if missing:
        raise InputError(f"tokenizer.file={config.tokenizer.file!r} has no piece for {', '.join(missing)}: add them")
    return ids


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest little-endian type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def _write_split(tokenizer: "Tokenizer", texts: Iterable[str], path: Path) -> _Counts:
    """Writes ids and where documents begin, (documents + 1,) int64; a document without any piece is none."""
    size = tokenizer.get_vocab_size()
    counts = _Counts(np.zeros(size, dtype=np.int64))
    with path.with_suffix(".tokens").open("wb") as tokens, path.with_suffix(".documents").open("wb") as starts:
        starts.write(np.zeros(1, dtype="<i8").tobytes())
        for batch in _batches(texts):
            ids, lengths = _encode(tokenizer, batch)
            lengths = lengths[lengths > 0]
            tokens.write(ids.astype(token_dtype(size)).tobytes())
            starts.write((counts.tokens + np.cumsum(lengths)).astype("<i8").tobytes())
            counts.pieces += np.bincount(ids, minlength=size)
            counts.tokens += len(ids)
            counts.documents += len(lengths)
    if not counts.documents:
        raise InputError(f"corpus, {path.name}: no document holds a piece of the tokenizer")
    return counts


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _encode(tokenizer: "Tokenizer", texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all texts one after the other, and the number of each text's. Lines are cut on their own, side by side."""
    lines = [text.splitlines() for text in texts]
    encodings = tokenizer.encode_batch_fast([line for part in lines for line in part], add_special_tokens=False)
    lengths = np.fromiter((len(encoding) for encoding in encodings), dtype=np.int64, count=len(encodings))
    ids = np.concatenate([np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings])
    return ids, np.add.reduceat(lengths, np.cumsum([0, *map(len, lines[:-1])]))


def _share(pieces: np.ndarray, unknown: int | None) -> float:
    return 0.0 if unknown is None else float(pieces[unknown] / pieces.sum())


def _entropy(pieces: np.ndarray) -> float:
    """In nats: the loss of a model that knows how often each piece occurs and nothing else."""
    shares = pieces[pieces > 0] / pieces.sum()
    return float(-(shares * np.log(shares)).sum())
