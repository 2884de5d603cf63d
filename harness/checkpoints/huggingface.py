"""Published weights: a folder with config.json, safetensors and tokenizer files, local or downloaded by name.

Only safetensors are read, in one file or in those of an index: a pickle could run anything. Decisions made while reading a
folder are kept as notes.
"""

import hashlib
import json
import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from harness import paths
from harness.checkpoints import foreign, native, remote_code, sentence_transformers
from harness.config.choices import Provider
from harness.config.conditions import has_task
from harness.config.resolve import Checkpoint
from harness.config.schema import RunConfig, TokenizerConfig
from harness.data import published as published_tokenizer
from harness.data import tokenizer as tokenizers
from harness.data.tokenizer import pad_token_id
from harness.errors import InputError, present
from harness.models.config import Body, EncoderConfig, Pooling
from harness.models.derive import KEPT, RANDOM, Origin, derived
from harness.models.encoder import Encoder
from harness.models.foreign import Foreign
from harness.models.heads import POOLED, Classifier, ForeignMaskedHead, SequenceClassifier, TextVectors, on_meta
from harness.models.huggingface import FAMILIES, config_of, family_of, listed, masked_head_of, plain, translated, with_decoder
from harness.models.huggingface.names import those_of
from harness.models.huggingface.task_heads import names_of_rows
from harness.models.keys import OF_HEAD
from harness.models.ranges import refuse_out_of_range
from harness.paths import conf_directory
from harness.tasks import kind_of

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
FILES = ["config.json", "model*.safetensors", INDEX, *published_tokenizer.FILES]
ADAPTER = "adapter_config.json"
CARD, LARGEST_CARD = "README.md", 10_000_000
FILES += [ADAPTER, CARD, "pytorch_model*.bin", "*.index.json", "*.model", *sentence_transformers.FILES]
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
CONVERTED = "from_pretrained(FOLDER) and save_pretrained(NEW) of its class in transformers write them"

NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@([\w./-]+))?")
"""A name on the hub: OWNER/NAME, optionally @REVISION."""

PUBLISHED = conf_directory().parent / ".cache" / "published"
"""The cache that `make published` fills; used instead of the hub's if present."""
WITHOUT_HUB = {"all-MiniLM-L6-v2": "make published", "all-mpnet-base-v2": "make published ARGS=mpnet"}
"""Encoder of sentence-transformers -> the command that puts it there."""


def folder_of(init_from: str, key: str = "model.init_from", pickles: bool = False) -> Path:
    """The folder of the encoder; InputError if it is neither a folder nor on the hub, or lacks a file.

    `pickles`: pickled weights are accepted, of which the library reads tensors only.
    """
    root = root_of(init_from, key)
    folder = sentence_transformers.encoder_folder(root, key)
    if (folder / ADAPTER).is_file():
        base = native.json_of(folder / ADAPTER, key).get("base_model_name_or_path")
        raise InputError(
            f"{key}={init_from!r} is an adapter of {base!r} ({ADAPTER}): expected full weights, "
            "which merge_and_unload() of peft makes"
        )
    if not (folder / "config.json").is_file():
        raise InputError(f"{key}={init_from!r} lacks config.json; only config.json with {WEIGHTS} can be read")
    if other := native.json_of(folder / "config.json", key).get("transformers_weights"):
        raise InputError(
            f"{key}={init_from!r}: config.json: expected {WEIGHTS}, got transformers_weights={other!r}: leave it out"
        )
    if not any((folder / name).is_file() for name in (WEIGHTS, INDEX, *(PICKLES if pickles else ()))):
        pickled = next((f" and has a pickle, {name}" for name in PICKLES if (folder / name).exists()), "")
        raise InputError(f"{key}={init_from!r} lacks {WEIGHTS}{pickled}: only safetensors can be read; {CONVERTED}")
    return folder


def root_of(init_from: str, key: str = "model.init_from") -> Path:
    """The named folder, downloaded from the hub if it is not a local one."""
    folder = Path(init_from)
    if folder.is_dir():
        return folder
    here = PUBLISHED / init_from.partition("@")[0]
    return here if NAME.fullmatch(init_from) and here.is_dir() else _downloaded(init_from, key)


