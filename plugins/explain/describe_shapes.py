"""The shape of every tensor on the way from ids to scores, as text: by symbols and by numbers, equal layers once.

Hooks on the real modules see the tensors of a forward pass in the order in which they are made, on the meta device, without
values. Two passes of different sizes say which dimensions grow with the batch and which with the text; the others are looked up
among the sizes of the model. B texts, T tokens, P predicted positions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import torch
from torch import Tensor, nn

from harness.checkpoints import teacher
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import RunConfig
from harness.measure import pretraining_heads as heads
from harness.measure import subject
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.decoder import CrossAttentionBlock
from harness.models.dropout import Dropout
from harness.models.encoder import Embeddings, Encoder
from harness.models.heads import MaskDecoder, Pooler
from harness.models.layers import AttentionBlock, FeedForwardBlock
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary
from harness.models.objectives.config import ObjectiveName
from harness.models.objectives.distillation import Distillation
from harness.models.objectives.span_corruption import SpanCorruption
from harness.models.recurrent import Direction
from harness.plugins.explain.inspect_pictures import KernelCalls
from harness.terminal import Row, table, wrapped

Size = tuple[int, ...]

HEAD = ("where", "tensor", "shape", "numbers", "parameters")

FEW = 6
"""Numbers of layers that are listed."""

LEFT_OUT = (nn.Dropout, Dropout, nn.Identity)
"""Modules that change no shape and have no parameters."""

BLOCKS = (AttentionBlock, CrossAttentionBlock, FeedForwardBlock)
STAGES = {"attentions": "attention", "crosses": "attention over the encoder", "feed_forwards": "feed-forward"}
"""Lists of blocks of a layer, and how a reader knows them."""

LAST_NORM = ("layers.norm", "layers.encoder.norm", "stack.norm")
"""Norms after the last layer, where a stack norms before its blocks."""

AGAIN = -1
"""In place of the layer of an encoder that runs a second time."""

ATTENDING = ("queries", "keys", "values", "context")
"""Tensors whose last dimension is that of a head."""


@dataclass(frozen=True)
class Seen:
    """One tensor: where it is made, its name there, and its shape."""

    owner: str  # name of the encoder or head in the model
    layer: int | None  # of the encoder, or pass of a mask decoder, from 0; None outside of them
    stage: str
    name: str
    shape: Size
    parameters: int | None = None  # of the module that makes it, without those that an earlier module has; None: no module
    tied: bool = False  # it uses a matrix of an earlier module
    symbols: str = ""  # of the shape, once they are known


@dataclass(frozen=True)
class Traced:
    """One pass: its varying sizes by symbol, the encoders in it, and what it has made."""

    varying: dict[str, int]
    encoders: dict[str, EncoderConfig]
    seen: list[Seen] = field(default_factory=list)
    order: dict[str, list[tuple]] = field(default_factory=dict)  # of the blocks of each encoder
    outputs: int = 0


def of_model(config: RunConfig) -> str:
    """The table of a forward pass over measure.batch_size texts of measure.length tokens."""
    B, T = config.measure.batch_size, config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    first, second = _classified(config, B, T), _classified(config, B + 1, max(T - 1, 1))
    title = f"shapes of one forward pass over B={B} texts of T={T} tokens (measure.batch_size, measure.length)"
    return _page(title, [legend("encoder", config.model, first.outputs)], first, second)


def _page(title: str, legends: list[str], first: Traced, second: Traced) -> str:
    return "\n".join([wrapped(title), *legends, "", table(HEAD, list(rows(first, second)), "llllr")])


def _classified(config: RunConfig, B: int, T: int) -> Traced:
    model = subject.shapes(config.model, config.task).eval()
    ids = Batch(torch.zeros(B, T, dtype=torch.int64, device="meta"))
    seen = trace(dict(model.named_children()), lambda: model(ids))
    order = {"encoder": model.encoder.layers.execution_order()}
    return Traced({"B": B, "T": T}, {"encoder": config.model}, seen, order, subject.outputs_of(config.task))


# The objective


def of_objective(run: RunConfig) -> str:
    """The table of one training pass of the objective: its own heads, a generator and a teacher.

    Its encoder is that of the fine-tuning: of it the inputs are listed alone. ValueError for a model that it cannot train.
    """
    B, T = run.pretrain.batch_size, run.pretrain.length
    first, second = _trained(run, B, T), _trained(run, B + 1, max(T - 1, 1))
    title = (
        f"shapes of what {run.pretrain.objective.value} adds: B={B} sequences of T={T} tokens, "
        f"P={first.varying['P']} predicted (pretrain.batch_size, length)"
        + (f", N={first.varying['N']} left in the inputs" if "N" in first.varying else "")
    )
    others = [legend(name, config) for name, config in first.encoders.items() if name != "encoder"]
    return _page(title, others, first, second)


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
    inputs = [tensor.to("meta") for tensor in (batch.inputs, batch.positions, batch.targets)]
    inputs = PretrainBatch(*inputs, batch.total_predictions, B)
    loss: list[Size] = []
    seen = trace(roots, lambda: loss.append(tuple(objective(inputs).shape)))
    varying = {"B": B, "T": T, "P": batch.positions.shape[1]}
    if isinstance(objective, SpanCorruption):
        varying["N"] = batch.inputs.input_ids.shape[1]
    order = {name: encoder.layers.execution_order() for name, encoder in encoders.items()}
    configs = {name: encoder.config for name, encoder in encoders.items()}
    seen = [replace(it, stage="encoder, as above") if it.owner == "encoder" else it for it in seen]
    beside = [it for it in seen if it.owner != "encoder" or it.name == "input ids"]
    return Traced(varying, configs, [*beside, Seen("loss", None, "", "nats", loss[0])], order)


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
        self._parameters: set[int] = set()  # those that have been counted
        self._counted: dict[str, tuple[int | None, bool]] = {}
        self._open: list[str] = []
        self._decoders: list[str] = []
        self._decoder_passes = 0
        named = [(name, module) for root, top in roots.items() for name, module in top.named_modules(prefix=root)]
        encoders = {name: module.layers.execution_order() for name, module in named if isinstance(module, Encoder)}
        self._order = {name: iter([n for n, blocks in enumerate(order) for _ in blocks]) for name, order in encoders.items()}
        self._layer: dict[str, int] = {}  # of the block that runs, by encoder
        self._ran: set[tuple[str, int | None]] = set()  # modules by name and layer
        self._names: dict[nn.Module, list[str]] = {}
        for name, module in named:
            self._count(name, module)
            self._names.setdefault(module, []).append(name)
        for module, names in self._names.items():
            self._hook(names[0], module)

    def _count(self, name: str, module: nn.Module) -> None:
        if not list(module.children()):
            mine = {id(parameter): parameter.numel() for parameter in module.parameters()}
            new = sum(size for key, size in mine.items() if key not in self._parameters)
            self._counted[name] = new if mine else None, bool(mine.keys() & self._parameters)
            self._parameters |= mine.keys()

    def _hook(self, name: str, module: nn.Module) -> None:
        if isinstance(module, Direction):  # it is asked for its states, not called
            self._watch(module, "states", lambda states: self._of_direction(name, states))
        if isinstance(module, Embeddings):  # a table of positions is cut, not called
            self._watch(module, "_positions", lambda vectors: self._of_positions(f"{name}.position_embedding", vectors))
            module.register_forward_pre_hook(lambda _, inputs: self.add(f"{name}.ids", "input ids", inputs[0].input_ids.shape))
        module.register_forward_pre_hook(lambda _, inputs: self._begin(module, inputs))
        module.register_forward_hook(lambda _, inputs, output: self._end(module, output))

    def _begin(self, module: nn.Module, inputs: tuple) -> None:
        names = self._names[module]  # several where a generator shares the embeddings of the encoder
        name = next((name for name in names if self._open and name.rpartition(".")[0] == self._open[-1]), names[0])
        self._open.append(name)
        if isinstance(module, MaskDecoder):
            self._decoders.append(name)
            self._decoder_passes = 0
        elif self._decoders and isinstance(module, AttentionBlock):
            self._decoder_passes += 1
        elif not self._decoders and ".layers." in name and isinstance(module, BLOCKS):
            self._next_layer(name)
        elif name.endswith(".feed_forward.output"):
            self.add(f"{name}.activated", "activated", inputs[0].shape)

    def _next_layer(self, path: str) -> None:
        """Blocks run in a known order, shared ones several times."""
        encoder = _encoder_of(path)
        self._layer[encoder] = next(self._order[encoder], AGAIN)

    def _end(self, module: nn.Module, output: object) -> None:
        name = self._open.pop()
        if isinstance(module, MaskDecoder):
            self._decoders.pop()
        if not isinstance(output, Tensor) or isinstance(module, LEFT_OUT):
            return
        last = name.rpartition(".")[2]
        if not list(module.children()):
            if not (isinstance(module, nn.Embedding) and last == "position_embedding"):  # `_positions` has shown it
                self.add(name, last, output.shape, *self._new_parameters(name))
        elif isinstance(module, FeedForwardBlock):
            self.add(f"{name}.output", "layer output", output.shape)
        elif isinstance(module, Embeddings | Pooler):
            self.add(f"{name}.output", "output", output.shape)

    def _new_parameters(self, name: str) -> tuple[int | None, bool]:
        """None for a module that has run in this layer already, as one does for each segment of a text."""
        place = name, self._layer.get(_encoder_of(name))
        again, self._ran = ".layers." in name and place in self._ran, self._ran | {place}
        return (None, False) if again else self._counted[name]

    def _watch(self, module: nn.Module, method: str, see: Callable[[Tensor | None], None]) -> None:
        called = getattr(module, method)

        def watched(*inputs: object) -> Tensor | None:
            output = called(*inputs)
            see(output)
            return output

        setattr(module, method, watched)

    def _of_direction(self, name: str, states: Tensor) -> None:
        self._next_layer(name)
        self.add(name, "states", states.shape, *self._counted[name])

    def _of_positions(self, table: str, vectors: Tensor | None) -> None:
        if vectors is not None:
            title = "position_embedding" if table in self._counted else "sines and cosines"
            self.add(table, title, vectors.shape, *self._counted.get(table, (None, False)))

    def attention(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, _: object, output: Tensor) -> None:
        """The tensors of torch's attention, which no module makes, in the module that runs now."""
        shapes = {"queries": query.shape, "keys": key.shape, "values": value.shape}
        if bias is not None and bias.is_floating_point():
            shapes["bias of scores"] = bias.shape
        shapes |= {"scores": (*query.shape[:-1], key.shape[-2]), "context": output.shape}
        for name, shape in shapes.items():
            self.add(f"{self._open[-1]}.{name}", name, shape)

    def add(self, path: str, name: str, shape: Size, parameters: int | None = None, tied: bool = False) -> None:
        """A tensor of the module at this path; nothing in the second pass of an encoder."""
        encoder = _encoder_of(path)
        if self._decoders:
            layer = self._decoder_passes - 1 if self._decoder_passes else None
            self.seen.append(Seen(self._decoders[-1], layer, _stage(path), name, tuple(shape), parameters, tied))
        elif encoder not in self._order:
            owner, _, rest = path.rpartition(".")
            self.seen.append(Seen(owner or path, None, "", rest if owner else "output", tuple(shape), parameters, tied))
        elif (layer := self._layer.get(encoder)) != AGAIN:
            layer = layer if ".layers." in path and not path.endswith(LAST_NORM) else None
            self.seen.append(Seen(encoder, layer, _stage(path), name, tuple(shape), parameters, tied))


