"""Errors of Hydra and OmegaConf as one line with the key, its value and the choices."""

import difflib
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from harness.config import synonyms
from harness.config.choices import DERIVED
from harness.config.schema import REMOVED, RunConfig, flatten
from harness.errors import InputError, Mistakes, SeveralMistakesError, on_one_line, unknown
from harness.paths import CLAIMS, REFERENCE, conf_directory

CHOICES = "hydra.runtime.choices."
"""Where Hydra keeps the choice of each group."""

WANTED = {
    r"could not be converted to Integer": "a whole number",
    r"could not be converted to Float": "a number",
    r"is not a valid bool": "true or false",
    r"is not a ListConfig": "a list, such as {key}=[{value}]",
    r"Cannot assign \w+ to Dict|Cannot merge DictConfig with ListConfig": "names with values, such as {key}={{NAME:VALUE}}",
    r"is not Optional": "a value other than null",
    r"Cannot convert '\w+' to string": "one text",
    r"is not a subclass of \w+Config": "null, or keys below it: {key}.NAME=VALUE",
}
"""What OmegaConf says of a value -> what is expected in its place."""

UNREADABLE = {
    r"no viable alternative at input (.*)": r"it goes wrong in \1",
    r"mismatched input '<EOF>' expecting .*": "it ends too early",
    r"(?:extraneous|mismatched) input (.*?) expecting .*": r"\1 is not expected there",
    r"token recognition error at: (.*)": r"\1 is not expected there",
    r"LexerNoViableAltException: .*": "a quotation mark has no partner",
}
"""What Hydra's parser says of an override -> the same in plain words."""

EXPERIMENT = "experiment"
"""Group whose choices set what a command sweeps, so that they cannot be swept."""

INTERPOLATION = re.compile(r"\$\{")

FEW = 8
"""Keys that an error lists, of more those that are nearest by spelling."""

NO_NAMES = ("null", "true", "false")
"""Words that are values of another type than text."""


def one_line(error: Exception, cause: BaseException) -> InputError:
    """The error of Hydra, whose `cause` is an error of OmegaConf or itself."""
    if isinstance(error, InputError):
        return error
    text = str(error)
    repeated = re.search(
        r"Ambiguous value for argument '(.*)'\n1\. |Sweep parameters '(.*)' requires --multirun", text, re.DOTALL
    )
    if repeated:
        return _without_sweep(repeated[1] or repeated[2])
    choice = re.search(r"Could not find '([^']*)/([^'/]*)'.*?Available options in '[^']*':\n((?:\t\S+\n?)*)", text, re.DOTALL)
    if choice:
        group, name, listed = choice.groups()
        return _unknown_choice(group, name, listed.split())
    listed_choice = re.search(r"Could not load '([^']*)/([^'/]*)'", text)  # of a group that takes a list
    if listed_choice:
        group, name = listed_choice.groups()
        return _unknown_choice(group, name, [path.stem for path in (conf_directory() / group).glob("*.yaml")])
    override = re.search(r"Could not override '([^']*)'", text)
    key = getattr(cause, "full_key", None) or (override.group(1) if override else "")
    if key.startswith(CHOICES):
        return left_out(key.removeprefix(CHOICES))
    if key in groups() and "No match in the defaults list" in text:
        return InputError(f"{key!r} has no default to replace: write +{key}=...")
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)) or override:
        return unknown_key(key)
    if not key and re.search(r"Cannot merge \w+ with|is not a subclass of", str(cause)):  # sections, merged as a whole
        return InputError("what ${...} stands for is no value of this key: write a value")
    reason = _of_value(key, cause) or " ".join(str(cause).split("full_key")[0].split()) or type(error).__name__
    merged = re.fullmatch(r"Error merging override (.*)", text, re.DOTALL)
    if merged and not merged[1].lstrip("+").startswith(key or " "):  # the key is one inside of the value
        return InputError(f"{merged[1]}: {reason}")
    return InputError(f"{key}: {reason}" if key and key not in reason else reason)


