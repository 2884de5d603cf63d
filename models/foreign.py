"""An encoder class of another package behind the interface of `Encoder`. B sequences, T tokens, D hidden.

`model.encoder` names it. It is made by `CLASS(vocab_size=..., pad_token_id=..., **options)` and called by
`forward(input_ids, attention_mask)`, both (B, T) int64, where the mask has 1 for real tokens; it gives (B, T, D), alone, first
in a tuple, or as `last_hidden_state`. A `forward` that takes `token_type_ids` or `position_ids` gets them where there are some,
and one that takes `global_attention_mask` (B, T) has 1 at the first token there, as Longformer for texts (arXiv:2004.05150).
"""

import contextlib
import inspect
import operator
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from harness.errors import InputError, refused_errors
from harness.models.batch import Batch, as_batch
from harness.models.config import LARGEST_TABLE, EncoderConfig, class_of
from harness.models.encoder import Encoder, seeded, without_values

PROBED = 8
"""Number of tokens of the text that probes an encoder's shapes."""

GLOBAL = "global_attention_mask"
"""Name of the input that is 1 for tokens with global attention, in an encoder with windows."""

IN_LISTS = "as of layers in a plain list: expected torch.nn.ModuleList or ParameterList"

TABLES = {"position_embedding": ("position", "wpe"), "type_embedding": ("token_type", "segment", "type_embed")}
"""Component of the embeddings -> substrings of its tables' names."""


def make_encoder(config: EncoderConfig) -> Encoder:
    """The native encoder, or that of another package if `config.encoder` names one."""
    return Encoder(config) if config.encoder is None else Foreign(config)


class ForeignEmbeddings(nn.Module):
    """View of an encoder without its layers, made anew at each call, under the names of `Embeddings`."""

    projection = mask_embedding = None

    def __init__(self, table: nn.Embedding | None, tables: dict[str, nn.Embedding], rest: list[nn.Parameter]) -> None:
        super().__init__()
        self.token_embedding = table
        self.position_embedding, self.type_embedding = (tables.get(name) for name in TABLES)
        self.norm = nn.ParameterList(rest)  # norms, projections and whatever else there is


class ForeignLayers(nn.Module):
    """The layers of an encoder in their order of execution: a view, made anew at each call."""

    def __init__(self, layers: list[tuple[nn.Module, ...]], order: list[int]) -> None:
        super().__init__()
        self.layers, self._blocks, self._order = nn.ModuleList(part for parts in layers for part in parts), layers, order

    def execution_order(self) -> list[tuple[nn.Module, ...]]:
        """The modules that each of the layers runs; one that is shared stands more than once."""
        return [self._blocks[place] for place in self._order]


