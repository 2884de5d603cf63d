"""From a command line to validated runs: Hydra composes `conf/` over the typed schema, and nothing runs here.

A sweep is composed whole before its first run starts, so one wrong value in it stops all of it while nothing is lost.
"""

import functools
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from harness import arms
from harness.config.resolve import from_node
from harness.config.schema import RunConfig
from harness.errors import InputError, unknown
from harness.paths import conf_directory
from models.config import EncoderConfig
from models.objectives.config import ObjectiveName

Run = Callable[[list[RunConfig]], int]

NAMED_ELSEWHERE = (
    *("model", "model.init_from", "enhancement", "pretrain", "pretrain.objective", "pretrain.checkpoint", "task"),
    *arms.SEEDS,
)
"""Keys and groups that the name of an arm says already, and its replicates."""


def main(arguments: list[str], run: Run) -> int:
    """Composes every run that the command line names and hands them to `run`; returns its exit code.

    InputError for whatever cannot be composed. A launcher plugin (joblib, submitit) calls `run` in processes of its own.
    """
    configs: list[RunConfig] = []
    errors: list[InputError] = []

    def collect(node: DictConfig) -> None:
        try:
            composed = runs_of(node, swept_keys(arguments))
        except (HydraException, OmegaConfBaseException, ValueError) as error:  # Hydra would print it in its own words
            errors.append(one_line(error))
            return
        if HydraConfig.get().launcher._target_.endswith("BasicLauncher"):
            configs.extend(composed)
        elif run(composed):
            raise RuntimeError("a run failed; its log says why")

    arguments = [re.sub(r"^pretrain\.from=", "pretrain.checkpoint=", argument) for argument in arguments]  # no name in Python
    arguments = [
        re.sub(r"^(task\.\w+_split=)(\w+\[.*\].*)$", r"\1'\2'", argument) for argument in arguments
    ]  # a slice, no list
    ConfigStore.instance().store(name="run_config", node=RunConfig)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # or Hydra prints errors itself and leaves with 1
    sys.argv[1:] = arguments
    try:
        hydra.main(version_base="1.3", config_path=str(conf_directory()), config_name="config")(collect)()
    except (HydraException, OmegaConfBaseException) as error:
        raise one_line(error) from error
    if errors:
        raise errors[0]
    return run(configs) if configs else 0


def runs_of(node: DictConfig, swept: list[str]) -> list[RunConfig]:
    """One run for a task, or one for each member of a set of tasks."""
    overrides = list(HydraConfig.get().overrides.task)
    members = OmegaConf.select(node, "task.members")
    if not members:
        return [named(from_node(node), overrides, swept)]
    other = tuple(override for override in overrides if not override.startswith("task="))
    composed = [from_node(_composed((*other, f"task={member}"))) for member in members]
    return [named(config, overrides, swept) for config in composed]


def named(config: RunConfig, overrides: list[str], swept: list[str]) -> RunConfig:
    """The run with the name of its arm, the choices behind it, and the same model at BERT-base dimensions."""
    choices = HydraConfig.get().runtime.choices
    weights = config.model.init_from
    names = [choices["model"] if weights is None else Path(weights).name, *sorted(config.enhancements)]
    if config.pretrain.objective is not ObjectiveName.none:
        names.append(config.pretrain.objective.value)
    from_run = config.pretrain.checkpoint is not None  # that run says what it is
    return replace(
        config,
        arm=config.arm or ("" if from_run else "+".join(names)),
        settings=settings(overrides, swept),
        swept=swept,
        model_name=choices["model"],
        scale_name=choices["scale"],
        published=published_model(overrides),
    )


def settings(overrides: list[str], swept: list[str]) -> dict[str, str]:
    """What belongs to the arm beside its choices: swept keys, and keys of the model and its objective, by their typed values.

    A value that the run would have anyway is left out, so that one step of a sweep may be the model as it is.
    """
    candidates = {}
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key not in NAMED_ELSEWHERE and (key in swept or arms.within(key, arms.OF_ARM)):
            candidates[override] = (key, value)
    if not candidates:
        return {}
    plain = _composed(tuple(override for override in overrides if override not in candidates), with_choices=True)
    full = _composed(tuple(overrides), with_choices=True)
    changed = {key: value for key, value in candidates.values() if _value(plain, key) != _value(full, key)}
    return {key: value.lower() if value in ("True", "False") else value for key, value in changed.items()}


