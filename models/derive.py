"""Derives the weights of an encoder from those of another one: a published one made smaller, faster or longer.

`derived` carries out the changes of a shape in one order: layers, sharing, pieces, heads, feed-forward, positions, types,
embeddings. Each step takes the tensors that the steps before it left. What cannot derive is refused by the name of its key.
E embedding size, D hidden size.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from harness.models.config import Activation, EncoderConfig, Norm, Sharing
from harness.models.keys import KEYS, refuse_underived, spaced

State = dict[str, Tensor]

SIGMOID_OF_GELU = 1.702
"""silu(1.702 x) / 1.702 is GELU within 0.021 (arXiv:1606.08415, section 2)."""

TABLES = ("token_embedding.weight", "position_embedding.weight", "type_embedding.weight")
EMBEDDINGS, LAYERS = "encoder.embeddings.", "encoder.layers."
ATTENTIONS, FEED_FORWARDS = "attentions", "feed_forwards"


class Origin(NamedTuple):
    """Where a tensor comes from: `kept`, `derived` (`how`, with the relative error where there is one), or `random`."""

    kind: str
    how: str = ""
    error: float | None = None


KEPT, RANDOM = Origin("kept"), Origin("random")
KINDS = ("kept", "derived", "random")


@dataclass
class Weights:
    """Tensors between two shapes, and the origin of each."""

    state: State
    origins: dict[str, Origin]

    def put(self, tensors: State, origin: Origin) -> None:
        """Adds or replaces tensors."""
        self.state |= {name: tensor.contiguous() for name, tensor in tensors.items()}
        self.origins |= dict.fromkeys(tensors, origin)

    def drop(self, names: Iterable[str]) -> None:
        """Removes tensors."""
        for name in list(names):
            del self.state[name], self.origins[name]


def derived(
    state: State,
    source: EncoderConfig,
    target: EncoderConfig,
    layers: Sequence[int] | None = None,
    pieces: Sequence[int] | None = None,
) -> tuple[State, dict[str, Origin]]:
    """Tensors of `source` under our names as those of `target`, and where each comes from; other tensors are passed on.

    `layers`: those that are kept, by default evenly spaced from the first to the last (arXiv:1910.01108). `pieces`: rows of the
    token table that are kept, by default all. Tensors that only `target` has are absent. ValueError naming the keys that cannot
    derive.
    """
    if target.encoder is not None:  # computed by another package, and read as it is
        if source.encoder != target.encoder or layers is not None:
            raise ValueError(f"cannot derive from these weights: model.encoder={target.encoder} cannot be changed")
        return dict(state), dict.fromkeys(state, KEPT)
    refuse_underived(source, target, layers)
    weights = Weights(dict(state), dict.fromkeys(state, KEPT))
    _keep_layers(weights, source, target, layers)
    if pieces is not None:
        table = f"{EMBEDDINGS}token_embedding.weight"
        how = f"{len(pieces):,} of {len(weights.state[table]):,} pieces"
        weights.put({table: weights.state[table][list(pieces)]}, Origin("derived", how))
    for kind, apply in STEPS.items():
        if any(getattr(source, key) != getattr(target, key) for key in KEYS[kind]):
            apply(weights, source, target)
    return weights.state, weights.origins


def _keep_layers(weights: Weights, source: EncoderConfig, target: EncoderConfig, layers: Sequence[int] | None) -> None:
    """One module for each layer of the target, whatever the source shares."""
    chosen = spaced(source.depth, target.depth) if layers is None else list(layers)
    keys = (source.num_hidden_groups, source.sharing) == (target.num_hidden_groups, target.sharing)
    if chosen == list(range(source.depth)) and keys:
        return
    before, origins = dict(weights.state), dict(weights.origins)
    weights.drop(name for name in before if name.startswith((f"{LAYERS}{ATTENTIONS}.", f"{LAYERS}{FEED_FORWARDS}.")))
    for kind in (ATTENTIONS, FEED_FORWARDS):
        number = _modules(source, kind)
        for layer, old in enumerate(chosen):
            module = old if number == source.depth else source.group_of(old)
            saw, sees = source.window_of(old) or "all", target.window_of(layer) or "all"
            moved = f"layer {old} of {source.depth}" + (f", whose window was {saw}, not {sees}" if saw != sees else "")
            for name in [name for name in before if name.startswith(f"{LAYERS}{kind}.{module}.")]:
                new = f"{LAYERS}{kind}.{layer}.{name.removeprefix(f'{LAYERS}{kind}.{module}.')}"
                weights.put({new: before[name]}, Origin("derived", moved) if old != layer else origins[name])
    if not target.norms_first_layer:
        weights.drop([name for name in weights.state if name.startswith(f"{LAYERS}{ATTENTIONS}.0.norm.")])
    _share(weights, target)


def _modules(config: EncoderConfig, kind: str) -> int:
    """Distinct modules of a kind in the stack."""
    alone = Sharing.feed_forward if kind == ATTENTIONS else Sharing.attention
    return config.depth if config.sharing is alone else config.groups


def _share(weights: Weights, target: EncoderConfig) -> None:
    """The mean of the layers of a group, of what they have: a first layer may lack a norm."""
    for kind in (ATTENTIONS, FEED_FORWARDS):
        if _modules(target, kind) == target.depth:
            continue
        prefix = f"{LAYERS}{kind}."
        groups: dict[str, dict[int, Tensor]] = {}
        for name in [name for name in weights.state if name.startswith(prefix)]:
            layer, _, part = name.removeprefix(prefix).partition(".")
            groups.setdefault(f"{prefix}{target.group_of(int(layer))}.{part}", {})[int(layer)] = weights.state[name]
            weights.drop([name])
        for name, members in groups.items():
            each = torch.stack(list(members.values()))
            mean = each.mean(dim=0)
            how = f"mean of layers {', '.join(map(str, members))}"
            weights.put({name: mean}, Origin("derived", how, _relative(each - mean, each)))


def _modules_of(weights: Weights, ending: str) -> list[str]:
    """Names of the modules whose weight ends so."""
    return [
        name.removesuffix(".weight") for name in weights.state if name.startswith(LAYERS) and name.endswith(f"{ending}.weight")
    ]


def _keep_heads(weights: Weights, source: EncoderConfig, target: EncoderConfig) -> None:
    """The heads of the largest norm of values times that of outputs (compare arXiv:1905.10650), in their order."""
    size, count = source.head_width, target.num_attention_heads
    for name in _modules_of(weights, "attention.output"):
        fused = name.removesuffix("output") + "query_key_value"
        output, inputs = weights.state[f"{name}.weight"], weights.state[f"{fused}.weight"]
        values = inputs.view(3, source.num_attention_heads, size, -1)[2]
        norms = values.flatten(1).norm(dim=1) * output.view(len(output), -1, size).transpose(0, 1).flatten(1).norm(dim=1)
        heads = norms.topk(count).indices.sort().values
        columns = (heads[:, None] * size + torch.arange(size)).flatten()
        rows = (torch.arange(3)[:, None] * source.attention_width + columns).flatten()
        tensors = {f"{name}.weight": output[:, columns], f"{fused}.weight": inputs[rows]}
        if f"{fused}.bias" in weights.state:
            tensors[f"{fused}.bias"] = weights.state[f"{fused}.bias"][rows]
        weights.put(
            tensors, Origin("derived", f"{count} of {source.num_attention_heads} heads, the largest", _left(norms, heads))
        )


def _feed_forward(weights: Weights, source: EncoderConfig, target: EncoderConfig) -> None:
    """Keeps the units of the largest norm; makes a gate of the old first matrix and values of 1; GELU becomes scaled SiLU."""
    width, gelu = target.feed_forward_width, (Activation.gelu, Activation.gelu_tanh)
    gated = target.gated_feed_forward and not source.gated_feed_forward
    scale = SIGMOID_OF_GELU if source.hidden_act in gelu and target.hidden_act is Activation.silu else 1.0
    for output in _modules_of(weights, "feed_forward.output"):
        first = output.removesuffix("output") + "input"
        # One matrix, or gate and value: (1 or 2, units, D).
        parts = weights.state[f"{first}.weight"].view(-1, source.feed_forward_width, source.hidden_size)
        biases = weights.state.get(f"{first}.bias")
        biases = None if biases is None else biases.view(len(parts), -1)
        last, how, error = weights.state[f"{output}.weight"], [], None
        if width < source.feed_forward_width:
            norms = parts.norm(dim=(0, 2)) * last.norm(dim=0)
            units = norms.topk(width).indices.sort().values
            parts, last, biases = parts[:, units], last[:, units], None if biases is None else biases[:, units]
            error = _left(norms, units)
            how.append(f"{width} of {source.feed_forward_width} units, the largest")
        if scale != 1:
            parts = torch.cat([scale * parts[:1], parts[1:]])
            biases = None if biases is None else torch.cat([scale * biases[:1], biases[1:]])
            last = last / scale
            how.append("GELU as scaled SiLU")
        if gated:
            biases = torch.zeros_like(parts[:, :, 0]) if biases is None else biases
            parts, biases = torch.cat([parts, torch.zeros_like(parts)]), torch.cat([biases, torch.ones_like(biases)])
            how.append("the old first matrix as gate, values of 1")
        tensors = {f"{first}.weight": parts.flatten(0, 1), f"{output}.weight": last}
        tensors |= {} if biases is None else {f"{first}.bias": biases.flatten()}
        weights.put(tensors, Origin("derived", "; ".join(how), error) if how else KEPT)


def _positions(weights: Weights, source: EncoderConfig, target: EncoderConfig) -> None:
    """A table of other length is cut, or repeated after its first one (arXiv:2004.05150); a head of another kind is dropped."""
    name = f"{EMBEDDINGS}position_embedding.weight"
    if target.position is not source.position:
        weights.drop(one for one in weights.state if one.startswith((name, f"{LAYERS}bias", f"{LAYERS}relative")))
        return
    rows = target.max_position_embeddings
    if name not in weights.state or rows == source.max_position_embeddings:
        return
    table, first = weights.state[name], source.position_offset
    repeated = table[first:].repeat(math.ceil(rows / max(1, len(table) - first)), 1)
    how = "the first rows" if rows < len(table) else "the table repeated"
    weights.put({name: torch.cat([table[:first], repeated])[:rows]}, Origin("derived", how))


def _drop_types(weights: Weights, source: EncoderConfig, target: EncoderConfig) -> None:
    """The vector of type 0 goes into the tokens'."""
    types, tokens = (f"{EMBEDDINGS}{table}_embedding.weight" for table in ("type", "token"))
    first = weights.state[types][0] / source.token_scale
    weights.put({tokens: weights.state[tokens] + first}, Origin("derived", "with the vector of type 0"))
    weights.drop([types])


