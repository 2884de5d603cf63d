"""Native checkpoints: the tensors in `model.safetensors`, and the shape that they belong to in `model.json`."""

import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from harness import paths, records
from harness.config.own_files import as_text
from harness.errors import InputError
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, without_values
from harness.models.foreign import make_encoder
from harness.models.ranges import refuse_out_of_range

Kind = TypeVar("Kind")

ADDED: dict[str, object] = {"vector_pooling": "mean", "encoder": None, "options": {}, "layers_kept": []}
"""Fields of EncoderConfig that earlier versions did not write -> their implied values."""

LARGEST_BYTES = 1 << 37
"""Maximum size of weights in bytes: over a hundred gigabytes."""

MOST_LAYERS = 1000
"""Maximum number of layers, which may share tensors."""

MOST_MORE, FEWEST = 4, 1_000_000
"""Largest ratio of a model's numbers to its weights', plus a constant: for parts that are shared or newly initialised."""

WEIGHTS, SHAPE, TOKENIZER = "model.safetensors", paths.SHAPE, "tokenizer.json"


def save(folder: Path, state: dict[str, Tensor], shape: EncoderConfig) -> None:
    """Writes weights and shape, without a tied output matrix; `read` refuses a folder whose writing was interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    tied = {"masked_head.output.weight"} if shape.tie_masked_lm_head else set()
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items() if name not in tied}
    values = plain(shape)
    # one tensor under two names, which a class of another package ties itself, is written once
    whole = {name: whole[name] for name, first in first_names(whole).items() if name == first}
    with paths.replaced(folder / WEIGHTS) as temporary:
        save_file(whole, temporary, metadata={"format": "pt", "shape": json.dumps(values)})
        paths.share(temporary)
    records.write(folder / SHAPE, values)


def read(folder: Path) -> tuple[dict[str, Tensor], EncoderConfig]:
    """Tensors on the CPU and their shape; InputError naming a file that is missing, corrupt, or of another model."""
    for name in (SHAPE, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} lacks {name}: expected the weights of a run, {SHAPE} with {WEIGHTS}")
    shape = typed(folder / SHAPE, EncoderConfig)
    refuse_larger(shape, folder / WEIGHTS)
    state, metadata = tensors(folder / WEIGHTS)
    try:
        stored_shape = json.loads(metadata.get("shape", "null"))
    except (ValueError, RecursionError):
        stored_shape = None
    if not isinstance(stored_shape, dict) or ADDED | stored_shape != plain(shape):
        raise InputError(f"{folder / WEIGHTS} does not match {SHAPE} in the same folder: write both again")
    return state, shape


def tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file by name, on the CPU, and its metadata; InputError for any other file."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118 - not a mapping


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The safetensors file; InputError for a truncated file or other content, before its list of tensors is read."""
    with naming(f"{path} cannot be read, it may be corrupt"):
        with paths.opened(path, LARGEST_BYTES) as file:
            header = int.from_bytes(file.read(8), "little")
        if header > paths.LARGEST_HEADER:
            most = f"expected at most {paths.LARGEST_HEADER:,}"
            raise InputError(f"{path} cannot be read: its header states a length of {header:,} bytes; {most}")
        with safe_open(path, framework="pt") as file:
            yield file


FLOATS = ("F16", "BF16", "F32", "F64")
"""Types of weights, as safetensors names them."""


def refuse_larger(shape: EncoderConfig, *files: Path) -> None:
    """InputError for a shape with many more numbers than the weights have; no number of either is read or allocated.

    Also for weights in integers or 8 bits, which need the scales of the tool that wrote them.
    """
    sizes: list[int] = []
    for path in files:
        with _opened(path) as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                part = file.get_slice(name)
                sizes.append(math.prod(part.get_shape()))
                if name.endswith("weight") and (kind := part.get_dtype()) not in FLOATS:
                    raise InputError(f"{path}: {name} has the type {kind}: expected {', '.join(FLOATS)}, without quantization")
    path, stored = files[0], sum(sizes)
    if shape.num_hidden_layers > max(MOST_LAYERS, len(sizes)):  # to build them takes time also without values
        raise InputError(f"{path} has {len(sizes):,} tensors, but its config has {shape.num_hidden_layers:,} layers")
    with naming(f"the model of {path} cannot be built"), without_values():
        refuse_out_of_range(shape)
        needed = sum(tensor.numel() for tensor in make_encoder(shape).state_dict().values())
    if needed > MOST_MORE * stored + FEWEST:
        raise InputError(f"{path} has {stored:,} numbers, but its config states an encoder of {needed:,}")


