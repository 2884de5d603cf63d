"""From a command line to validated runs: Hydra composes `conf/` over the typed schema.

A whole sweep is composed before its first run starts, so that a wrong value stops it before anything has run.
"""

import contextlib
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness import arms, redact
from harness.config import hydra_changes, launched, mistakes, names, recipe
from harness.config.choices import DataSource
from harness.config.command_line import for_hydra
from harness.config.resolve import from_node, unchecked
from harness.config.schema import ModelConfig, RunConfig, to_dict
from harness.config.sweep import Sweep
from harness.config.unread import refuse_unread_parts
from harness.errors import InputError
from harness.paths import conf_directory
from harness.terminal import live_line
from models.config import EncoderConfig
from models.keys import refuse_unread
from models.objectives.config import ObjectiveName

Run = Callable[[list[RunConfig]], int]

MOST_RUNS = 100_000
"""Most runs of one command."""

NAMED_ELSEWHERE = (
    *("model", "model.init_from", "enhancement", "pretrain", "pretrain.objective", "pretrain.checkpoint", "task"),
    *("match", "match.cost", "search"),
    *arms.SEEDS,
)
"""Keys and groups that are in the name of an arm already, and the seeds, which are replicates."""


def main(arguments: list[str], run: Run, conclude: Run | None = None) -> int:
    """Composes every run that the command line names and passes them to `run`; returns its exit code.

    InputError for what cannot be composed. A launcher plugin (joblib, submitit) calls `run` in its own processes, for one job
    after the other; `conclude` gets the runs of all its jobs here.
    """
    overrides = for_hydra(arguments)
    for override in overrides:  # Hydra writes there before it composes a sweep
        if found := re.fullmatch(r"output=([^,${]+)", override):
            names.refuse_output(found[1].strip("'\""))
    _refuse_lists(overrides)
    _refuse_too_many(overrides)
    sweep, jobs = Sweep(), launched.Jobs()
    errors: list[InputError] = []

    def collect(node: DictConfig) -> launched.Ended | None:
        _hide_passwords(Path(HydraConfig.get().sweep.dir) / "multirun.yaml")
        try:
            composed = runs_of(node, swept_keys(overrides))
        except InputError as error:
            errors.append(error)
            return launched.Ended([], 2, error)
        except (HydraException, OmegaConfBaseException, ValueError) as error:  # otherwise Hydra prints it in its own format
            errors.append(mistakes.naming(overrides, one_line(error)))
            errors[-1].__cause__ = error  # for HYDRA_FULL_ERROR
            return launched.Ended([], 2, errors[-1])
        launcher = OmegaConf.select(HydraConfig.get(), "launcher._target_")
        if launcher is None:
            errors.append(InputError("hydra.launcher has no _target_: expected hydra/launcher=NAME"))
        elif not launcher.endswith("BasicLauncher"):
            with jobs.job(overrides, HydraConfig.get().job.num + 1):
                return launched.Ended(composed, run(composed))
        else:
            sweep.add(composed, node)
        return None

    _store_schema()
    try:
        with hydra_changes.made(sweep, jobs, overrides), live_line("composing the runs"):
            hydra.main(version_base="1.3", config_path=str(conf_directory()), config_name="config")(collect)()
    except (HydraException, OmegaConfBaseException) as error:
        raise mistakes.naming(overrides, one_line(error)) from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # they check little
        raise mistakes.of_library(overrides, error) from error
    if jobs.ended and conclude is not None and (ran := [config for job in jobs.ended for config in job.runs]):
        conclude(ran)
    errors += [job.error for job in jobs.ended if job.error is not None]
    if errors:
        raise errors[0]
    runs = sweep.runs()
    _refuse_one_name(runs)
    if not runs:  # a launcher plugin ran them
        return max((job.code for job in jobs.ended), default=0)
    refuse_unread_parts(runs, overrides)
    return run(runs)


def _refuse_lists(overrides: list[str]) -> None:
    """InputError for a list of choices for a group that takes one: Hydra merges them, and the last one would win."""
    parser, single = OverridesParser.create(), set(mistakes.groups()) - mistakes.listed_groups()
    for text in overrides:
        group = text.lstrip("+").partition("=")[0]
        if group not in single or "[" not in text:
            continue
        with contextlib.suppress(HydraException):  # Hydra says what it cannot read
            value = parser.parse_override(text).value()
            for choice in value.list if isinstance(value, ChoiceSweep) else [value]:
                if isinstance(choice, list) and all(isinstance(name, str) for name in choice):
                    raise mistakes.several_choices(group, choice)


def _refuse_too_many(overrides: list[str]) -> None:
    """InputError for a sweep whose runs would fill the memory before any of them is composed."""
    counts = {}
    for override in overrides:
        with contextlib.suppress(HydraException):  # composition says what is wrong with it
            swept = _of_a_job(override).value()
            if isinstance(swept, RangeSweep) and swept.step:
                counts[override] = max((swept.stop - swept.start) / swept.step, 0.0)
            elif isinstance(swept, ChoiceSweep):
                counts[override] = len(swept.list)
    if not (runs := math.prod(counts.values())) <= MOST_RUNS:  # nothing is true of nan
        raise InputError(f"{' '.join(counts)} makes {runs:,.0f} runs: expected at most {MOST_RUNS:,} of a command")


