"""Errors of Hydra and OmegaConf as one line with the key, its value and the choices."""

import re
import traceback
from types import NoneType
from typing import get_args

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from harness.config.help import GROUPS, listed_groups, names
from harness.config.keys import unknown_choice, unknown_key
from harness.config.schema import stated_keys
from harness.errors import InputError, on_one_line, unknown
from harness.models.keys import typed

CHOICES = "hydra.runtime.choices."
"""Where Hydra keeps the choice of each group."""

WANTED = {
    r"could not be converted to Integer": "a whole number",
    r"could not be converted to Float": "a number",
    r"is not a valid bool": "true or false",
    r"is not a valid input for <enum": "one name",
    r"is not a ListConfig": "a list, such as {key}=[{value}]",
    r"Cannot assign \w+ to Dict|Cannot merge DictConfig with ListConfig": "names with values, such as {key}={{NAME:VALUE}}",
    r"is not Optional": "a value other than null",
    r"Cannot convert '\w+' to string": "one text",
    r"is not a subclass of \w+Config": "null, or keys below it: {key}.NAME=VALUE",
}
"""What OmegaConf says of a value -> what is expected in its place."""

EXPERIMENT = "experiment"
"""Group whose choices set what a command sweeps, so that they cannot be swept."""

WITHOUT_DEFAULT = {EXPERIMENT, "protocol"}
"""Groups that a run does without."""


def one_line(error: Exception) -> InputError:
    """The error on one line; the more specific one of OmegaConf if Hydra wrapped one."""
    if isinstance(error, OverrideParseException):
        return InputError(
            f"{error.override!r} cannot be read as KEY=VALUE: close brackets and quotation marks, put commas between "
            "values, and quote a value with special characters twice, once for the shell: \"KEY='VALUE'\""
        )
    inner, text = error.__cause__ or error.__context__, str(error)
    cause = inner if isinstance(error, HydraException) and isinstance(inner, OmegaConfBaseException) else error
    if several := re.search(
        r"Ambiguous value for argument '(.*)'\n1\. |Sweep parameters '(.*)' requires --mul", text, re.DOTALL
    ):
        return InputError(f"{several[1] or several[2]!r} names several values: add -m to sweep over them; a list is KEY=[A,B]")
    if choice := re.search(r"Could not (?:find|load) '(([^'/]*)[^']*)/([^'/]*)'", text):
        group, name, extra = choice[1], choice[3], choice[3].partition("_")[0]
        listed = re.search(rf"Available options in '{re.escape(group)}':\n((?:\t\S+\n?)*)", text)
        choices = listed[1].split() if listed else names(group)
        if group.partition("/")[0] in GROUPS and not names(group):  # no folder of that group, as in task=glue/sst2
            group, name, choices = choice[2], f"{group.partition('/')[2]}/{name}", names(choice[2])
        if group == "hydra/launcher" and extra in {"joblib", "ray", "submitit"} - {one.partition("_")[0] for one in choices}:
            return InputError(f"{group}={name} needs a package that is missing: pip install 'encoder-variant-harness[{extra}]'")
        return unknown_choice(group, name, choices)
    if twice := re.search(r"Multiple values for .+ To override a value use 'override (.+): (.+)'", text):
        return InputError(f"+{twice[1]}={twice[2]}: {twice[1]} has a default: write {twice[1]}={twice[2]}")
    override = re.search(r"Could not override '([^']*)'", text)
    key = getattr(cause, "full_key", None) or (override[1] if override else "")
    if key.startswith(CHOICES):
        return left_out(key.removeprefix(CHOICES))
    if key in GROUPS and "No match in the defaults list" in text:
        return InputError(f"{key!r} has no default to replace: write +{key}=...")
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)) or override:
        return unknown_key(key)
    if not key and re.search(r"Cannot merge \w+ with|is not a subclass of", str(cause)):  # sections, merged as a whole
        if file := re.match(r"In '(.+)': ", text):
            return InputError(f"{file[1]}: expected keys, got a name: choose it by `- override /GROUP: NAME` in `defaults`")
        return InputError("the value of ${...} does not fit this key: write a value")
    if key and "does not support deletion" in str(cause):
        return InputError(f"~{key} leaves out a key that every run needs: set {key}=VALUE instead")
    if choice := re.search(r"Invalid value '(.*)', expected one of \[(.*)\]", str(cause)):
        return unknown("value", choice[1], choice[2].split(", "), key)
    reason = _of_value(key, cause) or " ".join(str(cause).split("full_key")[0].split()) or type(error).__name__
    merged = re.fullmatch(r"Error merging override (.*)", text, re.DOTALL)
    if merged and not merged[1].lstrip("+").startswith(key or " "):  # the key is one inside of the value
        return InputError(f"{merged[1]}: {reason}")
    return InputError(f"{key}: {reason}" if key and key not in reason else reason)


