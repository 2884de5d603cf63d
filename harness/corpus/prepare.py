"""The corpus as one stream of token ids: tokenised once, in batches, and cached under the hash of its text and tokenizer."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from harness import paths
from harness.config.schema import RunConfig, to_dict
from harness.corpus.documents import SPLITS, documents, paragraphs, text_hash
from harness.corpus.encode import encoder
from harness.data import tokenizer as tokenizers
from harness.data.cache import write_once
from harness.data.tokenizer import vocabulary_bytes
from harness.errors import InputError

PREPARE_VERSION = 4
"""Part of the cache key; increased when the same documents are prepared differently."""

COUNTED = ("documents", "tokens", "text_bytes")
"""What is counted of each split; bytes of the text itself, in UTF-8."""

BATCH_CHARACTERS = 1_000_000
"""Characters of text that are tokenised at a time."""


def prepare(config: RunConfig) -> str:
    """Reads, checks and tokenises the corpus unless it is cached; returns its key.

    InputError for files that are missing or not text, and for a tokenizer without special pieces. Memory does not grow with the
    corpus.
    """
    text = text_hash(config)
    key = _key(config, text)
    write_once(folder_of(config.output, key), lambda temporary: _fill(config, temporary, text))
    return key


def folder_of(output: str, key: str) -> Path:
    """Folder of the prepared corpus with this key."""
    return paths.cache_folder(output) / f"corpus-{key}"


@dataclass
class Lines:
    """The paragraphs of the documents; every iteration reads them again."""

    config: RunConfig
    split: str

    def __iter__(self) -> Iterator[str]:
        for text in documents(self.config, self.split):
            yield from paragraphs(text)


def _key(config: RunConfig, text: str) -> str:
    digest = hashlib.sha256(vocabulary_bytes(config.tokenizer))
    tokenizer = to_dict(config.tokenizer)
    spec = {name: tokenizer[name] for name in ("kind", "train_characters", "vocab_size", "min_frequency", "lowercase")}
    spec |= {"vocab_file": bool(tokenizer["vocab_file"]), "file": bool(tokenizer["file"]), "version": PREPARE_VERSION}
    spec |= {"sentinels": tokenizer["sentinels"]} if tokenizer["sentinels"] else {}
    digest.update(json.dumps(spec, sort_keys=True).encode())
    digest.update(text.encode())
    return digest.hexdigest()[:16]


def _fill(config: RunConfig, folder: Path, text: str) -> None:
    tokenizer = tokenizers.build(config.tokenizer, Lines(config, "train"))
    special = tokenizers.special_ids(tokenizer)
    missing = [f"[{role.upper()}]" for role, number in special.items() if number is None and role != "unk"]
    if missing:
        raise InputError(
            f"tokenizer.file={config.tokenizer.file!r} has no piece for {', '.join(missing)}: add them or change tokenizer.file"
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    np.save(folder / "word_start.npy", tokenizers.word_starts(tokenizer))
    tokenizer.encode_special_tokens = True  # the text "[SEP]" in a document is not the special piece
    counts, pieces = {}, {}
    for split in SPLITS:
        counts[split], pieces[split] = _write_split(tokenizer, documents(config, split), folder / split)
    shares = pieces["validation"][pieces["validation"] > 0] / pieces["validation"].sum()
    unknown = special["unk"]
    facts = {
        "text": text,
        "vocab_size": tokenizer.get_vocab_size(),
        **special,
        "sentence_ends": tokenizers.sentence_ends(tokenizer),
        "sentinels": tokenizers.sentinels(tokenizer),
        **{name: {split: counts[split][name] for split in SPLITS} for name in COUNTED},
        "unknown_share": 0.0 if unknown is None else float(pieces["train"][unknown] / pieces["train"].sum()),
        "unigram_entropy": float(-(shares * np.log(shares)).sum()),  # nats: the loss of predicting piece frequencies
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest little-endian integer type that holds all ids."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def _write_split(tokenizer: "Tokenizer", texts: Iterable[str], path: Path) -> tuple[dict[str, int], np.ndarray]:
    """Writes the ids and the (documents + 1,) int64 starts of documents; a document without pieces is left out.

    Counts of the split, and (V,) occurrences of each piece.
    """
    size = tokenizer.get_vocab_size()
    encode = encoder(tokenizer)
    pieces, counts = np.zeros(size, dtype=np.int64), Counter[str](dict.fromkeys(COUNTED, 0))
    with path.with_suffix(".tokens").open("wb") as tokens, path.with_suffix(".documents").open("wb") as starts:
        starts.write(np.zeros(1, dtype="<i8").tobytes())
        for batch in _batches(texts):
            ids, lengths = encode(batch)
            lengths = lengths[lengths > 0]
            tokens.write(ids.astype(token_dtype(size)).tobytes())
            starts.write((counts["tokens"] + np.cumsum(lengths)).astype("<i8").tobytes())
            pieces += np.bincount(ids, minlength=size)
            counts["tokens"] += len(ids)
            counts["text_bytes"] += sum(len(text.encode()) for text in batch)
            counts["documents"] += len(lengths)
    if not counts["documents"]:
        raise InputError(f"corpus, {path.name}: no document has any token; check the text and the tokenizer")
    return dict(counts), pieces


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
