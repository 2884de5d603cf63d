"""Where `recipe=small` does not belong: refused before published weights and where positions differ, said of large models."""

from omegaconf import OmegaConf

from harness.config.schema import RunConfig, StatedRecipe
from harness.errors import InputError
from harness.paths import conf_directory
from models.objectives.config import ObjectiveName


def refuse_misfit(config: RunConfig, recipe: str | None, keys: list[str], swept: list[str]) -> None:
    """InputError for published weights at the rate for random ones, and for positions of which some have a head start.

    `keys` are those that the user sets: what they say is meant.
    """
    neighbours = "pretrain.neighbour_heads"
    is_pretrained = config.pretrain.objective is not ObjectiveName.none
    if is_pretrained and config.pretrain.neighbour_heads and "model.position" in swept and neighbours not in keys:
        raise InputError(
            f"recipe={recipe} begins learned positions, and no others, with heads that look at neighbours, and model.position "
            f"is swept: add {neighbours}=false for an equal start, or {neighbours}=true to keep this one"
        )
    starts_from_weights = config.model.init_from is not None and config.pretrain.objective is not ObjectiveName.none
    if recipe == "small" and starts_from_weights and "pretrain.learning_rate" not in keys:
        raise InputError(
            f"recipe=small is for randomly initialised models, not for model.init_from={config.model.init_from}: "
            "add recipe=bert, or set pretrain.learning_rate"
        )


def note_on_scale(config: RunConfig) -> str | None:
    """One line on a pretraining of a model that is deeper or wider than those that `recipe=small` of its scale was found at."""
    shape, stated = config.model, config.model.recipe
    is_small = config.pretrain.learning_rate == stated.learning_rate
    if config.pretrain.objective is ObjectiveName.none or shape.init_from is not None or not is_small:
        return None
    found = _shapes_that_learned(stated)
    if any(shape.depth <= depth and shape.hidden_size <= width for depth, width in found):
        return None
    shapes = " and ".join(f"L{depth} H{width}" for depth, width in found)
    tried = f"were found at {shapes}" if found else "were tried at no scale"
    return (
        f"pretrain.learning_rate={stated.learning_rate:g} and initial values of {stated.initializer_range:g} (recipe=small) "
        f"{tried}, here L{shape.depth} H{shape.hidden_size}: larger models may need lower ones; set them, or take recipe=bert"
    )


def _shapes_that_learned(recipe: StatedRecipe) -> list[tuple[int, int]]:
    """Layers and hidden sizes of the scales that state the same."""
    scales = [OmegaConf.load(path) for path in sorted((conf_directory() / "scale").glob("*.yaml"))]
    return [(scale.num_hidden_layers, scale.hidden_size) for scale in scales if scale.get("recipe") == vars(recipe)]
