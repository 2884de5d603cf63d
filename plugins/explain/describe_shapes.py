"""The shape of every tensor on the way from ids to scores, as text: by symbols and by numbers, equal layers once.

Hooks on the real modules see the tensors of a forward pass in the order in which they are made, on the meta device, without
values. Two passes of different sizes say which dimensions grow with the batch and which with the text; the others are looked up
among the sizes of the model. B texts, T tokens, P predicted positions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from harness.checkpoints import teacher
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import RunConfig
from harness.errors import present
from harness.measure import subject
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.decoder import CrossAttentionBlock
from harness.models.encoder import Embeddings, Encoder
from harness.models.heads import MaskDecoder, Pooler
from harness.models.layers import AttentionBlock, FeedForwardBlock
from harness.models.norms import Dropout
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary
from harness.models.objectives.config import ObjectiveName
from harness.models.objectives.distillation import Distillation
from harness.models.objectives.span_corruption import SpanCorruption
from harness.models.recurrent import Direction
from harness.plugins.explain.attention import KernelCalls
from harness.plugins.explain.describe_picture import numbered
from harness.plugins.shared import pretraining_heads as heads
from harness.terminal import Row, table, wrapped

Size = tuple[int, ...]

HEAD = ("where", "tensor", "shape", "numbers", "parameters")

LEFT_OUT = (nn.Dropout, Dropout, nn.Identity, MaskDecoder)
"""Modules that change no shape and have no parameters, or run a layer of the encoder again."""

BLOCKS = (AttentionBlock, CrossAttentionBlock, FeedForwardBlock)
STAGES = {"attentions": "attention", "crosses": "attention over the encoder", "feed_forwards": "feed-forward"}
"""Lists of blocks of a layer, and how a reader knows them."""

LAST_NORM = ("layers.norm", "layers.encoder.norm", "stack.norm")
"""Norms after the last layer, where a stack norms before its blocks."""

AGAIN = -1
"""In place of the layer of an encoder that runs a second time."""

ATTENDING = ("queries", "keys", "values", "context")
"""Tensors whose last dimension is that of a head."""

MOST_TIMES = 512
"""How often the batch or the text may be in a dimension, as one that is cut into windows."""


@dataclass(frozen=True)
class Seen:
    """One tensor: where it is made, its name there, and its shape."""

    owner: str  # name of the encoder or head in the model
    layer: int | None  # of the encoder, from 0; None outside of them
    stage: str
    name: str
    shape: Size
    parameters: int = 0  # of the module that makes it, without those that an earlier module has
    tied: bool = False  # it uses a matrix of an earlier module
    is_of_module: bool = False
    symbols: str = ""  # of the shape, once they are known


@dataclass(frozen=True)
class Traced:
    """One pass: its varying sizes by symbol, the encoders in it, and what it has made."""

    varying: dict[str, int]
    encoders: dict[str, Encoder]
    seen: list[Seen]
    outputs: int = 0


def of_model(config: RunConfig) -> str:
    """The table of a forward pass over measure.batch_size texts of measure.length tokens."""
    B, T = config.measure.batch_size, config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    first, second = _classified(config, B, T), _classified(config, B + 1, max(T - 1, 1))
    title = f"shapes of one forward pass over B={B} texts of T={T} tokens (measure.batch_size, measure.length)"
    return _page(title, first, second)


def _page(title: str, first: Traced, second: Traced) -> str:
    shown = {name: encoder for name, encoder in first.encoders.items() if name != "encoder" or first.outputs}
    legends = [legend(name, encoder.config, first.outputs) for name, encoder in shown.items()]
    return "\n".join([wrapped(title), *legends, "", table(HEAD, list(rows(first, second)), "llllr")])


def _classified(config: RunConfig, B: int, T: int) -> Traced:
    model = subject.shapes(config.model, config.task).eval()
    if not model.encoder.runs_on_meta:
        model = subject.classifier(config).eval()
    ids = Batch(torch.zeros(B, T, dtype=torch.int64, device=next(model.parameters()).device))
    seen = trace(dict(model.named_children()), lambda: model(ids))
    return Traced({"B": B, "T": T}, {"encoder": model.encoder}, seen, subject.outputs_of(config.task))


# The objective


def of_objective(run: RunConfig) -> str:
    """The table of one training pass of the objective: its own heads, a generator and a teacher.

    Its encoder is that of the fine-tuning: of it the inputs are listed alone. ValueError for a model that it cannot train.
    """
    B, T = run.pretrain.batch_size, present(run.pretrain.length)
    first, second = _trained(run, B, T), _trained(run, B + 1, max(T - 1, 1))
    title = (
        f"shapes of what {run.pretrain.objective.value} adds: B={B} sequences of T={T} tokens, "
        f"P={first.varying['P']} predicted (pretrain.batch_size, length)"
        + (f", N={first.varying['N']} left in the inputs" if "N" in first.varying else "")
    )
    return _page(title, first, second)


def objective_with_batch(run: RunConfig, B: int, T: int) -> tuple[Objective, PretrainBatch]:
    """The objective on the meta device in evaluation mode, and B sequences of it on the CPU. ValueError as `of_objective`."""
    objective, batch = _objective(run), Batch(torch.ones(B, T, dtype=torch.int64))
    batch.token_type_ids = (torch.arange(T).expand(B, T) >= T // 2).long()
    batch.labels = torch.zeros(B, dtype=torch.int64)
    return objective, objective.make_batch(batch, list(range(B)))


def _trained(run: RunConfig, B: int, T: int) -> Traced:
    objective, batch = objective_with_batch(run, B, T)
    roots = dict(objective.named_children())
    if isinstance(objective, Distillation):
        roots["teacher"] = objective.teacher
    named = ((name, module) for root, top in roots.items() for name, module in top.named_modules(prefix=root))
    encoders = {name: module for name, module in named if isinstance(module, Encoder)}
    ids, positions, targets = batch.inputs.to("meta"), batch.positions.to("meta"), batch.targets.to("meta")
    inputs = PretrainBatch(ids, positions, targets, batch.total_predictions, B)
    loss = []
    seen = trace(roots, lambda: loss.append(tuple(objective(inputs).shape)))
    varying = {"B": B, "T": T, "P": batch.positions.shape[1]}
    if isinstance(objective, SpanCorruption):
        varying["N"] = batch.inputs.input_ids.shape[1]
    seen = [replace(it, stage="encoder, as above") if it.owner == "encoder" else it for it in seen]
    beside = [it for it in seen if it.owner != "encoder" or it.name == "input ids"]
    return Traced(varying, encoders, [*beside, Seen("loss", None, "", "nats", loss[0])])


def _objective(run: RunConfig) -> Objective:
    """A distillation has its teacher."""
    if run.pretrain.objective is not ObjectiveName.distillation:
        return heads.shapes(run.model, run.pretrain).eval()
    loaded = teacher.load(teacher.folder_of(run), run.pretrain, run.tokenizer)
    size = loaded.encoder.config.vocab_size  # a run adopts the tokenizer of its teacher
    with torch.device("meta"):
        vocabulary = Vocabulary(size, 0, 0, 0, 0, torch.ones(size, dtype=torch.bool, device="cpu"))
        return Distillation(run.pretrain, replace(run.model, vocab_size=size), vocabulary, loaded).to("meta").eval()


# Hooks


def trace(roots: dict[str, nn.Module], run: Callable[[], object]) -> list[Seen]:
    """What `run` makes in the modules below `roots`, which belong to this call: they keep the hooks."""
    recorder = _Recorder(roots)
    with torch.no_grad(), KernelCalls(recorder.attention):
        run()
    return recorder.seen


class _Recorder:
    """Hooks on all modules, and the tensors that they have seen."""

    def __init__(self, roots: dict[str, nn.Module]) -> None:
        self.seen: list[Seen] = []
        self._counted: dict[str, tuple[int, bool]] = {}  # new parameters of a module, and whether it has some of an earlier one
        self._open: list[str] = []  # names of the modules that run
        self._order: dict[str, Iterator[int]] = {}  # layers of the blocks of an encoder as they run, shared ones several times
        self._layer: dict[str, int] = {}  # of the block that runs, by encoder
        self._ran: set[tuple[str, int | None]] = set()  # modules by name and layer
        self._names: dict[nn.Module, list[str]] = {}
        counted: set[int] = set()
        for name, module in (each for root, top in roots.items() for each in top.named_modules(prefix=root)):
            self._names.setdefault(module, []).append(name)
            if isinstance(module, Encoder):
                self._order[name] = iter([n for n, blocks in enumerate(module.layers.execution_order()) for _ in blocks])
            if not list(module.children()):
                mine = {id(parameter): parameter.numel() for parameter in module.parameters()}
                new = sum(size for key, size in mine.items() if key not in counted)
                self._counted[name] = new, bool(mine.keys() & counted)
                counted |= mine.keys()
        for module, names in self._names.items():
            if isinstance(module, Direction):  # it is asked for its states, not called
                self._watch(module, "states", names[0], "states")
            if isinstance(module, Embeddings):  # a table of positions is cut, not called
                title = "sines and cosines" if module.position_embedding is None else "position_embedding"
                self._watch(module, "_positions", f"{names[0]}.position_embedding", title)
            module.register_forward_pre_hook(self._begin)
            module.register_forward_hook(self._end)

    def _watch(self, module: nn.Module, method: str, path: str, title: str) -> None:
        called = getattr(module, method)

        def watched(*inputs: object) -> Tensor | None:
            if isinstance(module, Direction):
                self._next_layer(path)
            if (output := called(*inputs)) is not None:
                self.add(path, title, output.shape, path)
            return output

        setattr(module, method, watched)

    def _begin(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        names = self._names[module]  # several where a generator shares the embeddings of the encoder
        name = next((name for name in names if self._open and name.rpartition(".")[0] == self._open[-1]), names[0])
        self._open.append(name)
        if ".layers." in name and isinstance(module, BLOCKS):
            self._next_layer(name)
        elif isinstance(module, Embeddings):
            self.add(f"{name}.ids", "input ids", inputs[0].input_ids.shape)
        elif name.endswith(".feed_forward.output"):
            self.add(f"{name}.activated", "activated", inputs[0].shape)

    def _next_layer(self, path: str) -> None:
        encoder = _encoder_of(path)
        self._layer[encoder] = next(self._order[encoder], AGAIN)

    def _end(self, module: nn.Module, inputs: tuple[Any, ...], output: object) -> None:
        name = self._open.pop()
        last = name.rpartition(".")[2]
        if not isinstance(output, Tensor) or isinstance(module, LEFT_OUT):
            return
        if isinstance(module, FeedForwardBlock | Embeddings | Pooler):
            self.add(f"{name}.output", "layer output" if isinstance(module, FeedForwardBlock) else "output", output.shape)
        elif not list(module.children()) and last != "position_embedding":  # which `_positions` has shown
            self.add(name, last, output.shape, name)

    def attention(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, _: object, output: Tensor) -> None:
        """The tensors of torch's attention, which no module makes, in the module that runs now."""
        shapes: dict[str, Size] = {"queries": query.shape, "keys": key.shape, "values": value.shape}
        if bias is not None and bias.is_floating_point():
            shapes["bias of scores"] = bias.shape
        shapes |= {"scores": (*query.shape[:-1], key.shape[-2]), "context": output.shape}
        for name, shape in shapes.items():
            self.add(f"{self._open[-1]}.{name}", name, shape)

    def add(self, path: str, name: str, shape: Size, module: str = "") -> None:
        """A tensor at this path, of a module if one makes it; nothing in the second pass of an encoder."""
        encoder = _encoder_of(path)
        layer = self._layer.get(encoder)
        if layer == AGAIN:
            return
        parameters, tied = self._counted.get(module, (0, False))
        if ".layers." in path and module:  # one that runs for each segment of a text is counted once
            parameters, tied = (0, False) if (module, layer) in self._ran else (parameters, tied)
            self._ran.add((module, layer))
        if encoder in self._order:
            owner, stage = encoder, _stage(path)
            layer = layer if ".layers." in path and not path.endswith(LAST_NORM) else None
        else:
            above, _, last = path.rpartition(".")
            owner, layer, stage, name = above or path, None, "", last if above else "output"
        self.seen.append(Seen(owner, layer, stage, name, tuple(shape), parameters, tied, bool(module)))


