"""Prepared splits: rows are tokenised once and cached under the hash of their data and settings; workers read arrays.

An entry of the cache is written atomically, under a lock, so that processes may share the cache. A split is
`SPLIT.safetensors`, its arrays, and `SPLIT.parquet`, one row per item with its id and the texts of its kind.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet
from safetensors.numpy import load_file, save_file

from harness import paths, tasks
from harness.config.choices import KeepBest, TaskKind
from harness.config.conditions import is_only_scored
from harness.config.rules import refuse_class_weights
from harness.config.schema import RunConfig, to_dict
from harness.data import sources
from harness.data import tokenizer as tokenizers
from harness.data.cache import write_once
from harness.data.tokenizer import vocabulary_bytes
from harness.errors import InputError, Mistakes
from harness.tasks import glue_submission, notes
from harness.tasks.base import Examples, Split
from harness.tasks.rows import Table, load_languages, load_table, with_labels
from harness.tasks.synthetic.families import FAMILIES
from harness.tasks.synthetic.paradigms import WORDS
from harness.tasks.vectors import refuse_shared_paragraphs

PREPARE_VERSION = 9
"""Part of the cache key; increased when the same rows are prepared differently."""

SHAPING = ("kind", "max_length", "stride", "max_answer_length", "answerable_only", "headline", "labels")
"""Keys of a task in its cache key; columns and rows enter by content."""

ARRAYS = ("ids", "types", "starts", "labels")


@dataclass
class Prepared:
    """A task's data as a worker reads it."""

    key: str  # hash of rows, tokenizer and length
    vocab_size: int
    pad_token_id: int
    rows: str  # hash of the rows, independent of the tokenizer
    majority: int  # parameter of the majority baseline, see Kind.majority
    train: Split | None  # None: nothing is trained
    validation: Split
    tune: Split | None = None  # rows held out from train
    more: dict[str, Split] = field(default_factory=dict)  # splits of task.more_validation, and test splits to submit


def prepare(config: RunConfig) -> str:
    """Loads, checks and tokenises the task's data unless it is cached; returns its key.

    InputError for data that is missing, corrupt or does not fit the task.
    """
    config, tables = _tables(config)
    for file, split in _submitted(config).items():
        glue_submission.refuse_other_rows(config.task, file, tables[split].items)
    mistakes, splits = Mistakes(), {}
    for split, table in tables.items():
        with mistakes.collected():
            splits[split] = tasks.kind_of(config.task).examples(config.task, table)
    mistakes.refuse()
    if config.task.kind is TaskKind.retrieval:
        refuse_shared_paragraphs(splits)
    is_trained = not (config.tokenizer.file or config.tokenizer.vocab_file)
    more_text = load_languages(config) if config.tokenizer.multilingual and is_trained else []
    said = {name: examples for name, examples in splits.items() if name not in _submitted(config).values()}
    leaked = notes.leaks(config.task, said)
    noted = [
        *notes.of_file(config, said),
        *(note for table in tables.values() for note in table.notes),
        *notes.of_rows(config.task, said, leaked),
    ]
    origin = next(iter(tables.values())).origin
    facts: dict[str, Any] = {"notes": noted, "leaked": leaked.get("validation"), "origin": origin}
    facts["trained"] = len(splits["train"].items) if "train" in splits else None
    key = _key(config, tables, [*more_text, *noted, *filter(None, [origin])])
    folder = paths.cache_folder(config.output) / key
    facts |= _row_hashes(config, tables)
    write_once(folder, lambda temporary: _fill(config, splits, more_text, temporary, facts))
    return key


def _tables(config: RunConfig) -> tuple[RunConfig, dict[str, Table]]:
    """The run with the names of its classes, and the rows of every split.

    InputError for all that is wrong with the task and its own files, or with the first data set.
    """
    mistakes, tables, are_ordered = Mistakes(), dict[str, Table](), bool(config.task.labels)
    with mistakes.collected():
        config = with_labels(config)
    with mistakes.collected():
        tasks.refuse_impossible(config.task)
        refuse_class_weights(config)
    with mistakes.collected():
        if config.finetune.keep_best is KeepBest.tune and not config.task.tune_share:
            raise InputError("finetune.keep_best=tune needs rows held out from train: set task.tune_share, for example to 0.1")
    for split in split_names(config):
        if not (sources.is_own(config.task) and config.task.fields):  # another data set may take minutes to load
            mistakes.refuse()
        with mistakes.collected():
            tables[split] = load_table(config, split, are_ordered)
            are_ordered = are_ordered or tables[split].has_class_names
        if split not in tables and not config.task.validation_file:
            break  # the other splits are rows of the same file
    mistakes.refuse()
    return config, tables


@dataclass(frozen=True)
class Facts:
    """Facts of prepared data that are needed before its arrays are read."""

    vocab_size: int
    pad_token_id: int
    majority: int
    rows: str  # hash of the rows, independent of the tokenizer
    labels: list[str] = field(default_factory=list)  # names of the classes; earlier versions have not kept them
    notes: list[str] = field(default_factory=list)  # what is said of the rows before a run
    leaked: float | None = None  # share of the rows of validation that are in train, too
    origin: str = ""  # name, revision, configuration and licence of a data set
    trained: int | None = None  # rows of train; earlier versions have not kept them
    trained_rows: str | None = None  # hash of those of kind retrieval, which may be scored without them; not in `rows`


def facts(output: str, key: str) -> Facts:
    """Facts of the prepared data with this key."""
    return Facts(**json.loads((paths.cache_folder(output) / key / "facts.json").read_text()))


