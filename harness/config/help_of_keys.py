"""`--help GROUP` and `--help KEY`: types, defaults and comments of the schema, and the choices of `conf/`."""

import functools
import operator
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.config import nearest, schema_source
from harness.config.help import DERIVED, GROUPS, choices_of, default_choices
from harness.config.schema_source import Key
from harness.errors import unknown
from harness.paths import conf_directory

PACKAGE = re.compile(r"^# @package (\w+)", re.MULTILINE)
TOP = "RunConfig"

TYPED = {"pretrain.from": "pretrain.checkpoint"}
"""Key as it is typed -> key of the schema."""


def page(topic: str) -> str:
    """The help of a group or a key, also with a value; InputError with the nearest name for anything else."""
    topic, _, choice = topic.lstrip("+~").partition("=")
    if topic in GROUPS and choice and choice not in (known := [path.stem for path in _files(topic)]):
        raise unknown(topic, choice, known, topic, nearest.choices(topic, choice, known))
    names = TYPED.get(topic, topic).split(".")
    section, key = TOP, None
    for place, name in enumerate(names):
        known = _keys(section, ".".join(names[:place])) if section else {}
        if name not in known and not (place == 0 and topic in GROUPS):
            from harness.config.mistakes import unknown_key  # here: the whole schema takes 0.2 s

            raise unknown_key(topic)
        key = known.get(name)
        section = key.section if key else ""
    parts = [_choices(topic)] if topic in GROUPS else []
    if section:
        parts.append(_section(topic, section))
    elif key:
        parts.append(_key(topic, key))
    return "\n\n".join(parts)


def _choices(group: str) -> str:
    mark = " (* is the default)" if default_choices().get(group) else ""
    lines = [f"{group}: {GROUPS[group]}", "", f"Choices{mark}", *choices_of(group)]
    packages = {found[1] for path in _files(group) for found in PACKAGE.finditer(path.read_text())} - {"_global_"}
    return "\n".join([*lines, *(f"\nEach of them sets keys of {name}: --help {name} lists them." for name in packages)])


def _section(name: str, section: str) -> str:
    keys = _keys(section, name)
    head = f"Keys, with their defaults: {schema_source.documentation(section)}"
    shown = [f"{name}.{key.name}" + ("" if key.section else f"={key.default}") for key in keys.values()]
    width, type_width = max(map(len, shown)), max((len(key.type) for key in keys.values() if not key.choices), default=0)
    lines, heading = [head], ""
    for key, text in zip(keys.values(), shown, strict=True):
        if key.heading != heading:
            heading = key.heading
            lines.append(f"\n  {heading}" if heading else "")
        kind = f"--help {name}.{key.name}" if key.section else key.type
        lines.append(f"  {text:<{width}}  {kind:<{type_width}}  {key.comment}".rstrip())
    return "\n".join(lines)


def _key(name: str, key: Key) -> str:
    lines = [f"{name}={key.default}", f"  {key.type}"]
    if key.comment:
        lines.append(f"  {key.comment}")
    if any(comment for _, comment in key.choices):
        width = max(len(choice) for choice, _ in key.choices)
        lines += ["", *(f"    {choice:<{width}}  {comment}".rstrip() for choice, comment in key.choices)]
    return "\n".join(lines)


def _keys(section: str, name: str) -> dict[str, Key]:
    """The keys of a section with the values that the default choices give them."""
    values = _set_by_default(name)
    found = schema_source.keys(section).values()
    kept = (key for key in found if name or key.name not in DERIVED)
    return {key.name: replace(key, default=_typed(values[key.name])) if key.name in values else key for key in kept}


def _set_by_default(section: str) -> dict[str, Any]:
    """Values that the files of the default choices give to the keys of a section, which may be within another one."""
    outer, _, inner = section.partition(".")
    if inner:
        return _set_by_default(outer).get(inner, {})
    import yaml  # here: takes 50 ms, and the first page of the help does not need it

    values: dict[str, Any] = {}
    chosen = ((group, choice) for group, choices in default_choices().items() for choice in choices)
    for group, choice in chosen:
        path = conf_directory() / group / f"{choice}.yaml"
        if not path.is_file():  # a group of Hydra
            continue
        text = path.read_text()
        package = PACKAGE.search(text)
        if (package[1] if package else group) == section:
            values |= yaml.safe_load(text) or {}
    return {key: _followed(value) for key, value in values.items()}


def _followed(value: Any) -> Any:
    """The value that `${SECTION.KEY.KEY}` stands for, of the default choices; any other value as it is."""
    if not isinstance(value, str) or not (path := re.fullmatch(r"\$\{(\w+)\.([\w.]+)\}", value)):
        return value
    return functools.reduce(operator.getitem, path[2].split("."), _set_by_default(path[1]))


def _files(group: str) -> list[Path]:
    return sorted((conf_directory() / group).glob("*.yaml"))


def _typed(value: Any) -> str:
    """As it is typed on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{','.join(map(_typed, value))}]" if isinstance(value, list) else str(value)
