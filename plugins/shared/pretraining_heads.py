"""Parameters that a pretraining trains besides the encoder: its heads, and the generator if there is one."""

from dataclasses import replace

import torch
from torch import nn

from harness.config.resolve import SENTINELS
from harness.config.schema import ModelConfig, PretrainConfig
from harness.measure.size import count
from harness.models.heads import MaskedLMHead, PlainLMHead
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.build import kind_of, refuse_misfit
from harness.models.objectives.config import ObjectiveName
from harness.models.objectives.masked_lm import MaskedLM

TIED = "tied to token embedding"
"""In place of a number, for an output matrix that is the token embedding."""


def objective_of(model: ModelConfig, pretrain: PretrainConfig) -> ObjectiveName:
    """The configured one, or that of the model's paper where none is configured."""
    return model.objective if pretrain.objective is ObjectiveName.none else pretrain.objective


def shapes(model: ModelConfig, pretrain: PretrainConfig) -> Objective:
    """The objective without values; for a distillation, its student. ValueError where the model cannot be trained by it."""
    config = replace(pretrain, objective=objective_of(model, pretrain))
    refuse_misfit(config, model)
    kind = MaskedLM if config.objective is ObjectiveName.distillation else kind_of(config)
    with torch.device("meta"):
        starts = torch.ones(model.vocab_size, dtype=torch.bool, device="cpu")  # masks are drawn on it
        sentinels = range(model.vocab_size)[: -SENTINELS - 1 : -1]
        objective = kind(config, model, Vocabulary(model.vocab_size, 0, 0, 0, 0, starts, tuple(sentinels)))
    if config.objective is ObjectiveName.distillation and not (config.soft_weight or config.masked_weight):
        objective.masked_head = None  # it compares hidden states alone
    return objective


def components(objective: Objective) -> dict[str, int | str]:
    """Component -> parameters that no component before it nor the encoder has, or TIED."""
    counted = {id(parameter) for parameter in objective.encoder.parameters()}
    sizes: dict[str, int | str] = {}
    for name, module in objective.named_children():
        if module is objective.encoder:
            continue
        if isinstance(module, MaskedLMHead):
            matrix = 0 if id(module.output.weight) in counted else module.output.weight.numel()
            sizes[name] = _new(module, counted) - count(module.decoder) - matrix
            sizes |= {} if module.decoder is None else {f"{name}.decoder": count(module.decoder)}
            sizes[f"{name}.output"] = matrix or TIED
        elif isinstance(module, PlainLMHead):
            sizes[f"{name}.output"] = _new(module, counted) or TIED
        else:
            sizes[name] = _new(module, counted)
        counted |= {id(parameter) for parameter in module.parameters()}
    return sizes


def _new(module: nn.Module, counted: set[int]) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if id(parameter) not in counted)
