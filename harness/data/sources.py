"""A task's data set as `datasets` reads it: from the hub, a local folder laid out as the hub's, or the user's own files."""

import glob
import itertools
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config.choices import DataSource
from harness.config.schema import RunConfig, TaskConfig
from harness.data import files as own_files
from harness.errors import InputError, unknown

OWN_SPLITS = ("train", "validation", "test")
"""Splits that have a key for a file of the user's own."""


@dataclass
class Loaded:
    """Every column of one split."""

    columns: dict[str, list]
    class_names: list[str] | None  # as the data set names the numbers in `task.label`, where it does
    where: str  # how an error begins


@dataclass
class _Source:
    """What the library is asked for."""

    path: str
    subset: str | None
    where: str
    cached: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def load(config: RunConfig, split: str) -> Loaded:
    """The rows that `task` names for the split; InputError names what is missing, torn or in two splits at once."""
    import datasets
    from datasets.exceptions import DatasetsError

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # what does not load is told in one line, by us
    part, source = part_of(config.task, split), _source(config, split)
    with tempfile.TemporaryDirectory() as empty:  # the library's own cache overlooks that local files are others than before
        cache = None if source.cached else empty
        try:
            builder = datasets.load_dataset_builder(source.path, source.subset, cache_dir=cache, **source.options)
            builder.download_and_prepare()
        except (DatasetsError, OSError, ValueError, KeyError) as error:
            raise _load_error(config, source, error) from error
        _refuse_bad_parts(
            config.task, split, source.where, {name: split.num_examples for name, split in builder.info.splits.items()}
        )
        rows = builder.as_dataset(split=part)
        return Loaded(rows.to_dict(), _class_names(rows.features.get(config.task.label)), source.where)


def part_of(task: TaskConfig, split: str) -> str:
    """The split's name in the data set, or a part in the library's notation; InputError when the task has none."""
    parts = {"train": task.train_split, "tune": task.train_split, "validation": task.validation_split}
    parts |= {"test": task.test_split} | dict(task.more_validation) | dict(task.more_submission)
    if not parts.get(split):
        raise InputError(f"task {task.name!r} has no split {split!r}: set {_part_key(split)}")
    return parts[split]


def _part_key(split: str) -> str:
    fixed = {"train": "task.train_split", "tune": "task.train_split", "validation": "task.validation_split"}
    return (fixed | {"test": "task.test_split"}).get(split, "task.more_validation or task.more_submission")


def _names(part: str) -> list[str]:
    """`train[:10%]+extra` -> train, extra."""
    return [piece.split("[")[0].strip() for piece in part.split("+")]


def _refuse_bad_parts(task: TaskConfig, split: str, where: str, sizes: dict[str, int]) -> None:
    """InputError when this split is not there, or when rows of what is there would be in two splits."""
    for name in _names(part_of(task, split)):
        if name not in sizes:
            raise unknown(f"split of {where}:", name, sizes, _part_key(split))
    spans = {split: _spans(part_of(task, split), sizes, where, _part_key(split))}
    given = ("train", "validation", *(["test"] if task.test_split else []), *task.more_validation)
    for other in given:
        part = part_of(task, other)
        if set(_names(part)) <= set(sizes):
            spans[other] = _spans(part, sizes, where, _part_key(other))
    spans.pop("tune", None)
    for (one, ones), (two, twos) in itertools.combinations(spans.items(), 2):
        if any(a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2]) for a in ones for b in twos):
            keys = [f"{_part_key(name)}={part_of(task, name)!r}" for name in (one, two)]
            raise InputError(f"task {task.name!r}: {' and '.join(keys)} share rows: cut them apart, as [:80%] and [80%:]")


