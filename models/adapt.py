"""Which parameters a fine-tuning trains: all, those above the encoder, biases, or matrices of low rank.

B sequences, T tokens, D features of the input, W features of a query or value, R rank, N adapted parts of a projection.
"""

import re
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.config import AdaptationConfig, Trains
from harness.models.encoder import generator_of
from harness.models.heads import Classifier
from harness.models.stack import Stack

ALPHA = 8
"""Low-rank products are scaled by ALPHA / R, as for RoBERTa-base with rank 8 in arXiv:2106.09685."""

PARTS = {
    **dict.fromkeys(("query", "q_proj", "q_lin", "query_proj", "q"), (0, 1)),  # the others of transformers
    **dict.fromkeys(("value", "v_proj", "v_lin", "value_proj", "v"), (0, 1)),
    "Wqkv": (0, 2, 3),
    "key_value": (1, 2),
    "query_key_value": (0, 2, 3),
}
"""Name of a projection -> places of queries and values among its parts, and the number of these."""


class LowRank(nn.Module):
    """Adds the product of `up` (N, W, R) and `down` (N, R, D) to the queries and values of a projection; `up` starts as 0
    (arXiv:2106.09685, section 4.1)."""

    def __init__(self, linear: nn.Linear, places: tuple[int, ...], count: int, rank: int) -> None:
        super().__init__()
        self.places, self.count, self.scale = places, count, ALPHA / rank
        self.down = nn.Parameter(linear.weight.new_zeros(len(places), rank, linear.in_features))
        self.up = nn.Parameter(linear.weight.new_zeros(len(places), linear.out_features // count, rank))
        self.handle = linear.register_forward_hook(self.added)

    def added(self, linear: nn.Linear, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        """Input (..., D) and output of the projection -> the output with the low-rank products added."""
        parts = list(output.chunk(self.count, dim=-1))
        for place, down, up in zip(self.places, self.down, self.up, strict=True):
            parts[place] = parts[place] + self.scale * F.linear(F.linear(inputs[0], down), up)
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    @torch.no_grad()
    def merge(self, linear: nn.Linear) -> None:
        """Adds the product of the matrices to the weight and removes the hook."""
        rows = linear.weight.unflatten(0, (self.count, -1))  # a view
        for place, down, up in zip(self.places, self.down, self.up, strict=True):
            rows[place] += self.scale * (up @ down)
        self.handle.remove()


def adapt(model: Classifier, options: AdaptationConfig, seed: int = 0) -> None:
    """Freezes all parameters that are not trained, and adds low-rank matrices for LoRA.

    ValueError for a model without the parameters to train, or if frozen layers share weights with others.
    """
    encoder, order = model.encoder, model.encoder.layers.execution_order()
    frozen = _modules(order[: options.freeze_layers or 0])
    said = f"finetune.freeze_layers={options.freeze_layers}"
    if options.freeze_layers is not None:
        if options.freeze_layers > len(order):
            raise ValueError(f"{said} is more than the {len(order)} layers of the model")
        if frozen & _modules(order[options.freeze_layers :]):
            raise ValueError(f"{said}: layers above share the weights of the frozen ones; set model.num_hidden_groups=null")
        read = [stack for stack in encoder.layers.modules() if isinstance(stack, Stack) and frozen & {*stack.modules()}]
        tables = [table for stack in read for table in (stack.bias, stack.relative) if table is not None]
        frozen |= {module for table in (encoder.embeddings, *tables) for module in table.modules()}
    fixed = {parameter for module in frozen for parameter in module.parameters(recurse=False)}
    if options.trains is not Trains.all:
        kept = r"(^|\.)bias[^.]*$|_bias$" if options.trains is Trains.bitfit else r"\.low_rank\."
        fixed |= {parameter for name, parameter in encoder.named_parameters() if not re.search(kept, name)}
    for parameter in fixed:
        parameter.requires_grad_(False)
    if options.trains is Trains.lora:
        for name, module in [*encoder.layers.named_modules()]:
            *places, count = PARTS.get(name.rpartition(".")[2], (0,))
            if not places or not isinstance(module, nn.Linear) or module in frozen or hasattr(module, "low_rank"):
                continue
            module.low_rank = added = LowRank(module, tuple(places), count, options.lora_rank)
            if not module.weight.is_meta:  # uniform, with a deviation that keeps the size of its input, as in the paper's code
                drawn = torch.rand(added.down.shape, generator=generator_of(seed, f"{name}.low_rank"))
                added.down.data.copy_(module.in_features**-0.5 * (2 * drawn - 1))
    trained = any(parameter.requires_grad for parameter in encoder.parameters())
    if not trained and options.trains in (Trains.bitfit, Trains.lora):
        missing = "biases" if options.trains is Trains.bitfit else "queries and values"
        raise ValueError(f"finetune.trains={options.trains.value}: no {missing} of the encoder are left to train")


def merge(model: nn.Module) -> None:
    """Merges low-rank matrices into their weights and unfreezes all parameters."""
    for linear in [module for module in model.modules() if isinstance(module, nn.Linear) and hasattr(module, "low_rank")]:
        cast(LowRank, linear.low_rank).merge(linear)
        del linear.low_rank
    model.requires_grad_(True)


def _modules(layers: Sequence[Iterable[nn.Module]]) -> set[nn.Module]:
    return {module for blocks in layers for block in blocks for module in block.modules()}