def _of_a_job(override: str) -> Override:
    """What is typed, or what `hydra.sweeper.params` adds to it."""
    parsed = OverridesParser.create().parse_override(override)
    params = re.fullmatch(r"hydra\.sweeper\.params\.(.*)", parsed.key_or_group)
    return OverridesParser.create().parse_override(f"{params[1]}={parsed.value()}") if params else parsed


def _refuse_one_name(runs: list[RunConfig]) -> None:
    """InputError for two models that `arm` gives one name: the report would take them for one."""
    models: dict[str, str] = {}
    for one in runs:
        other = models.setdefault(one.label, one.model_name)
        if other != one.model_name:
            raise InputError(
                f"arm={one.arm!r} names model={other} and model={one.model_name}: leave it out, or compare one model"
            )


def _hide_passwords(written: Path) -> None:
    """In what Hydra writes of a sweep before its first job; those of tracking.uri on the command line never get there."""
    if not written.is_file():
        return
    plain = OmegaConf.to_container(OmegaConf.load(written), resolve=False)
    if (shown := redact.values(plain)) != plain:
        OmegaConf.save(OmegaConf.create(shown), written)


@functools.cache
def _store_schema() -> None:
    """Makes the schema known to Hydra; in a notebook or a test, for all commands at once."""
    ConfigStore.instance().store(name="run_config", node=RunConfig)


def runs_of(node: DictConfig, swept: list[str]) -> list[RunConfig]:
    """One run for a task, or one for each member of a set of tasks."""
    overrides = list(HydraConfig.get().overrides.task)
    members = OmegaConf.select(node, "task.members")
    if not members:
        return [named(from_node(node), overrides, swept)]
    typed = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)  # `${...}` as it is written
    chosen = typed if any(override.startswith("task=") for override in typed) else [*typed, "task="]  # the default
    of_members = [[f"task={member}" if override.startswith("task=") else override for override in chosen] for member in members]
    return [
        replace(named(from_node(hydra.compose("config", own)), overrides, swept), overrides=repeating(own))
        for own in of_members
    ]


def repeating(overrides: list[str]) -> list[str]:
    """Those that another command needs for the same run: seeds are added to it, and it says itself where it tracks."""
    left_out = (*arms.SEEDS, "rerun", "sweep.", "tracking.")
    return [override for override in overrides if not arms.within(override.lstrip("+").partition("=")[0], left_out)]


def named(config: RunConfig, overrides: list[str], swept: list[str]) -> RunConfig:
    """The run with the name of its arm, the choices behind it, and the same model at BERT-base dimensions."""
    choices = HydraConfig.get().runtime.choices
    mistakes.refuse_merged(choices, overrides)
    weights = config.model.init_from
    keys = [override.lstrip("+").partition("=")[0] for override in overrides]
    model_keys = [key.removeprefix("model.") for key in keys if key.startswith("model.")]
    recipe.refuse_misfit(config, choices.get("recipe"), keys, swept)
    if config.data.root is not None and config.data.source is DataSource.hub:
        raise InputError(
            f"data.root={config.data.root!r} is read with data=local alone: add data=local, or leave data.root out"
        )
    if weights is None and config.pretrain.checkpoint is None:
        refuse_unread(config.model, model_keys)
        for group, name in (("model", choices["model"]), *(("enhancement", name) for name in config.enhancements)):
            _refuse_unread_choice(config.model, group, name)
    parts = [choices["model"] if weights is None else Path(weights).name, *sorted(config.enhancements)]
    if config.pretrain.objective is not ObjectiveName.none:
        parts.append(config.pretrain.objective.value)
    from_run = config.pretrain.checkpoint is not None  # named after that run
    return replace(
        config,
        arm=config.arm or ("" if from_run else "+".join(parts)),
        settings=settings(config, overrides, swept),
        swept=swept,
        overrides=repeating(overrides),
        model_keys=model_keys,
        model_name=choices["model"],
        scale_name=choices["scale"],
        published=published_model(overrides),
    )


def _refuse_unread_choice(model: ModelConfig, group: str, name: str) -> None:
    """InputError for a choice with a key that the model does not read: it would be another model by name alone."""
    files = (Path(source) / group / f"{name}.yaml" for source in _sources())
    for file in (file for file in files if file.is_file()):
        node = OmegaConf.load(file)
        try:
            refuse_unread(model, node.get("model", node))
        except ValueError as error:
            raise InputError(f"{group}={name}: {error}") from error


