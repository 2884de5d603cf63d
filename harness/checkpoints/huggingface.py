"""Published weights: a folder with config.json, model.safetensors and tokenizer files, local or downloaded by name.

Only safetensors are read: a pickle could run anything.
"""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from harness.checkpoints import native
from harness.config.adopted import Checkpoint
from harness.config.schema import RunConfig, TokenizerConfig
from harness.data import published as published_tokenizer
from harness.data import tokenizer as tokenizers
from harness.data.tokenizer import pad_token_id
from harness.errors import InputError
from harness.paths import conf_directory
from harness.tasks import kind_of
from models.changes import OF_HEAD
from models.config import Body, EncoderConfig
from models.derive import RANDOM, Origin, derived
from models.encoder import Encoder
from models.heads import Classifier, SequenceClassifier, TextVectors, on_meta
from models.huggingface import config_of, masked_head_of, t5, translated
from models.huggingface.families import module_of
from models.ranges import refuse_out_of_range

WEIGHTS = "model.safetensors"
FILES = ["config.json", WEIGHTS, *published_tokenizer.FILES]

NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
"""A name on the hub: its owner and its own."""

PUBLISHED = conf_directory().parent / ".cache" / "published"
"""What `make published` fills: read in place of the hub's where it is there."""


def folder_of(init_from: str, key: str = "model.init_from") -> Path:
    """The checkpoint's folder; InputError if it is neither a folder nor on the hub, or lacks a file."""
    folder = Path(init_from)
    if not folder.is_dir():
        here = PUBLISHED / init_from
        folder = here if NAME.fullmatch(init_from) and here.is_dir() else _downloaded(init_from, key)
    for name in ("config.json", WEIGHTS):
        if not (folder / name).exists():
            raise InputError(f"{key}={init_from!r} lacks {name}; only config.json with {WEIGHTS} can be read")
    return folder


def _downloaded(name: str, key: str) -> Path:
    from huggingface_hub import errors, snapshot_download  # takes 0.5 s, and only names on the hub need it

    try:
        return Path(snapshot_download(name, allow_patterns=FILES))
    except (errors.HfHubHTTPError, errors.HFValidationError, errors.OfflineModeIsEnabled, OSError) as error:
        raise InputError(
            f"{key}={name!r} is not a folder and cannot be downloaded from the hub ({type(error).__name__}); set it to a folder"
        ) from error


def _read_for(config: RunConfig, folder: Path) -> dict[str, Any]:
    """The config.json; that of a T5 is read with its decoder where model.body=encoder_decoder."""
    published = _object(folder / "config.json", "model.init_from")
    return t5.with_decoder(published) if config.model.body is Body.encoder_decoder else published


def shape_of(path: Path, key: str) -> EncoderConfig:
    """The shape that a config file states; BERT's own `bert_config.json` names no model_type. InputError as `_shape`."""
    if not path.is_file():
        raise InputError(f"{key}={str(path)!r} is no file: expected a bert_config.json or config.json")
    return _shape({"model_type": "bert"} | _object(path, key), key, str(path))


def _object(path: Path, key: str) -> dict[str, Any]:
    """The JSON object in this file; InputError for any other content."""
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, numbers of thousands of digits; nested too deep
        raise InputError(f"{key}: {path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{key}: {path} must hold an object")
    return values


def _shape(published: dict[str, Any], key: str, name: str) -> EncoderConfig:
    """The shape that a config.json states; InputError for an unknown family, and for values that no model has."""
    try:
        shape = config_of(published)
        typed = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(EncoderConfig), vars(shape)))
        refuse_out_of_range(typed)
    except KeyError as error:
        raise InputError(f"{key}={name!r}: config.json lacks {error}") from error
    except OmegaConfBaseException as error:
        reason = str(error).partition("full_key")[0]
        raise InputError(f"{key}={name!r}: config.json, {error.full_key}: {' '.join(reason.split())}") from error
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{key}={name!r}: config.json: {' '.join(str(error).split())}") from error
    return shape


