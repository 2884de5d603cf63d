"""The tensors of one forward pass, in the order in which they are made, as hooks on the real modules see them.

The pass runs on the meta device, without values. Queries, keys, values, scores and context of attention are no modules: they
are what `scaled_dot_product_attention` and its softmax take and return.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from models.batch import Batch
from models.decoder import CrossAttentionBlock
from models.dropout import Dropout
from models.encoder import Embeddings, Encoder
from models.heads import Pooler
from models.layers import AttentionBlock, FeedForwardBlock
from models.mask_decoder import MaskDecoder
from models.recurrent import Direction

Size = tuple[int, ...]

LEFT_OUT = (nn.Dropout, Dropout, nn.Identity)
"""Modules that change no shape and have no parameters."""

STAGES = {"attentions": "attention", "crosses": "attention over the encoder", "feed_forwards": "feed-forward"}
"""Lists of blocks of a layer, and how a reader knows them."""

LAST_NORM = ("layers.norm", "layers.encoder.norm", "stack.norm")
"""Of a stack that norms before its blocks; after its last layer."""

SOFTMAX = ("_softmax", "_safe_softmax")


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