def _encoder_of(path: str) -> str:
    """`generator` of `generator.layers.attentions.0`."""
    return path.partition(".embeddings")[0].partition(".layers")[0]


def _stage(path: str) -> str:
    if ".embeddings" in path:
        return "embeddings"
    if path.endswith(LAST_NORM):
        return "after the last layer"
    parts = path.split(".")
    return next((stage for part, stage in STAGES.items() if part in parts), parts[-2] if "layers" in parts else "")


# Symbols


def varying_of(first: Traced, second: Traced) -> dict[tuple[int, int], str]:
    """A size in both passes -> `T`, `T+P`, `2T-1` or `8B`: what both passes agree on."""
    sums = {symbol: (size, second.varying[symbol]) for symbol, size in first.varying.items()}
    (B, other_B), (T, other_T) = sums["B"], sums["T"]
    if "P" in sums:
        sums["T+P"] = T + sums["P"][0], other_T + sums["P"][1]
    for times in range(2, MOST_TIMES):
        sums |= {f"{times}B": (times * B, times * other_B), f"{times}T": (times * T, times * other_T)}
    sums |= {f"2T{more:+}": (2 * T + more, 2 * other_T + more) for more in (-1, 1)}
    return {pair: symbol for symbol, pair in reversed(sums.items())}


