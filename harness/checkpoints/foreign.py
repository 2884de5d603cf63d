"""Encoders whose code is that of another package: of `transformers` with published weights, or a class that a user names.

`transformers` is imported where it is first needed. What its `config.json` says is kept in `model.options`, so that a run's
weights are read again without the folder that they came from.
"""

import contextlib
import functools
import io
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from harness import extensions
from harness.checkpoints import native, remote_code
from harness.errors import InputError, refused_errors
from harness.models.config import GROUP, EncoderConfig, Pooling
from harness.models.encoder import seeded, without_values
from harness.models.foreign import Foreign, changed_by_padding, keep_layers, with_shape
from harness.models.huggingface.names import refuse

TRANSFORMERS = "transformers"
"""Value of model.encoder for published weights that the library computes."""

UNREAD = (
    *("architectures", "auto_map", "dtype", "torch_dtype", "transformers_version", "_name_or_path", "id2label", "label2id"),
    *("problem_type", "finetuning_task", "task_specific_params", "use_cache", "vocab_size", "pad_token_id", "num_labels"),
)
"""Keys of a config.json that do not affect the encoder, or that are given separately."""

REFUSED = {
    "mra": "its attention is a downloaded CUDA kernel: without it, it computes zeros",
    "perceiver": "it reads embedded inputs, not tokens",
    "reformer": "it hashes at random in each call, and trains only on texts of one length",
}
"""Types of encoders that cannot be an arm, and why."""

CODE_POINTS = sys.maxunicode + 1
"""Pieces of an encoder without a table of them: its ids are characters."""

EXTRA = "hub"
"""The command that installs it."""


ROUNDING = 1e-5
"""Relative change of a vector that summation order may cause; encoders that depend on padding changed by 7e-4 or more."""

_shapes: dict[str, EncoderConfig] = {}
_paddings: dict[str, list[str]] = {}


def shape_of(config: EncoderConfig) -> EncoderConfig:
    """The config with the sizes of the class that it names; InputError for one that cannot be built or does not fit."""
    plain = {one.name: getattr(config, one.name) for one in fields(EncoderConfig)}
    key = repr(plain)
    if key not in _shapes:
        try:
            _shapes[key] = with_shape(EncoderConfig(**plain))
        except ValueError as error:
            raise error if isinstance(error, InputError) else InputError(str(error)) from error
    return _shapes[key]


def note_of_padding(config: EncoderConfig, folder: Path | None, said: str) -> list[str]:
    """A note if padding changes the vectors of a text, as measured here.

    Uses the weights in the folder, or else the class's initial values.
    """
    key = repr([folder, config.encoder, config.options, config.layers_kept])
    if key not in _paddings:
        with seeded(0) if folder is None else without_values():
            encoder = Foreign(config)
        if folder is not None:
            encoder.body = _published_part(folder, config, said)[0]
        change, repeated = changed_by_padding(encoder)
        what, change = ("from pass to pass", repeated) if repeated > ROUNDING else ("with padding", change)
        _paddings[key] = [f"vectors change {what} by up to {100 * change:.3g} %"] if change > ROUNDING else []
    return _paddings[key]


def code_facts(shape: EncoderConfig) -> str:
    """Package, version and a hash of the source of the class that model.encoder names; for transformers that of remote code."""
    encoder = str(shape.encoder)
    if encoder == TRANSFORMERS:
        own = shape.options.get(remote_code.KEY)
        return f"{TRANSFORMERS} {_library().__version__}" + (f", remote code {own}" if own else "")
    return extensions.source_of(encoder if ":" in encoder else extensions.declared(GROUP)[f"encoder.{encoder}"].value)


def make(vocab_size: int, pad_token_id: int, model_type: str = "", **options: Any) -> nn.Module:
    """The encoder of a `model_type` of transformers, run by the library's code and initialised as the library does.

    Decoders and poolers are left out: heads are the harness's. ValueError for an unknown type.
    """
    return built(vocab_size, pad_token_id, {"model_type": model_type, **options})[1]


def built(vocab_size: int, pad_token_id: int, options: dict[str, Any]) -> tuple[Any, nn.Module]:
    """The whole model, and its text encoder."""
    config = _config(options)
    text = _text(config)
    config.use_cache = text.use_cache = False
    text.pad_token_id = pad_token_id
    if hasattr(text, "vocab_size"):
        text.vocab_size = vocab_size
    with quiet():
        model = _library().AutoModel.from_config(config, dtype=torch.float32)
        return model, _encoder_part(model, config)