def _of_value(key: str, cause: BaseException) -> str | None:
    """What was given and what is expected, for a value of a wrong type; None for anything else."""
    wanted = next((wanted for pattern, wanted in WANTED.items() if re.search(pattern, str(cause))), None)
    if not key or wanted is None:
        return None
    value = getattr(cause, "value", None)
    text = on_one_line(typed(value) if isinstance(value, bool | None) else str(value))
    given = f"{key}={text}" if value is not None or "Optional" in str(cause) else key
    given = f"{key} has no keys below it: it" if text == "{}" else given
    return f"{given} must be {wanted.format(key=key, value=text)}"


def naming(overrides: list[str], error: InputError) -> InputError:
    """The error, with what was typed where it names nothing of that: some of OmegaConf name their own insides alone."""
    text = re.sub(r"^hydra\.overrides\.\w+\[\d+\]: ", "", str(error))
    keys = [override.lstrip("+~").partition("=")[0] for override in overrides]
    if any(key and re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", text) for key in keys) or any(
        override in text for override in overrides
    ):
        return error
    quoted = [*re.findall(r"'([^']+)'", text), *re.findall(r"\$\{", text)]
    meant = [override for override in overrides if any(word in override for word in quoted)]
    return InputError(f"{' '.join(meant or overrides)}: {text}")


def of_library(overrides: list[str], error: Exception) -> Exception:
    """One line for an error that Hydra or OmegaConf did not mean for users; `error` itself where it is not theirs."""
    for override in overrides if isinstance(error, AssertionError) else []:
        for section, stated in stated_keys().items():
            if override.lstrip("+~").startswith(f"{section}.") and NoneType in get_args(stated.hint):
                group = section.partition(".")[0]
                return InputError(
                    f"{override}: {section} is null with this {group}; choose another {group}=NAME, or leave it out"
                )
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_globals.get("__name__", "").partition(".")[0] in ("hydra", "omegaconf"):
        return InputError(f"{' '.join(overrides)} cannot be composed: {' '.join(str(error).split())}")
    return naming(overrides, one_line(error)) if isinstance(error, ValueError) else error


def left_out(group: str) -> InputError:
    return InputError(f"~{group} leaves out a group that every run needs: choose {group}=NAME instead")


def refuse_choices(typed_choice: str, group: str, value: object) -> None:
    """InputError for an invalid name of a choice; for a list where the group takes one, Hydra would take the last of them."""
    chosen = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in chosen):
        raise InputError(f"{typed_choice}: expected a name; choices for {group!r}: {', '.join(names(group))}")
    is_listed = group in listed_groups() or (group == "pretrain" and chosen)  # which has phases
    if isinstance(value, list) and not is_listed:
        raise InputError(
            f"{typed_choice}: {group} takes one choice: expected {group}=NAME, or -m {group}=NAME,NAME for a sweep"
        )


def refuse_twice(overrides: list[str]) -> None:
    """InputError for two models, or two lists of changes: Hydra would take the last one, and compare nothing."""
    for group in ("model", "enhancement"):
        given = dict.fromkeys(value for key, _, value in (one.partition("=") for one in overrides) if key == group)
        if len(given) > 1:
            raise InputError(f"{group} is given twice ({', '.join(given)}); to compare them: -m {group}={','.join(given)}")
