"""Vectors of every token as data: `python -m harness features RUN input=text.txt to=features.jsonl`.

One text a line, two texts of a pair separated by ` ||| `. The model is a run of ours or a checkpoint, ours or a published one;
or, without weights, a randomly initialised one.
Files are written as the texts come. What is held in memory does not grow with their number, but for Parquet's table of
contents: about a kilobyte for every `GROUP_BYTES`. B texts, T tokens, L selected layers, D hidden.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet
from tokenizers import Encoding, Tokenizer

from harness import paths
from harness.checkpoints import find_run, huggingface, native
from harness.commands.options import FEATURES, OF_MODEL, Features, Weights
from harness.commands.predict import SEPARATOR, Columns, chunks, progress, read_rows
from harness.config.schema import HardwareConfig, RunConfig
from harness.data import published, tokenizer
from harness.data.files import text_lines
from harness.errors import InputError, writing
from harness.grammar import group_of
from harness.hardware.device import Machine
from harness.measure import subject
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.paths import TABLES, ending
from harness.terminal import table

DEFAULT_LAYERS = 4
"""Layers that are written where none are named, the last first."""

DEFAULT_LENGTH = 128
"""Tokens of a text, where the model takes as many."""

LISTED = 10
"""Texts that the summary lists one by one."""

NOT_OF_ENCODER = (
    *("vocab_size", "pad_token_id", "initializer_range", "init", "hidden_dropout_prob"),
    *("attention_probs_dropout_prob", "head_size", "mask_decoder"),
    *(
        "pooling",
        "vector_pooling",
        "pooler",
        "pooler_norm",
        "pooler_bias",
        "classifier_bias",
        "classifier_dropout",
        "tie_masked_lm_head",
    ),
    *("embedding_size", "embedding_fraction", "num_hidden_layers", "depth_fraction", "num_hidden_groups"),
    *("intermediate_size", "feed_forward_size"),
)
"""Keys in which a checkpoint may differ from the model it is expected to be, or whose outcome is compared instead."""

OUTCOMES = ("embedding_width", "depth", "groups", "feed_forward_width", "head_width")

DECIMALS = 6
"""Decimals of the values in JSON lines."""

GROUP_BYTES = 16 * 2**20
"""Vectors that one row group of a Parquet file holds."""

HEADER_BYTES = 4096
"""Room for the header of a safetensors file, which is written last; what it does not need is spaces."""


Text = str | tuple[str, str]


def main(options: Features, configs: list[RunConfig]) -> int:
    """Writes the vectors whole or not at all, and prints their sizes; 0. InputError for what cannot be read or written."""
    (config,) = configs
    source = source_of(options, config) if options.source else random_source(options, config)
    printed = extract(Extractor(source, config.hardware, options.layers, options.max_length), options)
    if not options.source:
        print(f"no weights are named: randomly initialised (seed {config.seed})")
    print(printed)
    return 0


def extract(extractor: "Extractor", options: Features) -> str:
    """Writes the file; returns the table of its sizes."""
    vocabulary = extractor.tokenizer.get_vocab()
    shape = (len(extractor.layers), extractor.encoder.config.hidden_size)
    layout = Layout(extractor.layers, shape[1], sorted(vocabulary, key=vocabulary.get))
    rows: list[tuple[str, ...]] = []
    texts = pieces = 0
    with (
        progress(options.input, "features") as bar,
        writing(options.to, "a file"),
        paths.replaced(options.to) as temporary,
    ):
        file = WRITERS[options.written](temporary, layout)
        try:
            is_table = ending(options.input) in TABLES
            lines = (rows_of if is_table else lines_of)(options, lambda at: bar.update(at - bar.n))
            for batch in chunks(lines, options.batch_size):
                for vectors in extractor.vectors(batch, texts):
                    written, length = file.write(vectors), len(vectors.ids)
                    if texts < LISTED:
                        rows.append((str(vectors.line), f"{length:,}", _by(vectors.values.shape), f"{written:,}"))
                    texts, pieces = texts + 1, pieces + length
        finally:
            file.close()
        if not texts:
            raise InputError(f"input={str(options.input)!r} has no rows")
    size = options.to.stat().st_size
    if texts > len(rows):
        rows.append((f"and {texts - len(rows):,} more", "", "", ""))
    rows.append(("mean", f"{pieces / texts:,.1f}", "", f"{size / texts:,.0f}"))
    rows.append((f"all {texts:,}", f"{pieces:,}", _by((pieces, *shape)), f"{size:,}"))
    kind = "WordPieces" if type(extractor.tokenizer.model).__name__ == "WordPiece" else "pieces"
    return f"wrote {options.to}\n\n{table(('text', kind, 'shape', 'bytes'), rows)}"


def _by(shape: tuple[int, ...]) -> str:
    """`12 x 4 x 256`: pieces, layers, hidden size."""
    return " x ".join(f"{size:,}" for size in shape)


def lines_of(options: Features, advance: Callable[[int], object]) -> Iterator[Text]:
    """A text or pair a line, one line in memory at a time; InputError for a file that is not UTF-8 or has no text."""
    has_text, where = False, f"input={str(options.input)!r}"
    for _, text in text_lines(options.input, where, "input", advance):
        line = text.strip()
        has_text = has_text or bool(line)
        first, pair, second = line.rpartition(SEPARATOR)
        yield (first, second) if pair else line
    if not has_text:
        raise InputError(f"{where} is empty: expected one text a line")


def rows_of(options: Features, advance: Callable[[int], object]) -> Iterator[Text]:
    """A text or pair a row of a table; InputError for a row that cannot be read."""
    columns = Columns(options.fields, f"fields=[{','.join(options.fields)}]")
    rows = read_rows(options.input, columns, advance)
    return (texts[0] if len(texts) == 1 else (texts[0], texts[1]) for texts, _ in rows)


# From texts to vectors


@dataclass(frozen=True)
class Vectors:
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
    longest: int  # tokens of a text that both take


def source_of(options: Weights, config: RunConfig) -> Source:
    """The encoder with its weights.

    InputError for weights or a tokenizer that are missing, do not fit each other, or are not of the model that is named.
    """
    key, name = options.source
    if key == "RUN" or (Path(name) / native.SHAPE).is_file():
        folder = find_run.weights_folder(name, key, config.output, config.tracking.uri)
        state, shape = native.read(folder)
        settings, limit = replace(config.tokenizer, vocab_file=None, file=str(folder / native.TOKENIZER)), None
    else:
        folder = huggingface.folder_of(name, key)
        state, shape = huggingface.encoder_of(folder, key)
        settings, limit = huggingface.tokenizer_of(config, folder), published.longest_text(folder)
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
    if any(group_of(choice) in OF_MODEL for choice in options.choices):
        refuse_other_model(shape, config.model, f"{key}={name!r}")
    return Source(encoder.eval(), reader, min(shape.longest_text, limit or shape.longest_text))


def random_source(options: Features, config: RunConfig) -> Source:
    """A randomly initialised encoder of the file's shape, or of the model that is named, and the tokenizer of a file.

    InputError for files that cannot be read, and for more pieces than the shape has token embeddings.
    """
    reader = tokenizer.build(config.tokenizer, ())
    pieces = reader.get_vocab_size()
    if options.bert_config_file is None:
        shape = replace(config.model, vocab_size=pieces, pad_token_id=tokenizer.pad_token_id(reader) or 0)
    else:
        shape = huggingface.shape_of(options.bert_config_file, "bert_config_file")
        if pieces > shape.vocab_size:
            where = f"bert_config_file={str(options.bert_config_file)!r}"
            raise InputError(f"the tokenizer has {pieces} pieces, {where} {shape.vocab_size} token embeddings")
    encoder = subject.classifier(replace(config, model=shape), config.seed).encoder
    return Source(encoder.eval(), reader, shape.longest_text)


def refuse_other_model(read: EncoderConfig, expected: EncoderConfig, source: str) -> None:
    """InputError that names the first key in which the checkpoint differs from the model of the command line."""
    keys = [field.name for field in fields(type(read)) if field.name not in NOT_OF_ENCODER]
    for name in (*keys, *OUTCOMES):
        here, there = getattr(read, name), getattr(expected, name)
        if here != there:
            raise InputError(
                f"{source} has {name}={here}, but the model that is named has {there}: "
                f"leave model=, scale= and enhancement= out, or name what it is"
            )


class Extractor:
    """An encoder on its device, with a tokenizer that cuts: texts to vectors."""

    def __init__(self, source: Source, hardware: HardwareConfig, layers: tuple[int, ...] | None, longest: int | None) -> None:
        """InputError for a missing layer or device, or more tokens than the model takes."""
        room = source.longest
        if longest is not None and longest > room:
            raise InputError(f"max_length={longest} must be at most the {room} tokens that the model takes")
        self.layers = selected_layers(layers, len(source.encoder.layers.execution_order()))
        try:
            self._machine = Machine(hardware)
        except RuntimeError as error:
            raise InputError(str(error)) from error
        self.encoder, self.tokenizer = source.encoder.to(self._machine.device), source.tokenizer
        self._pad = tokenizer.pad_token_id(source.tokenizer) or 0
        self.tokenizer.enable_truncation(longest or min(DEFAULT_LENGTH, room))

    def vectors(self, texts: list[Text], first: int) -> Iterator[Vectors]:
        """In the order of the texts, numbered from `first`; InputError for a text whose vectors are not finite."""
        rows = self.tokenizer.encode_batch(texts)
        states = self._states(padded(rows, self._pad))
        for place, row in enumerate(rows):
            values = states[place, : len(row.ids)]
            if not np.isfinite(values).all():
                raise InputError(f"the vectors of line {first + place + 1} are not finite: the weights have diverged")
            yield Vectors(first + place, row.tokens, row.ids, values)

    def _states(self, batch: Batch) -> np.ndarray:
        """(B, T) -> float32 (B, T, L, D)."""
        with torch.inference_mode(), self._machine.autocast():
            states = self.encoder.hidden_states(batch.to(self._machine.device))
            return torch.stack([states[layer] for layer in self.layers], dim=2).float().cpu().numpy()


def selected_layers(layers: tuple[int, ...] | None, depth: int) -> tuple[int, ...]:
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


# Files


@dataclass(frozen=True)
class Layout:
    """What all texts of one file share: layers as numbered by the user, D, and the pieces in the order of their ids."""

    layers: tuple[int, ...]
    hidden_size: int
    pieces: list[str]


class JsonLines:
    """One object a text: `linex_index`, and `features` with the `layers` of every `token`, values with six decimals."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._file, self._layers = path.open("wb"), layout.layers
        self.close = self._file.close

    def write(self, vectors: Vectors) -> int:
        rounded = np.round(vectors.values.astype(np.float64), DECIMALS)
        tokens = [
            {"token": token, "layers": [{"index": i, "values": v} for i, v in zip(self._layers, vectors.tolist(), strict=True)]}
            for token, vectors in zip(vectors.tokens, rounded, strict=True)
        ]
        return self._file.write(json.dumps({"linex_index": vectors.line, "features": tokens}).encode() + b"\n")


