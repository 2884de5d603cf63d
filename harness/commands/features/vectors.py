"""From texts to the vectors of their tokens: an encoder with its tokenizer, out of a run of ours or a checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer

from harness.checkpoints import find_run, huggingface, native
from harness.config.schema import HardwareConfig, RunConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.hardware.device import Machine
from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Encoder

DEFAULT_LAYERS = 4
"""Layers that are written where none are named, the last first."""

DEFAULT_LENGTH = 128
"""Tokens of a text, where the model takes as many."""

NOT_OF_ENCODER = (
    *("vocab_size", "pad_token_id", "initializer_range", "init", "hidden_dropout_prob"),
    *("attention_probs_dropout_prob", "head_size", "mask_decoder"),
    *("pooling", "pooler", "pooler_norm", "pooler_bias", "classifier_bias", "classifier_dropout", "tie_masked_lm_head"),
    *("embedding_size", "embedding_fraction", "num_hidden_layers", "depth_fraction", "num_hidden_groups"),
    *("intermediate_size", "feed_forward_size"),
)
"""Keys in which a checkpoint may differ from the model it is expected to be, or whose outcome is compared instead."""

OUTCOMES = ("embedding_width", "depth", "groups", "feed_forward_width", "head_width")

Text = str | tuple[str, str]


@dataclass(frozen=True)
class Features:
    """One text: its number from 0, its pieces with their ids, and a float32 (T, L, D) array."""

    line: int
    tokens: list[str]
    ids: list[int]
    values: np.ndarray


@dataclass(frozen=True)
class Source:
    """A folder's encoder, not yet on its device, and its tokenizer."""

    encoder: Encoder
    tokenizer: Tokenizer


def source_of(key: str, name: str, config: RunConfig, runs_folder: str) -> Source:
    """The encoder with its weights; InputError for weights or a tokenizer that are missing or do not fit each other."""
    if key == "run" or (Path(name) / native.SHAPE).is_file():
        folder = find_run.weights_folder(name, key, runs_folder, config.tracking.uri)
        state, shape = native.read(folder)
        settings = replace(config.tokenizer, vocab_file=None, file=str(folder / native.TOKENIZER))
    else:
        folder = huggingface.folder_of(name, key)
        state, shape = huggingface.encoder_of(folder, key)
        settings = huggingface.tokenizer_of(config, folder)
    encoder = Encoder(shape)
    try:
        mine = {name.removeprefix("encoder."): tensor for name, tensor in state.items() if name.startswith("encoder.")}
        encoder.load_state_dict(mine)
    except RuntimeError as error:
        raise InputError(f"{key}={name!r}: {' '.join(str(error).split())}") from error
    reader = tokenizer.build(settings, ())
    pieces = reader.get_vocab_size()
    if pieces > shape.vocab_size:
        raise InputError(f"{key}={name!r}: the tokenizer has {pieces} pieces, the model {shape.vocab_size} token embeddings")
    return Source(encoder.eval(), reader)


def refuse_other_model(found: EncoderConfig, expected: EncoderConfig, source: str) -> None:
    """InputError that names the first key in which the checkpoint differs from the model of the command line."""
    keys = [field.name for field in fields(type(found)) if field.name not in NOT_OF_ENCODER]
    for name in (*keys, *OUTCOMES):
        here, there = getattr(found, name), getattr(expected, name)
        if here != there:
            raise InputError(
                f"{source} has {name}={here}, but the model that is named has {there}: "
                f"leave model=, scale= and enhancement= out, or name what it is"
            )


class Extractor:
    """Texts to features. B texts, T tokens, L chosen layers, D hidden."""

    def __init__(self, source: Source, hardware: HardwareConfig, layers: tuple[int, ...] | None, longest: int | None) -> None:
        """InputError for a missing layer or device, or more tokens than the model takes."""
        room = source.encoder.config.longest_text
        if longest is not None and longest > room:
            raise InputError(f"max_length={longest} must be at most the {room} tokens that the model takes")
        self.layers = chosen_layers(layers, len(source.encoder.layers.execution_order()))
        try:
            self._machine = Machine(hardware)
        except RuntimeError as error:
            raise InputError(str(error)) from error
        self.encoder, self.tokenizer = source.encoder.to(self._machine.device), source.tokenizer
        self._pad = tokenizer.pad_token_id(source.tokenizer) or 0
        self.tokenizer.enable_truncation(longest or min(DEFAULT_LENGTH, room))

    def features(self, texts: list[Text], first: int) -> Iterator[Features]:
        """In the order of the texts, numbered from `first`; InputError for a text whose vectors are not finite."""
        rows = self.tokenizer.encode_batch(texts)
        vectors = self._vectors(padded(rows, self._pad))
        for place, row in enumerate(rows):
            values = vectors[place, : len(row.ids)]
            if not np.isfinite(values).all():
                raise InputError(f"the vectors of line {first + place + 1} are not finite: the weights have diverged")
            yield Features(first + place, row.tokens, row.ids, values)

    def _vectors(self, batch: Batch) -> np.ndarray:
        """(B, T) -> float32 (B, T, L, D)."""
        with torch.inference_mode(), self._machine.autocast():
            states = self.encoder.hidden_states(batch.to(self._machine.device))
            return torch.stack([states[layer] for layer in self.layers], dim=2).float().cpu().numpy()


def chosen_layers(layers: tuple[int, ...] | None, depth: int) -> tuple[int, ...]:
    """These layers, or the last ones by default; InputError, naming the choices, for a layer that does not exist."""
    for layer in layers or ():
        if not -depth - 1 <= layer <= depth:
            raise InputError(
                f"layers={layer} is not there; choices: 0 (the embeddings) to {depth} (the last layer), "
                f"or from the end -1 to {-depth - 1}"
            )
    return layers or tuple(range(-1, -1 - min(DEFAULT_LAYERS, depth + 1), -1))


def padded(rows: list[Encoding], pad_token_id: int) -> Batch:
    """(B, T), no mask where nothing is padded; a text without tokens has one position."""
    lengths = np.array([len(row.ids) for row in rows])
    shape = len(rows), max(1, lengths.max())
    ids, types = np.full(shape, pad_token_id), np.zeros(shape, int)
    for place, row in enumerate(rows):
        ids[place, : len(row.ids)], types[place, : len(row.ids)] = row.ids, row.type_ids
    real = np.arange(shape[1]) < np.maximum(lengths, 1)[:, None]
    mask = None if real.all() else torch.from_numpy(real)
    return Batch(torch.from_numpy(ids), torch.from_numpy(types), mask)
