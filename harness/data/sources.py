"""The data set of a task, loaded by `datasets`: from the hub, a local folder with its layout, or the user's own files."""

import contextlib
import difflib
import glob
import itertools
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from yaml import YAMLError

from harness.config.choices import UNTRAINED, DataSource
from harness.config.schema import DataConfig, RunConfig, TaskConfig
from harness.data import files as own_files
from harness.data import hub
from harness.errors import InputError, on_one_line, unknown

EVERY = "*"
"""Value of `task.subset`: all configurations of the data set, one after the other."""

OWN_SPLITS = ("train", "validation", "test")
"""Splits with keys `task.SPLIT_file` and `task.SPLIT_split`."""

MORE = "task.more_validation or task.more_submission"
"""Where the other splits are named."""


@dataclass
class Loaded:
    """All columns of one split."""

    columns: dict[str, list]
    class_names: list[str] | None  # names of the class numbers in `task.label`, if the data set has them
    where: str  # prefix of error messages: task and split
    lines: list[int] | None = None  # of the file, at which each row begins; None where there are none

    def place(self, row: int) -> str:
        """The row in error messages."""
        return f"{self.where}, {f'row {row}' if self.lines is None else f'line {self.lines[row]}'}"


@dataclass
class Source:
    """Arguments of `load_dataset_builder`."""

    path: str
    subset: str | None
    where: str
    cached: bool = False  # on the hub
    key: str = "subset"  # with the name of the subset
    options: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, list[int] | None] = field(default_factory=dict)  # of the rows of each file


def load(config: RunConfig, split: str) -> Loaded:
    """The rows of a split; InputError for data that is missing, corrupt or in two splits."""
    part, source = _cut_of(config.task, split)[1], _source(config, split)
    with library(source) as (datasets, cache):
        every = datasets.get_dataset_config_names(source.path) if source.subset == EVERY else [source.subset]
        builders = [datasets.load_dataset_builder(source.path, subset, cache_dir=cache, **source.options) for subset in every]
        for builder in builders:
            builder.download_and_prepare()
        for builder in builders:
            sizes = {name: split.num_examples for name, split in builder.info.splits.items()}
            spans = _refuse_bad_parts(config.task, split, source.where, sizes)
        rows = datasets.concatenate_datasets([builder.as_dataset(split=part) for builder in builders])
        lines = [source.lines.get(name) and source.lines[name][first:end] for name, first, end in spans]
        known = None if None in lines or sum(map(len, lines)) != len(rows) else [*itertools.chain(*lines)]
        labels = rows.features.get(config.task.label)  # class numbers, or lists of them
        class_names = getattr(getattr(labels, "feature", labels), "names", None)
        return Loaded(rows.to_dict(), class_names, source.where, known)


@contextlib.contextmanager
def library(source: Source) -> Iterator[tuple[ModuleType, str | None]]:
    """`datasets`, and the folder of its cache: for local files an empty one, because it does not notice when they change.

    InputError for a data set that cannot be loaded in the block: it names the corrupt file if there is one, else the reason.
    """
    import datasets  # takes 1 s, and prepared data does not need it

    hub.silence(datasets)
    if source.cached:
        hub.refuse_unreachable(datasets, source.path, source.where)
    # RuntimeError is for a loading script, which it never runs
    unloadable = (datasets.exceptions.DatasetsError, OSError, ValueError, KeyError, TypeError, RuntimeError, YAMLError)
    with tempfile.TemporaryDirectory() as empty:
        try:
            yield datasets, None if source.cached else empty
        except InputError:
            raise
        except unloadable as error:
            raise _load_error(source, error) from error


def _load_error(source: Source, error: Exception) -> InputError:
    reason = " ".join(str(error.__cause__ or error).split())
    if "data_files" in source.options:
        return InputError(f"{source.where}: the file cannot be read: {reason}")
    if source.cached and hub.is_out_of_reach(error):
        return hub.unreachable(source.path, source.where)
    if not source.cached:
        if torn := own_files.torn_parquet(Path(source.path) / (source.subset or "")):
            return InputError(f"{source.where}: {torn} is not a readable parquet file; restore it or change data.root")
        if "BatchSize" in reason:
            reason = "one of its parquet files has no rows"
    subset = f"{source.key}={source.subset or ''!r}"
    return InputError(f"{source.where}: {source.path!r} with {subset} cannot be loaded: {reason}")