class Parquet:
    """One row a text: `linex_index`, `tokens`, and `layer_N`, a list of T vectors, for every layer."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._layout, self._held, self._bytes = layout, [], 0
        self._vectors = pa.list_(pa.list_(pa.float32(), layout.hidden_size))
        columns = [(f"layer_{layer}", self._vectors) for layer in layout.layers]
        self._schema = pa.schema([("linex_index", pa.int64()), ("tokens", pa.list_(pa.string())), *columns])
        self._writer = parquet.ParquetWriter(path, self._schema, use_dictionary=["tokens"])

    def write(self, vectors: Vectors) -> int:
        self._held.append(vectors)
        self._bytes += vectors.values.nbytes
        if self._bytes >= GROUP_BYTES:
            self._flush()
        return vectors.values.nbytes

    def _flush(self) -> None:
        ends = pa.array(np.cumsum([0, *(len(held.tokens) for held in self._held)]), pa.int32())
        columns = [[held.line for held in self._held], [held.tokens for held in self._held]]
        columns += [self._column(ends, place) for place in range(len(self._layout.layers))]
        self._writer.write_table(pa.table(columns, schema=self._schema))
        self._held, self._bytes = [], 0

    def _column(self, ends: object, place: int) -> object:
        """The vectors of one layer; numbers never become Python objects."""
        flat = np.concatenate([held.values[:, place] for held in self._held]).ravel()
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

    def write(self, vectors: Vectors) -> int:
        self._file.write(np.ascontiguousarray(vectors.values, "<f4").data)
        self._ids.write(np.asarray(vectors.ids, "<i4").tobytes())
        self._lengths.write(np.asarray([len(vectors.ids)], "<i4").tobytes())
        self._tokens, self._texts = self._tokens + len(vectors.ids), self._texts + 1
        return vectors.values.nbytes

    def close(self) -> None:
        with self._file as file, self._ids, self._lengths:
            for waiting in (self._ids, self._lengths):
                waiting.seek(0)
                while block := waiting.read(2**20):
                    file.write(block)
            pieces = json.dumps(self._layout.pieces).encode()
            file.write(pieces)
            file.seek(0)
            file.write(self._header(len(pieces)))

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


WRITERS = dict(zip(FEATURES, (JsonLines, Parquet, Safetensors), strict=True))
"""Format -> one open file: `write` adds a text and returns its bytes, of its line or of its vectors; `close` ends the file."""