WRONG = (ArithmeticError, AttributeError, LookupError, OmegaConfBaseException, OSError, RuntimeError, SafetensorError)
"""What the libraries raise for wrong content, besides ValueError and TypeError."""


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Context that turns wrong content into an InputError with the reason."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, *WRONG) as error:
        key, reason = getattr(error, "full_key", None), " ".join(str(error).partition("full_key")[0].split())
        lacks = f" lacks {reason}" if isinstance(error, KeyError) else f": {reason}"
        raise InputError(f"{what}{f', {key}' if key else ''}{lacks}") from error


def load(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Loads all tensors of a model; one name suffices for a tied tensor. RuntimeError for missing or unexpected tensors."""
    model.load_state_dict({name: state[one] for name, one in first_names(model.state_dict()).items() if one in state} | state)


def first_names(state: dict[str, Tensor]) -> dict[str, str]:
    """Name of each tensor -> the first name of the same one; only tied tensors have another."""
    first: dict[int | str, str] = {}
    return {name: first.setdefault(tensor.data_ptr() or name, name) for name, tensor in state.items()}


def part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names have this prefix, under their names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def encoder_of(state: dict[str, Tensor], shape: EncoderConfig) -> Encoder:
    """The encoder of a checkpoint with any head; InputError for tensors of another one."""
    encoder = make_encoder(shape)
    with naming("the weights do not fit the encoder"):
        load(encoder, part(state, "encoder."))
    return encoder


def refuse_more_pieces(tokenizer: Tokenizer, shape: EncoderConfig, where: str) -> None:
    """InputError for a tokenizer with more pieces than the model has token embeddings."""
    if (size := tokenizer.get_vocab_size()) > shape.vocab_size:
        raise InputError(f"{where} has {size:,} pieces, the model {shape.vocab_size:,} token embeddings")


def plain(shape: EncoderConfig) -> dict[str, Any]:
    """The fields of EncoderConfig as JSON values, enums by name."""
    values = {field.name: getattr(shape, field.name) for field in fields(EncoderConfig)}
    return {key: value.name if isinstance(value, Enum) else value for key, value in values.items()}


def typed(path: Path, kind: type[Kind]) -> Kind:
    """The values of a JSON file as this dataclass, enums by name.

    InputError, naming the file, for other keys, and for a value of another type.
    """
    try:
        values = paths.read_object(path)
    except (InputError, OSError) as error:
        raise InputError(f"{error}: it may be corrupt") from error
    names = {field.name for field in fields(cast(Any, kind))}
    if kind is EncoderConfig:
        values = ADDED | values
    if values.keys() != names:
        mismatched = ", ".join(sorted(values.keys() ^ names))
        raise InputError(f"{path} must have the keys {', '.join(sorted(names))}; missing or unknown: {mismatched}")
    return structured(kind, values, str(path))


def structured(kind: type[Kind], values: dict[str, Any], where: str) -> Kind:
    """The dataclass with these values; InputError, which begins with `where`, for a value of another type."""
    schema = OmegaConf.structured(kind)
    OmegaConf.set_readonly(schema, False)  # that of a frozen dataclass
    with naming(where):
        return cast(Kind, OmegaConf.to_object(OmegaConf.merge(schema, as_text(values))))


def json_of(path: Path, key: str, kind: Any = dict) -> Any:
    """The JSON object, or list, in a file of published weights; InputError, naming `key`, for any other content."""
    try:
        return paths.read_object(path, kind)
    except InputError as error:
        raise InputError(f"{key}: {error}") from error
