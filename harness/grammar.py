"""The grammar of all commands: words such as RUN, options as `key=VALUE` or `--key VALUE`, and switches such as `--yes`.

A command states its options as a dataclass: each field has a type, a default and a meaning. `parse` reads a command line into
it, and prints the page of `--help` from it.
"""

import difflib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from harness.errors import InputError, on_one_line, unknown
from harness.models.ranges import Range
from harness.terminal import wrapped

OLD = {"out": "to", "uri": "tracking.uri", "runs": "output"}
"""Keys of earlier versions, which go on working -> their names."""

HELP, CONFIG_DIR, SWEEP = ("-h", "--help"), ("--config-dir", "-cd"), ("-m", "--multirun")

LONGEST_NUMBER = 400
"""Characters of a number; Python reads no longer ones."""

Options = TypeVar("Options")


def key(default: Any = MISSING, meaning: str = "", **metadata: Any) -> Any:
    """A field that is a key; without a default it is required. One of type bool is a switch: `--yes` is `yes=true`.

    `name`: the key, if not that of the field; `range` of a number; `choices` of a text; `read`: from key and text to the value;
    `whole`: a value of a tuple may have commas, and several are written one by one.
    """
    return field(default=default, metadata={"kind": "key", "meaning": meaning, **metadata})


def word(name: str, default: Any = MISSING, meaning: str = "", **metadata: Any) -> Any:
    """A field that is written without a key, as RUN in `export RUN`; of a tuple all such words."""
    return key(default, meaning, kind="word", name=name, **metadata)


@dataclass(frozen=True, kw_only=True)
class Composed:
    """A command about runs that Hydra composes: what is no option of its own chooses and changes them."""

    config_dir: str | None = key(None, "adds your own conf/ files", kind="hydra")
    choices: tuple[str, ...] = key((), kind="hydra")

    groups: ClassVar[tuple[str, ...]] = ()
    """Groups and keys of a run that may be set; none: all of them."""

    reads_as_runs: ClassVar[bool] = True
    """Whether it reads the keys that a run would read, and no others, such as the corpus without a pretraining."""

    replicates: ClassVar[bool] = False
    """Whether arms that are compared have several seeds where none is named, as they have when they are run."""

    def __post_init__(self) -> None:
        """InputError for a choice without effect. What it writes by default is in the folder of the runs that is set."""
        outputs = [choice.partition("=")[2] for choice in self.choices if choice.startswith("output=")]
        to = next((option.default for option in fields(self) if option.name == "to"), None)
        if outputs and isinstance(to, Path) and vars(self)["to"] == to:
            object.__setattr__(self, "to", Path(outputs[-1], *to.parts[1:]))
        for choice in self.choices:
            if self.groups and not choice.startswith("-") and group_of(choice) not in self.groups:
                raise unknown("key", group_of(choice), (*Grammar(type(self)).keys, *self.groups), "the command line")

    def overrides(self) -> list[str]:
        """What Hydra gets: one task, as the default is a set, for which it would compose the same model again and again.

        InputError for a choice without effect.
        """
        for choice in self.choices:
            if group_of(choice) == "match":
                raise InputError(f"{choice} has no effect here: expected it with a run, plan or profile")
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
        """What Hydra gets of the command line as it is."""
        return [*([f"--config-dir={self.config_dir}"] if self.config_dir else []), *self.choices]

    def refuse_misspelt(self, of_runs: set[str]) -> None:
        """InputError for a key whose nearest is one of the command's own; `of_runs` are the groups and keys of a run."""
        own = Grammar(type(self)).keys
        for choice in self.choices:
            near = difflib.get_close_matches(group_of(choice), [*own, *of_runs], n=1)
            if not choice.startswith(("-", "+", "~")) and group_of(choice) not in of_runs and near and near[0] in own:
                raise unknown("key", group_of(choice), {*own, *of_runs}, "the command line", near)

    def begin(self) -> None:
        """Starts what takes seconds beside the composition."""


def group_of(choice: str) -> str:
    """`model` of `model=albert`, `+model.hidden_size=8` and the like."""
    return re.split(r"[.=@/]", choice.lstrip("+~"))[0]


