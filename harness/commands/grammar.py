"""The grammar of all commands: words such as RUN, `key=value` as Hydra has it, and switches such as `--yes`.

A command states its keys as a dataclass: each field has a type, a default and a meaning. `parse` reads a command line into it,
and prints the page of `--help` from it.
"""

import difflib
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from harness.errors import InputError, on_one_line, unknown
from harness.models.ranges import Range
from harness.terminal import wrapped

OLD = {"out": "to", "uri": "tracking.uri", "runs": "output", "run": "RUN"}
"""Keys of earlier versions -> what is written now. Any other option of then, `--key VALUE`, is now `key=VALUE`."""

HELP, CONFIG_DIR, SWEEP = ("-h", "--help"), ("--config-dir", "-cd"), ("-m", "--multirun")

LONGEST_NUMBER = 400
"""Characters of a number; Python reads no longer ones."""

Options = TypeVar("Options")


def key(default: Any = MISSING, meaning: str = "", **metadata: Any) -> Any:
    """A field that is a key; without a default it is required.

    `name`: the key, if not that of the field; `range` of a number; `choices` of a text; `read`: from key and text to the value.
    """
    return field(default=default, metadata={"kind": "key", "meaning": meaning, **metadata})


def word(name: str, default: Any = MISSING, meaning: str = "", **metadata: Any) -> Any:
    """A field that is written without a key, as RUN in `export RUN`; of a tuple all such words."""
    return key(default, meaning, kind="word", name=name, **metadata)


def switch(meaning: str) -> Any:
    """A field that is true where its switch is written, `--with-wnli` for `with_wnli`."""
    return key(False, meaning, kind="switch")


@dataclass(frozen=True, kw_only=True)
class Composed:
    """A command about runs that Hydra composes: what is no key of its own chooses and changes them."""

    config_dir: str | None = key(None, kind="hydra")
    choices: tuple[str, ...] = key((), kind="hydra")

    groups: ClassVar[tuple[str, ...]] = ()
    """Groups and keys of a run that may be set; none: all of them."""

    reads_as_runs: ClassVar[bool] = True
    """Whether it reads the keys that a run would read, and no others, such as the corpus without a pretraining."""

    replicates: ClassVar[bool] = False
    """Whether arms that are compared have several seeds where none is named, as they have when they are run."""

    def __post_init__(self) -> None:
        """InputError for a choice without effect. What it writes by default is in the folder of the runs that is set."""
        outputs = [one.partition("=")[2] for one in self.choices if one.startswith("output=")]
        for option in fields(self):
            if outputs and option.name == "to" and isinstance(self.to, Path) and self.to == option.default:
                object.__setattr__(self, "to", Path(outputs[-1], *self.to.parts[1:]))
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


def parse(words: list[str], options: type[Options], command: str) -> Options:
    """The words of a command line as its options; InputError for a word or a value that cannot be used.

    Where they ask for help, prints its page and raises SystemExit.
    """
    grammar = Grammar(options, command)
    if not set(HELP).isdisjoint(words):
        print(grammar.page())
        raise SystemExit(0)
    return options(**grammar.values(words))


