"""From a command line to validated cells: Hydra composes `conf/` over the typed schema, and nothing runs here.

A sweep is composed whole before its first cell starts, so one wrong value in it stops all of it while nothing is lost.
"""

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
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from harness.config.resolve import from_node
from harness.config.schema import RunConfig
from harness.errors import InputError, unknown
from harness.paths import conf_directory
from models.config import EncoderConfig
from models.objectives.config import ObjectiveName

Run = Callable[[list[RunConfig]], int]


def main(arguments: list[str], run: Run) -> int:
    """Composes every cell that the command line names and hands them to `run`; returns its exit code.

    InputError for whatever cannot be composed. A launcher plugin (joblib, submitit) hands `run` its cells in its own processes.
    """
    cells: list[RunConfig] = []
    errors: list[InputError] = []

    def collect(node: DictConfig) -> None:
        try:
            composed = cells_of(node)
        except (HydraException, OmegaConfBaseException, ValueError) as error:  # Hydra would print it in its own words
            errors.append(one_line(error))
            return
        if HydraConfig.get().launcher._target_.endswith("BasicLauncher"):
            cells.extend(composed)
        elif run(composed):
            raise RuntimeError("a cell failed; its log says why")

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
    return run(cells) if cells else 0


def cells_of(node: DictConfig) -> list[RunConfig]:
    """One cell for a task, or one for each member of a set of tasks."""
    overrides = list(HydraConfig.get().overrides.task)
    members = OmegaConf.select(node, "task.members")
    if not members:
        return [named(from_node(node), overrides)]
    other = [override for override in overrides if not override.startswith("task=")]
    composed = [from_node(hydra.compose("config", [*other, f"task={member}"])) for member in members]
    return [named(config, overrides) for config in composed]


def named(config: RunConfig, overrides: list[str]) -> RunConfig:
    """The cell with its choices by name, its variant, and its twin at BERT-base dimensions."""
    choices = HydraConfig.get().runtime.choices
    names = [choices["model"], *sorted(config.enhancements)]
    if config.pretrain.objective is not ObjectiveName.none:
        names.append(config.pretrain.objective.value)
    changes = [override.removeprefix("model.") for override in _changing(overrides)]
    picked = config.pretrain.checkpoint is not None  # the run that is picked says what it is
    variant = config.variant or ("" if picked else ",".join(["+".join(names), *changes]))
    return replace(
        config, variant=variant, model_name=choices["model"], scale_name=choices["scale"], published=published_model(overrides)
    )


def _changing(overrides: list[str]) -> list[str]:
    """Those that give the model another value than it has anyway, so that one step of a sweep may be the model as it is."""
    given = [override for override in overrides if override.startswith("model.")]
    other = [override for override in overrides if not override.startswith(("model.", "task="))]
    if not given:
        return []
    plain, changed = (hydra.compose("config", [*other, "task=bag", *added]).model for added in ([], given))
    return [one for one in given if OmegaConf.select(plain, _key(one)) != OmegaConf.select(changed, _key(one))]


def _key(override: str) -> str:
    return override.removeprefix("model.").partition("=")[0]


def published_model(overrides: list[str]) -> Any:
    """The same variant at scale base; values typed for the dimensions of another scale are left out."""
    dimensions = OmegaConf.load(conf_directory() / "scale" / "base.yaml")
    replaced = ("scale=", "task=", "+experiment=", *(f"model.{key}=" for key in dimensions))
    kept = [override for override in overrides if not override.startswith(replaced)]
    return from_node(hydra.compose("config", [*kept, "task=bag", "scale=base"])).model


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
