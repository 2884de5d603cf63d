"""YAML files of the user and settings of Hydra, checked before anything is built from them."""

import functools
import re
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from harness.errors import InputError

LARGEST_BYTES = 1_000_000
DEEPEST = 50
MOST_VALUES = 20_000
"""Values of a file with each alias counted as often as it stands for one: a few lines can stand for billions."""

CORE = "tag:yaml.org,2002:"
TAGS = {CORE + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp", "value")}


CALLED = {"_target_", "()"}
"""Keys with which Hydra and Python's logging name what they call."""


def refuse_unsound(path: Path) -> None:
    """InputError, with line and column where there are any, for a file that is no YAML mapping within the limits."""
    if path.stat().st_size > LARGEST_BYTES:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes: expected at most {LARGEST_BYTES:,}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise InputError(f"{path}, line {line}: {byte} is not UTF-8; save the file as UTF-8") from error
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise InputError(f"{_place(path, event.start_mark)}: nested deeper than {DEEPEST} levels")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(f"{_place(path, mark)}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:  # a character that YAML does not have
        raise InputError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{_place(path, node.start_mark)}: expected keys with values, such as `attention_window: 32`")
    _size(node, path, {})


def _size(node: yaml.Node, path: Path, sizes: dict[int, int]) -> int:
    """Number of values below the node, with aliases followed; InputError for too many, an unknown tag or a key twice."""
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise InputError(f"{_place(path, node.start_mark)}: the alias stands for what contains it")
        return sizes[id(node)]
    if node.tag not in TAGS:
        raise InputError(
            f"{_place(path, node.start_mark)}: the tag {node.tag.replace(CORE, '!!')} is not allowed: plain values only"
        )
    sizes[id(node)] = 0
    size = 1 + sum(_size(child, path, sizes) for child in _children(node, path))
    if size > MOST_VALUES:
        raise InputError(f"{_place(path, node.start_mark)}: more than {MOST_VALUES:,} values, aliases followed")
    sizes[id(node)] = size
    return size


def _children(node: yaml.Node, path: Path) -> list[yaml.Node]:
    if isinstance(node, yaml.ScalarNode):
        return []
    if isinstance(node, yaml.SequenceNode):
        return node.value
    keys = [key.value for key, _ in node.value]
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"{_place(path, key.start_mark)}: a list or a mapping is no key: expected a name before the colon")
        if key.value in CALLED:
            raise InputError(f"{_place(path, key.start_mark)}: the key {key.value!r} names code to call: plain values only")
        if keys.count(key.value) > 1:
            last = [other for other, _ in node.value if other.value == key.value][-1]
            raise InputError(f"{_place(path, last.start_mark)}: the key {key.value!r} stands here a second time")
    return [child for pair in node.value for child in pair]


def _place(path: Path, mark: yaml.Mark | None) -> str:
    return f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)


PLUGINS = r"hydra_plugins\.|hydra\._internal\.core_plugins\."
"""Beginning of the class of a launcher or sweeper that is installed."""

CALLS = {
    "callbacks": "a callback is code that it names",
    "job_logging.root": "handlers and formatters are code that it names",
    "hydra_logging.root": "handlers and formatters are code that it names",
    "job.env_set": "set variables in the shell",
}
"""Below `hydra`: what must be empty, and why."""

PLACES = {"run.dir": (".",), "output_subdir": (None,), "job.chdir": (None, False)}
PLACES_OF_JOBS = {"sweep.dir": (".", "${output}/.hydra"), "sweep.subdir": (".",)}
"""Below `hydra`: where it would write or work, with the values that are allowed; a launcher of a plugin has its own."""


def refuse_foreign_code(composed: DictConfig) -> None:
    """InputError for a setting of Hydra in the composed config that names code or a folder, before Hydra uses it."""
    hydra = composed.get("hydra")
    if not OmegaConf.is_dict(hydra):
        return
    for key, reason in CALLS.items():
        if OmegaConf.select(hydra, key):
            raise InputError(f"hydra.{key} cannot be set: {reason}")
    verbose = OmegaConf.select(hydra, "verbose")
    if not isinstance(verbose, bool | str) and not all(isinstance(name, str) for name in verbose or [None]):
        raise InputError(f"hydra.verbose={verbose} must be true, false or names of loggers")
    for plugin in ("launcher", "sweeper"):
        target = OmegaConf.select(hydra, f"{plugin}._target_")
        if target is not None and not re.match(PLUGINS, str(target)):
            raise InputError(f"hydra.{plugin}._target_={str(target)!r} is no plugin of Hydra: choose hydra/{plugin}=NAME")
    is_basic = str(OmegaConf.select(hydra, "launcher._target_")).endswith("BasicLauncher")
    raw = OmegaConf.to_container(hydra, resolve=False)
    for key, values in (PLACES | (PLACES_OF_JOBS if is_basic else {})).items():
        value = functools.reduce(lambda part, name: (part or {}).get(name), key.split("."), raw)
        if value not in values:
            raise InputError(
                f"hydra.{key}={value} cannot be set: runs are in the folder output=FOLDER, and nothing else is made"
            )
