"""The parts of a model, from the tokens up to the scores, by the class of each module: what pictures, tables and notes show.

A class that has no function here, such as an attention of another package, is a part with the name of its class.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from torch import nn

from harness.measure.size import count
from harness.models.attention.disentangled import DisentangledAttention
from harness.models.attention.full import SelfAttention
from harness.models.attention.relative import RelativeAttention
from harness.models.config import Pooling, Position
from harness.models.decoder import CrossAttention, EncoderDecoder
from harness.models.encoder import Embeddings
from harness.models.foreign import ForeignEmbeddings, ForeignLayers
from harness.models.heads import POOLED, Classifier, SequenceClassifier
from harness.models.layers import Block, FeedForward
from harness.models.reach import ADDED_OR_NONE
from harness.models.recurrent import Recurrent
from harness.models.stack import Stack


@dataclass(frozen=True)
class Part:
    """One part with its parameters; parts with the same text are equal."""

    title: str
    kind: str  # embedding, attention, cross, feed_forward, recurrent, norm or head
    detail: str = ""
    parameters: int = 0
    modules: tuple[nn.Module, ...] = field(default=(), compare=False)


Parts = tuple[Part, ...]


@dataclass(frozen=True)
class Column:
    """Layers in their order of execution, each from the bottom up, with what is below and above them."""

    below: Parts = ()
    layers: tuple[Parts, ...] = ()
    above: Parts = ()


def part(title: str, kind: str, *modules: nn.Module, detail: str = "") -> Part:
    """The part that these modules are."""
    return Part(title, kind, detail, sum(map(count, modules)), modules)


# One module


@singledispatch
def step(module: nn.Module) -> Part:
    """An attention or a feed-forward."""
    return part(type(module).__name__, "attention", module)


@step.register
def _(module: SelfAttention) -> Part:
    config, details, position = module.config, [_heads(module)], module.config.position
    if module.window is not None:
        details.append(f"{module.window // 2} tokens to each side")
    if module.global_tokens:
        details.append(f"first {module.global_tokens} see and are seen by all")
    if module.query_norm is not None:
        details.append("queries and keys normed")
    if position is Position.rotary:
        apart = module.window is None and config.rotary_global_theta is not None
        details.append(f"rotary positions of base {config.rotary_global_theta if apart else config.rotary_theta:,.0f}")
    elif position not in ADDED_OR_NONE:
        details.append(f"{position.value} positions")
    span = "Windowed" if module.window is not None else "Global" if config.attention_window is not None else "Full"
    return part(f"{'Causal' if module.causal else span} self-attention", "attention", module, detail=", ".join(details))


@step.register
def _(module: DisentangledAttention) -> Part:
    return part("Full self-attention", "attention", module, detail=f"{_heads(module)}, disentangled positions")


@step.register
def _(module: RelativeAttention) -> Part:
    detail = f"{_heads(module)}, relative positions"
    if module.segment_length is not None:
        detail += f", segments of {module.segment_length} tokens with a memory of {module.memory_length}"
    return part(f"{'Causal' if module.causal else 'Full'} self-attention", "attention", module, detail=detail)


@step.register
def _(module: CrossAttention) -> Part:
    return part("Attention over the encoder", "cross", module, detail=_heads(module))


@step.register
def _(module: FeedForward) -> Part:
    size, width = module.input.in_features, module.output.in_features
    detail = f"{size:,} → {'2 × ' if module.gated else ''}{width:,} → {size:,}, {module.hidden_act.value}"
    return part("Gated feed-forward" if module.gated else "Feed-forward", "feed_forward", module, detail=detail)


def _heads(attention: nn.Module) -> str:
    return f"{attention.num_heads} heads of {attention.head_size}"


def _norm(norm: nn.Module | None) -> Parts:
    """Nothing for one that is left out."""
    return (part(type(norm).__name__, "norm", norm),) if isinstance(norm, (nn.RMSNorm, nn.LayerNorm)) else ()


# From the tokens up


def embedding_parts(embeddings: Embeddings | ForeignEmbeddings) -> Parts:
    """The embedding tables and what follows them, up to the first layer."""
    if isinstance(embeddings, ForeignEmbeddings):
        return (part("Embeddings", "embedding", embeddings),)
    words, width = embeddings.token_embedding, embeddings.token_embedding.embedding_dim
    scaled = f", times the root of {width}" if embeddings.scale != 1 else ""
    tokens = part("Token embedding", "embedding", words, detail=f"{words.num_embeddings:,} × {width:,}{scaled}")
    if embeddings.mask_embedding is not None:
        tokens = replace(tokens, parameters=tokens.parameters + embeddings.mask_embedding.numel())
    parts = [tokens]
    if (positions := embeddings.position_embedding) is not None:
        detail = f"{positions.num_embeddings:,} × {width:,}, learned, added"
        parts.append(part("Position embedding", "embedding", positions, detail=detail))
    if embeddings.sinusoidal:
        parts.append(part("Sinusoidal positions", "embedding", detail="computed, added"))
    if (types := embeddings.type_embedding) is not None:
        parts.append(part("Type embedding", "embedding", types, detail=f"{types.num_embeddings} × {width:,}, added"))
    parts += _norm(embeddings.norm)
    if (projection := embeddings.projection) is not None:
        detail = f"{width:,} → {projection.out_features:,}"
        parts.append(part("Embedding projection", "embedding", projection, detail=detail))
    return tuple(parts)


@singledispatch
def columns(body: nn.Module) -> tuple[Column, ...]:
    """The layers between embeddings and heads; one part for a body that is not known."""
    return (Column((part(type(body).__name__, "attention", body),) if any(body.parameters()) else ()),)


@columns.register
def _(body: ForeignLayers) -> tuple[Column, ...]:
    return (Column(layers=tuple((part(type(layer).__name__, "attention", layer),) for (layer,) in body.execution_order())),)


@columns.register
def _(body: Stack) -> tuple[Column, ...]:
    return (_column(body, body.execution_order()),)


@columns.register
def _(body: EncoderDecoder) -> tuple[Column, ...]:
    return (*columns(body.encoder), _column(body.decoder.stack, body.decoder.execution_order()))


@columns.register
def _(body: Recurrent) -> tuple[Column, ...]:
    layers = []
    for directions in body.execution_order():
        sizes = f"{directions[0].input_size:,} → {directions[0].hidden_size:,} each"
        detail = f"{sizes}, from the first token on and from the last one back"
        layers.append((part("Two LSTM directions, joined", "recurrent", *directions, detail=detail),))
    return (Column(layers=tuple(layers)),)


def _column(stack: Stack, order: Iterable[Sequence[Block]]) -> Column:
    shared = [module for module in (stack.bias, stack.relative) if module is not None and count(module)]
    detail = f"{stack.config.position.value}, next to the hidden states"
    below = (part("Positions read by every layer", "embedding", *shared, detail=detail),) if shared else ()
    layers = []
    for blocks in order:
        parts = []
        for block in blocks:
            norm, inner = _norm(block.norm), step(block.get_submodule(block.name))
            if block.pre_norm:
                parts += [*norm, inner, part("Add", "norm")]
            else:
                parts += [inner, *(replace(each, title=f"Add, {each.title}") for each in norm)]
        layers.append(tuple(parts))
    return Column(below, tuple(layers), _norm(stack.norm))


def steps(body: nn.Module) -> list[Part]:
    """The steps of all distinct layers, without norms."""
    parts = (each for column in columns(body) for layer in column.layers for each in layer)
    return [each for each in dict.fromkeys(parts) if each.kind != "norm"]


def head_parts(model: Classifier) -> Parts:
    """The parts above the encoder."""
    if model.head is None:
        return (_pooling(model.encoder.config.vector_pooling),)
    detail = f"{model.head.in_features:,} → {model.head.out_features}"
    if not isinstance(model, SequenceClassifier):
        return (part("Classifier of every token", "head", model.head, detail=detail),)
    pooler, parts = model.pooler, [_pooling(model.pooler.pooling)]
    if pooler.dense is not None and pooler.non_linearity is not None:
        sizes = f"{pooler.size:,} → {pooler.size:,}, {pooler.non_linearity.value}"
        parts.append(part("Pooler", "head", pooler.dense, detail=sizes))
    return (*parts, *_norm(pooler.norm), part("Classifier", "head", model.head, detail=detail))


def _pooling(pooling: Pooling) -> Part:
    return part(f"Pooling: {POOLED[pooling]}", "head")
