"""Parameters of a model: each tensor once, and as used. Also for models on the meta device, which need no memory."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import nn

from harness.models.config import EncoderConfig
from harness.models.derive import KINDS, Group, Origin, grouped
from harness.models.heads import Classifier, on_meta
from harness.models.objectives.base import Objective
from harness.models.objectives.build import Phases


def count(module: nn.Module | None) -> int:
    """Parameters, each tensor once; 0 for None."""
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())


def trainable(module: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def components(model: Classifier) -> dict[str, int]:
    """Component -> parameters, in the order of the component table; they add up to the total."""
    embeddings = model.encoder.embeddings
    mask = embeddings.mask_embedding  # input in place of a token to predict
    return {
        "token_embedding": count(embeddings.token_embedding) + (0 if mask is None else mask.numel()),
        "position_embedding": count(embeddings.position_embedding),
        "type_embedding": count(embeddings.type_embedding),
        "embedding_projection": count(embeddings.projection),
        "embedding_norm": count(embeddings.norm),
        "layers": count(model.encoder.layers),
        "pooler": count(model.pooler),
        "head": count(model.head),
    }


def effective(model: Any) -> int:
    """Parameters of a model with an encoder, with a shared layer counted at each of its uses."""
    run = [block for blocks in model.encoder.layers.execution_order() for block in blocks]
    once = {parameter for block in run for parameter in block.parameters()}  # blocks may also have parts in common
    return count(model) - sum(parameter.numel() for parameter in once) + sum(map(count, run))


def weights_bytes(model: nn.Module) -> int:
    """Bytes of all parameters."""
    return sum(parameter.nbytes for parameter in model.parameters())


def per_layer(model: Classifier) -> list[dict[str, Any]]:
    """One row per tensor, in the order of the model, with the layers that use it; RuntimeError if rows and totals differ."""
    order = model.encoder.layers.execution_order()
    used = Counter(id(parameter) for blocks in order for block in blocks for parameter in block.parameters())
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "shape": list(parameter.shape),
            "parameters": parameter.numel(),
            "uses": (uses := used.get(id(parameter), 1)),
            "parameters_as_used": uses * parameter.numel(),
            "dtype": str(parameter.dtype).removeprefix("torch."),
            "bytes": parameter.nbytes,
        }
        for name, parameter in model.named_parameters()
    ]
    sums = [sum(row[key] for row in rows) for key in ("parameters", "parameters_as_used", "bytes")]
    totals = [count(model), effective(model), weights_bytes(model)]
    if sums != totals:
        raise RuntimeError(f"tensors add up to {sums} parameters, parameters as used and bytes, the model has {totals}")
    return rows


def sizes(model: Classifier) -> dict[str, int]:
    """Metric name -> value; RuntimeError if the components do not add up."""
    parts = components(model)
    total = count(model)
    if sum(parts.values()) != total:
        raise RuntimeError(f"components add up to {sum(parts.values())} parameters, the model has {total}")
    parameters = _parameters(model, parts["layers"], parts["pooler"] + parts["head"])
    return parameters | {f"model/params_component_{name}": value for name, value in parts.items()}


def of_objective(objective: Objective | Phases | Classifier) -> dict[str, int]:
    """Metric name -> value for a pretraining objective; a generator counts as a head."""
    embeddings, layers = count(objective.encoder.embeddings), count(objective.encoder.layers)
    return _parameters(objective, layers, count(objective) - embeddings - layers)


def _parameters(model: nn.Module, in_layers: int, in_head: int) -> dict[str, int]:
    total = count(model)
    return {
        "model/params_total": total,
        "model/params_trainable": trainable(model),
        "model/params_embedding": total - in_head - in_layers,
        "model/params_encoder": in_layers,
        "model/params_head": in_head,
        "model/params_effective": effective(model),
        "model/weights_bytes": weights_bytes(model),
    }


def by_origin(model: nn.Module, origins: Mapping[str, Origin]) -> list[tuple[str, Group, int]]:
    """Component, tensors of it that came in the same way, and their parameters, in the order of the model."""
    parameters = {name: tensor.numel() for name, tensor in model.state_dict().items()}
    parts: dict[str, dict[str, Origin]] = {}
    for name, origin in origins.items():
        parts.setdefault(component_of(name), {})[name] = origin
    groups = [(part, group) for part, members in parts.items() for group in grouped(members)]
    return [(part, group, sum(parameters[name] for name in group.names)) for part, group in groups]


def component_of(name: str) -> str:
    """The component of `components` that a tensor of this name belongs to; for a head of another kind, its own name."""
    first, *rest = name.split(".")
    if first != "encoder":
        return first
    if rest[0] != "embeddings":
        return rest[0]
    part = rest[1].replace("mask_embedding", "token_embedding")
    return f"embedding_{part}" if part in ("projection", "norm") else part


def of_weights(model: nn.Module, origins: Mapping[str, Origin]) -> dict[str, float | None]:
    """Metric name -> parameters that are those of the weights, derived from them and random, and the largest error."""
    groups = by_origin(model, origins)
    counts = {f"model/params_{kind}": sum(n for _, one, n in groups if one.origin.kind == kind) for kind in KINDS}
    errors = [group.origin.error for _, group, _ in groups if group.origin.error is not None]
    return counts | {"model/weights_error": max(errors, default=None)}


def published_sizes(config: EncoderConfig, num_outputs: int, head: type[Classifier]) -> dict[str, int]:
    """The component table of the variant at BERT-base dimensions: metric name -> parameters."""
    parts = components(on_meta(config, num_outputs, head))
    named = {f"published/params_component_{name}": value for name, value in parts.items()}
    return {"published/params_total": sum(parts.values()), **named}
