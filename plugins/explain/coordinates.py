"""Sizes of activations over widths after a few steps of pretraining: the coordinate check of arXiv:2203.03466, appendix D.1.

Where the rate suits all widths, what attention and feed-forward add and the scores over the vocabulary are about as large at
every width. Where they grow, a rate that suits a narrow model is too high for a wide one. Tokens are random.
"""

from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import cast

import torch
from torch import Tensor, nn

from harness.config.schema import RunConfig
from harness.models import mup
from harness.models.batch import Batch
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.stack import Stack
from harness.training import pretrain
from harness.training.optimiser import make_optimiser

VOCABULARY, ROWS, LENGTH, STEPS = 512, 8, 32, 4
"""Tokens, sequences of a step and tokens of a sequence, and steps."""


def coordinates(config: RunConfig, times: int) -> dict[str, float]:
    """Place -> mean absolute activation after STEPS steps at the whole rate, of the variant that is so many times as wide.

    It has as many times the heads, and its feed-forward is as many times as wide; depth and head size stay.
    """
    sizes = {name: getattr(config.model, name) * times for name in ("hidden_size", "num_attention_heads", "intermediate_size")}
    shape = replace(config.model, **sizes, vocab_size=VOCABULARY, pad_token_id=0)
    vocabulary = Vocabulary(VOCABULARY, 0, 1, 2, 3, torch.ones(VOCABULARY, dtype=torch.bool))
    objective = pretrain.build(replace(config, model=shape), vocabulary).phases[0].train()
    rates = mup.rates(objective, pretrain.times_wider(config.pretrain, shape))
    optimiser = make_optimiser(objective, config.pretrain, rates)
    for group in optimiser.param_groups:
        group["lr"] *= group["rate_factor"]
    ids = torch.randint(4, VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
    batch = objective.make_batch(Batch(ids), list(range(ROWS)))
    found: dict[str, list[float]] = {}
    for step in range(STEPS + 1):
        torch.manual_seed(step)
        if step == STEPS:
            _measure(objective, found)
        objective(batch).backward()
        optimiser.update()
    return {place: fmean(values) for place, values in found.items()}


def _measure(objective: Objective, found: dict[str, list[float]]) -> None:
    """From now on every forward pass adds its mean absolute activations."""

    def add(place: str, _module: nn.Module, _inputs: object, output: Tensor) -> None:
        found.setdefault(place, []).append(output.detach().abs().mean().item())

    for number, (attention, feed_forward) in enumerate(cast(Stack, objective.encoder.layers).execution_order(), 1):
        attention.get_submodule("attention").register_forward_hook(partial(add, f"attention {number}"))
        feed_forward.feed_forward.register_forward_hook(partial(add, f"feed-forward {number}"))
    (head,) = (module for module in objective.children() if isinstance(module, MaskedLMHead))
    head.register_forward_hook(partial(add, "logits"))
