"""Shapes as the files of conf/ give them."""

from dataclasses import fields
from pathlib import Path

from omegaconf import OmegaConf

from harness.config.schema import ModelConfig
from harness.models.config import EncoderConfig
from harness.paths import conf_directory


def merged(*parts: object) -> EncoderConfig:
    """The shape that these nodes or dicts of `model` keys make together, what else they say of a variant left out."""
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), *parts))
    return EncoderConfig(**{field.name: getattr(config, field.name) for field in fields(EncoderConfig)})


def variant(name: str, scale: str = "tiny", **changes: object) -> EncoderConfig:
    """The shape of `model=NAME scale=SCALE`, without the seconds that its composition by Hydra takes."""
    return merged(*map(OmegaConf.load, files_of(name, scale)), changes)


def files_of(name: str, scale: str) -> list[Path]:
    """The files that say the shape; the last one is there for published sizes that are not BERT's."""
    files = [
        conf_directory() / f"{file}.yaml" for file in (f"scale/{scale}", f"model/{name}", f"model/published/{name}_{scale}")
    ]
    return [file for file in files if file.is_file()]
