"""Vectors of every token as data: `python -m harness predict RUN kind=vectors input=text.txt to=vectors.jsonl`.

The model is a run of ours or a checkpoint, ours or a published one; or, without weights, a randomly initialised one. Files are
written as the texts come. B texts, T tokens, L selected layers, D hidden.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

from harness.checkpoints import huggingface, native
from harness.config.schema import RunConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.models.batch import Batch
from harness.plugins.predict.options import Predict
from harness.plugins.shared.weights import Source, source_of, untrained
from harness.terminal import table

DEFAULT_LAYERS = 4
"""Layers that are written where none are named, the last first."""

DEFAULT_LENGTH = 128
"""Tokens of a text, where the model takes as many."""

LISTED = 10
"""Texts that the summary lists one by one."""

DECIMALS = 6
"""Decimals of the values in JSON lines."""

HEADER_BYTES = 4096
"""Room for the header of a safetensors file, which is written last; what it does not need is spaces."""


@dataclass(frozen=True)
class Vectors:
    """One text: its number from 0, its pieces with their ids, and a float32 (T, L, D) array."""

    line: int
    tokens: list[str]
    ids: list[int]
    values: np.ndarray


def random_source(options: Predict, config: RunConfig) -> Source:
    """A randomly initialised encoder of the file's shape, or of the model that is named, and the tokenizer of a file.

    InputError for files that cannot be read, and for more pieces than the shape has token embeddings.
    """
    reader, shape = tokenizer.build(config.tokenizer, ()), None
    if options.bert_config_file is not None:
        shape = huggingface.shape_of(options.bert_config_file, "bert_config_file")
        native.refuse_more_pieces(reader, shape, f"the tokenizer for bert_config_file={str(options.bert_config_file)!r}")
    return untrained(config, reader, shape)


class Extractor:
    """An encoder on its device, with a tokenizer that cuts: texts to vectors."""

    def __init__(self, options: Predict, config: RunConfig) -> None:
        """InputError for a missing layer or device, or more tokens than the model takes."""
        source = source_of(options, config) if options.source else random_source(options, config)
        room, longest = source.longest, options.max_length
        if longest is not None and longest > room:
            raise InputError(f"max_length={longest} must be at most {room}, the model's maximum")
        self.layers = selected_layers(options.layers, len(source.encoder.layers.execution_order()))
        self._machine = Machine(config.hardware)
        self.encoder, self.tokenizer = source.encoder.to(self._machine.device), source.tokenizer
        self._pad = tokenizer.pad_token_id(source.tokenizer) or 0
        self.tokenizer.enable_truncation(longest or min(DEFAULT_LENGTH, room))

    @torch.inference_mode()
    def vectors(self, texts: list[list[str]], first: int) -> list[Vectors]:
        """In the order of the texts, numbered from `first`; InputError for a text whose vectors are not finite."""
        rows = self.tokenizer.encode_batch([(text[0], text[1]) if len(text) == 2 else text[0] for text in texts])
        lengths = [len(row) for row in rows]
        for row in rows:
            row.pad(max(1, *lengths), pad_id=self._pad)  # a text without tokens has one position
        ids, types, mask = (
            torch.tensor([getattr(row, name) for row in rows]) for name in ("ids", "type_ids", "attention_mask")
        )
        mask[:, 0] = 1
        batch = Batch(ids, types, None if mask.all() else mask.bool())
        with self._machine.autocast():
            batch = batch.to(self._machine.device)
            states = {-1: self.encoder(batch)} if self.layers == (-1,) else self.encoder.hidden_states(batch)
            values = torch.stack([states[layer] for layer in self.layers], dim=2).float().cpu().numpy()  # (B, T, L, D)
        written = [
            Vectors(number, row.tokens[:length], row.ids[:length], of_row[:length])
            for number, (row, length, of_row) in enumerate(zip(rows, lengths, values, strict=True), first)
        ]
        for text in written:
            if not np.isfinite(text.values).all():
                raise InputError(f"the vectors of line {text.line + 1} are not finite: the weights have diverged")
        return written


def selected_layers(layers: tuple[int, ...] | None, depth: int) -> tuple[int, ...]:
    """These layers, or the last ones by default; InputError, naming the choices, for a layer that does not exist."""
    for layer in layers or ():
        if not -depth - 1 <= layer <= depth:
            raise InputError(
                f"layers={layer} does not exist; choices: 0 (the embeddings) to {depth} (the last layer), "
                f"or from the end -1 to {-depth - 1}"
            )
    return layers or tuple(range(-1, -1 - min(DEFAULT_LAYERS, depth + 1), -1))


# Files


def write(extractor: Extractor, batches: Iterable[list[list[str]]], path: Path, form: str) -> str:
    """Writes the vectors of all texts; the table of their sizes, empty without a text."""
    lengths: list[int] = []

    def vectors() -> Iterable[list[Vectors]]:
        for batch in batches:
            of_batch = extractor.vectors(batch, len(lengths))
            lengths.extend(len(text.ids) for text in of_batch)
            yield of_batch

    WRITERS[form](path, extractor, vectors())
    shape = (len(extractor.layers), extractor.encoder.config.hidden_size)
    kind = "WordPieces" if type(extractor.tokenizer.model).__name__ == "WordPiece" else "pieces"
    counts = [
        *((str(number), length) for number, length in enumerate(lengths[:LISTED])),
        (f"all {len(lengths):,}", sum(lengths)),
    ]
    rows = [
        (name, f"{count:,}", " x ".join(f"{size:,}" for size in (count, *shape)), f"{count * shape[0] * shape[1] * 4:,}")
        for name, count in counts
    ]
    return "\n\n" + table(("text", kind, "shape", "bytes of float32"), rows) if lengths else ""


def _json_lines(path: Path, extractor: Extractor, batches: Iterable[list[Vectors]]) -> None:
    """One object a text: `linex_index`, and `features` with the `layers` of every `token`, values with six decimals."""
    with path.open("w", encoding="utf-8") as file:
        for text in chain.from_iterable(batches):
            rounded = np.round(text.values.astype(np.float64), DECIMALS).tolist()
            tokens = [
                {"token": token, "layers": [{"index": i, "values": v} for i, v in zip(extractor.layers, values, strict=True)]}
                for token, values in zip(text.tokens, rounded, strict=True)
            ]
            file.write(json.dumps({"linex_index": text.line, "features": tokens}) + "\n")


def _parquet(path: Path, extractor: Extractor, batches: Iterable[list[Vectors]]) -> None:
    """One row per text: `linex_index`, `tokens`, and `layer_N`, a list of T vectors, for every layer. A row group a batch."""
    size = extractor.encoder.config.hidden_size
    of_layer = pa.list_(pa.list_(pa.float32(), size))
    columns = [(f"layer_{layer}", of_layer) for layer in extractor.layers]
    schema = pa.schema([("linex_index", pa.int64()), ("tokens", pa.list_(pa.string())), *columns])
    with parquet.ParquetWriter(path, schema, use_dictionary=["tokens"]) as writer:
        for batch in batches:
            ends = pa.array(np.cumsum([0, *(len(text.tokens) for text in batch)]), pa.int32())
            arrays = [[text.line for text in batch], [text.tokens for text in batch]]
            for place in range(len(extractor.layers)):  # numbers never become Python objects
                flat = pa.array(np.concatenate([text.values[:, place] for text in batch]).ravel(), pa.float32())
                arrays.append(pa.ListArray.from_arrays(ends, pa.FixedSizeListArray.from_arrays(flat, size), type=of_layer))
            writer.write_table(pa.table(arrays, schema=schema))


def _safetensors(path: Path, extractor: Extractor, batches: Iterable[list[Vectors]]) -> None:
    """Four tensors: `values` (tokens, L, D), `token_ids` (tokens), `lengths` (texts), `pieces` (the vocabulary as JSON text).

    All numbers are four bytes wide, so every tensor begins where it may.
    """
    ids = []
    vocabulary = extractor.tokenizer.get_vocab()
    with path.open("wb") as file:
        file.write(b" " * HEADER_BYTES)
        for text in chain.from_iterable(batches):
            file.write(np.ascontiguousarray(text.values, "<f4").data)
            ids.append(np.array(text.ids, "<i4"))
        numbers, lengths = np.concatenate(ids or [np.empty(0, "<i4")]), np.array([*map(len, ids)], "<i4")
        pieces = np.frombuffer(json.dumps(sorted(vocabulary, key=vocabulary.__getitem__)).encode(), np.uint8)
        behind = {"token_ids": ("I32", numbers), "lengths": ("I32", lengths), "pieces": ("U8", pieces)}
        _write_header(
            file, (len(numbers), len(extractor.layers), extractor.encoder.config.hidden_size), extractor.layers, behind
        )


def _write_header(
    file: BinaryIO, shape: tuple[int, ...], layers: tuple[int, ...], behind: dict[str, tuple[str, np.ndarray]]
) -> None:
    """Writes the tensors that are behind the vectors, and the list of all tensors into the room before them."""
    end = int(np.prod(shape)) * 4
    header: dict[str, Any] = {"__metadata__": {"layers": json.dumps(layers)}}
    header["values"] = {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}
    for name, (dtype, array) in behind.items():
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
        file.write(array.tobytes())
    room = HEADER_BYTES - 8
    file.seek(0)
    file.write(room.to_bytes(8, "little") + json.dumps(header).encode().ljust(room))


WRITERS = {"jsonl": _json_lines, "parquet": _parquet, "safetensors": _safetensors}
"""Format -> what writes the vectors of all texts into a file."""
