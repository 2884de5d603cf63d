"""The schema from its source files: keys with types, defaults and comments, without importing them."""

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILES = (
    *("harness/config/schema.py", "harness/config/choices.py", "harness/config/execution.py"),
    *("harness/config/match.py", "harness/config/search.py", "harness/config/texts.py"),
    *("models/config.py", "models/choices.py", "models/objectives/config.py"),
)
ROOT = Path(__file__).resolve().parents[2]
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
    found = {}
    for name in FILES:
        text = (ROOT / name).read_text()
        comments, headings = {}, {}
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                alone = not token.line[: token.start[1]].strip()
                (headings if alone else comments)[token.start[0]] = token.string.lstrip("# ").strip()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = Class(node, text.splitlines(), comments, headings)
    return found


def keys(name: str) -> dict[str, Key]:
    """The keys of a class with those that it inherits, in the order of the dataclass."""
    owner = _classes()[name]
    found: dict[str, Key] = {}
    for base in reversed(owner.node.bases):
        found |= keys(ast.unparse(base))
    heading_lines = sorted(owner.headings)
    for node in owner.node.body:
        if isinstance(node, ast.AnnAssign):
            above = [line for line in heading_lines if owner.node.lineno < line < node.lineno]
            found[node.target.id] = _key(node, owner, owner.headings[above[-1]] if above else "")
    return found


def documentation(name: str) -> str:
    """First sentence of the docstring of a class."""
    return (ast.get_docstring(_classes()[name].node) or "").splitlines()[0].partition("; read in")[0].rstrip(".")


def _key(node: ast.AnnAssign, owner: Class, heading: str) -> Key:
    kind, *rest = (part.strip() for part in ast.unparse(node.annotation).split("|"))
    known = _classes().get(kind)
    choices = _choices(known) if known and known.is_enum else ()
    shown = ", ".join(name for name, _ in choices) or kind
    return Key(
        name=node.target.id,
        type=f"{shown} or null" if rest else shown,
        default=_typed(node.value, owner.lines),
        comment=re.sub(r"\bNone\b", "null", owner.comments.get(node.end_lineno, "")),
        heading=heading,
        choices=choices,
        section=kind if known and not known.is_enum else "",
    )


def _choices(enum: Class) -> tuple[tuple[str, str], ...]:
    members = (node for node in enum.node.body if isinstance(node, ast.Assign))
    return tuple((ast.literal_eval(node.value), enum.comments.get(node.end_lineno, "")) for node in members)


def _typed(value: ast.expr, lines: list[str]) -> str:
    """A default as it is typed on the command line."""
    if isinstance(value, ast.Call) and value.args:  # needs(DEFAULT, ...)
        return _typed(value.args[0], lines)
    if isinstance(value, ast.Call):  # field(default_factory=...)
        factory = value.keywords[0].value
        return _typed(factory.body if isinstance(factory, ast.Lambda) else factory, lines)
    if isinstance(value, ast.Attribute):  # a member of an Enum
        return value.attr
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    text = lines[value.lineno - 1].encode()[value.col_offset : value.end_col_offset].decode()  # offsets count bytes
    return PLAIN.get(text, text)
