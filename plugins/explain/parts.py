"""The parts that a picture of a model shows, from the tokens up to the scores, by the class of each module.

A class that has no function here, such as an attention of another package, is a box with the name of its class.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from torch import nn

from harness.measure.size import count
from harness.models.attention.disentangled import DisentangledAttention
from harness.models.attention.full import SelfAttention
from harness.models.attention.products import MultiHead
from harness.models.attention.relative import RelativeAttention
from harness.models.choices import Pooling, Position
from harness.models.decoder import CrossAttention, EncoderDecoder
from harness.models.encoder import Embeddings
from harness.models.heads import POOLED, Classifier, Pooler, SequenceClassifier, TextVectors
from harness.models.layers import Block, FeedForward
from harness.models.reach import ADDED_OR_NONE
from harness.models.recurrent import Recurrent
from harness.models.stack import Stack


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


# One module


@singledispatch
def part(module: nn.Module) -> Part:
    """The box of an attention or a feed-forward."""
    return Part(type(module).__name__, "attention", parameters=count(module))


def _heads(attention: MultiHead) -> str:
    return f"{attention.num_heads} heads of {attention.head_size}"


@part.register
def _(module: SelfAttention) -> Part:
    config, details, position = module.config, [_heads(module)], module.config.position
    if module.window is not None:
        details.append(f"{module.window // 2} tokens to each side")
    if module.global_tokens:
        details.append(f"first {module.global_tokens} see and are seen by all")
    if module.query_norm is not None:
        details.append("queries and keys normed")
    if position not in ADDED_OR_NONE:
        apart = module.window is None and config.rotary_global_theta is not None
        base = f" of base {config.rotary_global_theta if apart else config.rotary_theta:,.0f}"
        details.append(f"{position.value} positions{base if position is Position.rotary else ''}")
    span = "windowed" if module.window is not None else "global" if config.attention_window is not None else "full"
    title = f"{'Causal' if module.causal else span.capitalize()} self-attention"
    return Part(title, "attention", ", ".join(details), count(module))


@part.register
def _(module: DisentangledAttention) -> Part:
    return Part("Full self-attention", "attention", f"{_heads(module)}, disentangled positions", count(module))


@part.register
def _(module: RelativeAttention) -> Part:
    detail = f"{_heads(module)}, relative positions"
    if module.segment_length is not None:
        detail += f", segments of {module.segment_length} tokens with a memory of {module.memory_length}"
    return Part(f"{'Causal' if module.causal else 'Full'} self-attention", "attention", detail, count(module))


@part.register
def _(module: CrossAttention) -> Part:
    return Part("Attention over the encoder", "cross", _heads(module), count(module))


@part.register
def _(module: FeedForward) -> Part:
    size, width = module.input.in_features, module.output.in_features
    detail = f"{size:,} → {'2 × ' if module.gated else ''}{width:,} → {size:,}, {module.hidden_act.value}"
    return Part("Gated feed-forward" if module.gated else "Feed-forward", "feed_forward", detail, count(module))


def _norm(norm: nn.Module | None) -> tuple[Part, ...]:
    """Nothing for one that is left out."""
    is_norm = isinstance(norm, (nn.RMSNorm, nn.LayerNorm))
    return (Part(type(norm).__name__, "norm", parameters=count(norm)),) if is_norm else ()


def _layer(blocks: Sequence[Block]) -> Layer:
    parts: list[Part] = []
    for place, block in enumerate(blocks):
        norm, step = _norm(block.norm), part(block.get_submodule(block.name))
        if block.pre_norm:
            of_block = (*norm, step, Part("Add", "norm", residual=2 + len(norm)))
        else:
            of_block = (step, *(replace(one, title=f"Add, {one.title}", residual=2) for one in norm))
        parts += [replace(one, place=place) for one in of_block]
    return Layer(tuple(blocks), tuple(parts))


# From the tokens up


def embedding_parts(embeddings: Embeddings) -> tuple[Part, ...]:
    """What a token is looked up in, and what is added to it."""
    words, width = embeddings.token_embedding, embeddings.token_embedding.embedding_dim
    scaled = f", times the root of {width}" if embeddings.scale != 1 else ""
    queries = 0 if embeddings.mask_embedding is None else embeddings.mask_embedding.numel()
    parts = [Part("Token embedding", "embedding", f"{words.num_embeddings:,} × {width:,}{scaled}", count(words) + queries)]
    if (positions := embeddings.position_embedding) is not None:
        table = f"{positions.num_embeddings:,} × {width:,}, learned, added"
        parts.append(Part("Position embedding", "embedding", table, count(positions)))
    if embeddings.sinusoidal:
        parts.append(Part("Sinusoidal positions", "embedding", "computed, added"))
    if (types := embeddings.type_embedding) is not None:
        parts.append(Part("Type embedding", "embedding", f"{types.num_embeddings} × {width:,}, added", count(types)))
    parts += _norm(embeddings.norm)
    if (projection := embeddings.projection) is not None:
        parts.append(Part("Embedding projection", "embedding", f"{width:,} → {projection.out_features:,}", count(projection)))
    return tuple(parts)


@singledispatch
def columns(body: nn.Module) -> tuple[Column, ...]:
    """The layers between embeddings and heads; one box for a body that is not known."""
    return (Column((Part(type(body).__name__, "attention", parameters=count(body)),) if any(body.parameters()) else ()),)


def _column(stack: Stack, order: Iterable[Sequence[Block]]) -> Column:
    parameters = sum(map(count, filter(None, (stack.bias, stack.relative))))
    detail = f"{stack.config.position.value}, beside the hidden states"
    positions = (Part("Positions read by every layer", "embedding", detail, parameters),) if parameters else ()
    return Column(positions, tuple(map(_layer, order)), _norm(stack.norm))


@columns.register
def _(body: Stack) -> tuple[Column, ...]:
    return (_column(body, body.execution_order()),)


@columns.register
def _(body: EncoderDecoder) -> tuple[Column, ...]:
    return (*columns(body.encoder), _column(body.decoder.stack, body.decoder.execution_order()))


@columns.register
def _(body: Recurrent) -> tuple[Column, ...]:
    layers, title = [], "Two LSTM directions, joined"
    for directions in body.execution_order():
        sizes = f"{directions[0].input_size:,} → {directions[0].hidden_size:,} each"
        detail = f"{sizes}, from the first token on and from the last one back"
        layers.append(Layer(directions, (Part(title, "recurrent", detail, sum(map(count, directions))),)))
    return (Column(layers=tuple(layers)),)


def head_parts(model: Classifier) -> tuple[Part, ...]:
    """What is above the encoder."""
    if isinstance(model, TextVectors):
        return (_pooling(model.encoder.config.vector_pooling),)
    sizes = f"{model.head.in_features:,} → {model.head.out_features}"
    title = "Classifier" if isinstance(model, SequenceClassifier) else "Classifier of every token"
    below = _pooler(model.pooler) if isinstance(model, SequenceClassifier) else ()
    return (*below, Part(title, "head", sizes, count(model.head)))


def _pooler(pooler: Pooler) -> tuple[Part, ...]:
    parts = [_pooling(pooler.pooling)]
    if pooler.dense is not None and pooler.non_linearity is not None:
        sizes = f"{pooler.size:,} → {pooler.size:,}, {pooler.non_linearity.value}"
        parts.append(Part("Pooler", "head", sizes, count(pooler.dense)))
    return (*parts, *_norm(pooler.norm))


def _pooling(pooling: Pooling) -> Part:
    return Part(f"Pooling: {POOLED[pooling]}", "head")
