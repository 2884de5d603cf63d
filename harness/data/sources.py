"""The data set of a task, loaded by `datasets`: from the hub, a local folder with its layout, or the user's own files."""

import contextlib
import difflib
import importlib
import itertools
import logging
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from yaml import YAMLError

from harness import extensions
from harness.config.choices import UNTRAINED, DataSource, TaskKind
from harness.config.schema import DataConfig, RunConfig, TaskConfig
from harness.data import files as own_files
from harness.data import labels
from harness.errors import InputError, Mistakes, on_one_line, present, unknown
from harness.paths import ending

EVERY = "*"
"""Value of `task.subset`: all configurations of the data set, one after the other."""

SAVED = ("dataset_dict.json", "state.json")
"""Files of a folder that `save_to_disk` of `datasets` has written: one of them is there."""

OWN_SPLITS = ("train", "validation", "test")
"""Splits with keys `task.SPLIT_file` and `task.SPLIT_split`."""

MORE = "task.more_validation or task.more_submission"
"""Where the other splits are named."""

TEXT = (".csv", ".tsv", ".json", ".jsonl")
"""Endings of files of a local folder that are read as those of the user."""

PLACE = {"name", "version", "data_dir", "data_files", "description", "features"}
"""Entries of a data set's config that are not options of its loader."""

NAME = re.compile(r"([\w.-]+(?:/[\w.-]+)?)(?:@([\w./-]+))?")
"""A data set of the hub, and its revision."""

UNCUT = (TaskKind.spans, TaskKind.retrieval)
"""Kinds whose rows share paragraphs: a part of a split is cut in the order of its rows."""


@dataclass
class Loaded:
    """The columns read from one split."""

    columns: dict[str, list[Any]]
    class_names: list[str] | None  # names of the class numbers in `task.label`, if the data set has them
    where: str  # prefix of error messages: task and split
    lines: list[int] | None = None  # of the file, at which each row begins; None where there are none
    unread: list[str] = field(default_factory=list)  # names of the other columns
    count: int = 0
    origin: str = ""  # name, revision, configuration and licence of the data set; empty for files of the user
    features: Any = None  # column -> what the data set says of it, where it says something

    def __post_init__(self) -> None:
        self.count = self.count or len(next(iter(self.columns.values()), ()))

    def place(self, row: int) -> str:
        """The row in error messages."""
        return f"{self.where}, {f'row {row}' if self.lines is None else f'line {self.lines[row]}'}"

    def part(self, rows: list[int]) -> "Loaded":
        """These rows."""
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines and [self.lines[row] for row in rows], count=len(rows))


@dataclass
class Source:
    """Arguments of `load_dataset_builder`, a folder of `save_to_disk`, or files that are read here."""

    path: str
    subset: str | None
    where: str
    cached: bool = False  # on the hub
    key: str = "subset"  # with the name of the subset
    files: dict[str, list[Path]] = field(default_factory=dict)  # split -> its files
    revision: str | None = None  # on the hub


def load(config: RunConfig, split: str) -> Loaded:
    """The rows of a split; InputError for data that is missing, corrupt or in two splits.

    A part of a split, such as `train[:80%]`, has its rows stratified by label and shuffled by data.split_seed.
    """
    source = _source(config, split)
    if source.files:
        return _joined(_read(config, source, split), config.task)
    with library(source) as (datasets, cache):
        if any(Path(source.path, name).is_file() for name in SAVED):
            return _joined(_saved(config, source, split, datasets.load_from_disk(source.path)), config.task)
        path, revision = source.path, source.revision
        every = datasets.get_dataset_config_names(path, revision=revision) if source.subset == EVERY else [source.subset]
        builders = [datasets.load_dataset_builder(path, subset, cache_dir=cache, revision=revision) for subset in every]
        return _joined([part for builder in builders for part in _built(config, source, split, builder)], config.task)


def _saved(config: RunConfig, source: Source, split: str, saved: Any) -> list[Loaded]:
    """The parts of a split of a folder of `save_to_disk`: of all splits, or of a single one, which is train."""
    splits = saved if isinstance(saved, dict) else {"train": saved}
    sizes = {name: len(rows) for name, rows in splits.items()}
    return _parts(
        config,
        split,
        source.where,
        sizes,
        lambda name: _of_rows(config.task, source, splits[name], _origin(source, splits[name].info)),
    )


