"""The space of a search: the keys of a config that a trial sets, checked before the first of them runs."""

from dataclasses import dataclass, replace
from enum import Enum
from types import UnionType
from typing import Any, get_args, get_type_hints

from harness.config.choices import KeepBest
from harness.config.compose import range_of
from harness.config.resolve import refuse_impossible
from harness.config.schema import FinetuneConfig, RunConfig
from harness.errors import InputError, unknown

SECTION = "finetune."
"""Of the keys that may be searched: trials share their data and their pretraining."""

Settings = dict[str, Any]
"""Key -> value of one trial."""


@dataclass(frozen=True)
class Dimension:
    """One key that is searched: between `low` and `high`, evenly on a logarithmic scale if `log`, or among `choices`."""

    key: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[float, ...] = ()

    @property
    def ends(self) -> tuple[float, ...]:
        """Values at which no run may be impossible."""
        return self.choices or (self.low, self.high)


def dimensions(config: RunConfig) -> list[Dimension]:
    """The space of the run's search; InputError for one that is no space, or whose ends no run could have."""
    if config.finetune.keep_best is KeepBest.validation:
        raise InputError("search must not see the rows that are reported: set finetune.keep_best=tune or none")
    found = [_dimension(text) for text in config.search.space]
    if len({one.key for one in found}) < len(found):
        raise InputError(f"search.space={config.search.space} names a key twice: expected each once")
    for one in found:
        for value in one.ends:
            refuse_impossible(with_settings(config, {one.key: value}))
    return found


def _dimension(text: str) -> Dimension:
    """Of `KEY=choice(...)` and the like, as Hydra reads them."""
    wrong = InputError(
        f"search.space: {text!r} is no range: expected KEY=interval(LOW,HIGH), KEY=tag(log,interval(LOW,HIGH)) "
        "or KEY=choice(A,B)"
    )
    swept = range_of(text)
    if swept is None:
        raise wrong
    known = [f"{SECTION}{name}" for name, kind in get_type_hints(FinetuneConfig).items() if _is_number(kind)]
    if swept.key not in known:
        raise unknown("key", swept.key, known, "search.space")
    if swept.interval is None:
        if not all(type(value) in (int, float) for value in swept.choices):
            raise wrong
        return Dimension(swept.key, choices=swept.choices)
    (low, high), log = swept.interval, "log" in swept.tags
    if not swept.tags <= {"log"}:
        raise wrong
    if not low < high or (log and low <= 0):
        raise InputError(f"search.space: {text!r} needs LOW below HIGH{', and above 0 on a logarithmic scale' if log else ''}")
    return Dimension(swept.key, low, high, log)


def _is_number(kind: Any) -> bool:
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return bool({int, float} & {*kinds}) and not any(isinstance(one, type) and issubclass(one, Enum) for one in kinds)


def is_whole(key: str) -> bool:
    """Whether the key takes whole numbers alone."""
    kind = get_type_hints(FinetuneConfig)[key.removeprefix(SECTION)]
    return float not in (get_args(kind) or (kind,))


def with_settings(config: RunConfig, settings: Settings) -> RunConfig:
    """The run with these values of its keys."""
    values = {key.removeprefix(SECTION): int(value) if is_whole(key) else value for key, value in settings.items()}
    return replace(config, finetune=replace(config.finetune, **values))


def text(value: float) -> str:
    """As it is typed, with three digits: `0.000316`, `16`."""
    return f"{value:.3g}"
