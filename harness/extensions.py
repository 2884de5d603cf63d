"""What other packages add to this one, and what its own plug-ins add: entry points, by group.

| group | an entry point is |
|:--|:--|
| `harness.commands` | a `harness.commands.Command`; its name is that of the command |
| `harness.chapters` | a `harness.reports.chapters.Added` |
| `harness.formats` | a `harness.reports.render.Format`; its name is one for --format |
| `harness.trackers` | a class of `harness.tracking.trackers.Backend`, by tracking.plugins=[NAME]; ours by tracking.NAME=true |
| `harness.encoders` | a `torch.nn.Module`: `attention.NAME` for model.attention=NAME, likewise `feed_forward.` and `layers.` |
| `harness.tasks` | a class of `harness.tasks.base.Kind`, chosen by task.plugin=NAME beside the task.kind that it is like |

A checkout that is not installed has the entry points of its own `pyproject.toml`.
"""

import importlib.metadata
import tomllib
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from harness.errors import InputError, unknown

PACKAGE = "encoder-variant-harness"
ROOT = Path(__file__).resolve().parents[1]

Added = TypeVar("Added")


@cache
def _points(group: str) -> tuple[EntryPoint, ...]:
    """By name."""
    own = _of_checkout()
    installed = [point for point in importlib.metadata.entry_points(group=group) if own is None or package_of(point) != PACKAGE]
    of_checkout = [EntryPoint(name, value, group) for name, value in (own or {}).get(group, {}).items()]
    return tuple(sorted([*of_checkout, *installed], key=lambda point: point.name))


def names(group: str) -> set[str]:
    """Names that are declared; nothing is imported."""
    return {point.name for point in _points(group)}


def declared(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point, by name; InputError for a name that two packages declare."""
    points: dict[str, EntryPoint] = {}
    for point in _points(group):
        if point.name in points and points[point.name].value != point.value:
            packages = " and ".join(map(package_of, (points[point.name], point)))
            raise InputError(f"{group}: {packages} both add {point.name!r}: expected one of them to be installed")
        points[point.name] = point
    return points


@cache
def _of_checkout() -> dict[str, dict[str, str]] | None:
    """Group -> name -> `module:object` of this checkout; None where the package is installed from a wheel."""
    file = ROOT / "pyproject.toml"
    project = tomllib.loads(file.read_text("utf-8")).get("project", {}) if file.is_file() else {}
    return project.get("entry-points", {}) if project.get("name") == PACKAGE else None


def package_of(point: EntryPoint) -> str:
    """The package that declares it."""
    return point.dist.name if point.dist else PACKAGE


def find(group: str, name: str, kind: type[Added], key: str) -> Added:
    """What the entry point of this name is; InputError for a name that no package adds, which `key` should have."""
    points = declared(group)
    if name not in points:
        raise unknown("name", name, points, key)
    return load(points[name], kind)


def load(point: EntryPoint, kind: type[Added]) -> Added:
    """What the entry point names; InputError where it cannot be imported, or is of another kind."""
    where = f"{point.group}: {point.name} = {point.value} (package {package_of(point)})"
    try:
        loaded = point.load()
    except InputError:  # which says what the package lacks
        raise
    except Exception as error:  # whatever the code of another package raises
        raise InputError(
            f"{where} cannot be imported ({type(error).__name__}: {error}): expected a {kind.__name__}; "
            "mend or uninstall the package"
        ) from error
    if not isinstance(loaded, kind):
        raise InputError(f"{where} is of type {type(loaded).__name__}: expected a {kind.__name__}")
    return loaded


def library(name: str, extra: str) -> ModuleType:
    """A package of an extra, imported where it is first needed; InputError where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"{name} is missing ({error}): pip install '{PACKAGE}[{extra}]'") from error
