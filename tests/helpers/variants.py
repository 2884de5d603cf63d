"""The shipped variants that are built without published weights."""

from dataclasses import replace

from omegaconf import OmegaConf

from harness.config.schema import ModelConfig
from harness.paths import conf_directory

FILES = sorted((conf_directory() / "model").glob("*.yaml"))
VARIANTS = [path.stem for path in FILES if "init_from" not in OmegaConf.load(path)]
WEIGHTS = [path.stem for path in FILES if path.stem not in VARIANTS]
"""Those that are published weights."""


def variant(name: str, scale: str = "tiny", **changes: object) -> ModelConfig:
    """As Hydra composes it, without its seconds."""
    files = (OmegaConf.load(conf_directory() / f"{file}.yaml") for file in (f"scale/{scale}", f"model/{name}"))
    return replace(OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), *files)), **changes)
