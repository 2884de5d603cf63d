"""The code of a run by content: what the modules that its worker imports compile to.

Comments, docstrings and layout do not count, nor do the names and places of our own modules: what is moved keeps its hash.
What a module imports counts by the content of the module that it comes from.
"""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

PACKAGES = ("harness", "models")
"""Whose code counts; libraries count by their versions."""

ROOT = Path(__file__).resolve().parents[2]

Import = ast.Import | ast.ImportFrom


@functools.cache
def code_hash(entry: str) -> str:
    """Hash of the module `entry` and of all modules of ours that it imports, at its top or inside of functions."""
    linked = sorted(_linked(path) for path in modules(entry).values())
    return hashlib.sha256("".join(linked).encode()).hexdigest()


def modules(entry: str) -> dict[str, Path]:
    """Name -> file of the module `entry` and of all modules of ours that it imports, packages above them included.

    Imports for type checkers alone do not count. ModuleNotFoundError where an import cannot be found.
    """
    found: dict[str, Path] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _file(name)
        waiting += [above for above in _above(name) if above not in found]
        waiting += [origin for statement in _stripped(found[name])[0] for _, origin in _imported(statement)]
    return found


def _file(name: str) -> Path:
    place = ROOT.joinpath(*name.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not path.is_file():
        raise ModuleNotFoundError(f"{name} is imported, but {path} does not exist")
    return path


def _above(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


@functools.cache
def _stripped(path: Path) -> tuple[list[Import], str]:
    """Imports of our own modules in this file, and the hash of all its other code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports: list[Import] = []
    _cut_imports(tree, imports)
    return imports, hashlib.sha256(repr(_plain(compile(tree, "", "exec", optimize=2))).encode()).hexdigest()


@functools.cache
def _linked(path: Path) -> str:
    """The hash of a file's own code, with what it imports by the code of the file that it comes from."""
    imports, own = _stripped(path)
    names = [(name, _stripped(_file(origin))[1]) for statement in imports for name, origin in _imported(statement)]
    return hashlib.sha256(repr([own, sorted(names)]).encode()).hexdigest()


def _cut_imports(node: ast.AST, imports: list[Import]) -> None:
    """Collects the imports of our own modules and removes them, with docstrings and what is for type checkers alone."""
    for statements in _blocks(node):
        own = [one for one in statements if isinstance(one, Import) and _imported(one)]
        imports += own
        kept = [one for one in statements if one not in own and not _is_text(one) and not _for_type_checkers(one)]
        statements[:] = kept or [ast.copy_location(ast.Pass(), statements[0])] if statements else []
        for one in statements:
            _cut_imports(one, imports)


def _is_text(statement: ast.stmt) -> bool:
    constant = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly below a node."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _imported(statement: Import) -> list[tuple[str, str]]:
    """(name, module of ours that it comes from) of all that the statement imports; a module itself has no name."""
    if isinstance(statement, ast.Import):
        return [("", alias.name) for alias in statement.names if alias.name.split(".")[0] in PACKAGES]
    module = statement.module or ""
    if module.split(".")[0] not in PACKAGES:
        return []
    return [
        ("", f"{module}.{alias.name}") if _is_module(module, alias.name) else (alias.name, module) for alias in statement.names
    ]


def _is_module(package: str, name: str) -> bool:
    place = ROOT.joinpath(*package.split("."), name)
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def _plain(code: CodeType) -> tuple:
    """All of a compiled block that decides what it does; places in the file and docstrings are not part of it."""
    constants = [_constant(one) for one in code.co_consts]
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, constants, names, arguments, code.co_exceptiontable


def _constant(value: object) -> object:
    """A set is in another order in every process."""
    if isinstance(value, CodeType):
        return _plain(value)
    return ("set", sorted(map(repr, value))) if isinstance(value, frozenset) else value