def _built(config: RunConfig, source: Source, split: str, builder: Any) -> list[Loaded]:
    """The parts of a split of one configuration of a data set; local text files are read as those of the user."""
    label, found = config.task.label, {name: [*map(Path, paths)] for name, paths in (builder.config.data_files or {}).items()}
    if not source.cached:
        _refuse_files(source, [path for paths in found.values() for path in paths], builder.info.features, label)
    files = {name: found.get(name, [Path()]) for name in _names(_cut_of(config.task, split)[1])}
    is_text = all(ending(path) in TEXT for paths in files.values() for path in paths)
    if is_text and not (source.cached or _options(builder.config)):
        known, origin = _class_names(builder.info.features, label), origin_of(source, builder)
        return [replace(part, class_names=known, origin=origin) for part in _read(config, replace(source, files=files), split)]
    builder.download_and_prepare()
    sizes = {name: kept.num_examples for name, kept in builder.info.splits.items()}
    origin = origin_of(source, builder)
    return _parts(
        config, split, source.where, sizes, lambda name: _of_rows(config.task, source, builder.as_dataset(split=name), origin)
    )


def _refuse_files(source: Source, files: list[Path], features: Any, label: str) -> None:
    """InputError for a file outside of the folder, and for one that numbers the classes differently."""
    first, places = _class_names(features, label), (os.path.abspath(source.path), os.path.realpath(source.path))
    for path in files:
        if not any(Path(os.path.abspath(path)).is_relative_to(place) for place in places):
            raise InputError(f"{source.where}: {path} is outside of {source.path}: expected the data set's own files")
        names = _class_names(own_files.features(path), label) or first
        if names != (first := first or names):
            raise InputError(f"{source.where}: {path} numbers the classes of {label!r} as {names}, another file as {first}")


def origin_of(source: Source, builder: Any) -> str:
    """The source of a configuration; on the hub with the commit that is read."""
    return _origin(replace(source, subset=builder.config.name, revision=builder.hash if source.cached else None), builder.info)


def _of_rows(task: TaskConfig, source: Source, rows: Any, origin: str) -> Loaded:
    """The columns of a data set that the task reads, and the names of its classes; InputError where its features do not fit."""
    named = {name: "task.fields" for field in task.fields for name in field.split("+")} | {task.label: "task.label"}
    for name, key in named.items():
        if "." in name and feature(rows.features, name) is None:
            raise unknown(f"column of {source.where}:", name, rows.features.flatten(), key)
    if hasattr(feature(rows.features, task.label), "feature") and task.kind in (TaskKind.classification, TaskKind.regression):
        raise InputError(
            f"{source.where}: column {task.label!r} (task.label) has lists: set task.kind=tokens for a label of each word, "
            "task.kind=multilabel for several labels of a text"
        )
    read = [name for name in rows.column_names if name in _wanted(task).names]
    unread = [name for name in rows.column_names if name not in read]
    columns, names = rows.select_columns(read).to_dict() if read else {}, _class_names(rows.features, task.label)
    return Loaded(columns, names, source.where, None, unread, len(rows), origin, rows.features)


def _origin(source: Source, info: Any) -> str:
    """Name, revision, configuration and licence of a data set, as its card says."""
    hub = importlib.import_module("huggingface_hub")  # which `datasets` has imported
    card, licence = Path(source.path, "README.md"), info.license
    if source.cached:
        with contextlib.suppress(OSError):  # it has no card
            card = Path(hub.hf_hub_download(source.path, card.name, repo_type="dataset", revision=source.revision))
    if not licence and card.is_file():
        licence = hub.DatasetCard.load(card, ignore_metadata_errors=True).data.license
    name = source.path if source.cached else Path(source.path).name
    stated = [name + (f"@{source.revision}" if source.revision else ""), source.subset and f"configuration {source.subset}"]
    licences = ", ".join(map(str, licence)) if isinstance(licence, list) else licence
    return on_one_line(", ".join(filter(None, [*stated, f"licence {licences or 'not stated'}"])))


