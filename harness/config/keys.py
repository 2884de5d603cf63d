"""Every key that a user may name: its page of `--help`, and what an unknown key or choice may stand for."""

import difflib
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterable
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, get_args

import yaml

from harness.config.choices import DERIVED
from harness.config.help import GROUPS, choices_of, default_choices, names, synonyms
from harness.config.schema import REMOVED, default_of, flatten, stated_keys
from harness.errors import FEW, InputError, unknown
from harness.models.keys import typed
from harness.models.ranges import Range, Role
from harness.paths import conf_directory
from harness.terminal import columns, listed, wrapped

AT_MOST = 3
"""Names in one suggestion."""

NEAR = 0.65
"""Similarity from which on another key is suggested."""

FIRST = ("", "model", "finetune", "task", "hardware", "pretrain", "measure")
"""Order in which sections are suggested; the others follow. The empty one is the top level."""

STATED = "model.recipe."
"""What a scale states of settings that have keys of their own; those are suggested."""

PACKAGE = re.compile(r"^# @package (\w+)", re.MULTILINE)

OTHER_NAMES = {"pretrain.from": "pretrain.checkpoint", "finetune.from": "pretrain.checkpoint"}
"""Key as it is typed -> key of the schema."""


@cache
def known_keys() -> tuple[str, ...]:
    """Every key and section that a user may name."""
    return tuple(key for key in stated_keys() if key.partition(".")[0] not in DERIVED)


# Unknown names


def unknown_key(key: str) -> InputError:
    """The error for a key that the config does not have."""
    if key in REMOVED:
        return InputError(REMOVED[key])
    if key in GROUPS:
        head = next((f"; a file of it begins with `# @package {name}`" for name in sorted(_packages(key))), "")
        return InputError(f"{key!r} is a group without keys of its own: choose one by {key}=NAME{head}")
    section, _, last = key.rpartition(".")
    if section and last == section:
        return InputError(f"unknown key {key!r}: leave out one {last!r}; a file of this group has its keys without it")
    while section not in ("", *known_keys()):
        section = section.rpartition(".")[0]
    siblings = {name for name in known_keys() if name.rpartition(".")[0] == section} | set([] if section else GROUPS)
    swapped = [f"{group}={key}" for group in GROUPS if key in names(group)][:AT_MOST]
    meant = [OTHER_NAMES[key]] if key in OTHER_NAMES else swapped or meant_keys(key)
    page = f"python -m harness --help {section.partition('.')[0] or 'groups'}"
    if not meant and len(siblings) > FEW:
        return InputError(f"unknown key {key!r}; all choices: {page}")
    return unknown("key", key, siblings, section, meant, page)


def meant_keys(name: str) -> list[str]:
    """Keys that an unknown one may stand for, the likeliest first: `finetune.learning_rate` for `lr`."""
    section, _, last = name.strip("+~").rpartition(".")
    last = re.sub(r"[-\s]", "_", last.lower())
    candidates = sorted((key for key in {*known_keys(), *GROUPS} if not key.startswith(STATED)), key=_place)
    by_last = [(key, key.rpartition(".")[2]) for key in candidates]
    siblings = [key for key in candidates if key.rpartition(".")[0] == section]
    of_others = {ours for ours, others in synonyms()["keys"].items() if last in others.split()}
    matches = [key for key, its_last in by_last if its_last in of_others] or [
        key for key, its_last in by_last if its_last == last
    ]
    if section and siblings:
        near = difflib.get_close_matches(last, [key.rpartition(".")[2] for key in siblings], n=1, cutoff=NEAR)
        own = [key for key in siblings if key in matches] or [key for key in siblings if key.rpartition(".")[2] in near]
        matches = own or matches
    if section and not siblings:  # the section is misspelt too
        matches = difflib.get_close_matches(name, candidates, n=1) or matches
    for among in () if section and siblings else (siblings, candidates):  # which share no section, alike in all of them
        matches = matches or difflib.get_close_matches(name, among, n=1, cutoff=NEAR)
    near = difflib.get_close_matches(last, [its_last for _, its_last in by_last], n=1, cutoff=NEAR)
    return (matches or [key for key, its_last in by_last if its_last in near])[:AT_MOST]


