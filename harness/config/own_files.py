"""YAML files of the user and settings of Hydra, checked before anything is built from them."""

import functools
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf, grammar_parser
from omegaconf.errors import GrammarParseError
from omegaconf.grammar_parser import OmegaConfGrammarParser

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
    """InputError, with line and column where there are any, for a file that is no YAML mapping within the limits."""
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

ALWAYS_SHIPPED = {
    "callbacks": "a callback is code that it names",
    "job_logging.root": "handlers and formatters are code that it names",
    "hydra_logging.root": "handlers and formatters are code that it names",
    "job_logging": "handlers and formatters are code that it names",
    "hydra_logging": "handlers and formatters are code that it names",
    "job.env_set": "set variables in the shell",
}
"""Below `hydra`: what nobody sets, and why; the first that fits is said."""

COMPOSED = (
    *("job.config_name", "job.override_dirname", "runtime.choices."),
    *("runtime.version", "runtime.version_base", "runtime.cwd", "runtime.config_sources"),
)
"""Below `hydra`: what Hydra itself says of a composition, after all files."""

PLACES = {"run.dir": (".",), "output_subdir": (None,), "job.chdir": (None, False)}
PLACES_OF_JOBS = {"sweep.dir": (".", "${output}/.hydra"), "sweep.subdir": (".",)}
"""Below `hydra`: where it would write or work, with the values that are allowed; a launcher of a plugin has its own."""

TYPED = ("launcher.", "sweeper.", "mode", "verbose", "searchpath", "job.name", *PLACES, *PLACES_OF_JOBS)
"""Below `hydra`: what the command line may set."""

NAMES = (
    *("partition", "account", "qos", "constraint", "gres", "exclude", "mem_per_gpu", "mem_per_cpu", "name"),  # of submitit
    *("backend", "prefer", "require", "batch_size", "direction", "study_name"),  # of joblib and optuna
)
"""Keys of a launcher or sweeper that a file may set to a plain word; none is a command, a folder or an address."""

OF_FILES = {
    "mode": r"\w+",
    r"sweep\.dir": r"\$\{output\}(/\w[\w.-]*)*",
    r"sweep\.subdir": r"\$\{hydra\.job\.num\}|\w[\w-]*",
    r"sweeper\.params\..+": r"(?s:.*)",  # overrides, which are composed and checked as typed ones are
    r"(launcher|sweeper)\.(?!additional_parameters)\w+(\.\w+)*": r"None|True|False|-?[\d.]+(e[+-]?\d+)?",
    rf"(launcher|sweeper)\.({'|'.join(NAMES)})": r"(?!-)[\w:,.+-]*",
}
"""Below `hydra`: what a file may set -> its values."""


def refuse_foreign_code(
    composed: DictConfig, shipped: dict[str, Any], of_plugins: Collection[tuple[str, str]], typed: Collection[str]
) -> None:
    """InputError for a setting of Hydra that names code, a folder or a file, before Hydra uses it.

    Each value below `hydra` is `shipped`, a default `of_plugins`, Hydra's own, or on a list: TYPED where the command line has
    `typed` this key or one above it, else OF_FILES.
    """
    if OmegaConf.is_interpolation(composed, "hydra") or not OmegaConf.is_dict(composed.get("hydra")):
        raise InputError("hydra cannot be set: expected keys below it, such as hydra.verbose=true")
    raw = OmegaConf.to_container(composed.hydra, resolve=False, enum_to_str=True)
    flat = flatten(raw)
    changed = {key for key in {*flat, *shipped} if key not in flat or key not in shipped or flat[key] != shipped[key]}
    for section, reason in ALWAYS_SHIPPED.items():
        if any(within(key, (section, f"{section}.")) for key in changed):
            raise InputError(f"hydra.{section} cannot be set: {reason}")
    verbose = raw.get("verbose")
    if not isinstance(verbose, bool | str) and not all(isinstance(name, str) for name in verbose or [None]):
        raise InputError(f"hydra.verbose={verbose} must be true, false or names of loggers")
    targets = {plugin: OmegaConf.select(composed.hydra, f"{plugin}._target_") for plugin in ("launcher", "sweeper")}
    for plugin, target in targets.items():
        if target is None:
            raise InputError(f"hydra.{plugin} has no _target_: expected hydra/{plugin}=NAME")
        if not re.match(PLUGINS, str(target)):
            raise InputError(f"hydra.{plugin}._target_={str(target)!r} is no plugin of Hydra: choose hydra/{plugin}=NAME")
    is_basic = str(targets["launcher"]).endswith("BasicLauncher")
    for key, values in (PLACES | (PLACES_OF_JOBS if is_basic else {})).items():
        value = functools.reduce(lambda part, name: (part or {}).get(name), key.split("."), raw)
        if value not in values:
            raise InputError(
                f"hydra.{key}={value} cannot be set: runs are in the folder output=FOLDER, and nothing else is made"
            )
    for key in sorted(changed):
        if within(key, COMPOSED):
            continue
        is_typed = any(f"hydra.{key}.".startswith(f"{one}.") for one in typed)
        if is_typed and not within(key, TYPED):
            raise InputError(f"hydra.{key} cannot be set: expected one of hydra.{', hydra.'.join(TYPED)}")
        value = str(flat.get(key))
        is_default = within(key, ("launcher.", "sweeper.")) and (key.rpartition(".")[2], value) in of_plugins
        is_allowed = any(re.fullmatch(name, key) and re.fullmatch(values, value) for name, values in OF_FILES.items())
        if not (is_typed or is_default or is_allowed):
            raise InputError(
                f"hydra.{key}={on_one_line(value, 80)} cannot be set by a file: it may set mode, sweeper.params, and numbers "
                "and names of a launcher or sweeper; the command line may set more"
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
    """The values of a YAML file that is not composed, with texts as they are; InputError as of `refuse_unsound`."""
    refuse_unsound(path)
    return OmegaConf.create(as_text(OmegaConf.to_container(OmegaConf.load(path), resolve=False)))


def as_text(value: Any) -> Any:
    """The same plain value, with `${` in its texts written so that OmegaConf leaves it as it is."""
    if isinstance(value, dict):
        return {key: as_text(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_text(one) for one in value]
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value