def _parts(config: RunConfig, split: str, where: str, sizes: dict[str, int], whole: Callable[[str], Loaded]) -> list[Loaded]:
    """The parts of a split, each of one of these splits of the data, in the order of its rows."""
    task, parts = config.task, []
    for name, first, end in _refuse_bad_parts(task, split, where, sizes):
        loaded, rows = whole(name), list(range(first, end))
        if end - first < loaded.count and config.data.split_seed is not None and task.kind not in UNCUT:
            column = loaded.columns.get(task.label, [None] * loaded.count)
            shuffled = labels.order(labels.strata(task, column, loaded.place), config.data.split_seed)
            rows = sorted(_together(task, loaded, shuffled, first, end) if task.file else shuffled[first:end])
        parts.append(loaded.part(rows))
    return parts


def _together(task: TaskConfig, loaded: Loaded, shuffled: list[int], first: int, end: int) -> Iterator[int]:
    """The rows of this share of the texts in an order; texts that are equal, case and blanks aside, are one."""
    names = [name for name in own_files.Wanted(_wanted(task).fields).names if name in loaded.columns]
    homes = dict[str, int]()
    texts = (labels.plain("\n".join(str(loaded.columns[name][row]) for name in names)) for row in shuffled)
    places = [homes.setdefault(text, len(homes)) for text in texts]
    for row, place in zip(shuffled, places, strict=True):
        if first * len(homes) <= place * loaded.count < end * len(homes):
            yield row


def _options(config: Any) -> dict[str, Any]:
    """Options of the loader that the data set's card sets; tabs are those of every .tsv."""
    default = type(config)()
    options = {option.name: getattr(config, option.name) for option in fields(config) if option.name not in PLACE}
    return {name: value for name, value in options.items() if value not in (getattr(default, name), "\t")}


def feature(features: Any, name: str) -> Any:
    """The feature of a column, or of the field that a dotted name reaches in it; None without it."""
    for part in [name] if name in (features or ()) else name.split("."):
        features = getattr(features, "feature", features)
        features = features.get(part) if isinstance(features, dict) else None
    return features


def _class_names(features: Any, label: str) -> list[str] | None:
    """Class names of a column, or of its lists."""
    kept = feature(features, label)
    return getattr(getattr(kept, "feature", kept), "names", None)


def _wanted(task: TaskConfig) -> own_files.Wanted:
    others = (*filter(None, [task.item]), *(task.labels if task.kind is TaskKind.multilabel else ()))
    return own_files.Wanted(tuple(task.fields), task.label, others, task.kind is TaskKind.tokens)


def _read(config: RunConfig, source: Source, split: str) -> list[Loaded]:
    """The parts of a split from files of the user; InputError with all of their rows that are wrong."""
    task, wanted, mistakes, whole = config.task, _wanted(config.task), Mistakes(), {}
    for name, paths in source.files.items():
        key = "task.file" if task.file else f"task.{name}_file" if is_own(task) else "task.folder"
        rows: list[tuple[int | None, list[Any]]] = []
        names: dict[str, None] = {}
        for path in paths:
            where = source.where if is_own(task) else f"{source.where} ({path.name})"
            with mistakes.collected():
                for line, row in own_files.rows(path, where, key, wanted, mistakes):
                    names |= {} if row.keys() <= names.keys() else dict.fromkeys(row)
                    rows.append((line, [row.get(name) for name in wanted.names]))
        columns = {name: [values[at] for _, values in rows] for at, name in enumerate(wanted.names) if name in names}
        numbers = [line for line, _ in rows if line is not None]
        lines = numbers if len(numbers) == len(rows) and len(paths) == 1 else None
        whole[name] = Loaded(columns, None, source.where, lines, [name for name in names if name not in columns], len(rows))
    mistakes.refuse()
    for name, loaded in whole.items():
        loaded.class_names = _class_names(own_files.features(source.files[name][0]), task.label)
        is_several = task.kind is TaskKind.multilabel and task.labels
        if is_several and task.label not in loaded.columns and {*task.labels} <= {*loaded.columns}:  # a column for each label
            loaded.columns[task.label] = labels.of_columns(task.labels, loaded.columns, loaded.place)
    return _parts(config, split, source.where, {name: loaded.count for name, loaded in whole.items()}, whole.__getitem__)


def _joined(parts: list[Loaded], task: TaskConfig) -> Loaded:
    """One after the other, in the columns of the first one, and in those that dotted names of the task reach in them."""
    first = parts[0]
    columns = {
        name: [value for part in parts for value in part.columns.get(name, [None] * part.count)] for name in first.columns
    }
    for name in _wanted(task).names:
        outer, *inner = name.split(".")
        is_nested = any(isinstance(value, list | dict) for value in columns.get(outer, ()))
        if inner and name not in columns and "+" not in name and is_nested:
            columns[name] = [own_files.inner(value, inner) for value in columns[outer]]
    known = [part.lines for part in parts if part.lines is not None]
    lines = [line for part in known for line in part] if len(known) == len(parts) else None
    return replace(first, columns=columns, lines=lines, count=sum(part.count for part in parts))


