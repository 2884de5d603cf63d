"""Where files are: the configuration that is shipped, and what runs leave below `output`."""

import re
from pathlib import Path

PRETRAINED = "pretrained"
"""Folder that stands beside the studies: a pretraining belongs to all that use it."""


WEIGHTS = "checkpoint"
"""Below the folder of a run: the weights that it leaves."""

SHAPE = "model.json"
"""In a folder of weights of ours: the shape that they belong to."""

CHECKPOINTS = "checkpoints"
"""Below the folder of a run that is not finished: states to go on from."""


def conf_directory() -> Path:
    """`conf/` beside the package in a checkout, inside it in an installed wheel."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def cache_folder(output: str) -> Path:
    """Tokenised data, keyed by content."""
    return Path(output).absolute() / "cache"


def data_folder(output: str, key: str) -> Path:
    """A task's prepared data."""
    return cache_folder(output) / key


def run_folder(output: str, study: str, name: str) -> Path:
    """All that one run leaves; `name` is made safe for any file system."""
    return Path(output).absolute() / study / re.sub(r"[^A-Za-z0-9_.+@-]+", "_", name)


def session_folder(output: str, session: str) -> Path:
    """What the launches of one session leave."""
    return Path(output).absolute() / "sessions" / session


def timing_lock(output: str) -> Path:
    """Held while something is timed, so that cells that run side by side do not time each other."""
    return Path(output).absolute() / ".timing.lock"


def database_uri(output: str) -> str:
    """The default tracking store, absolute, because MLflow's own default depends on the working directory."""
    return f"sqlite:///{Path(output).absolute() / 'mlflow.db'}"


def artifact_folder(output: str) -> Path:
    """The default place of tracked files."""
    return Path(output).absolute() / "artifacts"