def checkpoint_of(config: RunConfig) -> Checkpoint:
    """The published weights that the run starts from, their shape and tokenizer.

    InputError for an unknown family or a checkpoint without tokenizer files.
    """
    folder = folder_of(config.model.init_from)
    shape = _shape(_read_for(config, folder), "model.init_from", config.model.init_from)
    name, tokenizer = Path(config.model.init_from).name, tokenizer_of(config, folder)
    rows = rows_of(tokenizer, folder)
    part = {} if rows is None else {"vocab_size": len(rows), "pad_token_id": pad_token_id(tokenizers.build(tokenizer, ())) or 0}
    longest = published_tokenizer.longest_text(folder) if tokenizer.file == str(folder) else None
    return Checkpoint(name, str(folder), shape, tokenizer, vocabulary=part, longest_text=longest)


def rows_of(tokenizer: TokenizerConfig, folder: Path) -> list[int] | None:
    """Row of the published token table for each piece of a tokenizer in another file; None where pieces have their numbers.

    InputError for a piece that the published tokenizer has not.
    """
    if not published_tokenizer.has_files(folder):
        return None  # nothing says what its numbers mean
    own = replace(TokenizerConfig(), file=str(folder))
    key = "file" if tokenizer.file else "vocab_file"
    if Path(getattr(tokenizer, key)) in (folder, folder / published_tokenizer.WHOLE, folder / published_tokenizer.WORDS):
        return None
    said = f"tokenizer.{key}={getattr(tokenizer, key)}"
    return tokenizers.rows_in(tokenizers.build(tokenizer, ()), tokenizers.build(own, ()), said)


def tokenizer_of(config: RunConfig, folder: Path) -> TokenizerConfig:
    """The tokenizer of the checkpoint unless one is configured by file."""
    if config.tokenizer.vocab_file or config.tokenizer.file:
        return config.tokenizer
    if not (published_tokenizer.has_files(folder) or any(folder.glob("*.model"))):
        raise InputError(f"{folder} has neither tokenizer.json nor vocab.txt nor vocab.json; set tokenizer.file or vocab_file")
    published_tokenizer.read(folder)
    return replace(config.tokenizer, file=str(folder))


def refuse_other_vocabulary(config: RunConfig, vocab_size: int) -> None:
    """InputError if the tokenizer has more pieces than the checkpoint has token embeddings."""
    if config.model.init_from is not None and vocab_size > config.model.vocab_size:
        raise InputError(
            f"model.init_from={config.model.init_from!r} has {config.model.vocab_size} token embeddings, "
            f"but the tokenizer has {vocab_size} pieces: set tokenizer.vocab_file or tokenizer.file to the checkpoint's own"
        )


def refuse_misfit(config: RunConfig) -> None:
    """InputError naming the tensors that are missing, unexpected or of another shape; nothing is loaded."""
    if config.model.init_from is None:
        return
    folder, kind = folder_of(config.model.init_from), kind_of(config.task)
    head = SequenceClassifier if kind.head() is TextVectors else kind.head()  # vectors are of the encoder, with any head
    try:
        _as_published(config, folder, on_meta(config.model, kind.num_outputs(config.task), head))
    except ValueError as error:
        raise InputError(f"model.init_from={config.model.init_from!r}: {error}") from error


def load_weights(config: RunConfig, model: Classifier) -> dict[str, Origin]:
    """Loads the weights into a classifier, changed to its shape; where each of its tensors comes from."""
    if config.model.random_weights:
        return dict.fromkeys(model.state_dict(), RANDOM)
    if model.head is None:
        return load_encoder(config, model.encoder)
    state, source = _as_published(config, folder_of(config.model.init_from), model)
    rows = rows_of(config.tokenizer, folder_of(config.model.init_from))
    state, origins = derived(state, source, config.model, config.model.keep_layers, rows)
    model.load_state_dict(state, strict=False)
    return dict.fromkeys(model.state_dict(), RANDOM) | origins


