"""Shapes as the files of conf/ give them."""

from dataclasses import fields

from omegaconf import OmegaConf

from harness.config.schema import ModelConfig
from harness.paths import conf_directory
from models.config import EncoderConfig


def merged(*parts: object) -> EncoderConfig:
    """The shape that these nodes or dicts of `model` keys make together, what else they say of a variant left out."""
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), *parts))
    return EncoderConfig(**{field.name: getattr(config, field.name) for field in fields(EncoderConfig)})


def variant(name: str, scale: str = "tiny", **changes: object) -> EncoderConfig:
    """The shape of `model=NAME scale=SCALE`, without the seconds that its composition by Hydra takes."""
    files = (OmegaConf.load(conf_directory() / f"{file}.yaml") for file in (f"scale/{scale}", f"model/{name}"))
    return merged(*files, changes)
