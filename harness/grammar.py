"""The grammar of all commands: words such as RUN, options as `key=VALUE` or `--key VALUE`, and switches such as `--yes`.

A command states its options as a dataclass: each field has a type, a default and a meaning. `parse` reads a command line into
it, and prints the page of `--help` from it.
"""

import difflib
import functools
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from harness.errors import InputError, on_one_line, unknown
from harness.models.ranges import Range
from harness.terminal import listed, wrapped

OLD = {"out": "to", "uri": "tracking.uri", "runs": "output"}
"""Old names of keys, which keep working -> current names."""

HELP, CONFIG_DIR, SWEEP = ("-h", "--help"), ("--config-dir", "-cd"), ("-m", "--multirun")

LONGEST_NUMBER = 400
"""Maximum characters of a number; Python reads no longer ones."""

Options = TypeVar("Options")


def key(default: Any = MISSING, meaning: str = "", **metadata: Any) -> Any:
    """A field that is a key; without a default it is required. One of type bool is a switch: `--yes` is `yes=true`.

    `name`: the key, if not that of the field; `range` of a number; `choices` of a text; `read`: from key and text to the value;
    `whole`: a value of a tuple may have commas, and several are written one by one.
    """
    return field(default=default, metadata={"kind": "key", "meaning": meaning, **metadata})


def word(name: str, default: Any = MISSING, meaning: str = "", **metadata: Any) -> Any:
    """A field that is written without a key, as RUN in `export RUN`; a tuple takes all such words."""
    return key(default, meaning, kind="word", name=name, **metadata)


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
def arguments(options: type[Options]) -> type[Options]:
    """Makes a class the options of a command: a frozen dataclass, whose fields are given by name."""
    return dataclass(frozen=True, kw_only=True)(options)


@arguments
class Composed:
    """A command about runs that Hydra composes: all arguments but its own options choose and change them."""

    config_dir: str | None = key(None, "adds your own conf/ files", kind="hydra")
    choices: tuple[str, ...] = key((), kind="hydra")

    groups: ClassVar[tuple[str, ...]] = ()
    """Groups and keys of a run that may be set; none: all of them."""

    reads_as_runs: ClassVar[bool] = True
    """Whether it reads only the keys that a run would read: no corpus without a pretraining."""

    replicates: ClassVar[bool] = False
    """Whether compared arms get several seeds by default, as in a run."""

    def __post_init__(self) -> None:
        """InputError for a choice without effect. What it writes by default is in the folder of the runs that is set."""
        grammar = Grammar(type(self))
        default = grammar.keys["to"].default if "to" in grammar.keys else None
        outputs = [choice.partition("=")[2] for choice in self.choices if choice.startswith("output=")]
        if outputs and isinstance(default, Path) and vars(self)["to"] == default:
            object.__setattr__(self, "to", Path(outputs[-1], *default.parts[1:]))
        for choice in self.choices:
            if self.groups and not choice.startswith("-") and group_of(choice) not in self.groups:
                raise unknown("key", group_of(choice), (*grammar.keys, *self.groups), "")

    def overrides(self) -> list[str]:
        """What Hydra gets: one task, as the default is a set, for which it would compose the same model again and again.

        InputError for a choice without effect.
        """
        if self.sets("match"):
            raise InputError("match= has no effect here: it belongs to run, plan and profile")
        return self.with_a_task()

    @property
    def is_sweep(self) -> bool:
        """Whether the command line asks for every combination of values."""
        return not set(SWEEP).isdisjoint(self.choices)

    def sets(self, *keys: str) -> bool:
        """Whether the command line sets one of these keys."""
        return any(choice.startswith(tuple(f"{key}=" for key in keys)) for choice in self.choices)

    def with_a_task(self) -> list[str]:
        """What Hydra gets of the command line, and a task where none is named."""
        return [*self.typed(), *([] if self.sets("task") else ["task=bag"])]

    def typed(self) -> list[str]:
        """Arguments passed to Hydra unchanged."""
        return [*([f"--config-dir={self.config_dir}"] if self.config_dir else []), *self.choices]

    def refuse(self, configs: list[Any]) -> None:
        """InputError for runs that can be refused before torch is loaded."""

    def begin(self) -> None:
        """Starts slow work in parallel with the composition."""


