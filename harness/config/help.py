"""The pages of `--help`, `--help GROUP` and `--help KEY`, from the comments of the schema and of `conf/`."""

import ast
import functools
import io
import operator
import re
import tokenize
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.config import synonyms
from harness.config.choices import DERIVED
from harness.errors import unknown
from harness.paths import conf_directory
from harness.terminal import wrapped

FILES = (
    *("config/schema.py", "config/choices.py"),
    *("models/config.py", "models/choices.py", "models/objectives/config.py"),
)
ROOT = Path(__file__).parents[1]
PLAIN = {"True": "true", "False": "false", "None": "null", "MISSING": "???", "list": "[]", "dict": "{}"}
"""Python value -> how it is typed on the command line."""


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    type: str  # int, `str or null`, or the names that it may have
    default: str  # as typed on the command line
    comment: str
    heading: str  # the comment above its part of the class, or empty
    choices: tuple[tuple[str, str], ...]  # names that it may have, with their comments
    section: str  # class of the keys below it; empty for a single value


@dataclass(frozen=True)
class Class:
    """A class of the schema in its file."""

    node: ast.ClassDef
    lines: list[str]  # of the file
    comments: dict[int, str]  # line: comment at its end
    headings: dict[int, str]  # line: comment that is alone on it

    @property
    def is_enum(self) -> bool:
        return any(ast.unparse(base) == "Enum" for base in self.node.bases)


@cache
def _classes() -> dict[str, Class]:
    classes = {}
    for name in FILES:
        text = (ROOT / name).read_text()
        comments, headings = {}, {}
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                alone = not token.line[: token.start[1]].strip()
                (headings if alone else comments)[token.start[0]] = token.string.lstrip("# ").strip()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] = Class(node, text.splitlines(), comments, headings)
    return classes


def keys(name: str) -> dict[str, Key]:
    """The keys of a class with those that it inherits, in the order of the dataclass."""
    owner = _classes()[name]
    by_name: dict[str, Key] = {}
    for base in reversed(owner.node.bases):
        by_name |= keys(ast.unparse(base))
    heading_lines = sorted(owner.headings)
    for node in owner.node.body:
        if isinstance(node, ast.AnnAssign):
            above = [line for line in heading_lines if owner.node.lineno < line < node.lineno]
            by_name[node.target.id] = _key_of(node, owner, owner.headings[above[-1]] if above else "")
    return by_name


def documentation(name: str) -> str:
    """First sentence of the docstring of a class."""
    return (ast.get_docstring(_classes()[name].node) or "").splitlines()[0].partition("; read in")[0].rstrip(".")


def _key_of(node: ast.AnnAssign, owner: Class, heading: str) -> Key:
    kind, *rest = (part.strip() for part in ast.unparse(node.annotation).split("|"))
    definition = _classes().get(kind)
    choices = ()
    if definition and definition.is_enum:
        members = [member for member in definition.node.body if isinstance(member, ast.Assign)]
        choices = tuple((ast.literal_eval(one.value), definition.comments.get(one.end_lineno, "")) for one in members)
    text = ", ".join(name for name, _ in choices) or kind
    return Key(
        name=node.target.id,
        type=f"{text} or null" if rest else text,
        default=_default_of(node.value, owner.lines),
        comment=re.sub(r"\bNone\b", "null", owner.comments.get(node.end_lineno, "")),
        heading=heading,
        choices=choices,
        section=kind if definition and not definition.is_enum else "",
    )


def _default_of(value: ast.expr, lines: list[str]) -> str:
    """A default as it is typed on the command line."""
    if isinstance(value, ast.Call) and value.args:  # needs(DEFAULT, ...)
        return _default_of(value.args[0], lines)
    if isinstance(value, ast.Call):  # field(default_factory=...)
        factory = value.keywords[0].value
        return _default_of(factory.body if isinstance(factory, ast.Lambda) else factory, lines)
    if isinstance(value, ast.Attribute):  # a member of an Enum
        return value.attr
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    text = lines[value.lineno - 1].encode()[value.col_offset : value.end_col_offset].decode()  # offsets count bytes
    return PLAIN.get(text, text)


GROUPS = {
    "model": "what is compared, as its difference from BERT",
    "scale": "dimensions, for any model",
    "enhancement": "single changes stacked on any model: enhancement=[swiglu,windowed]",
    "task": "what it is trained and scored on",
    "data": "where a task's rows come from",
    "corpus": "running text for pretraining",
    "tokenizer": "how text becomes ids",
    "pretrain": "what is learned from the corpus before the task, and for how long",
    "recipe": "how pretraining trains: rate, batches, masks, initial values",
    "finetune": "training budget",
    "measure": "what is measured beside training",
    "match": "variants resized to the cost of the baseline, beside those as published: match=none,params",
    "search": "settings that are tuned for each arm, with equal trials: search=none,rate_and_batch",
    "hardware": "device, arithmetic and threads",
    "tracking": "where results are browsed",
    "experiment": "named sweeps: +experiment=NAME",
}

HEAD = "harness: trains and measures variants of BERT-like encoders under equal conditions, and tracks every number in MLflow."
CALL = "  python -m harness"

EXAMPLES = {
    "": "the default model on the built-in tasks",
    " -m model=base,albert,windowed": "a sweep: every combination, three seeds each (seed=0: one)",
    " 'enhancement=[swiglu,windowed]' task=sst2 data=local": "two changes stacked on the default model, on real data",
    " -m model=base,albert pretrain=mlm pretrain.tokens=20e6": "pretrain each on the same text, fine-tune from there",
    " describe model=albert scale=base": "how a variant differs from BERT",
    " report --baseline base": "then read: every arm against one of them",
    " ui": "and browse",
}
"""Words of a command -> what it does."""

