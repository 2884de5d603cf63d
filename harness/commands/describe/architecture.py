"""What a picture of one model shows: boxes from the tokens up to the scores, read from the real modules.

So the picture cannot say another thing than the model does. Layers that look the same are one group, with how often they run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import nn

from harness.measure.size import components, count
from models.config import EncoderConfig, Norm, NormPlace, Pooling, Position
from models.decoder import CrossAttentionBlock, EncoderDecoder
from models.encoder import Stack
from models.heads import Classifier, TokenClassifier
from models.layers import AttentionBlock, FeedForwardBlock
from models.recurrent import Direction


@dataclass(frozen=True)
class Box:
    """One part; `copies` modules of `parameters` each do its work in `uses` layers."""

    title: str
    kind: str
    detail: str = ""
    parameters: int = 0
    residual: int = 0  # boxes that the sum in this one goes around, this one included
    place: int = 0  # of its block in the layer
    copies: int = 1
    uses: int = 1


@dataclass(frozen=True)
class Group:
    """Layers that look the same, drawn once."""

    boxes: tuple[Box, ...]
    layers: int

    @property
    def note(self) -> str:
        """What stands beside the bracket."""
        uses, copies = self.boxes[0].uses, {box.copies for box in self.boxes if box.parameters}
        if copies == {uses}:
            return f"× {self.layers}"
        if len(copies) > 1:
            return f"× {self.layers},\npartly\nshared"
        shared = copies.pop()
        return f"one layer,\nruns {uses} times" if shared == 1 else f"{shared} layers,\nrun {uses} times"


@dataclass(frozen=True)
class Pattern:
    """Groups that follow each other again and again; the last time may end early."""

    groups: tuple[Group, ...]
    times: int
    whole: bool = True


Item = Box | Pattern
Look = tuple[Box, ...]


@dataclass(frozen=True)
class Architecture:
    """What is drawn: one column, or two where the second also reads what the first says."""

    title: str
    subtitle: str
    columns: tuple[tuple[Item, ...], ...]

    def boxes(self) -> Iterator[Box]:
        """All boxes; their parameters add up to those of the model."""
        for item in (item for column in self.columns for item in column):
            yield from [item] if isinstance(item, Box) else (box for group in item.groups for box in group.boxes)


def of(model: Classifier, title: str, subtitle: str) -> Architecture:
    """Of the real modules."""
    config, body = model.encoder.config, model.encoder.layers
    below, above = _embeddings(model, config), _heads(model, config)
    if isinstance(body, EncoderDecoder):
        encoder = _stack(body.encoder, body.encoder, config)
        decoder = _stack(body.decoder, body.decoder.stack, config)
        return Architecture(title, subtitle, ((*below, *encoder), (*decoder, *above)))
    layers = _stack(body, body, config) if isinstance(body, Stack) else _layers(body, config)
    return Architecture(title, subtitle, ((*below, *layers, *above),))


def _embeddings(model: Classifier, config: EncoderConfig) -> list[Box]:
    embeddings = model.encoder.embeddings
    width, boxes = config.embedding_width, []
    scaled = f", times the root of {width}" if config.embedding_scale else ""
    table = f"{config.vocab_size:,} × {width:,}{scaled}"
    boxes.append(Box("Token embedding", "embedding", table, components(model)["token_embedding"]))
    if embeddings.position_embedding is not None:
        rows = f"{config.max_position_embeddings:,} × {width:,}, learned, added"
        boxes.append(Box("Position embedding", "embedding", rows, count(embeddings.position_embedding)))
    if config.position is Position.sinusoidal:
        boxes.append(Box("Sinusoidal positions", "embedding", "computed, added"))
    if embeddings.type_embedding is not None:
        rows = f"{config.type_vocab_size} × {width:,}, added"
        boxes.append(Box("Type embedding", "embedding", rows, count(embeddings.type_embedding)))
    if embeddings.norm is not None:
        boxes.append(Box(_norm_name(config), "norm", parameters=count(embeddings.norm)))
    if embeddings.projection is not None:
        sizes = f"{width:,} → {config.hidden_size:,}"
        boxes.append(Box("Embedding projection", "embedding", sizes, count(embeddings.projection)))
    return boxes


def _heads(model: Classifier, config: EncoderConfig) -> list[Box]:
    size, outputs, pooler = config.hidden_size, model.head.out_features, model.pooler
    if isinstance(model, TokenClassifier):
        return [Box("Classifier of every token", "head", f"{size:,} → {outputs}", count(model.head))]
    taken = {Pooling.cls: "first token", Pooling.last: "last real token", Pooling.mean: "mean of the real tokens"}
    boxes = [Box(f"Pooling: {taken.get(config.pooling, 'maximum of the real tokens')}", "head")]
    if pooler.dense is not None:
        boxes.append(Box("Pooler", "head", f"{size:,} → {size:,}, {config.pooler.value}", count(pooler.dense)))
    if pooler.norm is not None:
        boxes.append(Box(_norm_name(config), "norm", parameters=count(pooler.norm)))
    return [*boxes, Box("Classifier", "head", f"{size:,} → {outputs}", count(model.head))]


def _norm_name(config: EncoderConfig) -> str:
    return "RMSNorm" if config.norm is Norm.rms else "LayerNorm"


def _stack(body: nn.Module, stack: Stack, config: EncoderConfig) -> list[Item]:
    """The layers of `body`, below them what all layers read, above them the norm at the end; both are in its `stack`."""
    inside = sum(count(block) for block in {block for blocks in stack.execution_order() for block in blocks})
    common = count(stack) - inside - count(stack.norm)
    detail = f"{config.position.value}, beside the hidden states"
    before = [Box("Positions read by every layer", "embedding", detail, common)] if common else []
    after = [] if stack.norm is None else [Box(_norm_name(config), "norm", parameters=count(stack.norm))]
    return [*before, *_layers(body, config), *after]


def _turning(config: EncoderConfig, window: int | None) -> str:
    if config.position is not Position.rotary:
        return ""
    everywhere = window is None and config.rotary_global_theta is not None
    return f" of base {config.rotary_global_theta if everywhere else config.rotary_theta:,.0f}"


# Layers


def _layers(body: nn.Module, config: EncoderConfig) -> list[Pattern]:
    """The layers of a body, folded."""
    order = body.execution_order()
    looks = [_look(blocks, config, layer) for layer, blocks in enumerate(order)]
    return [_pattern(part, looks, order) for part in fold(looks)]


@dataclass(frozen=True)
class Repeat:
    """Layers from `first` on, of which every one looks like the one `period` layers before it."""

    first: int
    period: int
    layers: int


def fold(looks: Sequence[object]) -> list[Repeat]:
    """All layers in order, cut where the next part is the longest that repeats itself; the shortest period of those."""
    parts, first = [], 0
    while first < len(looks):
        part = Repeat(first, 1, 1)
        for period in range(1, (len(looks) - first) // 2 + 1):
            layers = period
            while first + layers < len(looks) and looks[first + layers] == looks[first + layers - period]:
                layers += 1
            if layers >= 2 * period and layers > part.layers:
                part = Repeat(first, period, layers)
        parts.append(part)
        first += part.layers
    return parts


def _pattern(part: Repeat, looks: Sequence[Look], order: Sequence[tuple[nn.Module, ...]]) -> Pattern:
    groups, start = [], 0
    while start < part.period:
        look, end = looks[part.first + start], start + 1
        while end < part.period and looks[part.first + end] == look:
            end += 1
        layers = [part.first + layer for layer in range(part.layers) if start <= layer % part.period < end]
        copies = {place: len({order[layer][place] for layer in layers}) for place in range(len(order[layers[0]]))}
        boxes = tuple(replace(box, copies=copies[box.place], uses=len(layers)) for box in look)
        groups.append(Group(boxes, len(layers) if part.period == 1 else end - start))
        start = end
    return Pattern(tuple(groups), -(-part.layers // part.period) if part.period > 1 else 1, not part.layers % part.period)


def _look(blocks: tuple[nn.Module, ...], config: EncoderConfig, layer: int) -> Look:
    """The boxes of one layer, from the bottom up."""
    if isinstance(blocks[0], Direction):
        sizes = f"{config.hidden_size:,} → {blocks[0].hidden_size:,} each, from the first token on and from the last one back"
        return (Box("Two LSTM directions, joined", "recurrent", sizes, sum(count(direction) for direction in blocks)),)
    return tuple(replace(box, place=place) for place, block in enumerate(blocks) for box in _block_boxes(block, config, layer))


def _block_boxes(block: nn.Module, config: EncoderConfig, layer: int) -> list[Box]:
    if isinstance(block, FeedForwardBlock):
        main = Box(*_feed_forward(config), count(block.feed_forward))
    elif isinstance(block, CrossAttentionBlock):
        main = Box("Attention over the encoder", "cross", _heads_of(config), count(block.attention))
    else:
        main = Box(*_attention(block, config, layer), count(block.attention))
    norm = count(block.norm)
    if config.norm_place is NormPlace.post:
        return [main, Box(f"Add, {_norm_name(config)}", "norm", "", norm, residual=2)]
    before = [Box(_norm_name(config), "norm", "", norm)] if norm else []
    return [*before, main, Box("Add", "norm", residual=2 + len(before))]


def _feed_forward(config: EncoderConfig) -> tuple[str, str, str]:
    size, width = config.hidden_size, config.feed_forward_width
    gated = config.gated_feed_forward
    sizes = f"{size:,} → {'2 × ' if gated else ''}{width:,} → {size:,}, {config.hidden_act.value}"
    return "Gated feed-forward" if gated else "Feed-forward", "feed_forward", sizes


def _heads_of(config: EncoderConfig) -> str:
    return f"{config.num_attention_heads} heads of {config.head_width}"


def _attention(block: AttentionBlock, config: EncoderConfig, layer: int) -> tuple[str, str, str]:
    """Title, kind and detail."""
    window, said = config.window_of(layer), [_heads_of(config)]
    causal = getattr(block.attention, "causal", config.causal)
    if window is not None:
        said.append(f"{window // 2} tokens to each side")
    if window is not None and config.global_tokens:
        said.append(f"first {config.global_tokens} see and are seen by all")
    if config.position not in (Position.learned, Position.sinusoidal, Position.none):
        said.append(f"{config.position.value} positions{_turning(config, window)}")
    kind = "windowed" if window is not None else "global" if config.attention_window is not None else "full"
    return f"{'Causal' if causal else kind.capitalize()} self-attention", "attention", ", ".join(said)