def _downloaded(name: str, key: str) -> Path:
    from huggingface_hub import errors, snapshot_download  # takes 0.5 s, and only names on the hub need it

    try:
        found = NAME.fullmatch(name)
        repository, revision = found.groups() if found else (name, None)
        return Path(snapshot_download(repository, revision=revision, allow_patterns=FILES))
    except (errors.HfHubHTTPError, errors.HFValidationError, errors.OfflineModeIsEnabled, OSError) as error:
        has_make = (PUBLISHED.parents[1] / "Makefile").is_file()  # a checkout, no installed wheel
        command = WITHOUT_HUB.get(name.removeprefix("sentence-transformers/")) if has_make else None
        fetch = f", or run `{command}`" if command else ""
        raise InputError(
            f"{key}={name!r} is not a folder and cannot be downloaded from the hub ({type(error).__name__}); "
            f"set it to a folder{fetch}"
        ) from error


def _read_for(config: RunConfig, folder: Path) -> dict[str, Any]:
    """The config.json; that of a T5 is read with its decoder where model.body=encoder_decoder."""
    published = native.json_of(folder / "config.json", "model.init_from")
    return with_decoder(published) if config.model.body is Body.encoder_decoder else published


def shape_of(path: Path, key: str) -> EncoderConfig:
    """The shape that a config file states; BERT's own `bert_config.json` names no model_type. InputError as `_shape`."""
    if not path.is_file():
        raise InputError(f"{key}={str(path)!r} is not a file: expected a bert_config.json or config.json")
    return _shape({"model_type": "bert"} | native.json_of(path, key), key, str(path))


def _shape(published: dict[str, Any], key: str, name: str) -> EncoderConfig:
    """The shape that a config.json states; InputError for an unknown family, and for values that no model has."""
    where = f"{key}={name!r}: config.json"
    with native.naming(where):
        shape = native.structured(EncoderConfig, vars(config_of(published)), where)
        refuse_out_of_range(shape)
    return shape


def checkpoint_of(config: RunConfig) -> Checkpoint:
    """The published weights that the run starts from, their shape and tokenizer.

    InputError for an unknown family or a checkpoint without tokenizer files.
    """
    said = present(config.model.init_from)
    folder = folder_of(said, pickles=True)
    config_json = _read_for(config, folder)
    if config.model.remote_code is not None:
        with native.naming(f"model.init_from={said!r}"):
            config_json = remote_code.stated(config_json, folder, said, config.model.remote_code)
    provider = config.model.provider
    if provider is Provider.transformers or (provider is Provider.auto and _is_foreign(config_json)):
        shape = foreign.published_shape(config_json, f"model.init_from={said!r}")
        files = [path for path in _weight_files(folder, "model.init_from") if path.suffix == ".safetensors"]
    else:
        folder_of(said)
        shape, files = _shape(config_json, "model.init_from", said), _weight_files(folder, "model.init_from")
    if files:
        native.refuse_larger(shape, *files)
    name, tokenizer = Path(said).name, tokenizer_of(config, folder)
    longest = published_tokenizer.longest_text(folder) if tokenizer.file == str(folder) else None
    if kind_of(config.task).head() is TextVectors and (pooling := _pooling(config)):
        shape, limit = replace(shape, vector_pooling=pooling), sentence_transformers.longest_text(folder)
        longest = min(filter(None, (longest, limit)), default=None)
    rows = rows_of(tokenizer, folder)
    if rows is not None and shape.encoder is not None:
        raise InputError(
            f"model.init_from={said!r}: transformers needs its whole vocabulary: leave out tokenizer.file and vocab_file"
        )
    if rows is None and shape.position_offset and (pad := pad_token_id(tokenizers.build(tokenizer, ()))) != shape.pad_token_id:
        raise InputError(
            f"model.init_from={said!r}: config.json: pad_token_id={shape.pad_token_id}, from which positions count, must be "
            f"that of the tokenizer, {pad}"
        )
    part = {} if rows is None else {"vocab_size": len(rows), "pad_token_id": pad_token_id(tokenizers.build(tokenizer, ())) or 0}
    changeable = tuple(sorted(FAMILIES))
    return Checkpoint(name, str(folder), shape, tokenizer, vocabulary=part, longest_text=longest, changeable=changeable)


