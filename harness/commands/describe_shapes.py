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
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from harness.checkpoints import teacher
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import RunConfig
from harness.measure import pretraining_heads as heads
from harness.measure import subject
from harness.tasks import kind_of
from harness.terminal import Row, table, wrapped
from models.batch import Batch
from models.config import Body, EncoderConfig
from models.decoder import CrossAttentionBlock
from models.dropout import Dropout
from models.encoder import Embeddings, Encoder
from models.heads import Pooler, on_meta
from models.layers import AttentionBlock, FeedForwardBlock
from models.mask_decoder import MaskDecoder
from models.objectives.base import Objective, PretrainBatch, Vocabulary
from models.objectives.config import ObjectiveName
from models.objectives.distillation import Distillation
from models.recurrent import Direction

Size = tuple[int, ...]

HEAD = ("where", "tensor", "shape", "numbers", "parameters")

FEW = 6
"""Numbers of layers that are listed."""

LEFT_OUT = (nn.Dropout, Dropout, nn.Identity)
"""Modules that change no shape and have no parameters."""

STAGES = {"attentions": "attention", "crosses": "attention over the encoder", "feed_forwards": "feed-forward"}
"""Lists of blocks of a layer, and how a reader knows them."""

LAST_NORM = ("layers.norm", "layers.encoder.norm", "stack.norm")
"""Of a stack that norms before its blocks; after its last layer."""

SOFTMAX = ("_softmax", "_safe_softmax")

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
class Sizes:
    """Of one pass: its varying sizes by symbol, and those of each encoder in it."""

    varying: dict[str, int]
    encoders: dict[str, EncoderConfig]
    outputs: int = 0


@dataclass(frozen=True)
class Traced:
    """What one pass has made, and how large it was."""

    seen: list[Seen]
    sizes: Sizes
    order: dict[str, list[tuple]] = field(default_factory=dict)  # of the blocks of each encoder


def of_model(config: RunConfig) -> str:
    """The table of a forward pass over measure.batch_size texts of measure.length tokens."""
    B, T = config.measure.batch_size, config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    one, other = (_classified(config, *size) for size in _two(B, T))
    title = f"shapes of one forward pass over B={B} texts of T={T} tokens (measure.batch_size, measure.length)"
    return "\n".join([wrapped(title, 0), legend(one.sizes), "", table(HEAD, list(rows(one, other)), "llllr")])


