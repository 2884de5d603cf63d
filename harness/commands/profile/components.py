"""Which component of a model a module belongs to, and ranges of the profiler that say so while it runs."""

from torch import nn
from torch.autograd.profiler import record_function

from models.decoder import CrossAttentionBlock
from models.disentangled import RelativePositions
from models.encoder import Embeddings
from models.heads import Classifier, MaskedLMHead, Pooler
from models.layers import AttentionBlock, FeedForwardBlock
from models.positions import BIASES

EMBEDDINGS, ATTENTION, FEED_FORWARD, NORMS, HEAD = "embeddings", "attention", "feed-forward", "norms", "head"

OTHER = "other"
"""What stands in no module below: recurrent layers, rotations, what is between modules."""

COMPONENTS = (EMBEDDINGS, ATTENTION, FEED_FORWARD, NORMS, HEAD, OTHER)

OF_TYPE: dict[type[nn.Module], str] = {
    Embeddings: EMBEDDINGS,
    AttentionBlock: ATTENTION,
    CrossAttentionBlock: ATTENTION,
    RelativePositions: ATTENTION,
    **dict.fromkeys(BIASES.values(), ATTENTION),
    FeedForwardBlock: FEED_FORWARD,
    nn.LayerNorm: NORMS,
    nn.RMSNorm: NORMS,
    Pooler: HEAD,
    MaskedLMHead: HEAD,
}
"""Type of a module -> component. A module inside one counts for the outer, unless it has an entry of its own, as norms have:
so dropout and residual sum of a block are its component's."""

OF_NAME = {"dropout": HEAD, "head": HEAD}
"""The same for what stands directly on the encoder, by its name in the classifier."""

SEPARATOR = " | "
"""Between component and place of a module in the name of its range."""


def component_of(name: str, module: nn.Module) -> str | None:
    """Component of the module of this place in a classifier; None where that of the module around it holds."""
    return OF_TYPE.get(type(module), OF_NAME.get(name))


def of_range(name: str) -> str | None:
    """Component that a range of the profiler was named after; None for ranges and operators of others."""
    component, separator, _ = name.partition(SEPARATOR)
    return component if separator and component in COMPONENTS else None


class Ranges:
    """While it is entered, every call of a module with a component is a range `component | place` of the profiler."""

    def __init__(self, model: Classifier) -> None:
        self._named = [(name, module, component_of(name, module)) for name, module in model.named_modules()]
        self._open: list[record_function] = []
        self._hooks: list = []

    def __enter__(self) -> None:
        for name, module, component in self._named:
            if component is not None:
                self._hooks += self._around(module, f"{component}{SEPARATOR}{name}")

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _around(self, module: nn.Module, title: str) -> tuple:
        def begin(*_: object) -> None:
            opened = record_function(title)
            opened.__enter__()
            self._open.append(opened)

        def end(*_: object) -> None:
            self._open.pop().__exit__(None, None, None)

        return module.register_forward_pre_hook(begin), module.register_forward_hook(end, always_call=True)