def _place(key: str) -> tuple[int, str]:
    section = key.rpartition(".")[0]
    return (FIRST.index(section) if section in FIRST else len(FIRST), key)


def unknown_choice(group: str, name: str, candidates: Iterable[str]) -> InputError:
    """The error for a choice that a group does not have; `base` is meant by model=bert, `sst2` by task=sst-2."""
    candidates = sorted(candidates)
    for of, sign, meant in (("task", ".", "task=own task.file="), ("model", "/", "model.init_from=")):
        if group == of and sign in name:
            raise InputError(f"unknown {group} {name!r}; did you mean {meant}{name}?")
    plain = re.sub(r"[-\s]", "_", name.lower().rpartition("/")[2])
    matches = [choice for choice in candidates if re.sub(r"\W|_", "", choice) == re.sub(r"\W|_", "", plain)]
    others = synonyms()["choices"].get(group, {})
    matches = matches or [choice for choice in candidates if plain in others.get(choice, "").split()]
    near = matches or difflib.get_close_matches(name, candidates, n=1)
    return unknown(group, name, candidates, group, near, f"python -m harness --help {group}")


# Pages of --help


def page_of(topic: str) -> str:
    """The help of a group or a key, also with a value; InputError with the nearest name for anything else."""
    topic, _, choice = topic.lstrip("+~").partition("=")
    key = OTHER_NAMES.get(topic, topic)
    if topic in GROUPS and choice and choice not in names(topic):
        raise unknown_choice(topic, choice, names(topic))
    if topic not in GROUPS and key not in known_keys():
        raise unknown_key(topic)
    parts = [_page_of_group(topic)] if topic in GROUPS else []
    if key in known_keys():
        parts.append(_page_of_key(topic, key) if stated_keys()[key].section is None else _page_of_section(key))
    return "\n\n".join(parts)


def _page_of_group(group: str) -> str:
    mark = " (* is the default)" if default_choices().get(group) else ""
    lines = [f"{group}: {GROUPS[group]}", "", f"Choices{mark}", *choices_of(group)]
    packages = _packages(group) - {"_global_"}
    return "\n".join([*lines, *(f"\nEach choice sets keys of {name}, which --help {name} lists." for name in packages)])


def _packages(group: str) -> set[str]:
    """Sections that the shipped files of the group set."""
    texts = [(conf_directory() / group / f"{name}.yaml").read_text() for name in names(group)]
    return {match[1] for text in texts for match in PACKAGE.finditer(text)}


WIDEST = 32
"""Characters of the values of a key in the table of its section."""

SPACIOUS = 110
"""Minimum columns at which the meaning of a key is next to it, not below it."""


def _page_of_section(section: str) -> str:
    """Key, default, values and meaning in columns."""
    keys = [key for key in known_keys() if key.rpartition(".")[0] == section]
    cells = {"": (f"Key of {section}", "Default", "Values")} | {
        key: (key.rpartition(".")[2], "", f"--help {key}")
        if stated_keys()[key].section
        else (
            key.rpartition(".")[2],
            _default(key),
            textwrap.shorten(_allowed(key) or _type(key)[0], WIDEST, placeholder=" ..."),
        )
        for key in keys
    }
    widths = [max(map(len, column)) + 2 for column in zip(*cells.values(), strict=True)]
    shown = {key: "".join(map(str.ljust, row, widths)) for key, row in cells.items()}
    lines, heading = [f"  {shown.pop('').rstrip()}"], ""
    for key, line in shown.items():
        comment, its_heading = comment_of(key)
        meaning, _, _ = comment.partition(" Example: ")
        if its_heading != heading:
            lines, heading = [*lines, f"\n{its_heading}"], its_heading
        if columns() < SPACIOUS:
            lines += [f"  {line.rstrip()}", wrapped(meaning, 6)]
        else:
            lines.append(wrapped(meaning, sum(widths) + 2, f"  {line}", most=columns()))
    return "\n".join(lines)