def _encoder_of(path: str) -> str:
    """`generator` of `generator.layers.attentions.0`."""
    for part in (".embeddings", ".layers"):
        if part in path:
            return path.partition(part)[0]
    return path


def _stage(path: str) -> str:
    if ".embeddings" in path:
        return "embeddings"
    parts = path.split(".")
    if path.endswith(LAST_NORM):
        return "after the last layer"
    return next((stage for part, stage in STAGES.items() if part in parts), parts[-2] if "layers" in parts else "")


def merged(seen: list[Seen]) -> list[Seen]:
    """The tensors, with neighbours of one stage and shape that no module makes as one row: queries, keys, values."""
    rows: list[Seen] = []
    for tensor in seen:
        alike = rows and tensor.parameters is None and replace(tensor, name="") == replace(rows[-1], name="")
        if alike and tensor.name != "context":
            rows[-1] = replace(rows[-1], name=f"{rows[-1].name}, {tensor.name}")
        else:
            rows.append(tensor)
    return rows


# Symbols


def symbols(seen: Seen, again: Seen, first: Traced, second: Traced) -> str:
    """`[B, T, D]`; a number that is neither a size of the pass nor one of the model stays a number."""
    named = []
    for place, (value, other) in enumerate(zip(seen.shape, again.shape, strict=True)):
        of_model = _of_model(seen, first, is_last=place == len(seen.shape) - 1)
        varying = _varying(value, other, first.varying, second.varying)
        named.append(varying or next((symbol for symbol, size in of_model if size == value), f"{value}"))
    return f"[{', '.join(named)}]"