def group_of(choice: str) -> str:
    """`model` of `model=albert`, `+model.hidden_size=8` and the like."""
    return re.split(r"[.=@/]", choice.lstrip("+~"))[0]


def parse(words: Sequence[str], options: type[Options], call: str) -> Options:
    """The words of a command line as its options; InputError for a word or a value that cannot be used.

    `call` is how the command is typed.
    """
    return options(**Grammar(options, call).values(words))


@dataclass(frozen=True)
class Option:
    """A key, word or switch of a command, from its field."""

    name: str  # as it is typed
    field: str
    default: Any
    meaning: str
    metadata: Mapping[str, Any]
    type: Any  # of a value, or of each of several
    is_word: bool
    is_list: bool

    @classmethod
    def of(cls, option: Field[Any], hint: Any) -> "Option":
        """The option of a field with this type."""
        kind = typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint
        is_list, metadata = typing.get_origin(kind) is tuple, option.metadata
        kind, name = typing.get_args(kind)[0] if is_list else kind, metadata.get("name", option.name)
        return cls(name, option.name, option.default, metadata["meaning"], metadata, kind, metadata["kind"] == "word", is_list)

    @property
    def written(self) -> str:
        """`to=`, but `RUN` and `--dry-run`."""
        if self.is_word:
            return self.name
        return "--" + self.name.replace("_", "-") if self.type is bool else f"{self.name}="

    @property
    def wanted(self) -> str:
        """The meaning within the line of an error."""
        return f"expected {self.meaning[0].lower()}{self.meaning[1:]}".rstrip(".")

    @property
    def with_default(self) -> str:
        """The meaning, with the default if there is one."""
        default = self.default if isinstance(self.default, tuple) else (self.default,)
        texts = [f"{one:g}" if isinstance(one, float) else str(one) for one in default if one not in (MISSING, None)]
        return f"{self.meaning} Default: {','.join(texts).removesuffix('.')}." if texts else self.meaning


class Grammar:
    """Keys and words of one command by name, from the fields of its options."""

    def __init__(self, options: type, call: str = "") -> None:
        self.call, self._composed = call, issubclass(options, Composed)
        hints = typing.get_type_hints(options)
        inherited = {name for base in options.__mro__[1:] for name in getattr(base, "__dataclass_fields__", ())}
        own_first = sorted(fields(options), key=lambda option: option.name in inherited)
        every = [Option.of(each, hints[each.name]) for each in own_first if each.metadata["kind"] != "hydra"]
        self.keys = {option.name: option for option in every if not option.is_word}
        self.words = {option.name: option for option in every if option.is_word}
        self._named = {old: self.keys[new] for old, new in OLD.items() if new in self.keys} | self.keys
        of_words = {option.field: option for option in self.words.values()}
        self._named |= of_words
        self._typed = {*self.keys, *of_words}
        self.takes_config = "config_dir" in hints

    def values(self, words: Sequence[str]) -> dict[str, Any]:
        """Name of a field -> its value; InputError for a word that cannot be read, and for a key that is missing."""
        values: dict[str, Any] = {}
        choices: list[str] = []
        remaining = iter(words)
        for text in remaining:
            typed, equals, value = text.partition("=")
            is_option = typed.startswith("--")
            plain = typed.removeprefix("--").replace("-", "_") if is_option else typed
            option = self._named.get(plain) if equals or is_option else None
            if self.takes_config and typed in CONFIG_DIR:
                values["config_dir"] = value if equals else next(remaining, "")
                if not values["config_dir"]:
                    raise InputError(f"{typed} needs a value, such as {typed} FOLDER")
            elif option and not equals and option.type is bool:
                values[option.field] = True
            elif option:
                following = value if equals else next(remaining, None)
                if following is None:
                    raise InputError(f"{typed} needs a value: {option.wanted}")
                _add(values, option, following)
            elif self._composed and text in SWEEP:
                choices.append(text)
            elif text.startswith("-"):
                written = ["--" + name.replace("_", "-") for name in self.keys]
                hydra = [*(SWEEP if self._composed else ()), *(CONFIG_DIR[:1] if self.takes_config else ())]
                raise unknown("option", on_one_line(typed), [*written, *hydra, HELP[1]], self.call)
            elif self._is_word(text):
                free = (each for each in self.words.values() if each.is_list or each.field not in values)
                if (word := next(free, None)) is None:
                    raise InputError(f"Unexpected {on_one_line(text)!r}: expected {' '.join(self.words)} and KEY=VALUE")
                _add(values, word, text)
            elif self._composed:
                choices.append(text)
            else:
                raise unknown("key", on_one_line(typed), self._typed, self.call)
        for option in (*self.words.values(), *self.keys.values()):
            if option.default is MISSING and option.field not in values:
                if near := difflib.get_close_matches(option.name, map(group_of, choices), n=1):
                    raise unknown("key", near[0], self.keys, self.call, [option.name])
                raise InputError(f"{option.written} is missing: {option.wanted}")
        return values | ({"choices": tuple(choices)} if self._composed else {})

    def _is_word(self, text: str) -> bool:
        """Whether the text is RUN, STUDY or the like, whose name may have an equals sign."""
        name, equals, _ = text.partition("=")
        if not self.words or text.startswith(("+", "~")):
            return False
        return not equals or Path(text).exists() or not (self._composed or difflib.get_close_matches(name, self._typed))


