"""Settings with which Hydra would call code or make folders that they name: refused, in files and on the command line."""

import functools
import re

from omegaconf import DictConfig, OmegaConf

from harness.errors import InputError

PLUGINS = r"hydra_plugins\.|hydra\._internal\.core_plugins\."
"""Beginning of the class of a launcher or sweeper that is installed."""

CALLS = {
    "callbacks": "a callback is code that it names",
    "job_logging.root": "handlers and formatters are code that it names",
    "hydra_logging.root": "handlers and formatters are code that it names",
    "job.env_set": "set variables in the shell",
}
"""Below `hydra`: what must be empty, and why."""

PLACES = {"run.dir": (".",), "output_subdir": (None,), "job.chdir": (None, False)}
PLACES_OF_JOBS = {"sweep.dir": (".", "${output}/.hydra"), "sweep.subdir": (".",)}
"""Below `hydra`: where it would write or work, with the values that are allowed; a launcher of a plugin has its own."""


def refuse(composed: DictConfig) -> None:
    """InputError for a setting of Hydra in the composed config that names code or a folder, before Hydra uses it."""
    hydra = composed.get("hydra")
    if not OmegaConf.is_dict(hydra):
        return
    for key, reason in CALLS.items():
        if OmegaConf.select(hydra, key):
            raise InputError(f"hydra.{key} cannot be set: {reason}")
    verbose = OmegaConf.select(hydra, "verbose")
    if not isinstance(verbose, bool | str) and not all(isinstance(name, str) for name in verbose or [None]):
        raise InputError(f"hydra.verbose={verbose} must be true, false or names of loggers")
    for plugin in ("launcher", "sweeper"):
        target = OmegaConf.select(hydra, f"{plugin}._target_")
        if target is not None and not re.match(PLUGINS, str(target)):
            raise InputError(f"hydra.{plugin}._target_={str(target)!r} is no plugin of Hydra: choose hydra/{plugin}=NAME")
    is_basic = str(OmegaConf.select(hydra, "launcher._target_")).endswith("BasicLauncher")
    raw = OmegaConf.to_container(hydra, resolve=False)
    for key, values in (PLACES | (PLACES_OF_JOBS if is_basic else {})).items():
        value = functools.reduce(lambda part, name: (part or {}).get(name), key.split("."), raw)
        if value not in values:
            raise InputError(
                f"hydra.{key}={value} cannot be set: runs are in the folder output=FOLDER, and nothing else is made"
            )