def parse(words: Sequence[str], options: type[Options], call: str) -> Options:
    """The words of a command line as its options; InputError for a word or a value that cannot be used.

    `call` is how the command is typed.
    """
    return options(**Grammar(options, call).values(words))


class Grammar:
    """Keys and words of one command by name, from the fields of its options."""

    def __init__(self, options: type, call: str = "") -> None:
        self._options, self._call, self._composed = options, call, issubclass(options, Composed)
        self._types = typing.get_type_hints(options)
        self.keys: dict[str, Field[Any]] = {}
        self.words: dict[str, Field[Any]] = {}
        inherited = {name for base in options.__mro__[1:] for name in getattr(base, "__dataclass_fields__", ())}
        for option in sorted(fields(options), key=lambda option: option.name in inherited):  # its own are listed first
            of_kind = {"key": self.keys, "word": self.words}.get(option.metadata["kind"])
            if of_kind is not None:
                of_kind[option.metadata.get("name", option.name)] = option
        self._named = {old: new for old, new in OLD.items() if new in self.keys} | {name: name for name in self.keys}
        self._named |= {option.name: name for name, option in self.words.items()}
        self.takes_config = "config_dir" in self._types

    def values(self, words: Sequence[str]) -> dict[str, Any]:
        """Name of a field -> its value; InputError for a word that cannot be read, and for a key that is missing."""
        values: dict[str, Any] = {}
        choices: list[str] = []
        remaining = iter(words)
        for text in remaining:
            typed, equals, value = text.partition("=")
            is_option = typed.startswith("--")
            plain = typed.removeprefix("--").replace("-", "_") if is_option else typed
            name = self._named.get(plain, "") if equals or is_option else ""
            if self.takes_config and typed in CONFIG_DIR:
                values["config_dir"] = value if equals else next(remaining, "")
                if not values["config_dir"]:
                    raise InputError(f"{typed} needs a value, such as {typed} FOLDER")
            elif name and not equals and self._is_switch(name):
                values[self.keys[name].name] = True
            elif name:
                following = value if equals else next(remaining, None)
                if following is None:
                    raise InputError(f"{typed} needs a value: expected {self._option(name).metadata['meaning']}")
                self._add(values, name, following)
            elif self._composed and text in SWEEP:
                choices.append(text)
            elif text.startswith("-"):
                raise self._unknown_option(text)
            elif self._is_word(text):
                free = (each for each in self.words if self._is_list(each) or self.words[each].name not in values)
                if (name := next(free, "")) == "":
                    raise InputError(f"{on_one_line(text)!r} is a word too many: expected {' '.join(self.words)} and KEY=VALUE")
                self._add(values, name, text)
            elif self._composed:
                choices.append(text)
            else:
                raise unknown("key", on_one_line(typed), self.keys, self._call)
        for name, option in (self.words | self.keys).items():
            if option.default is MISSING and option.name not in values:
                raise InputError(f"{self.written(name)} is missing: expected {option.metadata['meaning']}")
        return values | ({"choices": tuple(choices)} if self._composed else {})

    def _option(self, name: str) -> Field[Any]:
        return self.keys.get(name) or self.words[name]

    def _type(self, name: str) -> Any:
        """The type of a value, without None."""
        hint = self._types[self._option(name).name]
        return typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint

    def _is_switch(self, name: str) -> bool:
        return self._type(name) is bool

    def _is_list(self, name: str) -> bool:
        return typing.get_origin(self._type(name)) is tuple

    def written(self, name: str) -> str:
        """`to=`, but `RUN` and `--dry-run`."""
        if name in self.words:
            return name
        return "--" + name.replace("_", "-") if self._is_switch(name) else f"{name}="

    def _is_word(self, text: str) -> bool:
        """Whether the text is RUN, STUDY or the like, whose name may have an equals sign."""
        name, equals, _ = text.partition("=")
        if not self.words or text.startswith(("+", "~")):
            return False
        return not equals or Path(text).exists() or not (self._composed or difflib.get_close_matches(name, self.keys))

    def _unknown_option(self, text: str) -> InputError:
        written = ["--" + name.replace("_", "-") for name in self.keys]
        hydra = [*(SWEEP if self._composed else ()), *(CONFIG_DIR[:1] if self.takes_config else ())]
        return unknown("option", on_one_line(text.partition("=")[0]), [*written, *hydra, HELP[1]], self._call)

    def _add(self, values: dict[str, Any], name: str, text: str) -> None:
        """Sets the value of the option, or adds one to a list; InputError for a text that it cannot be."""
        option, kind = self._option(name), self._type(name)
        meaning = option.metadata["meaning"]
        if not text:
            raise InputError(f"{self.written(name)} is empty: expected {meaning}")
        if read := option.metadata.get("read"):
            values[option.name] = read(name, text)
        elif not self._is_list(name):
            values[option.name] = _single(name, text, kind, option.metadata)
        else:
            is_whole = name in self.words or option.metadata.get("whole")
            parts = [text] if is_whole else [part.strip() for part in text.strip("[]").split(",")]
            if not all(parts):
                raise InputError(f"{name}={on_one_line(text)!r} has an empty value: expected {meaning}")
            kind = typing.get_args(kind)[0]
            values[option.name] = (
                *values.get(option.name, ()),
                *(_single(name, part, kind, option.metadata) for part in parts),
            )