class Foreign(Encoder):
    """An encoder class of another package; its parts are found by the types and names of its modules."""

    is_foreign: ClassVar[bool] = True

    def __init__(self, config: EncoderConfig) -> None:
        nn.Module.__init__(self)
        self.config = config
        make = class_of("encoder", str(config.encoder))
        self.body: nn.Module = make(vocab_size=config.vocab_size, pad_token_id=config.pad_token_id, **config.options)
        if config.layers_kept:
            keep_layers(self.body, config.layers_kept)
        takes = inspect.signature(self.body.forward).parameters
        self._takes, self._needs_mask = {*takes}, "attention_mask" in takes and takes["attention_mask"].default is not None
        self._runs_on_meta: bool | None = None
        try:
            self._order = self._called()
        except Exception:  # whatever an operator without shapes raises
            if _device(self) != "meta":
                raise
            self._runs_on_meta, self._order = False, [*range(len(self._blocks()))]
        self._counted: dict[int, int] = {}

    def forward(self, inputs: Batch | Tensor) -> Tensor:
        """Batch, or (B, T) ids without padding -> (B, T, D); ValueError for what the class cannot read."""
        batch = as_batch(inputs)
        mask = batch.attention_mask
        if mask is not None and mask.dim() != 2:
            raise ValueError(f"model.encoder={self.config.encoder}: expected an objective whose attention mask is (B, T)")
        if batch.position_ids is not None and "position_ids" not in self._takes:
            raise ValueError(f"model.encoder={self.config.encoder} does not take position_ids, which this objective needs")
        if mask is None and self._needs_mask:
            mask = torch.ones_like(batch.input_ids, dtype=torch.bool)
        given = {
            "attention_mask": None if mask is None else mask.long(),
            "token_type_ids": batch.token_type_ids if getattr(self.body, "takes_segments", True) else None,
            "position_ids": batch.position_ids,
        }
        given = {name: value for name, value in given.items() if value is not None and name in self._takes}
        if GLOBAL in self._takes:
            given[GLOBAL] = first = torch.zeros_like(batch.input_ids)
            first[:, 0] = 1
        is_asked = batch.input_ids.is_meta and GLOBAL not in given  # without values nothing says which tokens are global
        with _UnpaddedText() if is_asked else contextlib.nullcontext():
            return _first(self.body(batch.input_ids, **given))

    def hidden_states(self, inputs: Batch | Tensor) -> list[Tensor]:
        """What the first layer reads and the output of every layer, each (B, T, D); the last one is that of the encoder."""
        states: list[Tensor] = []

        def keep_input(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            if not states:
                states.append(_first(arguments or tuple(named.values())))

        def keep_output(_: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
            states.append(_first(output))

        with contextlib.ExitStack() as hooks:
            for block in self._blocks():
                hooks.enter_context(block[0].register_forward_pre_hook(keep_input, with_kwargs=True))
                hooks.enter_context(block[-1].register_forward_hook(keep_output))
            last = self(inputs)
        states = [*states[:-1], last]
        if len(states) != len(self._order) + 1 or any(state.shape[:2] != last.shape[:2] for state in states):
            raise InputError(
                f"model.encoder={self.config.encoder}: only its last layer gives one vector per token: expected layers=[-1]"
            )
        return states

    @property
    def runs_on_meta(self) -> bool:  # type: ignore[override]
        """Whether every operator runs on the meta device; tried on first use."""
        if self._runs_on_meta is None and _device(self) == "meta":
            was_training = self.training
            self._runs_on_meta = False
            with contextlib.suppress(Exception):  # whatever an operator without shapes raises, in training alone
                self.train()(_probe(self)).sum().backward()
                self._runs_on_meta = True
            self.train(was_training)
            self.zero_grad()
        elif self._runs_on_meta is None:
            with without_values():
                self._runs_on_meta = Foreign(self.config).runs_on_meta
        return self._runs_on_meta

    @property
    def token_embedding(self) -> nn.Embedding | None:
        """The table of pieces; None where there is none."""
        if isinstance(table := _table(self.body), nn.Embedding):
            return table
        tables = (module for module in self.body.modules() if isinstance(module, nn.Embedding))
        return next((table for table in tables if table.num_embeddings == self.config.vocab_size), None)

    @property
    def embeddings(self) -> Any:  # type: ignore[override]
        """View of all that is in no layer."""
        inside = {id(one) for block in self._blocks() for part in block for one in part.modules()}
        table = self.token_embedding
        tables = {}
        for name, module in self.body.named_modules():
            if isinstance(module, nn.Embedding) and module is not table and id(module) not in inside:
                part = next((part for part, words in TABLES.items() if any(word in name.lower() for word in words)), None)
                if part is not None and part not in tables:
                    tables[part] = module
        named = [parameter for one in (table, *tables.values()) if one is not None for parameter in one.parameters()]
        taken = {id(parameter) for parameter in (*named, *self.layers.parameters())}
        return ForeignEmbeddings(table, tables, [one for one in self.body.parameters() if id(one) not in taken])

    @property
    def layers(self) -> Any:  # type: ignore[override]
        """View of the layers."""
        return ForeignLayers(self._blocks(), self._order)

    def _blocks(self) -> list[tuple[nn.Module, ...]]:
        """Its layers, from one list or from parallel lists of their parts; without a list, the modules without tables."""
        if names := lists_of_layers(self.body):
            return list(zip(*(_unnested(self.body.get_submodule(name)) for name in names), strict=True))
        return [(part,) for part in self.body.children() if not any(isinstance(one, nn.Embedding) for one in part.modules())]

    def _called(self) -> list[int]:
        """Places of the layers in the order in which a pass calls them; each once where it calls their forward itself."""
        order = []
        was_training = self.training
        with contextlib.ExitStack() as after, torch.no_grad():
            after.callback(self.train, was_training)
            for place, block in enumerate(self._blocks()):
                after.enter_context(block[0].register_forward_hook(lambda *_, place=place: order.append(place)))
            self.eval()(_probe(self))
        return order or list(range(len(self._blocks())))

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text of `length` tokens, counted from its operators: there is no formula."""
        if length not in self._counted:
            with without_values() if self.runs_on_meta else seeded(0):
                shapes = Foreign(self.config).eval()
            with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
                shapes(_probe(shapes, length))
            self._counted[length] = counter.get_total_flops()
        return self._counted[length]


class _UnpaddedText(TorchFunctionMode):
    """Answers what a pass without values asks of them, as for a text without padding: all is real, nothing is padding."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        name, is_whole = getattr(function, "__name__", ""), len(arguments) == 1 and not keywords
        if name == "__contains__":
            return False
        if name in ("all", "any") and is_whole and arguments[0].is_meta:
            return torch.tensor(name == "all", device="cpu")
        return function(*arguments, **(keywords or {}))


def _device(model: nn.Module) -> str:
    """Type of the device of its parameters; meta, too, where some of them have values all the same."""
    devices = {parameter.device.type for parameter in model.parameters()}
    if not devices:
        raise ValueError(f"no parameters, {IN_LISTS}")
    return "meta" if "meta" in devices else next(iter(devices))


def _is_whole(encoder: nn.Module, hidden: Tensor) -> bool:
    """Whether every tensor that gradients of these vectors reach is a parameter of the encoder."""
    own, seen = {id(parameter) for parameter in encoder.parameters()}, set[Any]()
    nodes: list[Any] = [hidden.grad_fn]
    while nodes:
        if (node := nodes.pop()) is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable") and id(node.variable) not in own:
            return False
        nodes += [before for before, _ in node.next_functions]
    return True


def _probe(model: nn.Module, length: int = PROBED) -> Batch:
    ids = torch.zeros(1, length, dtype=torch.int64, device=_device(model))
    return Batch(input_ids=ids, attention_mask=torch.ones_like(ids, dtype=torch.bool))


def changed_by_padding(encoder: Foreign) -> tuple[float, float]:
    """Largest change of a token's vector by padding, and that from pass to pass, relative to its length, in evaluation mode.

    It is that of a text of PROBED // 2 random tokens, in a batch with one twice as long and alone. InputError for vectors that
    are not finite, and for those whose size depends on the text.
    """
    ids = torch.randint(encoder.config.vocab_size, (2, PROBED), generator=torch.Generator().manual_seed(0))
    mask, half = torch.ones_like(ids, dtype=torch.bool), PROBED // 2
    ids[0, half:], mask[0, half:] = encoder.config.pad_token_id, False
    with torch.no_grad():
        beside = encoder.eval()(Batch(ids, attention_mask=mask))[0, :half]
        alone, again = (encoder(Batch(ids[:1, :half], attention_mask=mask[:1, :half]))[0] for _ in range(2))
    if alone.shape != beside.shape or not alone.isfinite().all():
        raise InputError(
            f"model.encoder={encoder.config.encoder} gives other vectors than finite ones of one size for all texts"
        )
    changes = [float(((other - alone).norm(dim=-1) / alone.norm(dim=-1)).max()) for other in (beside, again)]
    return changes[0], changes[1]


def lists_of_layers(body: nn.Module) -> list[str]:
    """Names of its list of layers, or of parallel lists of their parts; empty without one.

    Among several lists, those as long as its config says, and among these the nearest to its token table.
    """
    lists = {
        name: list(_unnested(part)) for name, part in body.named_modules() if isinstance(part, nn.ModuleList) and len(part)
    }
    lists = {name: parts for name, parts in lists.items() if not any(name.startswith(f"{other}.") for other in lists)}
    if "layers" in lists:
        return ["layers"]
    config: Any = getattr(body, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    depth, table = getattr(text, "num_hidden_layers", None), _table(body)
    at = next((name for name, module in body.named_modules() if module is table), "").split(".")
    found = [name for name, parts in lists.items() if len(parts) == depth] or [*lists]
    first = max(found, key=lambda name: len([*takewhile(bool, map(operator.eq, name.split("."), at))]), default="")
    parent = first.rpartition(".")[0]
    return [name for name in found if name.rpartition(".")[0] == parent and len(lists[name]) == len(lists[first])]


def _unnested(parts: nn.Module) -> Iterator[nn.Module]:
    for part in parts.children():
        yield from _unnested(part) if isinstance(part, nn.ModuleList) else [part]


def _table(body: nn.Module) -> nn.Module | None:
    """What the class itself names as its table of pieces."""
    named = getattr(body, "get_input_embeddings", None)
    try:
        return named() if callable(named) else None
    except (NotImplementedError, AttributeError):
        return None


def keep_layers(body: nn.Module, kept: list[int]) -> None:
    """Keeps only these layers of its list; ValueError for layers that it lacks, or if it has no such list."""
    names = lists_of_layers(body)
    layers = list(body.get_submodule(names[0]).children()) if len(names) == 1 else []
    if not {*kept} <= {*range(len(layers))} or any(isinstance(layer, nn.ModuleList) for layer in layers):
        raise ValueError(f"keeping layers {kept} needs one list of them: {type(body).__name__} has {len(layers)}")
    tables = {
        name: at
        for at in (*range(len(layers)), *kept)
        for name, part in layers[at].named_modules()
        if isinstance(part, nn.Embedding)
    }
    if needed := {*tables.values()} - {*kept}:
        raise ValueError(f"keeping layers {kept} also needs layer {min(needed)}, whose position table all layers use")
    parent, _, last = names[0].rpartition(".")
    setattr(body.get_submodule(parent), last, nn.ModuleList(layers[place] for place in kept))
    config: Any = getattr(body, "config", None)
    for key, value in list(vars(config).items()) if config is not None else ():
        if isinstance(value, list) and len(value) == len(layers):  # one value for each layer
            setattr(config, key, [value[place] for place in kept])
    if hasattr(config, "num_hidden_layers"):
        config.num_hidden_layers = len(kept)


def _first(output: Any) -> Tensor:
    """The (B, T, D) tensor of what a module gives."""
    found = getattr(output, "last_hidden_state", output)
    return found[0] if isinstance(found, tuple | list) else found


def with_shape(config: EncoderConfig) -> EncoderConfig:
    """The config with the sizes of the built class; ValueError, naming `model.encoder`, for a class that does not fit."""
    said = f"model.encoder={config.encoder}"
    with refused_errors(f"{said} cannot be built and run"), torch.inference_mode(mode=False), torch.enable_grad():
        with without_values():
            encoder = Foreign(config)
        if not encoder.runs_on_meta:
            with seeded(0):
                encoder = Foreign(config)
        hidden, trained = encoder.eval()(_probe(encoder)), encoder.train()(_probe(encoder))
        layers = len(encoder.layers.execution_order())
    if not isinstance(hidden, Tensor) or hidden.dim() != 3 or hidden.shape[:2] != (1, PROBED):
        given = tuple(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
        raise ValueError(f"{said} gives {given} for (1, {PROBED}) ids: expected one vector per token, (1, {PROBED}, D)")
    if hidden.dtype != torch.float32 or not trained.requires_grad:
        given = str(hidden.dtype).removeprefix("torch.") if hidden.dtype != torch.float32 else "vectors without gradients"
        raise ValueError(f"{said} gives {given}: expected float32 vectors that depend on parameters to train")
    if not _is_whole(encoder, trained):
        raise ValueError(f"{said} has weights that are no parameters of it, {IN_LISTS}")
    table, longest = encoder.token_embedding, getattr(encoder.body, "longest_text", None)
    width = None if table is None else table.embedding_dim
    types = encoder.embeddings.type_embedding
    return replace(
        config,
        hidden_size=hidden.shape[-1],
        num_hidden_layers=max(1, layers),
        embedding_size=None if width == hidden.shape[-1] else width,
        max_position_embeddings=longest or LARGEST_TABLE,
        type_vocab_size=0 if types is None else types.num_embeddings,
        tie_masked_lm_head=table is not None and table.num_embeddings == config.vocab_size,
    )