def _is_foreign(config_json: dict[str, Any]) -> bool:
    """Whether no family of ours is that of this config.json, and the library, which may have it, is there."""
    kind = config_json.get("model_type")
    is_ours = isinstance(kind, str) and kind in FAMILIES and remote_code.KEY not in config_json
    return isinstance(kind, str) and not is_ours and find_spec(foreign.TRANSFORMERS) is not None


def rows_of(tokenizer: TokenizerConfig, folder: Path) -> list[int] | None:
    """Row of the published token table for each piece of a tokenizer in another file; None where pieces have their numbers.

    InputError for a piece that the published tokenizer has not.
    """
    if not published_tokenizer.has_files(folder):
        return None  # nothing says what its numbers mean
    own = replace(TokenizerConfig(), file=str(folder))
    key = "file" if tokenizer.file else "vocab_file"
    path, its_files = getattr(tokenizer, key), ("", published_tokenizer.WHOLE, published_tokenizer.WORDS)
    if path is None or Path(path) in [folder / name for name in its_files]:
        return None
    return tokenizers.rows_in(tokenizers.build(tokenizer, ()), tokenizers.build(own, ()), f"tokenizer.{key}={path}")


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


def notes(config: RunConfig) -> list[str]:
    """Short notes on decisions made while reading the published folder of a run, and on vectors that padding changes.

    InputError naming the tensors that are missing, unexpected or of another shape.
    """
    if config.model.init_from is None:
        return [] if config.model.encoder is None else foreign.note_of_padding(config.model, None, "model.encoder")
    kind, root = kind_of(config.task), root_of(config.model.init_from)
    if config.model.encoder is not None:
        folder = _foreign_folder(config)
        decided = foreign.notes(folder, config.model)
        valued = None if config.model.random_weights else folder
        decided += foreign.note_of_padding(config.model, valued, f"model.init_from={config.model.init_from!r}")
        if valued and has_task(config) and kind.outputs != 0 and kind.head() is not TextVectors:
            decided.append("new head, as transformers computes the encoder alone")
    else:
        folder = folder_of(config.model.init_from)
        head = SequenceClassifier if kind.head() is TextVectors else kind.head()
        decided = _as_published(config, folder, on_meta(config.model, kind.num_outputs(config.task), head)).notes
    if kind.head() is TextVectors:
        stated, pooling = _pooling(config), config.model.vector_pooling
        source = "modules.json" if stated is pooling else "model.vector_pooling" if stated else "the default"
        decided.append(f"vectors: {POOLED[pooling]} ({source})")
        if prompts := sentence_transformers.prompts_of(root):
            decided.append(f"no text begins with a prompt, though there are some for {listed(prompts)}")
    decided += _of_card(root)
    return decided + ([*published_tokenizer.read(folder)[1]] if config.tokenizer.file == str(folder) else [])


def _of_card(root: Path) -> list[str]:
    """Revision, where the folder is one of the hub's cache, and the licence that the head of the model card states."""
    notes = [f"revision {root.name}"] if root.parent.name == "snapshots" else []
    card = root / CARD
    text = paths.read(card, LARGEST_CARD).decode("utf-8", "replace") if card.is_file() else ""
    found = re.search(r"\A---\s*\n(?:.*\n)*?license:[ \t]*[\"']?([\w.+ -]+)", text.partition("\n---")[0])
    return notes + ([f"licence {found[1].strip()}"] if found else [])


def _pooling(config: RunConfig) -> Pooling | None:
    """How a folder of Sentence Transformers makes vectors of texts; None for other folders."""
    return sentence_transformers.pooling_of(root_of(present(config.model.init_from)))