def _page_of_key(written: str, key: str) -> str:
    (kind, choices), comment, stated = _type(key), comment_of(key)[0], stated_keys()[key]
    place = re.search(r"; read in (.*)\.", inspect.getdoc(stated.owner) or "")
    where = [place[1].replace("`", "")] if place else []
    facts = {
        "Values": ", ".join(filter(None, [kind, _allowed(key)])),
        "Example": shlex.quote(f"{written}={example_of(key)}"),
        "Read by": ", ".join([*where, *(f"if the run {when.why}" for when in stated.read)]) or "every run",
        "Role": f"{stated.role.value}: {_comments(Role)[stated.role.name][0]}",
    }
    parts = [
        f"{written}={_default(key)}",
        wrapped(comment),
        listed("Facts", facts),
    ]
    return "\n\n".join([*parts, *([listed("Choices", choices)] if any(choices.values()) else [])])


def example_of(key: str) -> str:
    """A value as it is typed: that of its comment, another choice than the default, or the default."""
    default, values = _default(key), _type(key)[0].removesuffix(" or null").split(", ")
    if found := re.search(r"(?:Example: (.+)|Typical: (\S+).*)\.", comment_of(key)[0]):
        return found[1] or found[2]
    return next((value for value in values if len(values) > 1 and value not in (default, "none")), default)


def _allowed(key: str) -> str:
    allowed: Range = stated_keys()[key].field.metadata.get("range", Range())
    return allowed.expected(0)


KINDS = {bool: "true, false", int: "integer", float: "number", str: "text", Any: "a name, or {NAME: VALUE}"}
"""Type -> what a user calls it."""


def _type(key: str) -> tuple[str, dict[str, str]]:
    """`integer`, `text or null`, or the names that a value may have; and these names with their comments."""
    hint = stated_keys()[key].hint
    null = " or null" if NoneType in get_args(hint) else ""
    kind = get_args(hint)[0] if null else hint
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        return KINDS.get(kind, re.sub(r"\b(\w+\.)+", "", str(kind)).replace("str", "text")) + null, {}
    choices = {name: _comments(kind)[name][0] for name in kind.__members__}
    return ", ".join(choices) + null, choices


def comment_of(key: str) -> tuple[str, str]:
    """What the key means, a sentence, and the heading of its part of the section; both empty where nothing is stated."""
    return _comments(stated_keys()[key].owner).get(key.rpartition(".")[2], ("", ""))


@cache
def _comments(kind: type) -> dict[str, tuple[str, str]]:
    """Field or member -> the comment at the end of its definition, and the one that heads its part of the class."""
    comments: dict[str, tuple[str, str]] = {}
    for part in reversed([one for one in kind.__mro__ if one.__module__.startswith("harness.")]):
        name = heading = ""
        for line in inspect.getsource(part).splitlines():
            if head := re.fullmatch(r"    # (.*)", line):
                heading = head[1]
            elif begun := re.match(r"    (\w+)(?:: | = )", line):
                name = begun[1]
                comments[name] = ("", heading)
            elif re.match(r"    (def|@)", line):
                break
            if "  # " in line.strip() and name:
                comments[name] = (line.partition("  # ")[2], heading)
    return comments


def _default(key: str) -> str:
    """The value that the default choices give it, or that of the schema, as it is typed."""
    value = _set_by_default().get(key, default_of(stated_keys()[key].field))
    if isinstance(value, str) and (other := re.fullmatch(r"\$\{(.+)\}", value)):
        return _default(other[1])
    return "null" if key == "finetune.learning_rate" else typed(value)  # the start decides it


@cache
def _set_by_default() -> dict[str, Any]:
    """Key -> value that a file of the default choices gives it."""
    values: dict[str, Any] = {}
    for group, chosen in default_choices().items():
        for name in [chosen] if isinstance(chosen, str) else chosen:
            text = (conf_directory() / group / f"{name}.yaml").read_text()
            package = PACKAGE.search(text)
            values |= flatten({package[1] if package else group: yaml.safe_load(text) or {}})
    return values