@contextlib.contextmanager
def library(source: Source) -> Iterator[tuple[ModuleType, str | None]]:
    """`datasets`, and the folder of its cache: for local files an empty one, because it does not notice when they change.

    InputError for a data set that cannot be loaded in the block: it names the corrupt file if there is one, else the reason.
    """
    datasets = extensions.library("datasets", "run")
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # errors are our one line
    if source.cached:
        refuse_unreachable(datasets, source.path, source.where)
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
    is_offline = os.environ.get("HF_HUB_OFFLINE") == "1" or "offline" in reason or isinstance(error, ConnectionError)
    if source.cached and is_offline:
        return unreachable(source.path, source.where)
    if not source.cached and (torn := own_files.torn_parquet(Path(source.path) / (source.subset or ""))):
        return InputError(f"{source.where}: {torn} is not a readable parquet file; restore it or change data.root")
    return InputError(f"{source.where}: {source.path!r} with {source.key}={source.subset or ''!r} cannot be loaded: {reason}")


def part_of(task: TaskConfig, split: str) -> str:
    """The split in the notation of `datasets`, such as `train[:80%]`; InputError when the task does not have it.

    A prefix `SUBSET:` names another subset of the data set.
    """
    key, part = _said(task).get(split, (MORE, ""))
    if not part:
        raise InputError(f"task {task.name!r} has no split {split!r}: set {key}")
    return part


def _said(task: TaskConfig) -> dict[str, tuple[str, str]]:
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
    subset, part = present(re.fullmatch(r"(?:([^:\[+]+):)?(.*)", part_of(task, split), re.DOTALL)).groups()
    return task.subset if subset is None else subset.strip(), part.strip()


def _names(part: str) -> list[str]:
    """`train[:10%]+extra` -> train, extra."""
    return [piece.split("[")[0].strip() for piece in part.split("+")]


def _refuse_bad_parts(task: TaskConfig, split: str, where: str, sizes: dict[str, int]) -> list[tuple[str, int, int]]:
    """Name, first row and end of every part; InputError when the split does not exist, or when two splits share rows."""
    subset, part = _cut_of(task, split)
    for name in _names(part):
        if name not in sizes:
            raise unknown(f"split of {where}:", name, sizes, _said(task)[split][0])
    spans = {split: _spans(part, sizes, where, _said(task)[split][0])}
    tested = ["test"] if task.test_split and not task.dataset else []
    for other in ([] if task.kind in UNTRAINED else ["train"]) + ["validation", *tested, *task.more_validation]:
        other_subset, part = _cut_of(task, other)
        if other_subset == subset and set(_names(part)) <= set(sizes):
            spans[other] = _spans(part, sizes, where, _said(task)[other][0])
    own = spans.pop("tune") if split == "tune" else spans[split]
    for (one, ones), (two, twos) in itertools.combinations(spans.items(), 2):
        if any(a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2]) for a in ones for b in twos):
            keys = [f"{_said(task)[name][0]}={part_of(task, name)!r}" for name in (one, two)]
            raise InputError(f"task {task.name!r}: {' and '.join(keys)} share rows: separate them, as in [:80%] and [80%:]")
    return own


def _spans(part: str, sizes: dict[str, int], where: str, key: str) -> list[tuple[str, int, int]]:
    """Name, first row and end of every part."""
    try:
        parts = extensions.library("datasets", "run").ReadInstruction.from_spec(part).to_absolute(sizes)
    except (ValueError, AssertionError) as error:
        raise InputError(f"{where}: {key}={part!r} cannot be cut from {sizes}: {' '.join(str(error).split())}") from error
    spans = [(piece.splitname, piece.from_, piece.to) for piece in parts]
    if all(last <= first for _, first, last in spans):
        raise InputError(f"{where}: there are no rows in {key}={part!r} of {sizes}")
    return spans


def is_own(task: TaskConfig) -> bool:
    """Whether the task's rows are in files of the user."""
    return any(getattr(task, f"{name}_file") for name in OWN_SPLITS)


