"""Rows to token ids, once: prepared splits are cached by the hash of all that shapes them, so workers only read arrays.

The cache is written whole or not at all, under a lock, and may be shared by processes that run side by side.
"""

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from safetensors.numpy import load_file, save_file

from harness import paths, published, tasks
from harness.config import RunConfig
from harness.rows import Rows, load_rows

PREPARE_VERSION = 2
"""Raised when the same rows would be prepared otherwise; part of the cache key."""


@dataclass
class Split:
    """Tokenised examples, one after the other in flat arrays; example i is `starts[i]` to `starts[i + 1]`."""

    ids: np.ndarray  # (N,) int32
    types: np.ndarray  # (N,) uint8
    starts: np.ndarray  # (examples + 1,) int64
    labels: np.ndarray  # (examples,) int64 or float32
    items: np.ndarray  # (examples,) int64, the rows' own ids

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example."""
        return np.diff(self.starts)


@dataclass
class Prepared:
    """A task's data as a worker reads it."""

    key: str  # hash of rows, tokenizer and length
    vocab_size: int
    pad_token_id: int
    majority_class: int  # most frequent label in train; 0 for a regression
    train: Split
    validation: Split


def prepare(config: RunConfig) -> str:
    """Loads, checks and tokenises the task's data unless that is cached; returns its key.

    InputError for data that is missing, torn or does not fit the task. Nothing is left half-written.
    """
    tasks.refuse_impossible(config.task)
    splits = {split: load_rows(config, split) for split in ("train", "validation")}
    key = _key(config, splits)
    folder = paths.cache_folder(config.output) / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            _write(config, splits, folder)
    published.refuse_other_vocabulary(config, json.loads((folder / "facts.json").read_text())["vocab_size"])
    return key


def read(config: RunConfig, key: str) -> Prepared:
    """The prepared data of this key; FileNotFoundError when it is not there."""
    folder = paths.cache_folder(config.output) / key
    facts = json.loads((folder / "facts.json").read_text())
    splits = {split: Split(**load_file(folder / f"{split}.safetensors")) for split in ("train", "validation")}
    return Prepared(key=key, **facts, **splits)


def _key(config: RunConfig, splits: dict[str, Rows]) -> str:
    from harness.tokenizer import vocabulary_bytes

    digest = hashlib.sha256(vocabulary_bytes(config.tokenizer))
    spec = asdict(config.tokenizer) | {"vocab_file": bool(config.tokenizer.vocab_file), "file": bool(config.tokenizer.file)}
    spec |= {"version": PREPARE_VERSION, "max_length": config.task.max_length, "labels": config.task.labels}
    digest.update(json.dumps(spec, sort_keys=True, default=lambda choice: choice.name).encode())
    for split, rows in splits.items():
        digest.update(json.dumps([split, rows.texts, rows.labels, rows.items]).encode())
    return digest.hexdigest()[:16]


def _write(config: RunConfig, splits: dict[str, Rows], folder: Path) -> None:
    """Builds the entry beside its place and moves it there whole; what a killed process left is swept away first."""
    building = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        _fill(config, splits, building)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _fill(config: RunConfig, splits: dict[str, Rows], folder: Path) -> None:
    from harness import tokenizer as tokenizers

    tokenizer = tokenizers.build(config.tokenizer, _texts(splits["train"]))
    tokenizer.enable_truncation(config.task.max_length)
    regression = tasks.is_regression(config.task)
    for split, rows in splits.items():
        save_file(vars(_tokenise(tokenizer, rows, regression)), folder / f"{split}.safetensors")
    facts = {
        "vocab_size": tokenizer.get_vocab_size(),
        "pad_token_id": tokenizers.pad_token_id(tokenizer) or 0,
        "majority_class": 0 if regression else int(np.bincount(splits["train"].labels).argmax()),
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"))


def _texts(rows: Rows) -> list[str]:
    return [text for texts in rows.texts for text in texts]


def _tokenise(tokenizer, rows: Rows, regression: bool) -> Split:
    inputs = [texts[0] if len(texts) == 1 else tuple(texts) for texts in rows.texts]
    encodings = tokenizer.encode_batch(inputs)
    lengths = [len(encoding.ids) for encoding in encodings]
    return Split(
        ids=np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for encoding in encodings]),
        types=np.concatenate([np.asarray(encoding.type_ids, dtype=np.uint8) for encoding in encodings]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        labels=np.asarray(rows.labels, dtype=np.float32 if regression else np.int64),
        items=np.asarray(rows.items, dtype=np.int64),
    )