def load_weights(config: RunConfig, model: Classifier) -> dict[str, Origin]:
    """Loads the weights, changed to its shape, into a classifier; returns the origin of each of its tensors."""
    if config.model.random_weights:
        return dict.fromkeys(model.state_dict(), RANDOM)
    expected = model.state_dict()
    if isinstance(model.encoder, Foreign):
        pooler = _load_foreign(config, model.encoder)
        pooler = {name: one for name, one in pooler.items() if name in expected and expected[name].shape == one.shape}
        model.load_state_dict(pooler, strict=False)
        kept = {*model.encoder.state_dict(prefix="encoder."), *pooler}
        return {name: KEPT if name in kept else RANDOM for name in expected}
    if model.head is None:
        return load_encoder(config, model.encoder)
    folder = folder_of(present(config.model.init_from))
    published = _as_published(config, folder, model)
    rows = rows_of(config.tokenizer, folder)
    state, origins = derived(published.state, published.shape, config.model, config.model.keep_layers, rows)
    model.load_state_dict(state, strict=False)
    return dict.fromkeys(model.state_dict(), RANDOM) | origins


def load_encoder(config: RunConfig, encoder: Encoder) -> dict[str, Origin]:
    """Loads the weights, changed to its shape and without their head, into an encoder; returns the origin of each tensor.

    InputError naming encoder tensors that are missing, unexpected or of another shape.
    """
    if isinstance(encoder, Foreign):
        _load_foreign(config, encoder)
        return dict.fromkeys(encoder.state_dict(prefix="encoder."), KEPT)
    folder = folder_of(present(config.model.init_from))
    state, shape = encoder_of(folder, "model.init_from", _read_for(config, folder))
    state = those_of("encoder.", state)
    source = with_head_of(config.model, shape)
    expected = {f"encoder.{name}": tensor.shape for name, tensor in on_meta(source, 1).encoder.state_dict().items()}
    if wrong := sorted(dict(expected.items() ^ {(name, tensor.shape) for name, tensor in state.items()})):
        raise InputError(f"model.init_from={config.model.init_from!r}: tensors do not fit the encoder: {', '.join(wrong[:8])}")
    state, origins = derived(state, source, config.model, config.model.keep_layers, rows_of(config.tokenizer, folder))
    encoder.load_state_dict(native.part(state, "encoder."), strict=False)
    return origins


def load_masked_head(config: RunConfig, head: nn.Module | None) -> dict[str, Origin]:
    """Loads the published head for masked tokens into that of the library; nothing for ours, and where the files lack it."""
    if not isinstance(head, ForeignMaskedHead):
        return {}
    try:
        state = foreign.masked_lm(_foreign_folder(config), config.model, f"model.init_from={config.model.init_from!r}")
    except foreign.LackingError:
        return {}
    native.load(head, native.part(state, "masked_head."))
    return dict.fromkeys(head.state_dict(prefix="masked_head."), KEPT)


def _load_foreign(config: RunConfig, encoder: Foreign) -> dict[str, Tensor]:
    return foreign.load_published(_foreign_folder(config), encoder, f"model.init_from={config.model.init_from!r}")


def _foreign_folder(config: RunConfig) -> Path:
    return folder_of(present(config.model.init_from), pickles=True)


def with_head_of(model: EncoderConfig, shape: EncoderConfig) -> EncoderConfig:
    """The shape of weights with the model's own keys of the head."""
    return replace(shape, **{key: getattr(model, key) for key in OF_HEAD})


def pooler_of(config: RunConfig) -> dict[str, Tensor]:
    """Tensors of the published pooler under our names, for fine-tuning after a pretraining that trains no pooler."""
    if not config.model.has_published_weights or config.model.encoder is not None:
        return {}
    folder = folder_of(present(config.model.init_from))
    state, _ = encoder_of(folder, "model.init_from", _read_for(config, folder))
    return those_of("pooler.", state)


@dataclass(frozen=True)
class Published:
    """A published folder as it was read."""

    state: dict[str, Tensor]  # under our names, or plain ones of the family
    shape: EncoderConfig
    notes: list[str]


def _as_published(config: RunConfig, folder: Path, model: Classifier) -> Published:
    """The tensors under our names, and their shape with the model's head; InputError where they do not fit."""
    key, config_json, task = "model.init_from", _read_for(config, folder), config.task
    published = _plain(folder, key, config_json)
    shape, kind = with_head_of(config.model, published.shape), task.kind.name if has_task(config) else ""
    outputs = 1 if model.head is None else len(model.head.weight)
    with native.naming(f"{key}={config.model.init_from!r}"):
        state, notes = translated(on_meta(shape, outputs, type(model)), published.state, config_json, kind, task.labels)
    return Published(state, shape, [] if config.model.random_weights else [*published.notes, *notes])


