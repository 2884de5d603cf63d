"""How tensors and non-linearities are called there and here: tables that are read in both directions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.models.choices import Activation
from harness.models.config import EncoderConfig

ACTIVATIONS = {
    "gelu": Activation.gelu,
    "gelu_new": Activation.gelu_tanh,
    "gelu_pytorch_tanh": Activation.gelu_tanh,
    "gelu_python": Activation.gelu,
    "gelu_fast": Activation.gelu_tanh,
    "gelu_python_tanh": Activation.gelu_tanh,
    "gelu_accurate": Activation.gelu_tanh,
    "relu": Activation.relu,
    "relu2": Activation.relu2,
    "silu": Activation.silu,
    "swish": Activation.silu,
    "tanh": Activation.tanh,
}
"""Published names of non-linearities that ours has."""

ConfigJson = dict[str, Any]
"""What a config.json holds."""

LISTED = 8
"""Names of each kind that an error lists."""


@dataclass(frozen=True)
class Names:
    """How a family calls its tensors."""

    prefix: str  # pattern of what a model with a head puts before the names of the bare encoder
    modules: Mapping[str, str]  # pattern of a published module -> ours; `#0`, `#1`, ... are rows of one fused tensor, in order
    ignored: str = r"$^"  # pattern of published tensors that ours has no place for on purpose


def renamed(state: Mapping[str, Tensor], names: Names) -> dict[str, Tensor]:
    """Tensors under our names, parts fused along the first dimension; an unknown one keeps its published name."""
    parts: dict[str, dict[int, Tensor]] = {}
    for published, tensor in state.items():
        name = re.sub(rf"^(?:{names.prefix})", "", published)
        if name.endswith(("position_ids", "token_type_ids", "inv_freq")) or re.search(names.ignored, name):
            continue
        ours, _, part = (_our_name(name, names) or published).partition("#")
        parts.setdefault(ours, {})[int(part or 0)] = tensor
    return {name: _fused([rows[part] for part in sorted(rows)]) for name, rows in parts.items()}


def _fused(rows: list[Tensor]) -> Tensor:
    """One tensor, or the first one of integers, which would become numbers among the others and is refused later."""
    integers = next((tensor for tensor in rows if not tensor.is_floating_point()), None)
    return torch.cat(rows) if len(rows) > 1 and integers is None else rows[0] if integers is None else integers


def _our_name(name: str, names: Names) -> str | None:
    """`module.kind` or `module.kind#part`; None for a module that no pattern knows."""
    module, _, kind = name.rpartition(".")
    kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)  # as the oldest checkpoints call them
    for pattern, target in names.modules.items():
        match = re.fullmatch(pattern, module)
        if match:
            ours, hash_mark, part = match.expand(target).partition("#")
            return f"{ours}.{kind}{hash_mark}{part}"
    return None


@dataclass(frozen=True)
class Layout:
    """Where the parts of a checkpoint stand: tables of published modules -> ours, of one spelling each, as in Names."""

    base: str  # prefix of the names of the bare encoder
    inside: Mapping[str, str]  # of the bare encoder
    beside: Mapping[str, str]  # of a classifier; its names win over those inside where there is a head
    masked: Mapping[str, str]  # of the head for masked tokens, `masked_head.`; empty where the family has none like ours
    masked_bias: str = ""  # module that holds the bias of that head's output beside the output itself
    masked_act: Activation | None = None  # the one non-linearity of that head; None: that of the layers

    def published(self, fine_tuned: bool) -> dict[str, dict[int, str]]:
        """Our module -> number of the part -> published module, `{}` for the number of a layer."""
        inside = _inverse(self.inside, self.base)
        beside = _inverse(self.beside)
        return (inside | beside if fine_tuned else beside | inside) | _inverse(self.masked)


def _inverse(modules: Mapping[str, str], base: str = "") -> dict[str, dict[int, str]]:
    layers: dict[str, dict[int, str]] = {}
    for pattern, target in modules.items():
        ours, _, part = target.partition("#")
        template = base + pattern.replace(r"(\d+)", "{}").replace("\\.", ".")
        layers.setdefault(ours.replace(r"\1", "{}"), {})[int(part or 0)] = template
    return layers


def unrenamed(state: Mapping[str, Tensor], layout: Layout) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors under their published names, fused ones cut apart, and the names that the family has no place for."""
    table = layout.published(any(name.startswith("head.") for name in state))
    tensors: dict[str, Tensor] = {}
    homeless = []
    for name, tensor in state.items():
        module, _, kind = name.rpartition(".")
        number = re.search(r"(?<=\.)\d+(?=\.)", module)
        parts = table.get(re.sub(r"(?<=\.)\d+(?=\.)", "{}", module))
        if parts is None:
            homeless.append(name)
            continue
        rows = tensor.chunk(len(parts))
        for part, template in parts.items():
            tensors[f"{template.format(number[0] if number else '')}.{kind}"] = rows[part].contiguous()
    return tensors, homeless


def read_keys(config_json: ConfigJson, keys: Mapping[str, str]) -> dict[str, Any]:
    """Our key -> value of the published one; one that is absent or null is left to EncoderConfig, whose defaults are BERT's."""
    return {ours: config_json[theirs] for ours, theirs in keys.items() if config_json.get(theirs) is not None}


def written_keys(shape: EncoderConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """Published key -> value of ours."""
    return {theirs: getattr(shape, ours) for ours, theirs in keys.items()}


def activation(config_json: ConfigJson, key: str, default: str) -> Activation:
    """The non-linearity that `key` names; ValueError with the choices."""
    value = config_json.get(key, default)
    if value not in ACTIVATIONS:
        raise ValueError(f"{key}={value!r} is none of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[value]


def activation_name(function: Activation) -> str:
    """As published: the first of its names."""
    return next(name for name, known in ACTIVATIONS.items() if known is function)


def refuse_misfits(what: str, expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """ValueError, beginning with `what`, for tensors that are missing, left over or of another shape."""
    shapes = {name: (tuple(tensor.shape), tuple(found[name].shape)) for name, tensor in expected.items() if name in found}
    problems = {
        "missing": sorted(expected.keys() - found.keys()),
        "left over": sorted(found.keys() - expected.keys()),
        "no floating-point numbers": [name for name, tensor in found.items() if not tensor.is_floating_point()],
        "of another shape": [f"{name} {there} instead of {here}" for name, (here, there) in shapes.items() if here != there],
    }
    if any(problems.values()):
        raise ValueError(f"{what}: {'; '.join(f'{kind}: {listed(names)}' for kind, names in problems.items() if names)}")


def listed(names: Sequence[str], most: int = LISTED) -> str:
    """The names, of many the first ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def refuse(config_json: ConfigJson, allowed: Mapping[str, object]) -> None:
    """ValueError for a key that is there with another value than the one that ours can express."""
    for key, value in allowed.items():
        if config_json.get(key, value) != value:
            raise ValueError(f"{key}={config_json[key]!r} cannot be expressed: only {value!r} can")