def _varying(value: int, other: int, first: dict[str, int], second: dict[str, int]) -> str:
    """`T`, `T+P`, `2T` or `8B`: what both passes agree on; empty where the second pass does not differ or nothing fits."""
    sums = {symbol: (first[symbol], second[symbol]) for symbol in first}
    if "P" in first:
        sums["T+P"] = (first["T"] + first["P"], second["T"] + second["P"])
    exact = [symbol for symbol, pair in sums.items() if pair == (value, other)]
    if exact:
        return exact[0]
    for symbol in ("B", "T"):
        times, rest = divmod(value, first[symbol])
        if times > 1 and not rest and other == times * second[symbol]:
            return f"{times}{symbol}"
    if value - other == 2 * (first["T"] - second["T"]) and value < other + 4:
        return f"2T{value - 2 * first['T']:+}"
    return ""


def _of_model(seen: Seen, traced: Traced, is_last: bool) -> list[tuple[str, int]]:
    """Symbols and sizes of the model, in the order in which they are tried for a dimension; E and A only where not D."""
    encoders = traced.encoders
    first = seen.owner.split(".")[0].split("_")[0]  # `generator` of `generator_head`, `teacher` of `teacher.head`
    near = [name for name in encoders if name.split(".")[0] == first]
    config = encoders[near[0] if near else "encoder" if "encoder" in encoders else next(iter(encoders))]
    if not is_last:
        return [("H", config.num_attention_heads)]
    if any(name in seen.name for name in ATTENDING) and len(seen.shape) == 4:
        return [("K", config.head_width)]
    D, E, A, F = config.hidden_size, config.embedding_width, config.attention_width, config.feed_forward_width
    pairs = [("D", D), ("E", E), ("A", A), ("F", F), ("3A" if A != D else "3D", 3 * A), ("2A" if A != D else "2D", 2 * A)]
    pairs += [("2F", 2 * F), ("D/2", D // 2), ("V", config.vocab_size)]
    if seen.stage == "feed-forward" and seen.name in ("input", "activated"):
        return [("F", F), ("2F", 2 * F), *pairs]
    return [*([("C", traced.outputs)] if seen.owner == "head" else []), *pairs]


def legend(name: str, config: EncoderConfig, outputs: int = 0) -> str:
    """What the symbols of an encoder mean, with their values."""
    attending = config.body in (Body.transformer, Body.encoder_decoder)
    facts = {"D": (config.hidden_size, "hidden")}
    if config.embedding_width != config.hidden_size:
        facts["E"] = config.embedding_width, "embedding"
    if attending:
        facts |= {"H": (config.num_attention_heads, "heads"), "K": (config.head_width, "head size")}
        if config.attention_width != config.hidden_size:
            facts["A"] = config.attention_width, "all heads"
        facts["F"] = config.feed_forward_width, "feed-forward"
    facts["V"] = config.vocab_size, "pieces"
    if outputs:
        facts["C"] = outputs, "outputs"
    prefix = "" if name == "encoder" else f"{name}: "
    parts = (f"{symbol}={value} {meaning}".replace(" ", "\N{NO-BREAK SPACE}") for symbol, (value, meaning) in facts.items())
    return wrapped(prefix + ", ".join(parts))


# Text


def rows(first: Traced, second: Traced) -> Iterator[Row]:
    """The rows of the first pass, with symbols by what differs in the second; equal layers once."""
    pairs = zip(first.seen, second.seen, strict=True)
    named = merged([replace(seen, symbols=symbols(seen, again, first, second)) for seen, again in pairs])
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


def _folded(owner: str, seen: list[Seen], traced: Traced) -> list[tuple[str, list[Seen]]]:
    """The layers of an encoder or the passes of a mask decoder: those that look the same under one title."""
    alike: dict[tuple[Seen, ...], list[int]] = {}
    for layer, group in groupby(seen, key=lambda tensor: tensor.layer):
        alike.setdefault(tuple(replace(tensor, layer=None) for tensor in group), []).append(layer)
    return [(title, list(tensors)) for tensors, layers in alike.items() for title in _titles(owner, layers, traced)]


def _titles(owner: str, layers: list[int], traced: Traced) -> list[str]:
    """A title for the layers of an encoder, and one for those of a decoder beside it."""
    if owner not in traced.order:
        return [f"{owner} {numbered('pass', 'es', layers)}"]
    order, config = traced.order[owner], traced.encoders[owner]
    prefix = "" if owner == "encoder" else f"{owner} "
    two = config.body is Body.encoder_decoder
    parts = {"encoder ": range(config.depth), "decoder ": range(config.depth, len(order))} if two else {"": range(len(order))}
    titles = []
    for part, places in parts.items():
        mine = [layer for layer in layers if layer in places]
        weights = len({order[layer] for layer in mine})
        shared = "" if weights == len(mine) else ", shared" if weights == 1 else f", {weights} sets"
        numbers = [layer - places.start for layer in mine]
        titles += [f"{prefix}{part}{numbered('layer', 's', numbers)}{shared}"] if mine else []
    return titles


def numbered(name: str, plural: str, places: list[int]) -> str:
    """`layers 1-4`, `layers 1, 4, 7`: numbers from 1 on."""
    numbers = [place + 1 for place in places]
    if len(numbers) == 1:
        return f"{name} {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{name}{plural} {numbers[0]}-{numbers[-1]}"
    listed = numbers if len(numbers) <= FEW else [*numbers[: FEW - 2], "...", numbers[-1]]
    return f"{name}{plural} {', '.join(map(str, listed))}"
