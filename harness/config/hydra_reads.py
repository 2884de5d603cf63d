"""Hydra composes every run from the same files: here each of them is read once.

Hydra alone reads all files for every composition, and looks for each of them in every folder that it searches.
"""

import contextlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra._internal import defaults_list
from hydra._internal.config_repository import ConfigRepository
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource

from harness.paths import conf_directory

_read: dict[tuple[Any, ...], tuple[ConfigResult, bytes]] = {}
"""What was read, with its nodes as a pickle: they are copied faster from that than from nodes."""


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """While Hydra runs: files that have been read or found are kept, and what nothing needs is left out."""
    with contextlib.ExitStack() as stack:
        for owner, name, change in (
            (ConfigRepository, "load_config", _read_once),
            (ConfigRepository, "_find_object_source", _found_once),
            (ConfigRepository, "__deepcopy__", _copied_shallowly),
            (defaults_list, "_create_interpolation_map", _where_something_is_interpolated),
        ):
            before = getattr(owner, name, None)
            setattr(owner, name, change(before))
            stack.callback(*((delattr, owner, name) if before is None else (setattr, owner, name, before)))
        yield


def _read_once(load: Callable[..., ConfigResult | None]) -> Callable[..., ConfigResult | None]:
    """A composition takes the nodes of what it reads, so that each gets its own."""
    command = object()

    def load_config(repository: ConfigRepository, config_path: str) -> ConfigResult | None:
        source = repository._find_object_source(config_path, ObjectType.CONFIG)
        if source is None:
            return load(repository, config_path)
        key = (config_path, source.scheme(), source.path, *_version(source, config_path, command))
        if key not in _read:
            found = load(repository, config_path)
            _read[key] = (found, pickle.dumps(found.config))
        found, config = _read[key]
        return replace(found, config=pickle.loads(config))  # noqa: S301 - pickled above

    return load_config


def _version(source: ConfigSource, config_path: str, command: object) -> tuple[object, ...]:
    """Equal where the content is: packages and the schema do not change; files of the user are read by every command."""
    if source.scheme() != "file":
        return ()
    path = Path(source.path, source._normalize_file_name(config_path))
    if not path.resolve().is_relative_to(conf_directory().resolve()):
        return (command,)
    facts = path.stat()
    return (facts.st_mtime_ns, facts.st_size)


def _searched(repository: ConfigRepository) -> tuple[str, ...]:
    return tuple(f"{source.scheme()}://{source.path}" for source in repository.sources)


def _found_once(find: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[tuple[Any, ...], Any] = {}

    def find_object_source(repository: ConfigRepository, config_path: str, object_type: Any) -> Any:
        key = (config_path, object_type, *_searched(repository))
        if key not in kept:
            kept[key] = find(repository, config_path, object_type)
        return kept[key]

    return find_object_source


def _copied_shallowly(_: None) -> Callable[..., ConfigRepository]:
    """Hydra copies it before each composition, which may give the copy other sources, and changes none of them."""

    def copied(repository: ConfigRepository, memo: dict[int, Any]) -> ConfigRepository:
        made = object.__new__(type(repository))
        vars(made).update(vars(repository))
        return made

    return copied


def _where_something_is_interpolated(make: Callable[..., Any]) -> Callable[..., Any]:
    """The choices as nodes, which a `${...}` in a defaults list may name."""

    def create_interpolation_map(overrides: Any, defaults: list[Any], self_added: bool) -> Any:
        is_needed = any(not one.is_self() and one.is_interpolation() for one in defaults)
        return make(overrides, defaults, self_added) if is_needed else None

    return create_interpolation_map
