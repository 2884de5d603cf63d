"""The code of a run by content: the syntax trees of the modules that its worker imports.

Comments, docstrings and layout do not change it, nor do the names and paths of our own modules: a moved module keeps its
hash. An import counts by the content of the module that it imports from.
"""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("harness", "models")
"""Packages whose code is hashed; libraries are identified by their versions."""


@functools.cache
def code_hash(entry: str) -> str:
    """Hash of the module `entry` and of all our modules that it imports, at its top or inside functions."""
    paths = modules(entry)
    plain = {name: _digest(_Stripped().visit(_tree(path))) for name, path in paths.items()}
    linked = sorted(_digest(_Linked(plain).visit(_tree(path))) for path in paths.values())
    return hashlib.sha256("".join(linked).encode()).hexdigest()


def modules(entry: str) -> dict[str, Path]:
    """Name -> file of the module `entry` and of all our modules that it imports, parent packages included.

    Imports for type checkers are left out. ModuleNotFoundError where an import cannot be found.
    """
    found: dict[str, Path] = {}
    pending = [entry]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found[name] = _file(name)
        pending += [parent for parent in _parents(name) if parent not in found]
        pending += [module for statement in _imports(_tree(found[name])) for module in _imported(statement)]
    return found


def _file(name: str) -> Path:
    root = Path(__file__).resolve().parents[2]
    stem = root.joinpath(*name.split("."))
    path = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
    if not path.is_file():
        raise ModuleNotFoundError(f"{name} is imported, but {path} does not exist")
    return path


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif _for_type_checkers(node):
            yield from (one for other in node.orelse for one in _imports(other))
        else:
            yield from _imports(node)


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _imported(statement: ast.Import | ast.ImportFrom) -> list[str]:
    """Our modules that the statement imports."""
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    else:
        names = [_origin(statement.module or "", alias.name) for alias in statement.names]
    return [name for name in names if name.split(".")[0] in PACKAGES]


def _origin(module: str, name: str) -> str:
    """The module that `from module import name` reads: `module.name` where that is one, else `module`."""
    if module.split(".")[0] not in PACKAGES:
        return module
    stem = Path(__file__).resolve().parents[2].joinpath(*module.split("."), name)
    return f"{module}.{name}" if stem.with_suffix(".py").is_file() or (stem / "__init__.py").is_file() else module


def _digest(tree: ast.AST) -> str:
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


class _Stripped(ast.NodeTransformer):
    """Without docstrings, and without imports of our own modules."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if _for_type_checkers(node) else self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        return None if _imported(node) else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if _imported(node) else node


class _Linked(_Stripped):
    """Without docstrings; an import of our own is replaced by the imported names and the hash of their module."""

    def __init__(self, plain: dict[str, str]) -> None:
        self._plain = plain

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if not _imported(node):
            return node
        origins = {alias.name: _origin(node.module or "", alias.name) for alias in node.names}
        names = [f"{'' if origin.endswith(f'.{name}') else name}@{self._plain[origin]}" for name, origin in origins.items()]
        return ast.Expr(ast.Constant(" ".join(sorted(names))))