def _two(B: int, T: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two sizes; a text of one token cannot be shorter."""
    return (B, T), (B + 1, max(T - 1, 1))


def _classified(config: RunConfig, B: int, T: int) -> Traced:
    outputs = subject.outputs_of(config.task)
    model = on_meta(config.model, outputs, kind_of(config.task).head()).eval()
    ids = Batch(torch.zeros(B, T, dtype=torch.int64, device="meta"))
    seen = trace(dict(model.named_children()), lambda: model(ids))
    order = {"encoder": model.encoder.layers.execution_order()}
    return Traced(seen, Sizes({"B": B, "T": T}, {"encoder": config.model}, outputs), order)


# The objective


def of_objective(run: RunConfig) -> str:
    """The table of one training pass of the objective without its encoder, which is that of the fine-tuning.

    Its own heads, a generator and a teacher. ValueError for a model that it cannot train.
    """
    length, size = run.pretrain.length, run.pretrain.batch_size
    one, other = (_trained(run, *size) for size in _two(size, length))
    shown = [replace(traced, seen=_beside_the_encoder(traced.seen)) for traced in (one, other)]
    positions = one.sizes.varying["P"]
    title = (
        f"shapes of what {run.pretrain.objective.value} adds: B={size} sequences of T={length} tokens, P={positions} predicted "
        "(pretrain.batch_size, length)"
    )
    return "\n".join([wrapped(title, 0), *_legends(one.sizes), "", table(HEAD, list(rows(*shown)), "llllr")])


def _legends(sizes: Sizes) -> list[str]:
    return [legend(Sizes({}, {name: sizes.encoders[name]})) for name in sizes.encoders if name != "encoder"]


def _beside_the_encoder(seen: list[Seen]) -> list[Seen]:
    """Of the encoder the inputs alone, in the place of all of it."""
    added = (one for one in seen if one.owner != "encoder" or one.name == "input ids")
    return [replace(one, stage="encoder, as above") if one.owner == "encoder" else one for one in added]


def _trained(run: RunConfig, B: int, T: int) -> Traced:
    objective, batch = _objective(run), Batch(torch.ones(B, T, dtype=torch.int64))
    batch.token_type_ids = (torch.arange(T).expand(B, T) >= T // 2).long()
    batch.labels = torch.zeros(B, dtype=torch.int64)
    made = objective.make_batch(batch, list(range(B)))
    roots = dict(objective.named_children())
    if isinstance(objective, Distillation):
        roots["teacher"] = objective.teacher
    encoders = _encoders(roots)
    inputs = PretrainBatch(
        made.inputs.to("meta"), made.positions.to("meta"), made.targets.to("meta"), made.total_predictions, B
    )
    loss: list[Size] = []
    seen = trace(roots, lambda: loss.append(tuple(objective(inputs).shape)))
    varying = {"B": B, "T": T, "P": made.positions.shape[1]}
    order = {name: encoder.layers.execution_order() for name, encoder in encoders.items()}
    sizes = Sizes(varying, {name: encoder.config for name, encoder in encoders.items()})
    return Traced([*seen, Seen("loss", None, "", "nats", loss[0])], sizes, order)


def _objective(run: RunConfig) -> Objective:
    """On the meta device and in evaluation mode; of a distillation with its teacher where one is named."""
    is_distilled = run.pretrain.objective is ObjectiveName.distillation
    if not is_distilled:
        return heads.shapes(run.model, run.pretrain).eval()
    known = teacher.load(teacher.folder_of(run))
    model = replace(run.model, vocab_size=known.encoder.config.vocab_size)  # a run adopts the tokenizer of its teacher
    size = model.vocab_size
    with torch.device("meta"):
        vocabulary = Vocabulary(size, 0, 0, 0, 0, torch.ones(size, dtype=torch.bool, device="cpu"))
        return Distillation(run.pretrain, model, vocabulary, known).to("meta").eval()


def _encoders(roots: dict[str, torch.nn.Module]) -> dict[str, Encoder]:
    named = ((name, module) for root, top in roots.items() for name, module in top.named_modules(prefix=root))
    return {name: module for name, module in named if isinstance(module, Encoder)}


# Hooks


def trace(roots: dict[str, nn.Module], run: Callable[[], object]) -> list[Seen]:
    """What `run` makes in the modules below `roots`, which belong to this call: they keep the hooks."""
    recorder = _Recorder(roots)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _Attention(recorder), _Softmax(recorder):
        run()
    return recorder.seen


class _Pass:
    """How far one encoder is: its blocks run in a known order, shared ones several times."""

    def __init__(self, encoder: Encoder) -> None:
        self._layers = [layer for layer, blocks in enumerate(encoder.layers.execution_order()) for _ in blocks]
        self.calls = 0

    @property
    def layer(self) -> int | None:
        """The layer of the last block that began; None before the first and in a second pass."""
        return self._layers[self.calls - 1] if 0 < self.calls <= len(self._layers) else None

    @property
    def again(self) -> bool:
        """Whether the encoder has run already."""
        return self.calls > len(self._layers)


class _Recorder:
    """Hooks on all modules, and what they have seen."""

    def __init__(self, roots: dict[str, nn.Module]) -> None:
        self.seen: list[Seen] = []
        self._known: set[int] = set()  # parameters that have been counted
        self._counted: dict[str, tuple[int | None, bool]] = {}
        self._open: list[str] = []
        self._decoders: list[str] = []
        self._decoder_passes = 0
        named = [(name, module) for root, top in roots.items() for name, module in top.named_modules(prefix=root)]
        self._passes = {name: _Pass(module) for name, module in named if isinstance(module, Encoder)}
        self._names: dict[nn.Module, list[str]] = {}
        for name, module in named:
            self._count(name, module)
            self._names.setdefault(module, []).append(name)
        for module, names in self._names.items():
            self._hook(names[0], module)

    def _count(self, name: str, module: nn.Module) -> None:
        if not list(module.children()):
            mine = {id(parameter): parameter.numel() for parameter in module.parameters()}
            new = sum(size for key, size in mine.items() if key not in self._known)
            self._counted[name] = new if mine else None, bool(mine.keys() & self._known)
            self._known |= mine.keys()

    def _hook(self, name: str, module: nn.Module) -> None:
        if isinstance(module, Direction):
            module.states = self._states(name, module.states)
        if isinstance(module, Embeddings):
            module._positions = self._positions(name, module)
            module.register_forward_pre_hook(lambda _, inputs: self._ids(name, inputs[0]))
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
        elif not self._decoders and ".layers." in name and _is_block(module):
            self._passes[_encoder_of(name)].calls += 1
        elif name.endswith(".feed_forward.output"):
            self.add(f"{name}.activated", "activated", inputs[0].shape)

    def _end(self, module: nn.Module, output: object) -> None:
        name = self._open.pop()
        if isinstance(module, MaskDecoder):
            self._decoders.pop()
        if not isinstance(output, Tensor) or isinstance(module, LEFT_OUT):
            return
        last = name.rpartition(".")[2]
        if not list(module.children()):
            if not (isinstance(module, nn.Embedding) and last == "position_embedding"):  # `_positions` has shown it
                self.add(name, last, output.shape, *self._counted[name])
        elif isinstance(module, FeedForwardBlock):
            self.add(f"{name}.output", "layer output", output.shape)
        elif isinstance(module, Embeddings | Pooler):
            self.add(f"{name}.output", "output", output.shape)

    def _ids(self, name: str, batch: Batch) -> None:
        self.add(f"{name}.ids", "input ids", batch.input_ids.shape)

    def _states(self, name: str, states: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """A direction is asked for its states, not called."""

        def recorded(inputs: Tensor) -> Tensor:
            self._passes[_encoder_of(name)].calls += 1
            output = states(inputs)
            self.add(name, "states", output.shape, *self._counted[name])
            return output

        return recorded

    def _positions(self, name: str, embeddings: Embeddings) -> Callable[[Batch], Tensor | None]:
        """A table of positions is cut, not called."""
        positions, table = embeddings._positions, f"{name}.position_embedding"

        def recorded(batch: Batch) -> Tensor | None:
            found = positions(batch)
            if found is not None:
                counted = self._counted.get(table, (None, False))
                self.add(table, "position_embedding" if table in self._counted else "sines and cosines", found.shape, *counted)
            return found

        return recorded

    def attended(self, inputs: dict[str, Tensor | None], output: Tensor) -> None:
        """Queries, keys and values before their scores, which have been seen meanwhile; the context after them."""
        scores = [self.seen.pop()] if self.seen and self.seen[-1].name == "scores" else []
        for name, tensor in inputs.items():
            if tensor is not None:
                self.add(f"{self._open[-1]}.{name}", name, tensor.shape)
        self.seen += scores
        self.add(f"{self._open[-1]}.context", "context", output.shape)

    def softmax(self, scores: Tensor) -> None:
        """The scores of an attention."""
        self.add(f"{self._open[-1]}.scores", "scores", scores.shape)

    def add(self, path: str, name: str, shape: Size, parameters: int | None = None, tied: bool = False) -> None:
        """A tensor of the module at this path; nothing in the second pass of an encoder."""
        encoder = _encoder_of(path)
        if self._decoders:
            layer = self._decoder_passes - 1 if self._decoder_passes else None
            self.seen.append(Seen(self._decoders[-1], layer, _stage(path), name, tuple(shape), parameters, tied))
        elif encoder not in self._passes:
            owner, _, rest = path.rpartition(".")
            self.seen.append(Seen(owner or path, None, "", rest if owner else "output", tuple(shape), parameters, tied))
        elif not (going := self._passes[encoder]).again:
            layer = going.layer if ".layers." in path and not path.endswith(LAST_NORM) else None
            self.seen.append(Seen(encoder, layer, _stage(path), name, tuple(shape), parameters, tied))


def _is_block(module: nn.Module) -> bool:
    return isinstance(module, AttentionBlock | CrossAttentionBlock | FeedForwardBlock)


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


class _Attention(TorchFunctionMode):
    """Sees each call of the attention function."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        output = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention:
            bias = (kwargs or {}).get("attn_mask")
            named = dict(zip(("queries", "keys", "values"), args, strict=True))
            named["bias of scores"] = bias if bias is not None and bias.is_floating_point() else None
            self._recorder.attended(named, output)
        return output


class _Softmax(TorchDispatchMode):
    """Sees each softmax inside of it."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        if func.overloadpacket.__name__ in SOFTMAX:
            self._recorder.softmax(args[0])
        return func(*args, **(kwargs or {}))


def merged(seen: list[Seen]) -> list[Seen]:
    """Neighbours of one stage and shape that no module makes as one: queries, keys, values."""
    rows: list[Seen] = []
    for one in seen:
        if rows and one.parameters is None and replace(one, name="") == replace(rows[-1], name="") and one.name != "context":
            rows[-1] = replace(rows[-1], name=f"{rows[-1].name}, {one.name}")
        else:
            rows.append(one)
    return rows


# Symbols


def symbols(seen: Seen, again: Seen, sizes: Sizes, others: Sizes) -> str:
    """`[B, T, D]`; a number that is neither a size of the pass nor one of the model stays a number."""
    known = _known(seen, sizes)
    last = len(seen.shape) - 1
    named = []
    for place, (value, other) in enumerate(zip(seen.shape, again.shape, strict=True)):
        varying = _varying(value, other, sizes.varying, others.varying)
        named.append(varying or next((symbol for symbol, size in known(place == last) if size == value), f"{value}"))
    return f"[{', '.join(named)}]"


def _varying(value: int, other: int, sizes: dict[str, int], others: dict[str, int]) -> str:
    """`T`, `T+P`, `2T` or `8B`: what both passes agree on; empty where the second pass does not differ or nothing fits."""
    one, two = sizes, others
    sums = {symbol: (one[symbol], two[symbol]) for symbol in one}
    if "P" in one:
        sums["T+P"] = (one["T"] + one["P"], two["T"] + two["P"])
    exact = [symbol for symbol, pair in sums.items() if pair == (value, other)]
    if exact:
        return exact[0]
    for symbol in ("B", "T"):
        times, rest = divmod(value, one[symbol])
        if times > 1 and not rest and other == times * two[symbol]:
            return f"{times}{symbol}"
    if value - other == 2 * (one["T"] - two["T"]) and value < other + 4:
        return f"2T{value - 2 * one['T']:+}"
    return ""


def _known(seen: Seen, sizes: Sizes) -> Callable[[bool], list[tuple[str, int]]]:
    """Symbols and sizes of the model in the order in which they are tried, for the last dimension and for the others."""
    config = sizes.encoders.get(_encoder_of_head(seen.owner, sizes))
    pairs = _of_config(config)
    outputs = [("C", sizes.outputs)] if seen.owner == "head" else []

    def tried(is_last: bool) -> list[tuple[str, int]]:
        if not is_last:
            return [("H", config.num_attention_heads)]
        if any(name in seen.name for name in ATTENDING) and len(seen.shape) == 4:
            return [("K", config.head_width)]
        if seen.stage == "feed-forward":
            first = [pair for pair in pairs if "F" in pair[0]] if seen.name in ("input", "activated") else []
            return [*first, *pairs]
        return [*outputs, *pairs]

    return tried


def _encoder_of_head(owner: str, sizes: Sizes) -> str:
    """The encoder that a head belongs to: `generator` of `generator_head`, `teacher.encoder` of `teacher.head`."""
    first = owner.split(".")[0].split("_")[0]
    near = [name for name in sizes.encoders if name.split(".")[0] == first]
    return near[0] if near else "encoder" if "encoder" in sizes.encoders else next(iter(sizes.encoders))


def _of_config(config: EncoderConfig) -> list[tuple[str, int]]:
    """Of a last dimension; E and A only where they differ from D."""
    D, E, A, F = config.hidden_size, config.embedding_width, config.attention_width, config.feed_forward_width
    pairs = [("D", D), ("E", E), ("A", A), ("F", F), ("3A" if A != D else "3D", 3 * A), ("2A" if A != D else "2D", 2 * A)]
    return [*pairs, ("2F", 2 * F), ("D/2", D // 2), ("V", config.vocab_size)]


def legend(sizes: Sizes) -> str:
    """What the symbols of an encoder mean, with their values."""
    ((name, config),) = sizes.encoders.items()
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
    if sizes.outputs:
        facts["C"] = sizes.outputs, "outputs"
    prefix = "" if name == "encoder" else f"{name}: "
    shown = (f"{symbol}={value} {meaning}".replace(" ", "\N{NO-BREAK SPACE}") for symbol, (value, meaning) in facts.items())
    return wrapped(prefix + ", ".join(shown), 0)


# Text


def rows(one: Traced, other: Traced) -> Iterator[Row]:
    """Of the first pass, with symbols by what differs in the second; equal layers once."""
    pairs = zip(one.seen, other.seen, strict=True)
    labelled = merged([replace(seen, symbols=symbols(seen, again, one.sizes, other.sizes)) for seen, again in pairs])
    for (owner, layered), group in groupby(labelled, key=lambda seen: (seen.owner, seen.layer is not None)):
        for title, shown in _folded(owner, list(group), one) if layered else [("", list(group))]:
            if title:
                yield title, "", "", "", ""
            before = ""
            for seen in shown:
                where = f"  {seen.stage}" if title else _outside(seen)
                numbers = " × ".join(map(str, seen.shape)) or "one number"
                yield "" if where == before else where, seen.name, seen.symbols, numbers, _parameters(seen)
                before = where


def _outside(seen: Seen) -> str:
    return " ".join(part for part in ("" if seen.owner == "encoder" else seen.owner, seen.stage) if part)


def _parameters(seen: Seen) -> str:
    parts = [f"{seen.parameters:,}"] if seen.parameters else []
    return " + ".join([*parts, *["tied"] * seen.tied])


def _folded(owner: str, seen: list[Seen], traced: Traced) -> list[tuple[str, list[Seen]]]:
    """The layers of an encoder or the passes of a mask decoder: those that look the same under one title."""
    alike: dict[tuple[Seen, ...], list[int]] = {}
    for layer, group in groupby(seen, key=lambda one: one.layer):
        alike.setdefault(tuple(replace(one, layer=None) for one in group), []).append(layer)
    found = []
    for rows_of_layer, layers in alike.items():
        found += [(title, list(rows_of_layer)) for title in _titles(owner, layers, traced)]
    return found


def _titles(owner: str, layers: list[int], traced: Traced) -> list[str]:
    """One for the layers of an encoder, and one for those of a decoder beside it."""
    if owner not in traced.order:
        return [f"{owner} {_listed('pass', 'passes', layers)}"]
    order, config = traced.order[owner], traced.sizes.encoders[owner]
    prefix = "" if owner == "encoder" else f"{owner} "
    two = config.body is Body.encoder_decoder
    parts = {"encoder ": range(config.depth), "decoder ": range(config.depth, len(order))} if two else {"": range(len(order))}
    titles = []
    for part, places in parts.items():
        mine = [layer for layer in layers if layer in places]
        weights = len({order[layer] for layer in mine})
        shared = "" if weights == len(mine) else ", shared" if weights == 1 else f", {weights} sets"
        numbers = [layer - places.start for layer in mine]
        titles += [f"{prefix}{part}{_listed('layer', 'layers', numbers)}{shared}"] if mine else []
    return titles


def _listed(one: str, several: str, numbers: list[int]) -> str:
    """`layers 1-4`, `layers 1, 4, 7`: from 1 on."""
    counted = [number + 1 for number in numbers]
    if len(counted) == 1:
        return f"{one} {counted[0]}"
    if counted == list(range(counted[0], counted[-1] + 1)):
        return f"{several} {counted[0]}-{counted[-1]}"
    listed = [*map(str, counted)] if len(counted) <= FEW else [*map(str, counted[: FEW - 2]), "...", str(counted[-1])]
    return f"{several} {', '.join(listed)}"
