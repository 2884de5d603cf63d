"""Where `recipe=small` does not belong: refused before published weights, said of models larger than it was seen at."""

from omegaconf import OmegaConf

from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.paths import conf_directory
from models.objectives.config import ObjectiveName

SEEN_DEPTH, SEEN_WIDTH = 3, 192
"""Layers and hidden size of the largest model that `recipe=small` was seen to train."""


def refuse_misfit(config: RunConfig, recipe: str | None, keys: list[str]) -> None:
    """InputError where published weights would be trained on at the rate for random ones, unless `keys` of the user set it."""
    starts_from_weights = config.model.init_from is not None and config.pretrain.objective is not ObjectiveName.none
    is_its_rate = config.pretrain.learning_rate == _small_rate() and "pretrain.learning_rate" not in keys
    if recipe == "small" and starts_from_weights and is_its_rate:
        raise InputError(
            f"recipe=small is for randomly initialised models, not for model.init_from={config.model.init_from}: "
            "add recipe=bert, or set pretrain.learning_rate"
        )


def note_on_scale(config: RunConfig) -> str | None:
    """One line on a pretraining with the rate of `recipe=small` of a deeper or wider model than it was seen at."""
    shape, rate = config.model, config.pretrain.learning_rate
    is_seen = shape.depth <= SEEN_DEPTH and shape.hidden_size <= SEEN_WIDTH
    if config.pretrain.objective is ObjectiveName.none or shape.init_from is not None or is_seen or rate != _small_rate():
        return None
    return (
        f"pretrain.learning_rate={rate:g} of recipe=small was found up to L{SEEN_DEPTH} H{SEEN_WIDTH}, here "
        f"L{shape.depth} H{shape.hidden_size}: L6 H128 learned at 1e-3 alone, L4 H256 at neither within 1 M tokens; "
        "set a lower rate, or take recipe=bert"
    )


def _small_rate() -> float:
    return OmegaConf.load(conf_directory() / "recipe" / "small.yaml").learning_rate
