"""The component that a module belongs to, and profiler ranges named after components."""

import contextlib
from collections.abc import Iterator
from functools import partial

from torch import nn
from torch.autograd.profiler import record_function

from harness.models.attention.disentangled import RelativePositions
from harness.models.decoder import CrossAttentionBlock
from harness.models.encoder import Embeddings
from harness.models.heads import Classifier, MaskedLMHead, Pooler
from harness.models.layers import AttentionBlock, FeedForwardBlock
from harness.models.norms import RMSNorm
from harness.models.positions import BIASES

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
"""Components of the classifier's direct children, by name."""

SEPARATOR = " | "
"""Between component and module name in the name of a range."""


def component_of(name: str, module: nn.Module) -> str | None:
    """Component of the module of this name in a classifier; None if it belongs to that of the enclosing module."""
    return OF_TYPE.get(type(module), OF_NAME.get(name))


def of_range(name: str) -> str | None:
    """Component of a profiler range by its name; None for other ranges and operators."""
    component, separator, _ = name.partition(SEPARATOR)
    return component if separator and component in COMPONENTS else None


@contextlib.contextmanager
def ranges(model: Classifier) -> Iterator[None]:
    """Inside its block, every call of a module with a component is a profiler range `component | name`."""
    running = []

    def begin(title: str, *_: object) -> None:
        running.append(record_function(title))
        running[-1].__enter__()

    def end(*_: object) -> None:
        running.pop().__exit__(None, None, None)

    with contextlib.ExitStack() as hooks:
        for name, module in model.named_modules():
            if (component := component_of(name, module)) is not None:
                hooks.enter_context(module.register_forward_pre_hook(partial(begin, f"{component}{SEPARATOR}{name}")))
                hooks.enter_context(module.register_forward_hook(end, always_call=True))
        yield
