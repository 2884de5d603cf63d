"""How published families call tensors and keys of config.json, by the tables of families.toml, in both directions."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness.errors import some_of
from harness.models.config import Activation, EncoderConfig

TABLES = tomllib.loads(Path(__file__).with_name("families.toml").read_text())

ACTIVATIONS = {theirs: Activation(ours) for theirs, ours in TABLES["activations"].items()}
"""Published names of non-linearities -> ours."""

ConfigJson = dict[str, Any]
"""Content of a config.json."""

State = dict[str, Tensor]


def those_of(part: str, state: State) -> State:
    """The tensors whose names begin with a part of the model: `encoder.`."""
    return {name: tensor for name, tensor in state.items() if name.startswith(part)}


listed = partial(some_of, most=8)
"""The names of each kind in an error, of many the first ones."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A `model_type`: its section of families.toml, which says what the fields are. Subclasses add what tables cannot say.

    They have `config(config_json)`, which makes an EncoderConfig from a config.json or raises a ValueError naming the key that
    ours cannot express. A family that can be written has `config_json(shape)`, the nearest config.json to a settled shape.
    """

    name: str
    prefix: str
    encoder: Sequence[str]
    head: Sequence[str]
    keys: Sequence[str]
    written_prefix: str | None = None
    masked: Sequence[str] = ()
    masked_bias: str = ""
    masked_act: str | None = None
    ignored: str = r"$^"
    defaults: ConfigJson = field(default_factory=dict)
    only: ConfigJson = field(default_factory=dict)
    fixed: ConfigJson = field(default_factory=dict)

    @property
    def modules(self) -> dict[str, str]:
        """Published module -> ours, of encoder and classifier."""
        return joined("modules", [*self.encoder, *self.head])

    @classmethod
    def read(cls, name: str) -> "Family":
        """The family of this name."""
        table: dict[str, Any] = {}
        like: str | None = name
        while like is not None:
            table = TABLES[like] | table
            like = TABLES[like].get("like")
        table.pop("like", None)
        return cls(name=name, **table)

    def tensors(self, state: State, config: EncoderConfig) -> State:
        """Published tensors with the names and shapes of ours, of what is there; an unknown one keeps its published name."""
        return self.renamed(state, [*self.encoder, *self.head])

    def published(self, state: State, config: EncoderConfig) -> tuple[State, list[str]]:
        """Our tensors under published names, and our names that have none."""
        return self.unrenamed(state, self.encoder)

    def shape(self, config_json: ConfigJson) -> dict[str, Any]:
        """Our key -> value of the published one, or that of `fixed`; what is absent or null is left to EncoderConfig.

        ValueError for a value of `only` that is another, and for an unknown non-linearity.
        """
        refuse(config_json, self.only)
        config_json, keys = self.defaults | config_json, joined("keys", self.keys)
        values = {ours: config_json[theirs] for ours, theirs in keys.items() if config_json.get(theirs) is not None}
        for ours, value in values.items():
            default = getattr(EncoderConfig, ours)
            in_text = isinstance(default, float) and re.fullmatch(r"[\d.]+(e[-+]?\d+)?", str(value))  # "1e-7"
            if isinstance(default, int | float) and not (isinstance(value, int | float) or in_text):
                raise ValueError(f"{keys[ours]}={value!r:.60}: expected a value such as {default!r}")
        activations = {ours: keys[ours] for ours in ("hidden_act", "pooler") if keys.get(ours) in config_json}
        values |= {ours: activation(theirs, config_json[theirs]) for ours, theirs in activations.items()}
        return values | {key: type(getattr(EncoderConfig, key))(value) for key, value in self.fixed.items()}

    def written(self, shape: EncoderConfig) -> ConfigJson:
        """Published key -> value of ours."""
        values = {theirs: getattr(shape, ours) for ours, theirs in joined("keys", self.keys).items()}
        return {key: activation_name(value) if isinstance(value, Activation) else value for key, value in values.items()}

    def renamed(self, state: Mapping[str, Tensor], tables: Sequence[str], ignored: str | None = None) -> State:
        """Tensors under our names by these tables, parts fused along the first dimension."""
        modules = {re.compile(pattern(theirs)): ours for theirs, ours in joined("modules", tables).items()}
        parts: dict[str, dict[int, Tensor]] = {}
        for published, tensor in state.items():
            name = published.removeprefix(self.prefix)
            if name.endswith(("position_ids", "token_type_ids", "inv_freq")) or re.search(ignored or self.ignored, name):
                continue
            module, _, kind = name.rpartition(".")
            kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)  # as the oldest checkpoints call them
            matches = ((theirs.fullmatch(module), ours) for theirs, ours in modules.items())
            ours, _, part = next((ours.format(*match.groups()) for match, ours in matches if match), "").partition("#")
            rows = parts.setdefault(f"{ours}.{kind}" if ours else published, {})
            if not torch.equal(rows.setdefault(int(part or 0), tensor), tensor):
                raise ValueError(f"two different tensors for {name}: expected one; delete the other, perhaps .gamma or .beta")
        return {name: _fused([rows[part] for part in sorted(rows)]) for name, rows in parts.items()}

    def unrenamed(self, state: Mapping[str, Tensor], encoder: Sequence[str]) -> tuple[State, list[str]]:
        """Tensors under their published names, fused ones cut apart, and the names that the family has no place for."""
        prefix = self.prefix if self.written_prefix is None else self.written_prefix
        inside, beside = _inverse(encoder, prefix), _inverse(self.head)
        is_headed = any(name.startswith("head.") for name in state)
        table = (inside | beside if is_headed else beside | inside) | _inverse(self.masked)
        tensors = {}
        homeless = []
        for name, tensor in state.items():
            module, _, kind = name.rpartition(".")
            numbers = re.findall(r"(?<=\.)\d+(?=\.)", module)
            parts = table.get(re.sub(r"(?<=\.)\d+(?=\.)", "{}", module))
            if parts is None:
                homeless.append(name)
                continue
            rows = tensor.chunk(len(parts))
            for part, template in parts.items():
                tensors[f"{template.format(*numbers)}.{kind}"] = rows[part].contiguous()
        return tensors, homeless


def joined(part: str, names: Sequence[str]) -> dict[str, str]:
    """The tables of these names in one part of families.toml as one."""
    return {key: value for name in names for key, value in TABLES[part][name].items()}


def pattern(published: str) -> str:
    """What matches the name of a published module, with a group for the number of its layer."""
    return re.escape(published).replace(r"\{\}", r"(\d+)")


def _inverse(tables: Sequence[str], prefix: str = "") -> dict[str, dict[int, str]]:
    """Our module -> number of the part -> published module, `{}` for the number of a layer."""
    modules: dict[str, dict[int, str]] = {}
    for theirs, target in joined("modules", tables).items():
        ours, _, part = target.partition("#")
        modules.setdefault(ours, {})[int(part or 0)] = prefix + theirs
    return modules


def _fused(rows: list[Tensor]) -> Tensor:
    """One tensor, or the first one of integers, which would become numbers among the others and is refused later."""
    integers = next((tensor for tensor in rows if not tensor.is_floating_point()), None)
    return torch.cat(rows) if len(rows) > 1 and integers is None else rows[0] if integers is None else integers


def activation(key: str, value: str) -> Activation:
    """The non-linearity that `key` names; ValueError with the choices."""
    if value not in ACTIVATIONS:
        raise ValueError(f"{key}={value!r} is not one of {', '.join(ACTIVATIONS)}")
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


def refuse(config_json: ConfigJson, allowed: Mapping[str, object]) -> None:
    """ValueError for a key that is there with another value than the one that ours can express."""
    for key, value in allowed.items():
        if config_json.get(key, value) != value:
            raise ValueError(f"{key}={config_json[key]!r} cannot be expressed: only {value!r} can")
