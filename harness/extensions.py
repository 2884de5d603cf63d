"""What other packages add to this one, and what its own plug-ins add: entry points, by group.

| group | an entry point is |
|:--|:--|
| `harness.commands` | a `harness.commands.Command`; its name is that of the command |
| `harness.chapters` | a `harness.reports.chapters.Added` |
| `harness.formats` | a `harness.reports.render.Format`; its name is one for --format |
| `harness.searches` | a class of `harness.study.supervisor.Searches`: its name is `search` |
| `harness.shapes` | a `harness.study.plan.Resizing`: its name is `match` |
| `harness.stores` | a `harness.reports.reading.store.Folders`: folders to read in place of a tracking store |
| `harness.readers` | a class of `harness.reports.reading.store.Reader`: `mlflow` reads all stores but SQLite files |
| `harness.functions` | a function that `import reports` has by its name, such as `judge` |
| `harness.results` | a `harness.plugins.judge.results.Results`: results of another tool, for `reports judge` |
| `harness.trackers` | a class of `harness.tracking.trackers.Backend`, by tracking.plugins=[NAME]; ours by tracking.NAME=true |
| `harness.encoders` | a `torch.nn.Module`: `encoder.NAME` for model.encoder=NAME, also `attention.`, `objective.` and others |
| `harness.tasks` | a class of `harness.tasks.base.Kind`, chosen by task.plugin=NAME with the task.kind that it resembles |

A checkout that is not installed has the entry points of its own `pyproject.toml`.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from harness.errors import InputError, refused_errors, unknown

PACKAGE = "encoder-variant-harness"
ROOT = Path(__file__).resolve().parents[1]

Added = TypeVar("Added")


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    """Without the working directory, which `python -m` searches first: files there are not installed."""
    first = sys.path[:1]
    with contextlib.suppress(FileNotFoundError):  # a working directory that was removed has no files
        if first == [""] or (first == [str(Path.cwd())] and not sys.flags.safe_path):
            del sys.path[0]
    try:
        yield
    finally:
        if sys.path[:1] != first:
            sys.path[:0] = first


@cache
def _points(group: str) -> tuple[EntryPoint, ...]:
    """By name."""
    own = _of_checkout()
    with _installed():
        every = importlib.metadata.entry_points(group=group)
    installed = [point for point in every if own is None or package_of(point) != PACKAGE]
    of_checkout = [EntryPoint(name, value, group) for name, value in (own or {}).get(group, {}).items()]
    return tuple(sorted([*of_checkout, *installed], key=lambda point: point.name))


def names(group: str) -> set[str]:
    """The declared names, without importing anything."""
    return {point.name for point in _points(group)}


def declared(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point, by name; InputError for a name that two packages declare."""
    points: dict[str, EntryPoint] = {}
    for point in _points(group):
        if point.name in points and points[point.name].value != point.value:
            packages = " and ".join(map(package_of, (points[point.name], point)))
            raise InputError(f"{group}: {packages} both add {point.name!r}: uninstall one of them")
        points[point.name] = point
    return points


@cache
def _of_checkout() -> dict[str, dict[str, str]] | None:
    """Group -> name -> `module:object` of this checkout; None where the package is installed from a wheel."""
    file = ROOT / "pyproject.toml"
    project = tomllib.loads(file.read_text("utf-8")).get("project", {}) if file.is_file() else {}
    return project.get("entry-points", {}) if project.get("name") == PACKAGE else None


def package_of(point: EntryPoint) -> str:
    """The package that declares the entry point."""
    return point.dist.name if point.dist else PACKAGE


def find(group: str, name: str, kind: type[Added], key: str) -> Added:
    """What the entry point of this name is; InputError for a name that no package adds, which `key` should have."""
    points = declared(group)
    if name not in points:
        raise unknown("name", name, points, key)
    return load(points[name], kind)


def load(point: EntryPoint, kind: type[Added], where: str = "") -> Added:
    """What the entry point names; InputError, which begins with `where`, if it cannot be imported, or is of another kind."""
    where = where or f"{point.group}: {point.name} = {point.value} (package {package_of(point)})"
    with (
        refused_errors(f"{where} cannot be imported", f": expected a {kind.__name__}; fix or uninstall the package"),
        _installed(),
    ):
        loaded = point.load()
    if not isinstance(loaded, kind):
        raise InputError(f"{where} is of type {type(loaded).__name__}: expected a {kind.__name__}")
    return loaded


ALLOWED = "HARNESS_ALLOW_CODE"
"""Environment variable with what may be imported because a command names it, separated by commas."""

OPTION = "--allow-code"


def allow(names: Iterable[str]) -> None:
    """Lets this process and those that it starts import `MODULE:CLASS` or a package of these names."""
    os.environ[ALLOWED] = ",".join(dict.fromkeys([*filter(None, os.environ.get(ALLOWED, "").split(",")), *names]))


def without_allowed(arguments: list[str]) -> list[str]:
    """The arguments without each `--allow-code PACKAGE`, which is allowed; InputError for one without a package."""
    rest, others = [], iter(arguments)
    for argument in others:
        name, equals, package = argument.partition("=")
        if name != OPTION:
            rest.append(argument)
            continue
        package = package if equals else next(others, "")
        if not package:
            raise InputError(f"{OPTION} needs the name of an installed package")
        allow([package])
    return rest


def code_of(name: str, key: str) -> Any:
    """What `MODULE:CLASS` of an installed package is.

    A command that types the name, or that has --allow-code with its package, says that its code may run: a file does not.
    InputError for another name, for a module of no installed package, and for one that cannot be imported.
    """
    module, _, attribute = name.partition(":")
    with _installed():
        packages = importlib.metadata.packages_distributions().get(module.partition(".")[0], [])
    if not packages or not module.replace(".", "").isidentifier() or not attribute.isidentifier():
        raise InputError(
            f"{key}={name}: no installed package has the module {module!r}: expected MODULE:CLASS of one, after pip install "
            "(a folder of one's own: pip install -e FOLDER)"
        )
    refuse_unnamed(f"{key}={name}", f"package {packages[0]}", *packages, name)
    return load(EntryPoint(attribute, name, key), cast(Any, Callable), f"{key}={name} (package {packages[0]})")


def refuse_unnamed(said: str, of: str, *names: str) -> None:
    """InputError for code that no command has typed, nor allowed, by one of these names."""
    if not {*names} & {*os.environ.get(ALLOWED, "").split(",")}:
        raise InputError(f"{said} is set in a file and would run code of {of}: add {OPTION} {names[0]} to allow it")


@cache
def source_of(name: str) -> str:
    """Package, version and a hash of the source of `MODULE:CLASS`, for the identity of a run."""
    module = name.partition(":")[0].partition(".")[0]
    with _installed():
        packages = importlib.metadata.packages_distributions().get(module, [PACKAGE])
        found = importlib.util.find_spec(module)
    folders = [Path(folder) for folder in (found and found.submodule_search_locations) or ()]
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    digest = hashlib.sha256()
    for file in files or [Path(str(found and found.origin))]:
        digest.update(file.read_bytes())
    return f"{packages[0]} {importlib.metadata.version(packages[0])} {digest.hexdigest()[:16]}"


def library(name: str, extra: str) -> ModuleType:
    """A package of an extra, imported on first use; InputError if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"{name} is missing ({error}): pip install '{PACKAGE}[{extra}]'") from error
