"""YAML files of the user and settings of Hydra, checked before anything is built from them."""

import re
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf, grammar_parser
from omegaconf.errors import GrammarParseError
from omegaconf.grammar_parser import OmegaConfGrammarParser  # type: ignore[attr-defined]

from harness import paths
from harness.config.schema import flatten, within
from harness.errors import InputError, on_one_line

LARGEST_BYTES = 1_000_000
DEEPEST = 50
MOST_VALUES = 20_000
"""Values of a file with each alias counted as often as it stands for one: a few lines can stand for billions."""

CORE = "tag:yaml.org,2002:"
TAGS = {CORE + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp", "value")}


CALLED = {"_target_", "()"}
"""Keys with which Hydra and Python's logging name what they call."""


def refuse_unsound(path: Path) -> None:
    """InputError, with line and column where there are any, for a file that is not a YAML mapping within the limits."""
    if path.stat().st_size > LARGEST_BYTES:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes: expected at most {LARGEST_BYTES:,}")
    try:
        text = paths.read(path, LARGEST_BYTES).decode("utf-8-sig")
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
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{_place(path, node.start_mark)}: expected keys with values, such as `attention_window: 32`")
    _size(node, path, {})


def _size(node: yaml.Node, path: Path, sizes: dict[int, int]) -> int:
    """Number of values below the node, with aliases followed; InputError for too many, an unknown tag or a key twice."""
    if id(node) not in sizes:
        if node.tag not in TAGS:
            tag = node.tag.replace(CORE, "!!")
            raise InputError(f"{_place(path, node.start_mark)}: the tag {tag} is not allowed: plain values only")
        sizes[id(node)] = 0  # while it is counted
        sizes[id(node)] = 1 + sum(_size(child, path, sizes) for child in _children(node, path))
        if sizes[id(node)] > MOST_VALUES:
            raise InputError(f"{_place(path, node.start_mark)}: more than {MOST_VALUES:,} values, counting aliases")
    elif not sizes[id(node)]:
        raise InputError(f"{_place(path, node.start_mark)}: the alias refers to its own container")
    return sizes[id(node)]


def _children(node: yaml.Node, path: Path) -> list[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        for one in node.value:
            if one.tag == CORE + "bool" and one.value.lower() not in ("true", "false"):
                raise InputError(
                    f"{_place(path, one.start_mark)}: YAML reads {one.value} as true or false: quote it, '{one.value}'"
                )
        return list(node.value)
    if not isinstance(node, yaml.MappingNode):
        return []
    names: set[str] = set()
    for key, _ in node.value:
        place = _place(path, key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"{place}: a list or a mapping is not a key: expected a name before the colon")
        if key.value in CALLED:
            raise InputError(f"{place}: the key {key.value!r} names code to call: plain values only")
        if key.value in names:
            raise InputError(f"{place}: the key {key.value!r} is a duplicate")
        names.add(key.value)
    return [child for pair in node.value for child in pair]


def _place(path: Path, mark: Any) -> str:
    return f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)


TYPED = ("hydra/launcher", "hydra.launcher.", "hydra.sweeper.params.", "hydra.mode", "hydra.verbose", "hydra.searchpath")
"""What the command line may set of Hydra."""

COMPOSED = ("job.config_name", "job.override_dirname", "runtime.", "searchpath")
"""Below `hydra`: what Hydra itself says of a composition, after all files, and what no file sets."""

NAMES = (
    *("partition", "account", "qos", "constraint", "gres", "exclude", "mem_per_gpu", "mem_per_cpu", "name"),  # of submitit
    *("backend", "prefer", "require", "batch_size"),  # of joblib
)
"""Keys of a launcher that a file may set to a plain word; none is a command, a folder or an address."""

OF_FILES = {
    "mode": r"\w+",
    r"sweeper\.params\..+": r"(?s:.*)",  # overrides, which are composed and checked as typed ones are
    r"launcher\.(?!additional_parameters)\w+(\.\w+)*": r"None|True|False|-?[\d.]+(e[+-]?\d+)?",
    rf"launcher\.({'|'.join(NAMES)})": r"(?!-)[\w:,.+-]*",
}
"""Below `hydra`: what a file may set -> its values."""


def refuse_typed_setting(word: str, key: str, is_swept: bool) -> None:
    """InputError for a setting of Hydra on the command line that names code or a folder, or that has several values."""
    is_allowed = within(key, TYPED) and not is_swept and "_target_" not in word
    if re.split("[./]", key)[0] == "hydra" and not is_allowed:
        raise InputError(f"{word}: {key} cannot be set: expected one value of {', '.join(TYPED)}")


def refuse_settings(composed: DictConfig, plain: dict[str, Any]) -> None:
    """InputError for what a file sets of Hydra, but for a few plain values; `plain` are the settings without such files."""
    values: Any = OmegaConf.to_container(composed, resolve=False, enum_to_str=True)
    if not isinstance(values["hydra"], dict):
        raise InputError("hydra cannot be set: expected keys below it, such as hydra.mode")
    for key, value in flatten(values["hydra"]).items():
        is_same, value = key in plain and value == plain[key], str(value)
        is_allowed = any(re.fullmatch(name, key) and re.fullmatch(values, value) for name, values in OF_FILES.items())
        if not (is_same or is_allowed or within(key, COMPOSED)):
            raise InputError(
                f"hydra.{key}={on_one_line(value, 80)} cannot be set by a file: it may set mode, sweeper.params, and numbers "
                "and names of a launcher; the command line may set more"
            )


def refuse_resolvers(value: str, place: str) -> None:
    """InputError for `${NAME:...}` of a file, which could put the environment into what is kept and shown."""
    try:
        stack = [grammar_parser.parse(value.replace("\\", ""))] if "${" in value and ":" in value else []
    except GrammarParseError as error:
        raise InputError(f"{place}: {on_one_line(value, 80)!r} cannot be read: expected ${{KEY}} of another key") from error
    while stack:
        node = stack.pop()
        if isinstance(node, OmegaConfGrammarParser.InterpolationResolverContext):
            raise InputError(
                f"{place}: {on_one_line(node.getText(), 80)!r} calls a function: expected a plain value, or ${{KEY}} of another"
            )
        stack += getattr(node, "children", None) or []


def load(path: Path) -> DictConfig:
    """The values of a YAML file that is not composed, with unchanged texts; InputError as of `refuse_unsound`."""
    refuse_unsound(path)
    values: dict[str, Any] = as_text(OmegaConf.to_container(OmegaConf.load(path), resolve=False))
    return OmegaConf.create(values)


def as_text(value: Any) -> Any:
    """The plain value, with `${` in its texts escaped for OmegaConf."""
    if isinstance(value, dict):
        return {key: as_text(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_text(one) for one in value]
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value
