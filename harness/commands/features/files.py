"""Files of features, each written as the texts come: JSON lines, Parquet, safetensors. T tokens, L layers, D hidden.

JSON lines have the layout of BERT's own feature extraction (arXiv:1810.04805, section 5.3). What is held in memory does not
grow with the number of texts, but for Parquet's table of contents: about a kilobyte for every `GROUP_BYTES`.
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from harness.commands.features.request import FORMATS
from harness.commands.features.vectors import Features

DECIMALS = 6
"""Of the values in JSON lines."""

GROUP_BYTES = 16 * 2**20
"""Vectors that one row group of a Parquet file holds."""

HEADER_BYTES = 4096
"""Room for the header of a safetensors file, which is written last; what it does not need is spaces."""


@dataclass(frozen=True)
class Layout:
    """What all texts of one file share: layers as numbered by the user, D, and the pieces in the order of their ids."""

    layers: tuple[int, ...]
    hidden_size: int
    pieces: list[str]


class FeatureFile(Protocol):
    """One open file."""

    def write(self, features: Features) -> int:
        """Adds a text; returns its bytes: of its line, or of its vectors."""

    def close(self) -> None:
        """Writes what is held back."""


class JsonLines:
    """One object a text: `linex_index`, and `features` with the `layers` of every `token`, values with six decimals."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._file, self._layers = path.open("wb"), layout.layers

    def write(self, features: Features) -> int:
        rounded = np.round(features.values.astype(np.float64), DECIMALS)
        tokens = [
            {"token": token, "layers": [{"index": i, "values": v} for i, v in zip(self._layers, vectors.tolist(), strict=True)]}
            for token, vectors in zip(features.tokens, rounded, strict=True)
        ]
        return self._file.write(json.dumps({"linex_index": features.line, "features": tokens}).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


class Parquet:
    """One row a text: `linex_index`, `tokens`, and `layer_N`, a list of T vectors, for every layer."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._layout, self._held, self._bytes = layout, [], 0
        self._vectors = pa.list_(pa.list_(pa.float32(), layout.hidden_size))
        columns = [(f"layer_{layer}", self._vectors) for layer in layout.layers]
        self._schema = pa.schema([("linex_index", pa.int64()), ("tokens", pa.list_(pa.string())), *columns])
        self._writer = parquet.ParquetWriter(path, self._schema, use_dictionary=["tokens"])

    def write(self, features: Features) -> int:
        self._held.append(features)
        self._bytes += features.values.nbytes
        if self._bytes >= GROUP_BYTES:
            self._flush()
        return features.values.nbytes

    def _flush(self) -> None:
        ends = pa.array(np.cumsum([0, *(len(features.tokens) for features in self._held)]), pa.int32())
        columns = [[features.line for features in self._held], [features.tokens for features in self._held]]
        columns += [self._column(ends, place) for place in range(len(self._layout.layers))]
        self._writer.write_table(pa.table(columns, schema=self._schema))
        self._held, self._bytes = [], 0

    def _column(self, ends: object, place: int) -> object:
        """Of one layer; numbers never become Python objects."""
        flat = np.concatenate([features.values[:, place] for features in self._held]).ravel()
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), self._layout.hidden_size)
        return pa.ListArray.from_arrays(ends, vectors, type=self._vectors)

    def close(self) -> None:
        if self._held:
            self._flush()
        self._writer.close()


class Safetensors:
    """Four tensors: `values` (tokens, L, D), `token_ids` (tokens), `lengths` (texts), `pieces` (the vocabulary as JSON text).

    All numbers are four bytes wide, so every tensor begins where it may; the numbers behind the vectors wait on the disk.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self._file, self._layout = path.open("wb"), layout
        self._file.write(b" " * HEADER_BYTES)
        self._ids = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - both live as long as this file
        self._lengths = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        self._tokens = self._texts = 0

    def write(self, features: Features) -> int:
        self._file.write(np.ascontiguousarray(features.values, "<f4").data)
        self._ids.write(np.asarray(features.ids, "<i4").tobytes())
        self._lengths.write(np.asarray([len(features.ids)], "<i4").tobytes())
        self._tokens, self._texts = self._tokens + len(features.ids), self._texts + 1
        return features.values.nbytes

    def close(self) -> None:
        for waiting in (self._ids, self._lengths):
            waiting.seek(0)
            while block := waiting.read(2**20):
                self._file.write(block)
            waiting.close()
        pieces = json.dumps(self._layout.pieces).encode()
        self._file.write(pieces)
        self._file.seek(0)
        self._file.write(self._header(len(pieces)))
        self._file.close()

    def _header(self, pieces: int) -> bytes:
        shape = [self._tokens, len(self._layout.layers), self._layout.hidden_size]
        kinds = {"values": ("F32", shape), "token_ids": ("I32", [self._tokens]), "lengths": ("I32", [self._texts])}
        header: dict[str, object] = {"__metadata__": {"layers": json.dumps(self._layout.layers)}}
        end = 0
        for name, (dtype, dimensions) in (kinds | {"pieces": ("U8", [pieces])}).items():
            start, end = end, end + int(np.prod(dimensions)) * (1 if dtype == "U8" else 4)
            header[name] = {"dtype": dtype, "shape": dimensions, "data_offsets": [start, end]}
        room = HEADER_BYTES - 8
        return room.to_bytes(8, "little") + json.dumps(header).encode().ljust(room)


WRITERS: dict[str, Callable[[Path, Layout], FeatureFile]] = dict(zip(FORMATS, (JsonLines, Parquet, Safetensors), strict=True))