@functools.cache
def _library() -> Any:
    """`transformers`, imported without its dependencies' warnings."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            extensions.library(f"{TRANSFORMERS}.modeling_utils", EXTRA)
            return extensions.library(TRANSFORMERS, EXTRA)
    finally:
        logging.disable(before)


def _config(config_json: dict[str, Any]) -> Any:
    """The library's config; ValueError for a type that it does not have, or that cannot be an arm."""
    known, kind = _library().CONFIG_MAPPING, config_json.get("model_type")
    if remote_code.KEY in config_json:
        made = remote_code.config_class(config_json, _library())
    elif not kind or kind not in known:
        not_run = (
            f"; its own code (auto_map) runs with model.{remote_code.KEY} alone" if remote_code.CLASSES in config_json else ""
        )
        raise ValueError(f"model_type={kind!r} is unknown to transformers {_library().__version__}{not_run}")
    elif kind in REFUSED:
        raise ValueError(f"model_type={kind}: {REFUSED[kind]}")
    else:
        made = known[kind]
    config = made.from_dict({key: value for key, value in config_json.items() if key != "model_type"})
    classes = _library().models.auto.modeling_auto.MODEL_MAPPING_NAMES.get(kind)
    config.architectures = [classes[0]] if isinstance(classes, tuple | list) else None  # the first has one state a token
    depth = getattr(_text(config), "num_hidden_layers", 1)
    if not 1 <= depth <= native.MOST_LAYERS:  # to build them takes time also without values
        raise ValueError(f"num_hidden_layers={depth} must be between 1 and {native.MOST_LAYERS:,}")
    if getattr(config, "default_language", "") is None:  # whose adapters texts without a language run through
        config.default_language = config.languages[0]
    return config


def _text(config: Any) -> Any:
    """The config of the text encoder within an encoder-decoder or a multimodal model."""
    part = getattr(config, "encoder", config) if config.is_encoder_decoder else config
    return part.get_text_config()


def _encoder_part(model: Any, config: Any) -> nn.Module:
    part = model.get_encoder() if getattr(config, "is_encoder_decoder", False) else model
    for module in [one for one in part.modules() if isinstance(getattr(one, "pooler", None), nn.Module)]:
        module.pooler = nn.Identity()
    part.warn_if_padding_and_no_attention_mask = lambda *_: None  # it reads values, which waits for the device
    types = getattr(_text(config), "type_vocab_size", None)
    part.takes_segments = isinstance(types, int) and types > 1
    part.takes_segments |= config.model_type in ("xlnet", "funnel")  # whose attention compares them, without a table
    if type(config) in _library().MODEL_FOR_MASKED_LM_MAPPING and part is model:
        part.make_masked_head = functools.partial(_masked_head, config)
    longest = _longest(part, _text(config))
    if longest is not None:
        part.longest_text = longest
    return part


class _Given(nn.Module):
    """Stands for the encoder in a model with a head: gives the vectors that it was given."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, self.hidden = config, torch.empty(0)

    def forward(self, *_: Any, **__: Any) -> Any:
        return _library().modeling_outputs.BaseModelOutput(last_hidden_state=self.hidden)


class MaskedHead(nn.Module):
    """(B, T, D) -> (B, T, V) logits by the masked-LM head of a type of transformers."""

    def __init__(self, model: Any, table: nn.Module | None) -> None:
        super().__init__()
        setattr(model, model.base_model_prefix, _Given(model.config))
        self.model, output = model, model.get_output_embeddings()
        if table is not None and output is not None and getattr(model.config, "tie_word_embeddings", True):
            output.weight = table.weight

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, V)."""
        given = getattr(self.model, self.model.base_model_prefix)
        given.hidden = hidden
        try:
            ids = torch.zeros(hidden.shape[:2], dtype=torch.int64, device=hidden.device)
            return self.model(input_ids=ids).logits
        finally:
            given.hidden = torch.empty(0)


def _masked_head(config: Any, part: Any) -> MaskedHead:
    with quiet():
        model = _library().AutoModelForMaskedLM.from_config(config, dtype=torch.float32)
    return MaskedHead(model, part.get_input_embeddings())