def _spans(part: str, sizes: dict[str, int], where: str, key: str) -> list[tuple[str, int, int]]:
    """Name, first row and the row behind the last of every piece."""
    from datasets import ReadInstruction

    try:
        found = ReadInstruction.from_spec(part).to_absolute(sizes)
    except (ValueError, AssertionError) as error:
        raise InputError(f"{where}: {key}={part!r} cannot be cut from {sizes}: {' '.join(str(error).split())}") from error
    spans = [(piece.splitname, piece.from_, piece.to) for piece in found]
    if all(last <= first for _, first, last in spans):
        raise InputError(f"{where}: there are no rows in {key}={part!r} of {sizes}")
    return spans


def _class_names(feature: Any) -> list[str] | None:
    """Names of a column of classes, or of lists of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _source(config: RunConfig, split: str) -> _Source:
    task = config.task
    where = f"task {task.name!r}, {split}"
    if any(getattr(task, f"{name}_file") for name in OWN_SPLITS):
        return _own(task, split, where)
    if not task.hub and not task.folder:
        raise InputError(f"{where}: nothing says where the rows are: set task.train_file, task.hub or task.folder")
    if config.data.source is DataSource.hub:
        if not task.hub:
            raise InputError(f"{where}: task.hub names no data set: set it, or data=local data.root=FOLDER")
        return _Source(task.hub, task.subset or None, where, cached=True)
    return _Source(_folder(config), task.subset or None, where)


def _own(task: TaskConfig, split: str, where: str) -> _Source:
    """The user's own files that this split is cut from."""
    files = {name: _file_of(task, name, where) for name in _names(part_of(task, split))}
    _refuse_one_file_twice(task)
    loaders = {own_files.loader(path, f"task.{name}_file") for name, path in files.items()}
    if len(loaders) > 1:
        raise InputError(f"{where}: {', '.join(map(str, files.values()))} are of several kinds: give files of one kind")
    where = f"{where} ({', '.join(path.name for path in files.values())})"
    for name, path in files.items():
        own_files.refuse_torn(path, where, f"task.{name}_file")
    (first, *_) = files.values()
    columns = {column for text in task.fields for column in text.split("+")} | {*task.fields, task.label}
    escaped = {name: glob.escape(str(path.absolute())) for name, path in files.items()}
    return _Source(loaders.pop(), None, where, options={"data_files": escaped} | own_files.options(first, columns))


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
    given = {key: Path(path).resolve() for key, path in files.items() if path}
    for (one, path), (two, other) in itertools.combinations(given.items(), 2):
        if path == other:
            raise InputError(f"task {task.name!r}: {one} and {two} are both {files[one]}: give another file or cut this one")


def _folder(config: RunConfig) -> str:
    """The data set's local folder; InputError when it is not there."""
    if not config.data.root:
        raise InputError("data=local needs the folder of the data: set data.root")
    root = Path(config.data.root)
    if not root.is_dir():
        raise InputError(f"data.root={config.data.root!r} is not a folder")
    folder = root / config.task.folder
    if not folder.is_dir():
        raise unknown("data folder", folder, (path.name for path in root.iterdir() if path.is_dir()), "task.folder")
    return str(folder)


def _load_error(config: RunConfig, source: _Source, error: Exception) -> InputError:
    """The one line for a data set that does not load: the torn file if there is one, else the loader's own reason."""
    reason = " ".join(str(error.__cause__ or error).split())
    if "data_files" in source.options:
        return InputError(f"{source.where}: the file cannot be read: {reason}")
    if not source.cached:
        torn = own_files.torn_parquet(Path(source.path) / config.task.subset)
        if torn:
            return InputError(f"{source.where}: {torn} is not a readable parquet file; restore it or change data.root")
        if "BatchSize" in reason:
            reason = "a parquet file of it has no rows"
    offline = os.environ.get("HF_HUB_OFFLINE") == "1" or "offline" in reason or isinstance(error, ConnectionError)
    if source.cached and offline:
        return InputError(f"{source.where}: the hub cannot be reached for {source.path!r}; use data=local data.root=FOLDER")
    told = re.sub(r"\s+", " ", f"{source.path!r} with subset {config.task.subset!r} cannot be loaded: {reason}")
    return InputError(f"{source.where}: {told}")