def settings(config: RunConfig, overrides: list[str], swept: list[str]) -> dict[str, str]:
    """Settings of the arm beside its choices: swept keys, and keys of the model and its objective, with their typed values.

    A value that equals the default of the run is left out, so that a sweep may include the unchanged model.
    """
    candidates = {}
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key not in NAMED_ELSEWHERE and (key in swept or arms.within(key, arms.OF_ARM)):
            candidates[override] = (key, value)
    if not candidates:
        return {}
    plain = _composed(tuple(override for override in overrides if override not in candidates), _sources())
    full = Composed(dict(HydraConfig.get().runtime.choices), to_dict(config))
    changed = {key: value for key, value in candidates.values() if full.at(key) != plain.at(key)}
    return {key: value.lower() if value in ("True", "False") else value for key, value in changed.items()}


@dataclass(frozen=True)
class Composed:
    """What overrides compose: the choice of each group, and nested values."""

    choices: dict[str, str]
    values: dict[str, Any]

    def at(self, key: str) -> Any:
        """The choice of a group, or the value of a dotted key."""
        if key in self.choices:
            return self.choices[key]
        value: Any = self.values
        for name in key.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value


@functools.lru_cache(maxsize=256)
def _composed(overrides: tuple[str, ...], sources: tuple[str, ...]) -> Composed:
    """A null that another key replaces is that value."""
    node = hydra.compose("config", list(overrides), return_hydra_config=True)
    config = unchecked(OmegaConf.masked_copy(node, [name for name in node if name != "hydra"]))
    return Composed(dict(node.hydra.runtime.choices), to_dict(config))


def _sources() -> tuple[str, ...]:
    """The folders that are searched for configuration."""
    return tuple(source.path for source in HydraConfig.get().runtime.config_sources)


def swept_keys(arguments: list[str]) -> list[str]:
    """Keys and groups of which the command line or its experiment names several values."""
    parser = OverridesParser.create()
    typed = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    params = HydraConfig.get().sweeper.get("params") or {}
    several = [*typed, *(f"{key}={value}" for key, value in params.items())]
    overrides = (parser.parse_override(override) for override in several)
    return sorted({override.key_or_group for override in overrides if override.is_sweep_override()})


@dataclass(frozen=True)
class Range:
    """A sweep over one key as Hydra writes it: `choices`, or an interval with its tags."""

    key: str
    choices: tuple[Any, ...] = ()
    interval: tuple[float, float] | None = None
    tags: frozenset[str] = frozenset()


def range_of(text: str) -> Range | None:
    """Of `KEY=choice(A,B)`, `KEY=interval(LOW,HIGH)` and `KEY=tag(NAME,interval(LOW,HIGH))`; None for anything else."""
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException:
        return None
    swept = override.value()
    if isinstance(swept, ChoiceSweep):
        return Range(override.key_or_group, choices=tuple(swept.list))
    if isinstance(swept, IntervalSweep):
        return Range(override.key_or_group, interval=(float(swept.start), float(swept.end)), tags=frozenset(swept.tags))
    return None


def published_model(overrides: list[str]) -> ModelConfig:
    """The same model at scale base, without the dimensions on the command line."""
    dimensions = {f"model.{key}" for key in OmegaConf.load(conf_directory() / "scale" / "base.yaml")}
    keys = {override: override.lstrip("+").partition("=")[0] for override in overrides}
    shaping = (override for override, key in keys.items() if arms.within(key, ("model", "enhancement", "model.")))
    return _published(tuple(override for override in shaping if keys[override] not in dimensions), _sources())


@functools.lru_cache(maxsize=256)
def _published(overrides: tuple[str, ...], sources: tuple[str, ...]) -> ModelConfig:
    return from_node(hydra.compose("config", [*overrides, "task=bag", "scale=base"])).model


def base_model(scale: str, config_dir: str | None) -> EncoderConfig:
    """The model `base` at this scale, composed outside of a Hydra command; `config_dir` is searched too."""
    return outside_of_a_command(["model=base", f"scale={scale}", "task=bag"], config_dir).model


def outside_of_a_command(overrides: list[str], config_dir: str | None) -> RunConfig:
    """What the overrides compose, without the name of an arm; `config_dir` is searched too. InputError for a wrong one."""
    searched = [f"hydra.searchpath=[file://{Path(config_dir).absolute()}]"] if config_dir else []
    _store_schema()
    _refuse_lists(overrides)
    try:
        with hydra_changes.reading(), hydra.initialize_config_dir(str(conf_directory()), version_base="1.3"):
            return from_node(hydra.compose("config", [*overrides, *searched]))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise one_line(error) from error


def one_line(error: Exception) -> InputError:
    """The error as one line; that of OmegaConf if Hydra has wrapped one, because it is more specific."""
    inner = error.__cause__ or error.__context__
    if isinstance(error, OverrideParseException):
        return mistakes.unreadable(error.override, error.message)
    wrapped = isinstance(error, HydraException) and isinstance(inner, OmegaConfBaseException)
    return mistakes.one_line(error, inner if wrapped else error)