TAIL = (
    "Any key can be set: model.attention_window=32 finetune.learning_rate=1e-4 seed=7 study=NAME. `--cfg job` prints them all.",
    "-q (--quiet) shows only problems and where the results are; every line is in sweep.log of the study.",
    "Arms that are compared have three seeds each (seed=0,1,2) where none is named; seed=0 runs one. A single run has seed=0.",
    "A run that is finished already is skipped; rerun=true runs it again. --config-dir FOLDER adds your own conf/ files.",
    "HYDRA_FULL_ERROR=1 or hydra.verbose=true adds the traceback to an error. --version prints the version.",
    'Tab completion, after installation: eval "$(harness -sc install=bash)"',
)


def page(commands: dict[str, str]) -> str:
    """The whole help page, wrapped to the terminal; `commands` is name -> description."""
    marked = {f"   {'*' if name == 'run' else ' '} {name}": text for name, text in commands.items()}
    lines = [wrapped(HEAD), f"\n{CALL} [COMMAND] [-m] [-q] [group=choice ...] [key=value ...]\n"]
    lines += ["Commands (each has a --help)", *(wrapped(text, 21, name) for name, text in marked.items())]
    lines += ["\nExamples", *(f"{CALL}{words}\n{wrapped(text, 8)}" for words, text in EXAMPLES.items())]
    choices = "Groups and choices (* is the default); --help GROUP lists the keys of a group, --help KEY explains one"
    lines += [f"\n{wrapped(choices)}"]
    for group, meaning in GROUPS.items():
        lines += [f"\n{wrapped(f'{group}: {meaning}', 2)}", *choices_of(group)]
    return "\n".join([*lines, "", *map(wrapped, TAIL)])


def choices_of(group: str) -> list[str]:
    """A line for each choice, the default one marked."""
    default, shown = default_choices().get(group, []), []
    for path in _files(group):
        comments = (line[2:] for line in path.read_text().splitlines() if line.startswith("# ") and "@package" not in line)
        mark = f"   {'*' if path.stem in default else ' '} {path.stem}"
        shown.append(wrapped(next(comments, ""), 26, mark) or mark)
    return shown


def default_choices() -> dict[str, list[str]]:
    """Group -> default choices, of most groups one: `model: base`, `enhancement: []`, `tracking: [mlflow]`."""
    lines = (conf_directory() / "config.yaml").read_text().splitlines()
    pairs = (line.strip("- ").split(": ", 1) for line in lines if line.startswith("  - ") and ": " in line)
    return {group: re.findall(r"[\w-]+", choices) for group, choices in pairs}


PACKAGE = re.compile(r"^# @package (\w+)", re.MULTILINE)
TOP = "RunConfig"

TYPED = {"pretrain.from": "pretrain.checkpoint"}
"""Key as it is typed -> key of the schema."""


def page_of(topic: str) -> str:
    """The help of a group or a key, also with a value; InputError with the nearest name for anything else."""
    topic, _, choice = topic.lstrip("+~").partition("=")
    if topic in GROUPS and choice and choice not in (choices := [path.stem for path in _files(topic)]):
        raise unknown(topic, choice, choices, topic, synonyms.choices(topic, choice, choices))
    names = TYPED.get(topic, topic).split(".")
    section, key = TOP, None
    for place, name in enumerate(names):
        section_keys = _keys(section, ".".join(names[:place])) if section else {}
        if name not in section_keys and not (place == 0 and topic in GROUPS):
            from harness.config.mistakes import unknown_key  # here: the whole schema takes 0.2 s

            raise unknown_key(topic)
        key = section_keys.get(name)
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
    head = f"Keys, with their defaults: {documentation(section)}"
    shown = [f"{name}.{key.name}" + ("" if key.section else f"={key.default}") for key in keys.values()]
    width, type_width = max(map(len, shown)), max((len(key.type) for key in keys.values() if not key.choices), default=0)
    lines, heading = [head], ""
    for key, text in zip(keys.values(), shown, strict=True):
        if key.heading != heading:
            heading = key.heading
            lines.append(f"\n  {heading}" if heading else "")
        kind = f"--help {name}.{key.name}" if key.section else key.type
        lines.append(wrapped(f"{kind:<{type_width}}  {key.comment}", width + 4, f"  {text}"))
    return "\n".join(lines)


def _key(name: str, key: Key) -> str:
    lines = [f"{name}={key.default}", wrapped(key.type, 2), *([wrapped(key.comment, 2)] if key.comment else [])]
    if any(comment for _, comment in key.choices):
        width = max(len(choice) for choice, _ in key.choices) + 6
        lines += ["", *(wrapped(comment, width, f"    {choice}") or f"    {choice}" for choice, comment in key.choices)]
    return "\n".join(lines)


def _keys(section: str, name: str) -> dict[str, Key]:
    """The keys of a section with the values that the default choices give them."""
    values = ({"learning_rate": None} if name == "finetune" else {}) | _set_by_default(name)  # the start decides it
    section_keys = keys(section).values()
    listed = (key for key in section_keys if name or key.name not in DERIVED)
    return {key.name: replace(key, default=_typed(values[key.name])) if key.name in values else key for key in listed}


def _set_by_default(section: str) -> dict[str, Any]:
    """Values that the files of the default choices give to the keys of a section, which may be within another one."""
    outer, _, inner = section.partition(".")
    if inner:
        return _set_by_default(outer).get(inner, {})
    import yaml  # here: takes 50 ms, and the first page of the help does not need it

    values: dict[str, Any] = {}
    defaults = ((group, choice) for group, choices in default_choices().items() for choice in choices)
    for group, choice in defaults:
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
