"""Published checkpoints into our models: one module a family, each translating a config and the names of its tensors.

A family module has `config(given)`, which makes an EncoderConfig from a checkpoint's config.json or raises a ValueError naming
the key that ours cannot express, and `tensors(state, config)`, which gives published tensors the names and shapes of ours.
Equality with the published model is promised outside training: dropout sits in fewer places here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

from models.config import Activation, EncoderConfig
from models.heads import SequenceClassifier

FAMILIES = {
    "bert": "bert",
    "albert": "bert",
    "roberta": "bert",
    "distilbert": "bert",
    "electra": "bert",
    "longformer": "longformer",
    "modernbert": "modernbert",
    "openai-gpt": "gpt",
    "gpt2": "gpt",
    "t5": "t5",
    "deberta": "deberta",
    "deberta-v2": "deberta",
    "xlnet": "xlnet",
}
"""`model_type` of a checkpoint -> the module here that knows it."""

ACTIVATIONS = {
    "gelu": Activation.gelu,
    "gelu_new": Activation.gelu_tanh,
    "gelu_pytorch_tanh": Activation.gelu_tanh,
    "relu": Activation.relu,
    "silu": Activation.silu,
    "swish": Activation.silu,
    "tanh": Activation.tanh,
}
"""Published names of non-linearities that ours has."""

SHOWN = 8
"""Names of each kind that an error lists."""


def config_of(given: dict) -> EncoderConfig:
    """The shape of a published checkpoint; ValueError for a model type or a key that ours cannot express."""
    return _family(given).config(given)


def load(model: SequenceClassifier, state: dict[str, Tensor], given: dict) -> list[str]:
    """Puts published tensors into the model; returns the names of a missing pooler or head, which keep their fresh values.

    ValueError as `translated` raises it, before anything is copied.
    """
    found, fresh = translated(model, state, given)
    model.load_state_dict(found, strict=False)
    return fresh


def translated(model: SequenceClassifier, state: dict[str, Tensor], given: dict) -> tuple[dict[str, Tensor], list[str]]:
    """The published tensors under our names, and the names of a missing pooler or head; a model on the meta device will do.

    ValueError for tensors that are missing, left over or of another shape.
    """
    wanted = model.state_dict()
    found = _family(given).tensors(state, model.encoder.config)
    shapes = {name: (tuple(tensor.shape), tuple(found[name].shape)) for name, tensor in wanted.items() if name in found}
    fresh = [*_absent("pooler.", wanted, found), *_absent("head.", wanted, found)]
    problems = {
        "missing": sorted(wanted.keys() - found.keys() - set(fresh)),
        "left over": sorted(found.keys() - wanted.keys()),
        "of another shape": [f"{name} {there} instead of {here}" for name, (here, there) in shapes.items() if here != there],
    }
    if any(problems.values()):
        told = "; ".join(f"{kind}: {_shortened(names)}" for kind, names in problems.items() if names)
        raise ValueError(f"model_type={given['model_type']!r} tensors do not fit the model: {told}")
    return found, fresh


def _family(given: dict) -> ModuleType:
    kind = given.get("model_type")
    if kind not in FAMILIES:
        raise ValueError(f"model_type={kind!r} is none of {', '.join(sorted(FAMILIES))}")
    return import_module(f"models.huggingface.{FAMILIES[kind]}")


def _absent(prefix: str, wanted: Iterable[str], found: Iterable[str]) -> list[str]:
    """All of a part's names when none of them was found: half a part would be a mistake."""
    return [] if any(name.startswith(prefix) for name in found) else [name for name in wanted if name.startswith(prefix)]


def _shortened(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


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
        if name.endswith("position_ids") or re.search(names.ignored, name):
            continue
        ours, _, part = (_our_name(name, names) or published).partition("#")
        parts.setdefault(ours, {})[int(part or 0)] = tensor
    return {name: _fused([rows[part] for part in sorted(rows)]) for name, rows in parts.items()}


def _fused(rows: list[Tensor]) -> Tensor:
    return torch.cat(rows) if len(rows) > 1 else rows[0]


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


def activation(given: dict, key: str, default: str) -> Activation:
    """The non-linearity that `key` names; ValueError with the choices."""
    value = given.get(key, default)
    if value not in ACTIVATIONS:
        raise ValueError(f"{key}={value!r} is none of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[value]


def refuse(given: dict, allowed: Mapping[str, object]) -> None:
    """ValueError for a key that is there with another value than the one that ours can express."""
    for key, value in allowed.items():
        if given.get(key, value) != value:
            raise ValueError(f"{key}={given[key]!r} cannot be expressed: only {value!r} can")