def load_encoder(config: RunConfig, encoder: Encoder) -> dict[str, Origin]:
    """Loads the weights into an encoder, changed to its shape, whatever head they have; where each tensor comes from.

    InputError naming tensors of the encoder that are missing, left over or of another shape.
    """
    folder = folder_of(config.model.init_from)
    state, shape = encoder_of(folder, "model.init_from", _read_for(config, folder))
    state = {name: tensor for name, tensor in state.items() if name.startswith("encoder.")}
    source = with_head_of(config.model, shape)
    expected = {f"encoder.{name}": tensor.shape for name, tensor in on_meta(source, 1).encoder.state_dict().items()}
    if wrong := sorted(dict(expected.items() ^ {name: tensor.shape for name, tensor in state.items()}.items())):
        raise InputError(f"model.init_from={config.model.init_from!r}: tensors do not fit the encoder: {', '.join(wrong[:8])}")
    state, origins = derived(state, source, config.model, config.model.keep_layers, rows_of(config.tokenizer, folder))
    encoder.load_state_dict(native.part(state, "encoder."), strict=False)
    return origins


def with_head_of(model: EncoderConfig, shape: EncoderConfig) -> EncoderConfig:
    """The shape of weights, with those keys of the model that its head reads."""
    return replace(shape, **{key: getattr(model, key) for key in OF_HEAD})


def pooler_of(config: RunConfig) -> dict[str, Tensor]:
    """Tensors of the published pooler under our names, for what is fine-tuned after a pretraining that trains none."""
    if config.model.init_from is None or config.model.random_weights:
        return {}
    folder = folder_of(config.model.init_from)
    state, _ = encoder_of(folder, "model.init_from", _read_for(config, folder))
    return {name: tensor for name, tensor in state.items() if name.startswith("pooler.")}


def _as_published(config: RunConfig, folder: Path, model: Classifier) -> tuple[dict[str, Any], EncoderConfig]:
    """The published tensors under our names, and their shape with the model's head. ValueError where they do not fit."""
    published = _read_for(config, folder)
    shape = with_head_of(config.model, _shape(published, "model.init_from", str(folder)))
    return translated(on_meta(shape, len(model.head.weight), type(model)), _weights(folder), published)[0], shape


def masked_lm(folder: Path, key: str) -> tuple[dict[str, Any], EncoderConfig]:
    """Encoder and masked-LM head of a published model under our names, and their shape; InputError without a head."""
    state, published = _weights(folder), _object(folder / "config.json", key)
    shape = _shape(published, key, str(folder))
    try:
        encoder, _ = translated(on_meta(shape, 1), state, published)
        return encoder | masked_head_of(state, published, shape), shape
    except (ValueError, KeyError) as error:
        raise InputError(f"{key}={str(folder)!r}: {error}") from error


def encoder_of(folder: Path, key: str, published: dict[str, Any] | None = None) -> tuple[dict[str, Any], EncoderConfig]:
    """Tensors of a published model with any head under our names, and its shape; InputError for an unknown family.

    `published`: its config.json as it is to be read.
    """
    published = published or _object(folder / "config.json", key)
    shape = _shape(published, key, str(folder))
    try:
        return module_of(published).tensors(_weights(folder), shape), shape
    except (ValueError, KeyError) as error:
        raise InputError(f"{key}={str(folder)!r}: {error}") from error


def _weights(folder: Path) -> dict[str, Any]:
    try:
        return load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise InputError(f"model.init_from: {folder / WEIGHTS} cannot be read: {error}") from error


def content_hash(init_from: str | None) -> str | None:
    """Hash of the checkpoint's weights, for the identity of a run."""
    if init_from is None:
        return None
    with (folder_of(init_from) / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
