"""The component that a module belongs to, and profiler ranges named after components."""

from torch import nn
from torch.autograd.profiler import record_function

from models.attention.disentangled import RelativePositions
from models.decoder import CrossAttentionBlock
from models.encoder import Embeddings
from models.heads import Classifier, MaskedLMHead, Pooler
from models.layers import AttentionBlock, FeedForwardBlock
from models.norms import RMSNorm
from models.positions import BIASES

EMBEDDINGS, ATTENTION, FEED_FORWARD, NORMS, HEAD = "embeddings", "attention", "feed-forward", "norms", "head"

OTHER = "other"
"""What is in none of the modules below: recurrent layers, rotations, operators between modules."""

COMPONENTS = (EMBEDDINGS, ATTENTION, FEED_FORWARD, NORMS, HEAD, OTHER)

OF_TYPE: dict[type[nn.Module], str] = {
    Embeddings: EMBEDDINGS,
    AttentionBlock: ATTENTION,
    CrossAttentionBlock: ATTENTION,
    RelativePositions: ATTENTION,
    **dict.fromkeys(BIASES.values(), ATTENTION),
    FeedForwardBlock: FEED_FORWARD,
    nn.LayerNorm: NORMS,
    RMSNorm: NORMS,
    Pooler: HEAD,
    MaskedLMHead: HEAD,
}
"""Type of a module -> component. A module inside another counts for the outer one unless it has its own entry, as norms have:
dropout and residual sum of a block belong to the component of the block."""

OF_NAME = {"dropout": HEAD, "head": HEAD}
"""The same for direct children of the classifier, by name."""

SEPARATOR = " | "
"""Between component and module name in the name of a range."""


def component_of(name: str, module: nn.Module) -> str | None:
    """Component of the module of this name in a classifier; None if it belongs to that of the enclosing module."""
    return OF_TYPE.get(type(module), OF_NAME.get(name))


def of_range(name: str) -> str | None:
    """Component of a profiler range by its name; None for other ranges and operators."""
    component, separator, _ = name.partition(SEPARATOR)
    return component if separator and component in COMPONENTS else None


class Ranges:
    """Inside its block, every call of a module with a component is a profiler range `component | name`."""

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
