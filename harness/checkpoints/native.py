"""Native checkpoints: the tensors in `model.safetensors`, and the shape that they belong to in `model.json`."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from harness import checksums, paths
from harness.errors import InputError, writing
from harness.tracking.run_log import write_json
from models.config import EncoderConfig
from models.encoder import Encoder

Kind = TypeVar("Kind")
Json = TypeVar("Json", dict, list)

ADDED = {"vector_pooling": "mean"}
"""Fields of EncoderConfig that earlier versions have not written -> their value there."""

WEIGHTS, SHAPE, TOKENIZER = "model.safetensors", paths.SHAPE, "tokenizer.json"


def save(folder: Path, state: dict[str, Tensor], shape: EncoderConfig) -> None:
    """Writes both files; if interrupted in between, `read` refuses the folder. A tied output matrix is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    tied = {"masked_head.output.weight"} if shape.tie_masked_lm_head else set()
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items() if name not in tied}
    values = plain(shape)
    with paths.replaced(folder / WEIGHTS) as temporary:
        save_file(whole, temporary, metadata={"format": "pt", "shape": json.dumps(values)})
        paths.share(temporary)
    write_json(folder / SHAPE, values)


def read(folder: Path) -> tuple[dict[str, Tensor], EncoderConfig]:
    """Tensors on the CPU and their shape; InputError naming the file that is missing, torn, or of another model."""
    for name in (SHAPE, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} lacks {name}: expected the weights of a run, {SHAPE} with {WEIGHTS}")
    checksums.refuse_broken_seal(folder)
    shape = typed(folder / SHAPE, EncoderConfig)
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            stored_shape = (file.metadata() or {}).get("shape")
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError) as error:
        raise InputError(f"{folder / WEIGHTS} cannot be read, it may be torn: {error}") from error
    if stored_shape is None or ADDED | json.loads(stored_shape) != plain(shape):
        raise InputError(f"{folder / WEIGHTS} belongs to another model than {SHAPE} in the same folder: write both again")
    return state, shape


def part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by what follows."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def encoder_of(state: dict[str, Tensor], shape: EncoderConfig) -> Encoder:
    """The encoder of a checkpoint with any head."""
    encoder = Encoder(shape)
    encoder.load_state_dict(part(state, "encoder."))
    return encoder


@contextlib.contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A new folder that gets this name at the end of the block; where that raises, nothing is left of it."""
    building = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    try:
        building.mkdir(parents=True)
        yield building
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def refuse_filled(out: Path) -> None:
    """InputError, naming the key `to` of a command, for a file, or a folder that is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"to={str(out)!r} is there already; expected a new or an empty folder")


@contextlib.contextmanager
def exported(out: Path) -> Iterator[Path]:
    """As `whole`; InputError, naming the key `to`, for a folder that cannot be written."""
    with writing(out), whole(out) as building:
        yield building


def plain(shape: EncoderConfig) -> dict[str, Any]:
    """The fields of EncoderConfig as JSON values, enums by name."""
    values = {field.name: getattr(shape, field.name) for field in fields(EncoderConfig)}
    return {key: value.name if isinstance(value, Enum) else value for key, value in values.items()}


def typed(path: Path, kind: type[Kind]) -> Kind:
    """The values of a JSON file as this dataclass, enums by name.

    InputError, naming the file, for other keys, and for a value of another type.
    """
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not JSON, it may be torn: {error}") from error
    names = {field.name for field in fields(kind)}
    if kind is EncoderConfig and isinstance(values, dict):
        values = ADDED | values
    if not isinstance(values, dict) or values.keys() != names:
        mismatched = ", ".join(sorted(values.keys() ^ names)) if isinstance(values, dict) else "all"
        raise InputError(f"{path} must have the keys {', '.join(sorted(names))}; missing or unknown: {mismatched}")
    schema = OmegaConf.structured(kind)
    OmegaConf.set_readonly(schema, False)  # that of a frozen dataclass
    try:
        return OmegaConf.to_object(OmegaConf.merge(schema, values))
    except (OmegaConfBaseException, ValueError, TypeError) as error:
        key = getattr(error, "full_key", None)
        reason = " ".join(str(error).split("full_key")[0].split())
        raise InputError(f"{path}: {f'{key}: ' if key else ''}{reason}") from error


def json_of(path: Path, key: str, kind: type[Json] = dict) -> Json:
    """The JSON object, or list, in a file of published weights; InputError, naming `key`, for any other content."""
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, numbers of thousands of digits; nested too deep
        raise InputError(f"{key}: {path} is not JSON: {error}") from error
    if not isinstance(values, kind):
        raise InputError(f"{key}: {path} must hold {'an object' if kind is dict else 'a list'}")
    return values