def read(config: RunConfig, key: str) -> Prepared:
    """The prepared data with this key; FileNotFoundError when it is not cached."""
    folder = paths.cache_folder(config.output) / key
    known, of_tokens = facts(config.output, key), tasks.kind_of(config.task).labels_of_tokens
    splits = {split: _read_split(folder, split, of_tokens) for split in split_names(config)}
    train, validation, tune = splits.pop("train", None), splits.pop("validation"), splits.pop("tune", None)
    numbers = (known.vocab_size, known.pad_token_id, known.rows, known.majority)
    return Prepared(key, *numbers, train, validation, tune, splits)


def read_validation(config: RunConfig, key: str) -> Split:
    """The validation split without its item ids and texts, which need another library; FileNotFoundError when not cached."""
    folder, of_tokens = paths.cache_folder(config.output) / key, tasks.kind_of(config.task).labels_of_tokens
    return _read_split(folder, "validation", of_tokens, with_items=False)


def split_names(config: RunConfig) -> list[str]:
    """Names of all splits that a run reads, train and validation first; InputError for finetune.submit without a GLUE task."""
    if is_only_scored(config):
        return ["validation"]
    tune = ["tune"] if config.task.tune_share else []
    return ["train", "validation", *tune, *config.task.more_validation, *_submitted(config).values()]


def _submitted(config: RunConfig) -> dict[str, str]:
    """File -> split of the test predictions; empty without finetune.submit."""
    return glue_submission.splits(config.task) if config.finetune.submit else {}


def _key(config: RunConfig, tables: dict[str, Table], more_text: list[str]) -> str:
    digest = hashlib.sha256(vocabulary_bytes(config.tokenizer))
    spec = {f"tokenizer.{key}": value for key, value in to_dict(config.tokenizer).items()}
    if not config.tokenizer.sentinels:
        del spec["tokenizer.sentinels"]  # data that was prepared before there were any is the same
    spec |= {f"tokenizer.{key}": bool(getattr(config.tokenizer, key)) for key in ("vocab_file", "file")}
    spec |= {f"task.{key}": to_dict(config.task)[key] for key in SHAPING} | {"version": PREPARE_VERSION}
    spec |= {"task.plugin": config.task.plugin} if config.task.plugin else {}
    spec |= {"words": _words(config)}  # of which a vocabulary is trained, else of the rows
    digest.update(json.dumps(spec, sort_keys=True).encode())
    _add_rows(digest, config, tables)
    digest.update(json.dumps(more_text).encode())
    return digest.hexdigest()[:16]


def _row_hashes(config: RunConfig, tables: dict[str, Table]) -> dict[str, str]:
    """Hashes of the rows that influence results, as Facts has them; test splits to submit do not."""
    hidden = _submitted(config).values()
    apart = ("train", "tune") if config.task.kind is TaskKind.retrieval else ()
    parts: dict[str, dict[str, Table]] = {}
    for split, table in tables.items():
        if split not in hidden:
            parts.setdefault("trained_rows" if split in apart else "rows", {})[split] = table
    hashes = {}
    for name, chosen in parts.items():
        digest = hashlib.sha256()
        _add_rows(digest, config, chosen)
        hashes[name] = digest.hexdigest()[:16]
    return hashes


def _add_rows(digest: "hashlib._Hash", config: RunConfig, tables: dict[str, Table]) -> None:
    for split, table in tables.items():
        columns = [table.columns[name] for name in (*config.task.fields, config.task.label)]
        digest.update(json.dumps([split, columns, table.items, *([table.corpus] if table.corpus else [])]).encode())


def _fill(config: RunConfig, splits: dict[str, Examples], more_text: list[str], folder: Path, known: dict[str, Any]) -> None:
    kind, task = tasks.kind_of(config.task), config.task
    first = next(iter(splits.values()))
    tokenizer = tokenizers.build(config.tokenizer, [*vocabulary_texts(config, first), *more_text])
    cut = {}
    for name, examples in splits.items():
        split = kind.encode(task, tokenizer, examples)
        _write_split(split, folder, name)
        cut[name] = split.cut
    facts = known | {
        "notes": [*known["notes"], *notes.of_lengths(task, cut)],
        "vocab_size": tokenizer.get_vocab_size(),
        "pad_token_id": tokenizers.pad_token_id(tokenizer) or 0,
        "majority": kind.majority(task, first),
        "labels": list(task.labels),
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"))


def vocabulary_texts(config: RunConfig, train: Examples) -> list[str]:
    """Texts of the first split, or the words of all generated tasks, so that a variant has one shape on each of them."""
    words = _words(config)
    return (
        [text for texts in (*train.texts, train.corpus.values()) for text in texts]
        if words is None
        else words * config.tokenizer.min_frequency
    )


def _words(config: RunConfig) -> list[str] | None:
    """All words of a generated task, held-out ones included; None for any other task."""
    if config.task.pairs:
        return WORDS
    return None if config.task.grammar is None else [*FAMILIES[config.task.grammar.rule].words]


def _write_split(split: Split, folder: Path, name: str) -> None:
    arrays = {array: getattr(split, array) for array in ARRAYS} | {
        f"numbers.{key}": value for key, value in split.numbers.items()
    }
    file = folder / f"{name}.safetensors"
    save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, file)
    paths.share(file)
    parquet.write_table(pyarrow.table({"item": split.items, **split.texts}), folder / f"{name}.parquet")


def _read_split(folder: Path, name: str, labels_of_tokens: bool, with_items: bool = True) -> Split:
    arrays = load_file(folder / f"{name}.safetensors")
    ids, types, starts, labels = (arrays.pop(array) for array in ARRAYS)
    numbers = {key.removeprefix("numbers."): array for key, array in arrays.items()}
    texts = parquet.read_table(folder / f"{name}.parquet").to_pydict() if with_items else {"item": []}
    return Split(ids, types, starts, labels, texts.pop("item"), numbers, texts, labels_of_tokens)