def refuse_misfits(path: Path, group: str) -> None:
    """InputError for a file of the user in which several keys do not fit their section; Hydra refuses one by itself."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        values = yaml.safe_load(text) or {}
    except ValueError:  # such as a number of 5,000 digits: Hydra's reader says it
        return
    package = re.search(r"^#\s*@package\s+(\S+)", text, re.MULTILINE)
    section = "" if package and package[1] == "_global_" else f"{package[1] if package else group}."
    for key, value in flatten(values, section).items():
        refuse_no_boolean(key, value)
    if package or group not in {field.name for field in fields(RunConfig)}:
        return
    schema, mistakes = OmegaConf.structured(RunConfig), Mistakes()
    for key, value in values.items():
        with mistakes.collected():
            try:
                OmegaConf.merge(schema, {group: {key: value} if key != "defaults" else {}})
            except (OmegaConfBaseException, ValueError) as error:
                raise one_line(error, error) from error
    try:
        mistakes.refuse()
    except SeveralMistakesError as error:
        raise InputError(f"{path} has {error}") from error


def _of_value(key: str, cause: BaseException) -> str | None:
    """What was given and what is expected, for a value of a wrong type; None for anything else."""
    wanted = next((wanted for pattern, wanted in WANTED.items() if re.search(pattern, str(cause))), None)
    if not key or wanted is None:
        return None
    value = getattr(cause, "value", None)
    typed = {None: "null", True: "true", False: "false"}[value] if isinstance(value, bool | None) else str(value)
    is_known = value is not None or "Optional" in str(cause)
    given = f"{key}={on_one_line(typed)}" if is_known else key
    return f"{given} must be {wanted.format(key=key, value=on_one_line(typed))}"


def naming(overrides: list[str], error: InputError) -> InputError:
    """The error, with what was typed where it names nothing of that: some of OmegaConf name their own insides alone."""
    text = re.sub(r"^hydra\.overrides\.\w+\[\d+\]: ", "", str(error))
    keys = [override.lstrip("+~").partition("=")[0] for override in overrides]
    if any(re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", text) for key in keys if key) or any(
        one in text for one in overrides
    ):
        return error
    quoted = re.findall(r"'([^']+)'", text)
    typed = [override for override in overrides if any(word in override for word in [*quoted, *INTERPOLATION.findall(text)])]
    typed = typed or overrides
    return InputError(f"{' '.join(typed)}: {text}")


def unreadable(override: str, message: str) -> InputError:
    """For an override that Hydra's grammar does not have, from Hydra's own words."""
    key, _, values = override.partition("=")
    whole = re.sub(r"(?<=[\[{(])\s*,|^\s*,|,(?=\s*([,\]})]|$))", "", values)
    is_plain = not re.search(r"['\"\\]", values) and all(values.count(a) == values.count(b) for a, b in ("[]", "{}", "()"))
    if whole != values and is_plain:
        return InputError(f"{override!r} has a comma with no value beside it: expected {key}={whole or 'VALUE'}")
    reason = " ".join(re.sub(r"Error parsing override '.*'\n|\s+See https://\S+ for details", "", message).split())
    for pattern, plain in UNREADABLE.items():
        reason = re.sub(f"^{pattern}$", plain, reason)
    return InputError(f"{override!r} cannot be read as KEY=VALUE: {reason}; a value with such characters needs quotes")


def _without_sweep(override: str) -> InputError:
    key, _, values = override.partition("=")
    is_single = key.lstrip("+") in set(groups()) - listed_groups()
    one_list = f"; one list is {key}=[{values}]" if re.fullmatch(r"[^()]*", values) and not is_single else ""
    return InputError(f"{override!r} names several values: add -m to sweep over them{one_list}")


def _unknown_choice(group: str, name: str, names: list[str]) -> InputError:
    extra = name.partition("_")[0]
    if group == "hydra/launcher" and extra in {"joblib", "ray", "submitit"} - {one.partition("_")[0] for one in names}:
        return InputError(f"{group}={name} needs a package that is missing: pip install 'encoder-variant-harness[{extra}]'")
    return unknown(group, name, names, group, synonyms.choices(group, name, names))


def unknown_key(key: str) -> InputError:
    """The error for a key that the config does not have."""
    if key in REMOVED:
        return InputError(REMOVED[key])
    section = key.rpartition(".")[0]
    while section not in ("", *known_keys()):
        section = section.rpartition(".")[0]
    names = {name for name in known_keys() if name.rpartition(".")[0] == section} | set([] if section else groups())
    nearest = difflib.get_close_matches(key, names, n=FEW, cutoff=0.0)
    error = unknown("key", key, nearest, section, synonyms.keys(key, {*known_keys(), *groups()}))
    if len(nearest) == len(names):
        return error
    return InputError(f"{error}; all {len(names)}: python -m harness --help {section.partition('.')[0]}".rstrip())


def of_library(overrides: list[str], error: Exception) -> Exception:
    """One line for an error that Hydra or OmegaConf did not mean for users; `error` itself where it is not theirs."""
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        for section, kind in _below(RunConfig):
            if key.startswith(f"{section}.") and type(None) in get_args(kind) and isinstance(error, AssertionError):
                group = section.partition(".")[0]
                return InputError(
                    f"{override}: {section} is null with this {group}; choose another {group}=NAME, or leave it out"
                )
        words = re.split(r"[\[\], ]+", value.strip("[]"))
        if key in groups() and any(not re.match("[A-Za-z]", word) or word.lower() in NO_NAMES for word in words):
            names = ", ".join(sorted(path.stem for path in (conf_directory() / key).glob("*.yaml")))
            return InputError(f"{override}: expected a name; choices for {key!r}: {names}")
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_globals.get("__name__", "").partition(".")[0] not in ("hydra", "omegaconf"):
        return error
    return InputError(f"{' '.join(overrides)} cannot be composed: {' '.join(str(error).split())}")


def groups() -> list[str]:
    """Names of the config groups."""
    return sorted(path.name for path in conf_directory().iterdir() if path.is_dir() and path.name not in (CLAIMS, REFERENCE))


def listed_groups() -> frozenset[str]:
    """Groups that take a list of choices: those whose default is one."""
    return frozenset(group for group, choice in default_choices().items() if not isinstance(choice, str))


def refuse_merged(choices: Mapping[str, str | None]) -> None:
    """InputError for a group without its one choice: a list or nothing in a file of the user."""
    for group in groups():
        if choices.get(group) is None and group not in {EXPERIMENT, *listed_groups()}:
            raise InputError(f"{group} takes one choice: expected {group}=NAME, where a file has a list or nothing")


def left_out(group: str) -> InputError:
    return InputError(f"~{group} leaves out a group that every run needs: choose {group}=NAME in place of it")


def several_choices(group: str, names: list[str]) -> InputError:
    """For a list of choices, or an empty one, for a group that takes one."""
    if len(names) == 1:
        return InputError(f"{group} takes one choice and no list: expected {group}={names[0]}")
    if not names:
        return InputError(f"{group} takes one choice; none was given: expected {group}=NAME")
    advice = "name one of them" if group == EXPERIMENT else f"sweep them with -m {group}={','.join(names)}"
    return InputError(f"{group} takes one choice; {len(names)} were given: {', '.join(names)}; {advice}")


def refuse_no_boolean(key: str, value: object) -> None:
    """InputError for a value of a key that is true or false alone; OmegaConf takes any whole number, and `y`."""
    if key not in _booleans() or isinstance(value, bool | None | list | dict) or str(value).lower() in ("true", "false"):
        return  # a list or null is refused by OmegaConf
    other = re.fullmatch(r"\$\{([\w.]+)\}", str(value))
    if other is None or (other[1] in known_keys() and other[1] not in _booleans()):
        raise InputError(f"{key}={on_one_line(str(value))} must be true or false")


@cache
def _booleans() -> frozenset[str]:
    return frozenset(key for key, kind in _below(RunConfig) if kind in (bool, bool | None))


@cache
def known_keys() -> tuple[str, ...]:
    """Every key and section that a user may name."""
    return tuple(key for key, _ in _below(RunConfig) if key.partition(".")[0] not in DERIVED)


def _below(schema: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every key and section of the schema with its type."""
    for field in fields(schema):
        yield prefix + field.name, field.type
        section = next((kind for kind in (field.type, *get_args(field.type)) if is_dataclass(kind)), None)
        if section is not None:
            yield from _below(section, f"{prefix}{field.name}.")


@cache
def default_choices() -> dict[str, str | list[str]]:
    """Group -> its choice, a list for a group that takes several."""
    listed: Any = OmegaConf.to_container(OmegaConf.load(conf_directory() / "config.yaml").defaults)
    pairs = [pair for entry in listed if isinstance(entry, dict) for pair in entry.items()]
    return {group: choice for group, choice in pairs if not group.startswith("override ")}