def _source(config: RunConfig, split: str) -> Source:
    task = config.task
    where = f"task {task.name!r}, {split}"
    if is_own(task):
        return _own(task, split, where)
    subset, _ = _cut_of(task, split)
    if task.dataset:
        return data_set(config, subset or None, where)
    if not task.hub and not task.folder:
        raise InputError(f"{where}: no data: set task.file=reviews.csv, task.train_file or task.dataset")
    if config.data.source is DataSource.hub:
        if not task.hub:
            raise InputError(f"{where}: task.hub names no data set: set it, or data=local data.root=FOLDER")
        return Source(task.hub, subset or None, where, cached=True)
    return Source(local_folder(config.data, task.folder, "task.folder"), subset or None, where)


def data_set(config: RunConfig, subset: str | None, where: str) -> Source:
    """What `task.dataset` names: a folder, also below data.root, or a data set of the hub."""
    name, key = config.task.dataset, "task.dataset"
    if Path(name).is_dir():
        return Source(name, subset, where)
    if config.data.source is DataSource.local:
        return Source(local_folder(config.data, name, key), subset, where)
    if (of_hub := NAME.fullmatch(name)) is None:
        raise InputError(f"{key}={name!r} is neither a folder nor OWNER/NAME or OWNER/NAME@REVISION of the hub")
    return Source(of_hub[1], subset, where, cached=True, revision=of_hub[2])


def _own(task: TaskConfig, split: str, where: str) -> Source:
    """The user's own files of this split."""
    if task.dataset:
        raise InputError(f"task {task.name!r}: task.dataset and task.train_file both name the data: leave one out")
    stated = {name: getattr(task, f"{name}_file") for name in OWN_SPLITS}
    paths = {name: Path(path) for name, path in stated.items() if path}
    for (one, path), (two, other) in itertools.combinations(paths.items(), 2):
        if path.resolve() == other.resolve():
            raise InputError(
                f"task {task.name!r}: task.{one}_file and task.{two}_file are both {path}: set another file, or cut both "
                "splits from train"
            )
    names = _names(part_of(task, split))
    for name in names:
        if name not in OWN_SPLITS:
            raise unknown(f"split of {where}:", name, OWN_SPLITS, "task.train_split and the like")
        if name not in paths:
            cut = ", or cut it from train: task.train_split='train[:80%]' task.validation_split='train[80%:]'"
            raise InputError(f"{where}: set task.{name}_file{cut if name == 'validation' else ''}")
        own_files.refuse_unreadable(paths[name], f"task.{name}_file", task.kind is TaskKind.tokens)
    where = f"{where} ({', '.join(paths[name].name for name in names)})"
    return Source("", None, where, files={name: [paths[name]] for name in names})


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
    """Names data.root, with a better one if it is one folder too high or too low, unless the name seems misspelt."""
    root = Path(present(data.root))
    there = sorted(path.name for path in root.iterdir() if path.is_dir())
    better = [str(path) for path in (*(root / one for one in there), root.parent) if os.path.isdir(path / name)]
    if not name or (not better and difflib.get_close_matches(name, there)):
        return unknown(f"folder of data.root={data.root!r}:", name, there, key)
    hint = f"did you mean data.root={better[0]}? " if better else ""
    listed = ", ".join(map(on_one_line, there)) or "none"
    return InputError(f"data.root={data.root!r} has no folder {name!r} ({key}); {hint}folders there: {listed}")


TIMEOUT_S = 10
"""As the library's own for the first answer."""


def refuse_unreachable(datasets: ModuleType, name: str, where: str) -> None:
    """InputError where nothing answers at the hub's address, unless a proxy is in between or the data set was loaded before."""
    settings = datasets.config
    loaded = Path(settings.HF_DATASETS_CACHE).expanduser() / name.replace("/", "___")
    address = urlsplit(settings.HF_ENDPOINT)
    if settings.HF_HUB_OFFLINE or loaded.is_dir() or {address.scheme, "all"} & getproxies().keys():
        return
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname, port), timeout=TIMEOUT_S).close()
    except OSError as error:
        raise unreachable(name, where) from error


def unreachable(name: str, where: str) -> InputError:
    """The error for a data set when the hub cannot be reached."""
    return InputError(
        f"{where}: the hub cannot be reached for the data set {name!r}; data=local data.root=FOLDER reads local folders"
    )