def part_of(task: TaskConfig, split: str) -> str:
    """The split in the notation of `datasets`, such as `train[:80%]`; InputError when the task does not have it.

    A prefix `SUBSET:` names another subset of the data set.
    """
    key, part = _parts(task).get(split, (MORE, ""))
    if not part:
        raise InputError(f"task {task.name!r} has no split {split!r}: set {key}")
    return part


def _parts(task: TaskConfig) -> dict[str, tuple[str, str]]:
    """Split -> the key that says where its rows are, and what it says."""
    parts = {name: (f"task.{name}_split", getattr(task, f"{name}_split")) for name in OWN_SPLITS}
    parts |= {name: (MORE, part) for name, part in {**task.more_validation, **task.more_submission}.items()}
    parts |= {text_of(name): ("task.languages", part) for name, part in task.languages.items()}
    return parts | {"tune": parts["train"]}


def text_of(language: str) -> str:
    """Name of the split with the text of this language, from `task.languages`."""
    return f"text in {language}"


def _cut_of(task: TaskConfig, split: str) -> tuple[str, str]:
    """Subset of the data set, and the split in the notation of `datasets`."""
    subset, part = re.fullmatch(r"(?:([^:\[+]+):)?(.*)", part_of(task, split), re.DOTALL).groups()
    return task.subset if subset is None else subset.strip(), part.strip()


def _names(part: str) -> list[str]:
    """`train[:10%]+extra` -> train, extra."""
    return [piece.split("[")[0].strip() for piece in part.split("+")]


def _refuse_bad_parts(task: TaskConfig, split: str, where: str, sizes: dict[str, int]) -> list[tuple[str, int, int]]:
    """Name, first row and end of every part; InputError when the split does not exist, or when two splits share rows."""
    subset, part = _cut_of(task, split)
    for name in _names(part):
        if name not in sizes:
            raise unknown(f"split of {where}:", name, sizes, _parts(task)[split][0])
    spans = {split: _spans(part, sizes, where, _parts(task)[split][0])}
    splits = ("validation", *(["test"] if task.test_split else []), *task.more_validation)
    splits = splits if task.kind in UNTRAINED else ("train", *splits)
    for other in splits:
        other_subset, part = _cut_of(task, other)
        if other_subset == subset and set(_names(part)) <= set(sizes):
            spans[other] = _spans(part, sizes, where, _parts(task)[other][0])
    own = spans.pop("tune") if split == "tune" else spans[split]
    for (one, ones), (two, twos) in itertools.combinations(spans.items(), 2):
        if any(a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2]) for a in ones for b in twos):
            keys = [f"{_parts(task)[name][0]}={part_of(task, name)!r}" for name in (one, two)]
            raise InputError(f"task {task.name!r}: {' and '.join(keys)} share rows: separate them, as in [:80%] and [80%:]")
    return own


def _spans(part: str, sizes: dict[str, int], where: str, key: str) -> list[tuple[str, int, int]]:
    """Name, first row and end of every part."""
    from datasets import ReadInstruction  # takes 1 s, and prepared data does not need it

    try:
        parts = ReadInstruction.from_spec(part).to_absolute(sizes)
    except (ValueError, AssertionError) as error:
        raise InputError(f"{where}: {key}={part!r} cannot be cut from {sizes}: {' '.join(str(error).split())}") from error
    spans = [(piece.splitname, piece.from_, piece.to) for piece in parts]
    if all(last <= first for _, first, last in spans):
        raise InputError(f"{where}: there are no rows in {key}={part!r} of {sizes}")
    return spans


def is_own(task: TaskConfig) -> bool:
    """Whether its rows are in files of the user."""
    return any(getattr(task, f"{name}_file") for name in OWN_SPLITS)