def masked_lm(folder: Path, key: str) -> tuple[dict[str, Any], EncoderConfig]:
    """Encoder and masked-LM head of a published model under our names, and their shape; InputError without a head."""
    config_json, said = native.json_of(folder / "config.json", key), f"{key}={str(folder)!r}"
    if _is_foreign(config_json):
        shape = foreign.published_shape(config_json, said)
        return foreign.masked_lm(folder, shape, said), shape
    published = _plain(folder, key, config_json)
    with native.naming(said):
        encoder, _ = translated(on_meta(published.shape, 1), published.state, config_json, kind="")
        return encoder | masked_head_of(published.state, config_json, published.shape), published.shape


def encoder_of(folder: Path, key: str, config_json: dict[str, Any] | None = None) -> tuple[dict[str, Any], EncoderConfig]:
    """Tensors of a published model with any head under our names, and its shape; InputError for an unknown family.

    `config_json` replaces the one in the folder.
    """
    config_json = config_json or native.json_of(folder / "config.json", key)
    if _is_foreign(config_json):
        encoder = Foreign(foreign.published_shape(config_json, f"{key}={str(folder)!r}"))
        foreign.load_published(folder, encoder, f"{key}={str(folder)!r}")
        return encoder.state_dict(prefix="encoder."), encoder.config
    published = _plain(folder, key, config_json)
    try:
        return family_of(config_json).tensors(published.state, published.shape), published.shape
    except (ValueError, KeyError) as error:
        raise InputError(f"{key}={str(folder)!r}: {error}") from error


def _plain(folder: Path, key: str, config_json: dict[str, Any]) -> Published:
    """The tensors as the family names them, whatever wrapped it; InputError for files that cannot be read."""
    shape, files = _shape(config_json, key, str(folder)), _weight_files(folder, key)
    state: dict[str, Tensor] = {}
    notes: list[str] = []
    native.refuse_larger(shape, *files)
    for path in files:
        state |= native.tensors(path)[0]
    if files[0].name != WEIGHTS:
        notes.append(f"{len(files)} files of {INDEX}")
        if lacking := [*native.json_of(folder / INDEX, key)["weight_map"].keys() - state.keys()]:
            raise InputError(f"{key}: {INDEX} of {folder} names tensors that its files lack: {listed(sorted(lacking))}")
    notes += [f"{WEIGHTS}, not {other}" for other in PICKLES if (folder / other).exists()]
    if config_json.get("auto_map"):
        notes.append(f"computed as {config_json['model_type']}, not by its own code (auto_map)")
    with native.naming(f"{key}={str(folder)!r}"):
        state, of_tensors = plain(state, config_json)
    return Published(state, shape, [*notes, *of_tensors])


def _weight_files(folder: Path, key: str) -> list[Path]:
    """The weight file, or else those of the index; InputError for an index that names no files of the folder."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():  # tensors in a pickle, which the library reads
        return sorted(folder.glob("pytorch_model*.bin"))
    names = native.json_of(folder / INDEX, key).get("weight_map")
    names = sorted({*map(str, names.values())}) if isinstance(names, dict) else []
    wrong = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    if wrong or not names:
        raise InputError(f"{key}: {folder / INDEX} must name files of its folder, which lacks: {listed(wrong) or 'all'}")
    return [folder / name for name in names]


def content_hash(init_from: str | None) -> str | None:
    """Hash of the checkpoint's weights and of the names of its head's rows, for the identity of a run."""
    if init_from is None:
        return None
    folder, hashed = folder_of(init_from, pickles=True), hashlib.sha256()
    for path in _weight_files(folder, "model.init_from"):
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: hashed)
    if names := names_of_rows(native.json_of(folder / "config.json", "model.init_from")):
        hashed.update(json.dumps(names).encode())
    return hashed.hexdigest()[:16]