def _add(values: dict[str, Any], option: Option, text: str) -> None:
    """Sets the value of the option, or adds one to a list; InputError for a text that it cannot be."""
    if not text:
        raise InputError(f"{option.written} is empty: {option.wanted}")
    is_whole = option.is_word or option.metadata.get("whole") or not option.is_list
    parts = [text] if is_whole else [part.strip() for part in text.strip("[]").split(",")]
    if not all(parts):
        raise InputError(f"{option.name}={on_one_line(text)!r} has an empty value: {option.wanted}")
    read = option.metadata.get("read") or functools.partial(_single, option)
    several = [read(option.name, part) for part in parts]
    values[option.field] = (*values.get(option.field, ()), *several) if option.is_list else several[0]


def page(options: type, call: str) -> str:
    """The page of `--help` of a command with these options, which is typed like `call`."""
    grammar = Grammar(options, call)
    described, _, below = (options.__doc__ or "").partition("\n\n")
    words = [name if option.default is MISSING else f"[{name}]" for name, option in grammar.words.items()]
    every = {option.written: option for option in (*grammar.words.values(), *grammar.keys.values())}
    keys = {name: option.with_default for name, option in every.items() if not name.startswith("-")}
    switches = {name: option.meaning for name, option in every.items() if name.startswith("-")}
    if issubclass(options, Composed) and not options.groups:
        switches["-m"] = "A sweep: every combination of comma-separated values"
    if grammar.takes_config:
        switches["--config-dir FOLDER"] = "Add your own conf/ files"
    usage = " ".join([call, *words, *["[-m]"] * ("-m" in switches), "[KEY=VALUE ...]"])
    paragraphs = [wrapped(" ".join(text.split())) for text in (described, *below.split("\n\n"))]
    parts = [f"Usage: {usage}", paragraphs[0], listed("Options", keys | switches), *paragraphs[1:]]
    return "\n\n".join(filter(None, parts))


def _single(option: Option, name: str, text: str) -> Any:
    """One text as one value."""
    typed, metadata = f"{name}={on_one_line(text)!r}", option.metadata
    if option.type in (int, float):
        allowed: Range = metadata.get("range", Range())
        try:
            number = option.type(text) if len(text) <= LONGEST_NUMBER else math.inf
        except ValueError:
            number = math.nan
        if allowed.has(number):
            return number
        what = "" if option.type is float else "a whole number of "
        number = allowed.at_least - 1 if what and number != number else number  # not a number
        raise InputError(f"{typed} must be {what}{allowed.expected(number)}")
    if option.type is bool:
        if text.lower() not in ("true", "false"):
            raise InputError(f"{typed} must be true or false")
        return text.lower() == "true"
    if text not in metadata.get("choices", (text,)):
        called = metadata.get("called", name)
        if meant := [one for one in metadata.get("instead", ()) if one.endswith(f"={text}")]:
            raise InputError(f"{text!r} is not a {called}: write {meant[0]}")
        raise unknown(called, text, metadata["choices"], name)
    return option.type(text)