def _source(config: RunConfig, split: str) -> Source:
    task = config.task
    where = f"task {task.name!r}, {split}"
    if is_own(task):
        return _own(task, split, where)
    subset, _ = _cut_of(task, split)
    if not task.hub and not task.folder:
        raise InputError(f"{where}: nothing says where the rows are: set task.train_file, task.hub or task.folder")
    if config.data.source is DataSource.hub:
        if not task.hub:
            raise InputError(f"{where}: task.hub names no data set: set it, or data=local data.root=FOLDER")
        return Source(task.hub, subset or None, where, cached=True)
    return Source(local_folder(config.data, task.folder, "task.folder"), subset or None, where)


def _own(task: TaskConfig, split: str, where: str) -> Source:
    """The user's own files of this split."""
    files = {name: _file_of(task, name, where) for name in _names(part_of(task, split))}
    _refuse_one_file_twice(task)
    loaders = {own_files.loader(path, f"task.{name}_file") for name, path in files.items()}
    if len(loaders) > 1:
        raise InputError(f"{where}: {', '.join(map(str, files.values()))} are of several kinds: use files of one kind")
    where = f"{where} ({', '.join(path.name for path in files.values())})"
    lines = {name: own_files.lines_of_rows(path, where, f"task.{name}_file") for name, path in files.items()}
    (first, *_) = files.values()
    columns = {column for text in task.fields for column in text.split("+")} | {*task.fields, task.label}
    escaped = {name: glob.escape(str(path.absolute())) for name, path in files.items()}
    return Source(loaders.pop(), None, where, lines=lines, options={"data_files": escaped} | own_files.options(first, columns))


def _file_of(task: TaskConfig, name: str, where: str) -> Path:
    if name not in OWN_SPLITS:
        raise unknown(f"split of {where}:", name, OWN_SPLITS, "task.train_split and the like")
    path = getattr(task, f"{name}_file")
    if path:
        return Path(path)
    cut = "task.train_split='train[:80%]' task.validation_split='train[80%:]'"
    raise InputError(f"{where}: set task.{name}_file" + (f", or cut it from train: {cut}" if name == "validation" else ""))


def _refuse_one_file_twice(task: TaskConfig) -> None:
    files = {f"task.{name}_file": getattr(task, f"{name}_file") for name in OWN_SPLITS}
    resolved = {key: Path(path).resolve() for key, path in files.items() if path}
    for (one, path), (two, other) in itertools.combinations(resolved.items(), 2):
        if path == other:
            raise InputError(
                f"task {task.name!r}: {one} and {two} are both {files[one]}: set another file, or cut both splits from train"
            )


def local_folder(data: DataConfig, name: str, key: str) -> str:
    """The folder of this name below data.root; InputError when it does not exist. `key` is the key with the name."""
    if not data.root:
        raise InputError("data=local needs the folder of the data: set data.root")
    root = Path(data.root)
    if not root.is_dir():
        raise InputError(f"data.root={data.root!r} is not a folder")
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"{key}={name!r} must be the name of a folder below data.root={data.root!r}")
    if not name or not (root / name).is_dir():
        raise _no_folder(data, name, key)
    return str(root / name)


def _no_folder(data: DataConfig, name: str, key: str) -> InputError:
    """Names data.root, with a better one where it is one folder too high or too low, unless the name looks misspelt."""
    root = Path(data.root)
    there = sorted(path.name for path in root.iterdir() if path.is_dir())
    better = [str(path) for path in (*(root / one for one in there), root.parent) if os.path.isdir(path / name)]
    if not name or (not better and difflib.get_close_matches(name, there)):
        return unknown(f"folder of data.root={data.root!r}:", name, there, key)
    hint = f"did you mean data.root={better[0]}? " if better else ""
    listed = ", ".join(map(on_one_line, there)) or "none"
    return InputError(f"data.root={data.root!r} has no folder {name!r} ({key}); {hint}folders there: {listed}")
