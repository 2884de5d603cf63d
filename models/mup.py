"""Maximal update parametrisation: initial values and rates by width, so that one rate suits all widths (arXiv:2203.03466).

Table 8 of the paper, for Adam, relative to a base width at which nothing changes. Its factor of the logits, which are those of
the token embedding where the head is tied to it, is in the norm before them: under Adam the same, and no pass is changed. The
third part, products of attention over the head size in place of its root, is `model.base_head_size`.
"""

import torch
from torch import nn

from harness.models.config import Body, EncoderConfig, Init, Position
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import refuse_combinations

POWERS = {
    "input": (0.0, 0.0),  # tables, biases, norms: they read something whose size does not grow
    "hidden": (-0.5, -1.0),  # from features to features
    "output": (-1.0, -1.0),  # from features to classes
}
"""Role of a tensor -> powers of width over base width that multiply its initial values, and its rate."""

MOST_CLASSES = 2
"""Rows of a matrix that scores classes; the widest matrix from features to features has more."""


def roles(model: nn.Module) -> dict[str, str]:
    """Name of each parameter -> its role."""
    heads = [module for module in model.modules() if isinstance(module, MaskedLMHead)]
    before_logits = {parameter for head in heads for parameter in head.norm.parameters()}
    tables = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    tables |= {head.output.weight for head in heads}

    def role(parameter: nn.Parameter) -> str:
        if parameter in before_logits or (parameter.dim() > 1 and len(parameter) <= MOST_CLASSES and parameter not in tables):
            return "output"
        return "input" if parameter.dim() < 2 or parameter in tables else "hidden"

    return {name: role(parameter) for name, parameter in model.named_parameters()}


def rates(model: nn.Module, wider: float) -> dict[str, float]:
    """Name of each parameter -> factor of its learning rate, in a model `wider` times as wide as the base."""
    return {name: wider ** POWERS[role][1] for name, role in roles(model).items()}


@torch.no_grad()
def scale_initial_values(model: nn.Module, wider: float) -> None:
    """Scales initial values of the standard parametrisation, in a model `wider` times as wide as the base."""
    of = roles(model)
    for name, parameter in model.named_parameters():
        parameter.mul_(wider ** POWERS[of[name]][0])


def refuse_misfit(shape: EncoderConfig) -> None:
    """ValueError naming the first key for which the roles of this module do not hold."""
    refused = {
        f"body={shape.body.value}": shape.body is not Body.transformer,
        f"position={shape.position.value}": shape.position in (Position.disentangled, Position.relative),
        f"embedding_size={shape.embedding_size}": shape.embedding_size not in (None, shape.hidden_size),
        "embedding_scale=true, which grows with width": shape.token_scale != 1,
        f"init={shape.init.value}": shape.init is Init.small_embeddings,
    }
    refuse_combinations("mup_base_width", refused)