def _longest(part: nn.Module, config: Any) -> int | None:
    """Tokens of the longest text: rows of the table of positions, without those up to the padding row, as RoBERTa counts."""
    rows = getattr(config, "max_position_embeddings", None)
    if not isinstance(rows, int) or rows < 1:
        return None
    tables = [one for name, one in part.named_modules() if "position" in name and hasattr(one, "weight")]
    padded = (getattr(one, "padding_idx", None) for one in tables if len(one.weight) == rows)
    return rows - next((place + 1 for place in padded if place is not None), 0)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the library's warnings and bars, which would clutter a run's output."""
    log = logging.getLogger(TRANSFORMERS)
    before, shows = log.level, _library().utils.logging.is_progress_bar_enabled()
    log.setLevel(logging.ERROR)
    _library().utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        log.setLevel(before)
        if shows:
            _library().utils.logging.enable_progress_bar()


def published_shape(config_json: dict[str, Any], said: str) -> EncoderConfig:
    """The shape of published weights that the library computes; InputError, which begins with `said`, for an unknown type."""
    with refused_errors(f"{said}: transformers cannot read config.json"):
        try:
            refuse(config_json, {"quantization_config": None})
            known = _config(config_json)
        except ValueError as error:
            raise InputError(f"{said}: {error}") from error
        options = {key: value for key, value in config_json.items() if key not in UNREAD} | remote_code.part_of(config_json)
        is_masked = type(known) in _library().MODEL_FOR_MASKED_LM_MAPPING and not known.is_encoder_decoder
        is_causal = type(known) in _library().MODEL_FOR_CAUSAL_LM_MAPPING and not is_masked and not known.is_encoder_decoder
        text = _text(known)
        shape = EncoderConfig(
            encoder=TRANSFORMERS,
            options=options,
            vocab_size=getattr(text, "vocab_size", CODE_POINTS),
            pad_token_id=text.pad_token_id if isinstance(text.pad_token_id, int) and text.pad_token_id >= 0 else 0,
            pooling=Pooling.last if is_causal else Pooling.mean if known.is_encoder_decoder else Pooling.cls,
            vector_pooling=Pooling.last if is_causal else Pooling.mean,
        )
    return shape_of(shape)


def notes(folder: Path, shape: EncoderConfig) -> list[str]:
    """Notes on published weights that the library computes; InputError for layers that cannot be kept."""
    shape_of(shape)
    said = [f"computed by {code_facts(shape)}, model_type={shape.options.get('model_type')}"]
    pickled = not any(folder.glob("*.safetensors"))
    return said + (["tensors of a pickle, read by torch.load(weights_only=True)"] if pickled else [])


def load_published(folder: Path, encoder: Foreign, said: str) -> dict[str, Tensor]:
    """Loads published weights into the encoder; the dense layer of a pooler like ours, by our names, where the files have one.

    Weights are safetensors, whole or in shards, or a pickle, of which only tensors are read. InputError where they do not fit.
    """
    part, pooler = _published_part(folder, encoder.config, said)
    encoder.body.load_state_dict(part.state_dict())
    return pooler


def _published_part(folder: Path, config: EncoderConfig, said: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """The encoder of published weights, and the dense layer of their pooler by our names."""
    with quiet():
        model, lacking = _read(_library().AutoModel, folder, config, said)
        dense = getattr(getattr(model, "pooler", None), "dense", nn.Identity())
        pooler = {f"pooler.dense.{name}": one.detach() for name, one in dense.named_parameters() if id(one) not in lacking}
        part = _encoder_part(model, model.config)
    _refuse_lacking(part, lacking, said)
    if config.layers_kept:
        keep_layers(part, config.layers_kept)
    return part, pooler


def _read(auto: Any, folder: Path, shape: EncoderConfig, said: str) -> tuple[Any, set[int]]:
    """The model that the files have, and the ids of its parameters that they lack; InputError for files that cannot be read."""
    with refused_errors(f"{said}: the files cannot be read"):
        config = _config(json.loads((folder / "config.json").read_text()) | remote_code.part_of(shape.options))
        model, info = auto.from_pretrained(
            folder, config=config, dtype=torch.float32, local_files_only=True, output_loading_info=True, trust_remote_code=False
        )
    if info["mismatched_keys"]:
        raise InputError(f"{said}: tensors have the wrong shape: {', '.join(sorted(map(str, info['mismatched_keys']))[:8])}")
    named = model.state_dict(keep_vars=True)
    return model, {id(named[name]) for name in info["missing_keys"] if name in named}


class LackingError(InputError):
    """The files lack tensors that a model needs."""


def _refuse_lacking(part: nn.Module, lacking: set[int], said: str) -> None:
    missing = [name for name, tensor in part.state_dict(keep_vars=True).items() if id(tensor) in lacking]
    if missing:
        raise LackingError(f"{said}: the files lack tensors of {type(part).__name__}: {', '.join(sorted(missing)[:8])}")


def masked_lm(folder: Path, shape: EncoderConfig, said: str) -> dict[str, Tensor]:
    """Tensors of a published encoder and of its head for masked tokens, under our names; InputError without such a head."""
    if not hasattr(Foreign(shape).body, "make_masked_head"):
        raise InputError(
            f"{said}: model_type={shape.options.get('model_type')!r} has no head for masked tokens in transformers"
        )
    with quiet():
        model, lacking = _read(_library().AutoModelForMaskedLM, folder, shape, said)
        part = _encoder_part(getattr(model, model.base_model_prefix), model.config)
        head = MaskedHead(model, None)
    for one in (part, head):
        _refuse_lacking(one, lacking, said)
    state = {f"encoder.body.{name}": tensor for name, tensor in part.state_dict().items()}
    return state | {f"masked_head.model.{name}": tensor for name, tensor in head.state_dict().items()}