class Grammar:
    """Keys, words and switches of one command, from the fields of its options."""

    def __init__(self, options: type, command: str = "") -> None:
        self.call, self.composed = f"python -m harness {command}", issubclass(options, Composed)
        self.keys: dict[str, Field] = {}
        self.words: dict[str, Field] = {}
        self.switches: dict[str, Field] = {}
        for option in fields(options):
            name, kind = option.metadata.get("name", option.name), option.metadata.get("kind", "key")
            if kind == "switch":
                self.switches["--" + name.replace("_", "-")] = option
            elif kind != "hydra":
                {"key": self.keys, "word": self.words}[kind][name] = option
        self._options, self._takes_config = options, "config_dir" in options.__dataclass_fields__

    def values(self, words: list[str]) -> dict[str, Any]:
        """Name of a field -> its value; InputError for a word that cannot be read, and for a key that is missing."""
        values: dict[str, Any] = {}
        choices: list[str] = []
        before, remaining = "", iter(words)
        for text in remaining:
            name, equals, value = text.partition("=")
            if text in self.switches:
                values[self.switches[text].name] = True
            elif self._takes_config and name in CONFIG_DIR:
                values["config_dir"] = value if equals else next(remaining, "")
                if not values["config_dir"]:
                    raise InputError(f"{name} needs a value, such as {name} FOLDER")
            elif equals and name in self.keys:
                values[self.keys[name].name] = self._value(name, value, self.keys[name])
            elif self.composed and text in SWEEP:
                choices.append(text)
            elif text.startswith("-") or (equals and OLD.get(name) in (*self.keys, *self.words, *self._of_runs())):
                raise self._wrong(text)
            elif before in self.switches and not equals:
                raise self._switch_with(before)
            elif self._is_word(text):
                self._add_word(values, text)
            elif self.composed:
                choices.append(text)
            else:
                raise unknown("key", on_one_line(name), self.keys, self.call)
            before = text
        for name, option in (self.words | self.keys).items():
            if option.default is MISSING and option.name not in values:
                runs = name == "to" and any(text.startswith("output=") for text in words)
                hint = "; output= is the folder of the runs" if runs else ""
                raise InputError(f"{self._written(name)} is missing: expected {option.metadata['meaning']}{hint}")
        return values | ({"choices": tuple(choices)} if self.composed else {})

    def _written(self, name: str) -> str:
        """`to=`, but `RUN`."""
        return name if name in self.words else f"{name}="

    def _of_runs(self) -> tuple[str, ...]:
        """Keys of a run that a command may have had as options of its own."""
        return ("output", "tracking.uri") if self.composed else ()

    def _is_word(self, text: str) -> bool:
        """Whether the text is RUN, STUDY or the like, whose name may have an equals sign."""
        name, equals, _ = text.partition("=")
        if not self.words or text.startswith(("+", "~")):
            return False
        return not equals or Path(text).exists() or not (self.composed or difflib.get_close_matches(name, self.keys))

    def _add_word(self, values: dict[str, Any], text: str) -> None:
        """Gives the word to the first field that has none, or to one that takes all."""
        for name, option in self.words.items():
            value = self._value(name, text, option)
            if isinstance(value, tuple):
                values[option.name] = (*values.get(option.name, ()), *value)
                return
            if option.name not in values:
                values[option.name] = value
                return
        raise InputError(f"{on_one_line(text)!r} is a word too many: expected {' '.join(self.words)} and KEY=VALUE")

    def _wrong(self, text: str) -> InputError:
        """The new spelling of what an earlier version had, or the nearest option."""
        option = on_one_line(text.partition("=")[0])
        name = option.lstrip("-").replace("-", "_")
        new = name if name in self.keys else OLD.get(name, name)
        if name == "output" and not self.composed and name not in self.keys:
            new = "to"
        if option in self.switches:
            return self._switch_with(option)
        if new in (*self.keys, *self._of_runs()):
            return InputError(f"{option} is now written {new}=VALUE")
        if new in self.words:
            return InputError(f"{option} is now written without a key: {self.call} {new}")
        hydra = [*(SWEEP if self.composed else ()), *(CONFIG_DIR[:1] if self._takes_config else ())]
        return unknown("option", on_one_line(text), [*self.switches, *hydra, HELP[1]], self.call)

    def _switch_with(self, option: str) -> InputError:
        """The error for a switch with a value, which some had earlier."""
        to = f": expected {option} to=FOLDER" if "to" in self.keys else ""
        return InputError(f"{option} takes no value{to}")

    def _value(self, name: str, text: str, option: Field) -> Any:
        """The text as a value of the field; InputError for one that it cannot be."""
        hint = typing.get_type_hints(self._options)[option.name]
        if isinstance(hint, types.UnionType):  # with None
            hint = typing.get_args(hint)[0]
        if not text:
            raise InputError(f"{self._written(name)} is empty: expected {option.metadata['meaning']}")
        if read := option.metadata.get("read"):
            return read(name, text)
        if typing.get_origin(hint) is not tuple:
            return _single(name, text, hint, option.metadata)
        kind = typing.get_args(hint)[0]
        parts = [text] if name in self.words else [part.strip() for part in text.strip("[]").split(",")]
        if not all(parts):
            raise InputError(f"{name}={on_one_line(text)!r} has an empty value: expected {option.metadata['meaning']}")
        return tuple(_single(name, part, kind, option.metadata) for part in parts)

    def page(self) -> str:
        """The page of `--help`."""
        described, _, below = (self._options.__doc__ or "").partition("\n\n")
        words = [name if option.default is MISSING else f"[{name}]" for name, option in self.words.items()]
        keys = {self._written(name): _meaning(option) for name, option in (self.words | self.keys).items()}
        switches = {name: option.metadata["meaning"] for name, option in self.switches.items()}
        if self.composed and not self._options.groups:
            switches["-m"] = "a sweep: every combination of values with commas between them"
        if self._takes_config:
            switches["--config-dir DIR"] = "adds your own conf/ files"
        usage = " ".join([self.call, *words, *(["[KEY=VALUE ...]"] if self.keys or self.composed else [])])
        paragraphs = [wrapped(" ".join(text.split())) for text in (described, *below.split("\n\n"))]
        parts = [f"usage: {usage}", paragraphs[0], _listed("keys", keys), _listed("switches", switches), *paragraphs[1:]]
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


def _meaning(option: Field) -> str:
    """The meaning with the default, where it has one."""
    default, meaning = option.default, option.metadata["meaning"]
    if default in (MISSING, None, ()):
        return meaning
    if isinstance(default, tuple):
        return f"{meaning} ({','.join(map(str, default))})"
    text = f"{default:g}" if isinstance(default, float) else str(default).lower() if isinstance(default, bool) else default
    return f"{meaning} ({text})"


def _listed(title: str, lines: dict[str, str]) -> str:
    width = max(map(len, lines), default=0) + 4
    return "\n".join([f"{title}:", *(wrapped(meaning, width, f"  {name}") for name, meaning in lines.items())]) if lines else ""
