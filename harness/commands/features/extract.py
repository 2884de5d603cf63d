"""From a text file to a file of vectors, and the summary of its sizes."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from harness.commands.features.files import WRITERS, FeatureFile, Layout
from harness.commands.features.request import TABLES, Request
from harness.commands.features.vectors import Extractor, Features, Text, refuse_other_model, source_of
from harness.commands.text_rows import Columns, read_rows
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.terminal import table

SHOWN = 10
"""Texts that the summary lists one by one."""


def texts_of(path: Path, advance: Callable[[int], object]) -> Iterator[Text]:
    """A text or pair a line, one line in memory at a time; InputError for a file that is not UTF-8 or has no text."""
    has_text = False
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise InputError(f"input={str(path)!r} line {number} is not UTF-8 text: {error.reason}") from error
            has_text = has_text or bool(line)
            one, pair, other = line.rpartition(" ||| ")
            yield (one, other) if pair else line
            advance(len(raw))
    if not has_text:
        raise InputError(f"input={str(path)!r} is empty: expected one text a line")


def rows_of(request: Request) -> Iterator[Text]:
    """A text or pair a row of a table; InputError for a row that cannot be read, and for a table without rows."""
    has_row = False
    for texts in read_rows(request.text, Columns(request.fields, f"fields=[{','.join(request.fields)}]")):
        has_row = True
        yield texts[0] if len(texts) == 1 else (texts[0], texts[1])
    if not has_row:
        raise InputError(f"input={str(request.text)!r} has no rows")


def batched(texts: Iterable[Text], size: int) -> Iterator[list[Text]]:
    """Lists of `size` texts, the last one shorter."""
    texts = iter(texts)
    while batch := list(islice(texts, size)):
        yield batch


class Summary:
    """Sizes of what was written: of the first texts one by one, and of all together."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []
        self.texts = self.pieces = self.longest = 0

    def add(self, features: Features, written: int) -> None:
        """One text."""
        pieces = len(features.ids)
        if self.texts < SHOWN:
            self.rows.append((str(features.line), f"{pieces:,}", shown(features.values.shape), f"{written:,}"))
        self.texts, self.pieces, self.longest = self.texts + 1, self.pieces + pieces, max(self.longest, pieces)

    def render(self, kind: str, size: int, shape: tuple[int, ...]) -> str:
        """The table; `kind` is the name of pieces, `size` the bytes of the file, `shape` that of one token."""
        rows = [*self.rows]
        if self.texts > len(rows):
            rows.append((f"and {self.texts - len(rows):,} more", "", "", ""))
        rows.append(("mean", f"{self.pieces / self.texts:,.1f}", "", f"{size / self.texts:,.0f}"))
        rows.append((f"all {self.texts:,}", f"{self.pieces:,}", shown((self.pieces, *shape)), f"{size:,}"))
        return table(("text", kind, "shape", "bytes"), rows, "lrrr")


def shown(shape: tuple[int, ...]) -> str:
    """`12 x 4 x 256`: pieces, layers, hidden size."""
    return " x ".join(f"{size:,}" for size in shape)


def write(extractor: Extractor, request: Request) -> str:
    """Writes the file whole or not at all; returns the summary. InputError where it cannot be written."""
    vocabulary = extractor.tokenizer.get_vocab()
    shape = (len(extractor.layers), extractor.encoder.config.hidden_size)
    layout = Layout(extractor.layers, shape[1], sorted(vocabulary, key=vocabulary.get))
    summary = Summary()
    temporary = request.output.with_name(f".{request.output.name}.{os.getpid()}")
    size = request.text.stat().st_size
    try:
        with tqdm(total=size, unit="B", unit_scale=True, desc="features", leave=False, disable=None) as bar:
            texts = rows_of(request) if request.text.suffix in TABLES else texts_of(request.text, bar.update)
            file = WRITERS[request.format](temporary, layout)
            _fill(file, extractor, batched(texts, request.batch_size), summary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(request.output)
    except OSError as error:
        raise InputError(f"output={str(request.output)!r} cannot be written ({error.strerror}); expected a file") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    kind = "WordPieces" if type(extractor.tokenizer.model).__name__ == "WordPiece" else "pieces"
    return f"wrote {request.output}\n\n{summary.render(kind, request.output.stat().st_size, shape)}"


def _fill(file: FeatureFile, extractor: Extractor, batches: Iterable[list[Text]], summary: Summary) -> None:
    try:
        for texts in batches:
            for features in extractor.features(texts, summary.texts):
                summary.add(features, file.write(features))
    finally:
        file.close()


def extract(request: Request, config: RunConfig, runs_folder: str, expected: bool) -> str:
    """Writes the file and returns what to print; `expected`: the weights must be of the model of the config."""
    key, name = request.source
    source = source_of(key, name, config, runs_folder)
    if expected:
        refuse_other_model(source.encoder.config, config.model, f"{key}={name!r}")
    return write(Extractor(source, config.hardware, request.layers, request.max_length), request)