def _factorise(weights: Weights, source: EncoderConfig, target: EncoderConfig) -> None:
    """The best tables of E features a vector, by a truncated SVD of all of them; a norm over E is what one over D was.

    Every table weighs the same, whatever its rows, as each vector is a sum of one row of each. A layer norm is of vectors whose
    mean is 0: centred tables of rank E - 1 at most are exact.
    """
    names = [f"{EMBEDDINGS}{table}" for table in TABLES if f"{EMBEDDINGS}{table}" in weights.state]
    tables = [weights.state[name].double() for name in names]
    E, D = target.embedding_width, source.hidden_size
    centred = source.embedding_norm and source.norm is Norm.layer
    if centred:
        tables = [table - table.mean(dim=1, keepdim=True) for table in tables]
    _, vectors = torch.linalg.eigh(sum(table.T @ table / len(table) for table in tables))  # ascending
    rank = E - centred
    basis = vectors[:, -rank:]  # (D, rank)
    # E coordinates whose mean is 0, so that the layer norm over them only divides.
    within = torch.eye(E, dtype=torch.double)
    if centred:
        within = torch.linalg.qr(torch.cat([torch.ones(E, 1), within[:, : E - 1]], dim=1)).Q[:, 1:]
    for name, table in zip(names, tables, strict=True):
        small = table @ basis @ within.T
        error = _relative(table - table @ basis @ basis.T, table)
        weights.put({name: small.float()}, Origin("derived", f"truncated SVD of rank {rank}", error))
    projection, bias = basis @ within.T, torch.zeros(D)
    if source.embedding_norm:
        gain = weights.state[f"{EMBEDDINGS}norm.weight"].double()
        bias = weights.state.get(f"{EMBEDDINGS}norm.bias", bias)
        projection = gain[:, None] * projection * math.sqrt(D / E)
        plain = {"weight": torch.ones(E), "bias": torch.zeros(E)}
        here = {
            f"{EMBEDDINGS}norm.{part}": value for part, value in plain.items() if f"{EMBEDDINGS}norm.{part}" in weights.state
        }
        weights.put(here, Origin("derived", "in the projection"))
    tensors = {f"{EMBEDDINGS}projection.weight": projection.float(), f"{EMBEDDINGS}projection.bias": bias.clone()}
    weights.put(tensors, Origin("derived", f"truncated SVD of rank {rank}"))