def _value(node: DictConfig, key: str) -> Any:
    """The choice of a group, or the value of a key."""
    choices = node.hydra.runtime.choices
    return choices[key] if key in choices else OmegaConf.select(node, key)


@functools.lru_cache(maxsize=256)
def _composed(overrides: tuple[str, ...], with_choices: bool = False) -> DictConfig:
    return hydra.compose("config", list(overrides), return_hydra_config=with_choices)


def swept_keys(arguments: list[str]) -> list[str]:
    """Keys and groups of which the command line or its experiment names several values."""
    parser = OverridesParser.create()
    typed = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    params = HydraConfig.get().sweeper.get("params") or {}
    several = [*typed, *(f"{key}={value}" for key, value in params.items())]
    overrides = (parser.parse_override(override) for override in several)
    return sorted({override.key_or_group for override in overrides if override.is_sweep_override()})


def published_model(overrides: list[str]) -> Any:
    """The same model at scale base; values typed for the dimensions of another scale are left out."""
    dimensions = OmegaConf.load(conf_directory() / "scale" / "base.yaml")
    replaced = ("scale=", "task=", "seed=", "+experiment=", *(f"model.{key}=" for key in dimensions))
    kept = [override for override in overrides if not override.startswith(replaced)]
    return from_node(_composed((*kept, "task=bag", "scale=base"))).model


def base_model(scale: str, config_dir: str | None) -> EncoderConfig:
    """The model `base` at the named scale, outside of a Hydra command; `config_dir` is searched too."""
    searched = [f"hydra.searchpath=[file://{Path(config_dir).absolute()}]"] if config_dir else []
    with hydra.initialize_config_dir(str(conf_directory()), version_base="1.3"):
        return from_node(hydra.compose("config", ["model=base", f"scale={scale}", "task=bag", *searched])).model


def one_line(error: Exception) -> InputError:
    """The error as one line that names the key, what was given and the choices."""
    if isinstance(error, InputError):
        return error
    text = str(error)
    choice = re.search(r"Could not find '([^']*)/([^'/]*)'.*?Available options in '[^']*':\n((?:\t\S+\n?)*)", text, re.DOTALL)
    if choice:
        group, given, listed = choice.groups()
        return unknown(group, given, listed.split(), group)
    listed_choice = re.search(r"Could not load '([^']*)/([^'/]*)'", text)  # of a group that takes a list
    if listed_choice:
        group, given = listed_choice.groups()
        return unknown(group, given, [path.stem for path in (conf_directory() / group).glob("*.yaml")], group)
    cause = _cause(error)
    override = re.search(r"Could not override '([^']*)'", text)
    key = getattr(cause, "full_key", None) or (override.group(1) if override else "")
    if key in _groups() and "No match in the defaults list" in text:
        return InputError(f"{key!r} has no default to replace: say +{key}=...")
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)) or override:
        return unknown("key", key, _siblings(key), key.rpartition(".")[0] or "the command line")
    told = " ".join(str(cause).split("full_key")[0].split()) or type(error).__name__
    return InputError(f"{key}: {told}" if key and key not in told else told)


def _cause(error: Exception) -> BaseException:
    """The error of OmegaConf that Hydra wrapped, or the error itself."""
    inner = error.__cause__ or error.__context__
    return inner if isinstance(error, HydraException) and isinstance(inner, OmegaConfBaseException) else error


def _groups() -> list[str]:
    return [path.name for path in conf_directory().iterdir() if path.is_dir()]


def _siblings(key: str) -> list[str]:
    """The keys that stand where the unknown one was looked for, with the config groups at the top."""
    node: Any = OmegaConf.structured(RunConfig)
    *parents, _ = key.split(".")
    for parent in parents:
        if not OmegaConf.is_dict(node) or parent not in node:
            return _siblings(parents[0]) if len(parents) > 1 or "." in key else []
        node = node[parent]
    prefix = "".join(f"{parent}." for parent in parents)
    return sorted({*(f"{prefix}{name}" for name in node), *([] if parents else _groups())})
