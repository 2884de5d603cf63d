"""How large gradients are, and how evenly they are spread over the layers, before they are clipped.

The spread is the largest norm of a layer's gradients over the smallest one: 1 where all layers learn alike, large where some
hardly learn. That is one over the least relative gradient norm of arXiv:2004.08249 (section 3), taken over a layer's parameters
as in arXiv:2002.04745 (section 3).
"""

import statistics

import torch
from torch import Tensor, nn

from harness.models.encoder import Encoder
from harness.tracking.run_log import Reader, RunLog
from harness.training.distributed import plain

MEDIANS = ("gradient_norm", "gradient_spread")
"""Curves of a training of which a run has the median."""

Layers = list[list[nn.Parameter]]


def layers_of(model: nn.Module) -> Layers:
    """The parameters of each layer of the model's encoder, of layers that share all of theirs once."""
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, Encoder):
        return []
    layers: dict[tuple[int, ...], list[nn.Parameter]] = {}
    for blocks in encoder.layers.execution_order():
        parameters = list(dict.fromkeys(parameter for block in blocks for parameter in block.parameters()))
        layers[tuple(map(id, parameters))] = parameters
    return list(layers.values())


def spread(layers: Layers) -> Tensor | None:
    """Largest norm of a layer's gradients over the smallest, () on their device; None where fewer than two layers have any."""
    gradients = [[p.grad for p in layer if p.grad is not None] for layer in layers]
    norms = [nn.utils.get_total_norm(layer) for layer in gradients if layer]
    if len(norms) < 2:
        return None
    over = torch.stack(norms)
    return plain(over.max() / over.min())


def write_medians(run_log: RunLog, phase: str) -> None:
    """Writes the medians of the curves over the whole training, points of earlier processes included."""
    points: dict[str, list[float]] = {}
    for entry in Reader(run_log.folder).new_entries():
        points.setdefault(entry.get("key", ""), []).append(entry.get("value", 0.0))
    for name in MEDIANS:
        if values := points.get(f"{phase}/{name}"):
            run_log.value(f"{phase}/{name}_p50", statistics.median(values))