def sizes_of(seen: Seen, traced: Traced, is_last: bool) -> dict[int, str]:
    """A size of the model -> its symbol, of those that a dimension of this tensor may be; E and A only where not D."""
    encoders = traced.encoders
    first = seen.owner.split(".")[0].split("_")[0]  # `generator` of `generator_head`, `teacher` of `teacher.head`
    near = [name for name in encoders if name.split(".")[0] == first]
    config = encoders[near[0] if near else "encoder" if "encoder" in encoders else next(iter(encoders))].config
    if not is_last:
        return {config.num_attention_heads: "H"}
    if any(name in seen.name for name in ATTENDING) and len(seen.shape) == 4:
        return {config.head_width: "K"}
    D, E, A, F = config.hidden_size, config.embedding_width, config.attention_width, config.feed_forward_width
    all_heads = "D" if A == D else "A"
    sizes = {"D": D, "E": E, "A": A, "F": F, f"3{all_heads}": 3 * A, f"2{all_heads}": 2 * A, "2F": 2 * F, "D/2": D // 2}
    sizes["V"] = config.vocab_size
    if seen.stage == "feed-forward" and seen.name in ("input", "activated"):
        sizes = {"F": F, "2F": 2 * F} | sizes
    elif seen.owner == "head":
        sizes = {"C": traced.outputs} | sizes
    return {size: symbol for symbol, size in reversed(sizes.items())}


def legend(name: str, config: EncoderConfig, outputs: int = 0) -> str:
    """What the symbols of an encoder mean, with their values."""
    facts = {"D": (config.hidden_size, "hidden")}
    if config.embedding_width != config.hidden_size:
        facts["E"] = config.embedding_width, "embedding"
    if config.body in (Body.transformer, Body.encoder_decoder):
        facts |= {"H": (config.num_attention_heads, "heads"), "K": (config.head_width, "head size")}
        if config.attention_width != config.hidden_size:
            facts["A"] = config.attention_width, "all heads"
        facts["F"] = config.feed_forward_width, "feed-forward"
    facts["V"] = config.vocab_size, "pieces"
    if outputs:
        facts["C"] = outputs, "outputs"
    parts = (f"{symbol}={value} {meaning}".replace(" ", "\N{NO-BREAK SPACE}") for symbol, (value, meaning) in facts.items())
    return wrapped(("" if name == "encoder" else f"{name}: ") + ", ".join(parts))


# Text


def rows(first: Traced, second: Traced) -> Iterator[Row]:
    """The rows of the first pass, with symbols by what differs in the second; equal layers once."""
    both = varying_of(first, second)
    named: list[Seen] = []
    for seen, again in zip(first.seen, second.seen, strict=True):
        symbols = []
        for place, (value, other) in enumerate(zip(seen.shape, again.shape, strict=True)):
            sizes = sizes_of(seen, first, is_last=place == len(seen.shape) - 1)
            symbols.append(both.get((value, other)) or sizes.get(value, f"{value}"))
        seen = replace(seen, symbols=f"[{', '.join(symbols)}]")
        # neighbours of one stage and shape that no module makes are one row: queries, keys, values
        if named and not seen.is_of_module and seen.name != "context" and replace(seen, name="") == replace(named[-1], name=""):
            named[-1] = replace(named[-1], name=f"{named[-1].name}, {seen.name}")
        else:
            named.append(seen)
    for (owner, layered), group in groupby(named, key=lambda seen: (seen.owner, seen.layer is not None)):
        for title, tensors in _folded(owner, list(group), first) if layered else [("", list(group))]:
            if title:
                yield title, "", "", "", ""
            before = ""
            for seen in tensors:
                outside = " ".join(filter(None, ["" if owner == "encoder" else owner, seen.stage]))
                where = f"  {seen.stage}" if title else outside
                numbers = " × ".join(map(str, seen.shape)) or "one number"
                parameters = " + ".join([*([f"{seen.parameters:,}"] if seen.parameters else []), *["tied"] * seen.tied])
                yield "" if where == before else where, seen.name, seen.symbols, numbers, parameters
                before = where


def _folded(owner: str, seen: list[Seen], traced: Traced) -> Iterator[tuple[str, list[Seen]]]:
    """The layers of an encoder, equal ones under one title; a decoder's under another."""
    alike: dict[tuple[Seen, ...], list[int]] = {}
    for layer, group in groupby(seen, key=lambda tensor: tensor.layer):
        alike.setdefault(tuple(replace(tensor, layer=None) for tensor in group), []).append(layer)
    order, config = traced.encoders[owner].layers.execution_order(), traced.encoders[owner].config
    parts = {"": range(len(order))}
    if config.body is Body.encoder_decoder:
        parts = {"encoder ": range(config.depth), "decoder ": range(config.depth, len(order))}
    for tensors, layers in alike.items():
        for part, places in parts.items():
            if mine := [layer for layer in layers if layer in places]:
                weights = len({order[layer] for layer in mine})
                shared = "" if weights == len(mine) else ", shared" if weights == 1 else f", {weights} sets"
                numbers = numbered([layer - places.start for layer in mine])
                yield f"{'' if owner == 'encoder' else f'{owner} '}{part}{numbers}{shared}", list(tensors)