def page(options: type, call: str) -> str:
    """The page of `--help` of a command with these options, which is typed like `call`."""
    grammar = Grammar(options, call)
    described, _, below = (options.__doc__ or "").partition("\n\n")
    words = [name if option.default is MISSING else f"[{name}]" for name, option in grammar.words.items()]
    every = {grammar.written(name): option for name, option in (grammar.words | grammar.keys).items()}
    keys = {name: _meaning(option) for name, option in every.items() if not name.startswith("-")}
    switches = {name: option.metadata["meaning"] for name, option in every.items() if name.startswith("-")}
    if issubclass(options, Composed) and not options.groups:
        switches["-m"] = "a sweep: every combination of values with commas between them"
    if grammar.takes_config:
        switches["--config-dir DIR"] = "adds your own conf/ files"
    usage = " ".join([call, *words, "[KEY=VALUE ...]"])
    paragraphs = [wrapped(" ".join(text.split())) for text in (described, *below.split("\n\n"))]
    parts = [f"usage: {usage}", paragraphs[0], listed("keys", keys), listed("switches", switches), *paragraphs[1:]]
    return "\n\n".join(filter(None, parts))


def _single(name: str, text: str, kind: type, metadata: Mapping[str, Any]) -> Any:
    """One text as one value."""
    typed = f"{name}={on_one_line(text)!r}"
    if kind in (int, float):
        allowed: Range = metadata.get("range", Range())
        try:
            number = kind(text) if len(text) <= LONGEST_NUMBER else float("inf")
        except ValueError:
            number = float("nan")
        if allowed.has(number):
            return number
        if kind is float:
            raise InputError(f"{typed} must be {allowed.expected(number)}")
        bound = allowed.expected(allowed.at_least - 1 if number != number else number)  # not a number
        raise InputError(f"{typed} must be a whole number of {bound}")
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InputError(f"{typed} must be true or false")
        return text.lower() == "true"
    if text not in metadata.get("choices", (text,)):
        raise unknown(metadata.get("called", name), text, metadata["choices"], metadata.get("name", name))
    return kind(text)


def _meaning(option: Field[Any]) -> str:
    """The meaning with the default, where it has one."""
    default, meaning = option.default, str(option.metadata["meaning"])
    if default is MISSING or default is None or default == ():
        return meaning
    if isinstance(default, tuple):
        return f"{meaning} ({','.join(map(str, default))})"
    return f"{meaning} ({f'{default:g}' if isinstance(default, float) else default})"


def listed(title: str, lines: Mapping[str, str]) -> str:
    """Names and their meanings, wrapped to the terminal, below a title; empty without any."""
    width = max(map(len, lines), default=0) + 4
    return "\n".join([f"{title}:", *(wrapped(meaning, width, f"  {name}") for name, meaning in lines.items())]) if lines else ""
