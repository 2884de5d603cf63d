"""From a command line to validated cells: Hydra composes `conf/` over the typed schema, and nothing runs here.

A sweep is composed whole before its first cell starts, so one wrong value in it stops all of it while nothing is lost.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.config import mistakes
from harness.config.command_line import for_hydra
from harness.config.resolve import from_node
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.paths import conf_directory
from models.config import EncoderConfig
from models.objectives.config import ObjectiveName

Run = Callable[[list[RunConfig]], int]

FULL_ERROR = "HYDRA_FULL_ERROR"


def main(arguments: list[str], run: Run) -> int:
    """Composes every run that the command line names and passes them to `run`; returns its exit code.

    InputError for whatever cannot be composed. A launcher plugin (joblib, submitit) calls `run` in its own processes.
    """
    cells: list[RunConfig] = []
    errors: list[InputError] = []

    def collect(node: DictConfig) -> None:
        try:
            composed = cells_of(node)
        except (HydraException, OmegaConfBaseException, ValueError) as error:  # Hydra would print it in its own words
            errors.append(one_line(error))
            if errors[-1] is not error:
                errors[-1].__cause__ = error  # for the traceback, where the user wants one
            return
        if HydraConfig.get().launcher._target_.endswith("BasicLauncher"):
            cells.extend(composed)
        elif run(composed):
            raise RuntimeError("a cell failed; its log says why")

    ConfigStore.instance().store(name="run_config", node=RunConfig)
    sys.argv[1:] = for_hydra(arguments)
    try:
        with _hydra_raises():
            hydra.main(version_base="1.3", config_path=str(conf_directory()), config_name="config")(collect)()
    except (HydraException, OmegaConfBaseException) as error:
        raise one_line(error) from error
    if errors:
        raise errors[0]
    return run(cells) if cells else 0


@contextlib.contextmanager
def _hydra_raises() -> Iterator[None]:
    """Sets the variable without which Hydra prints errors itself and exits with 1; the user's value is back afterwards."""
    before = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FULL_ERROR]
        else:
            os.environ[FULL_ERROR] = before


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
    """The error as one line; what OmegaConf said is more exact than what Hydra made of it."""
    inner = error.__cause__ or error.__context__
    wrapped = isinstance(error, HydraException) and isinstance(inner, OmegaConfBaseException)
    return mistakes.one_line(error, inner if wrapped else error)