class Group(NamedTuple):
    """Tensors of one origin."""

    origin: Origin  # with the largest error of its tensors
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """`derived: truncated SVD of rank 63`."""
        return f"{self.origin.kind}: {self.origin.how}" if self.origin.how else self.origin.kind


def grouped(origins: Mapping[str, Origin]) -> list[Group]:
    """The tensors, grouped by origin."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, origin in origins.items():
        groups.setdefault((origin.kind, origin.how), []).append(name)
    errors = {key: [e for name in names if (e := origins[name].error) is not None] for key, names in groups.items()}
    return [Group(Origin(*key, max(errors[key], default=None)), tuple(names)) for key, names in groups.items()]


def _relative(error: Tensor, of: Tensor) -> float:
    """Frobenius norm of the error over that of the tensor."""
    return (error.norm() / of.norm().clamp_min(1e-30)).item()


def _left(norms: Tensor, kept: Tensor) -> float:
    """Root of the share of squared norms that was left out."""
    out = torch.ones_like(norms, dtype=torch.bool)
    out[kept] = False
    return _relative(norms[out], norms)


STEPS = {
    "heads": _keep_heads,
    "feed-forward": _feed_forward,
    "positions": _positions,
    "types": _drop_types,
    "embeddings": _factorise,
}
"""Kind of change, as in models/keys.py -> its function from weights of the source shape towards the target shape."""
