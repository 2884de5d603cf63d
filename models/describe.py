"""How a model is described: every module states the parts that a picture of it shows, from the tokens up to the scores."""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Part:
    """One box of a picture, with the parameters of the module behind it."""

    title: str
    kind: str  # embedding, attention, cross, feed_forward, recurrent, norm or head
    detail: str = ""
    parameters: int = 0
    residual: int = 0  # parts that the residual connection spans, this one included
    place: int = 0  # of its block in the layer


@dataclass(frozen=True)
class Layer:
    """The modules that one layer runs, and its parts from the bottom up."""

    blocks: tuple[nn.Module, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Column:
    """Layers in their order of execution, with what is below and above them."""

    below: tuple[Part, ...] = ()
    layers: tuple[Layer, ...] = ()
    above: tuple[Part, ...] = ()


def parameters_of(module: nn.Module | None) -> int:
    """Each tensor once; 0 for None."""
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())
