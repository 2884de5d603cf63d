"""Predictions of a fine-tuned run on new texts: `python -m harness predict RUN input=FILE to=FILE`.

RUN is the folder of a run with `finetune.keep=last`, its name or its id. Input is .txt, one text per line, the texts of a pair
separated by ` ||| `, or a file of rows as for training, with the columns of the task's fields. One row is written per input
row, with the columns `beside`; `kind=vectors` writes the vectors of every token of any weights instead.
"""

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import parquet
from tqdm import tqdm

from harness import paths
from harness.checkpoints import find_run
from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig
from harness.data.files import Wanted, inner, text_lines
from harness.data.files import rows as rows_of_file
from harness.data.labels import SEPARATORS as LABELS_SEPARATORS
from harness.errors import InputError, Mistakes, has_half_characters, on_one_line, present, writing
from harness.paths import TABLES, ending
from harness.plugins.predict import vectors
from harness.plugins.predict.options import Predict
from harness.plugins.shared.predictor import Predictor
from harness.plugins.shared.weights import SEPARATOR
from harness.tasks.rows import joined, lists_endings

CHUNK, LABELLED, EMBEDDED = 2048, 64, 32
"""Rows in memory at a time; rows of one pass through the model where labels are predicted, and where vectors are written."""


def main(options: Predict, configs: list[RunConfig]) -> int:
    """Writes the predictions, or the vectors, whole or not at all; 0. InputError for what cannot be read or written."""
    (config,) = configs
    model: vectors.Extractor | Predictor
    done: int | str
    if options.gives_vectors:
        model = vectors.Extractor(options, config)
        columns = Columns(options.fields, f"fields=[{','.join(options.fields)}]", any_texts=True)
    else:
        checkpoint = find_run.weights_folder(present(options.run), "RUN", config.output, config.tracking.uri)
        model = Predictor(checkpoint, config.hardware, options.batch_size or LABELLED)
        columns = Columns.of_task(model.task, options.beside)
    with (
        tqdm(total=options.input.stat().st_size, unit="B", unit_scale=True, desc="predict", leave=False, disable=None) as bar,
        writing(options.to, "a file"),
        paths.replaced(options.to) as temporary,
    ):
        rows = read_rows(options.input, columns, lambda at: bar.update(at - bar.n))
        if isinstance(model, Predictor):
            done = write(answered(model, chunks(rows, CHUNK)), temporary, options.written)
        else:
            texts = ([text for text, _ in chunk] for chunk in chunks(rows, options.batch_size or EMBEDDED))
            done = vectors.write(model, texts, temporary, options.written)
        if not done:
            raise InputError(f"input={str(options.input)!r} has no rows")
    if options.gives_vectors and not options.source:
        print(f"no weights are named: randomly initialised (seed {config.seed})")
    written = f": {done:,} prediction{'s' * (done != 1)} of task {model.task.name}" if isinstance(model, Predictor) else done
    print(f"wrote {options.to}{written}")
    return 0


def answered(predictor: Predictor, chunks: Iterable[list["Row"]]) -> Iterator[list[dict[str, Any]]]:
    """The rows to write, numbered from 1, each with what is kept of it; InputError for a name of both."""
    first = 1
    for chunk in chunks:
        answers = predictor.rows([texts for texts, _ in chunk], first)
        if both := {*answers[0], *_flat(answers[0])} & chunk[0][1].keys():
            raise InputError(f"beside=[{','.join(both)}] is the name of an output column: expected other columns")
        yield [
            {"row": number} | kept | answer
            for number, (answer, (_, kept)) in enumerate(zip(answers, chunk, strict=True), first)
        ]
        first += len(chunk)


def write(rows: Iterable[list[dict[str, Any]]], path: Path, form: str) -> int:
    """Writes all rows as JSON lines, as a table with commas or as Parquet; returns their number."""
    if form == "parquet":
        return _write_parquet(rows, path)
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        table = None
        for chunk in rows:
            count += len(chunk)
            if form != "csv":
                file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in chunk)
                continue
            flat = [_flat(row) for row in chunk]
            if table is None:
                table = csv.DictWriter(file, list(flat[0]))
                table.writeheader()
            table.writerows(flat)
    return count


def _write_parquet(rows: Iterable[list[dict[str, Any]]], path: Path) -> int:
    """A row group a chunk, with the types of the first one; InputError for a value of another type."""
    with contextlib.ExitStack() as stack:
        writer, count = None, 0
        for chunk in rows:
            try:
                table = pa.Table.from_pylist(chunk, writer.schema if writer else None)
                if writer is None:
                    table = table.cast(pa.schema([(field.name, _with_values(field.type)) for field in table.schema]))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise InputError(f"rows {count + 1:,} to {count + len(chunk):,} mix types in a column: {error}") from error
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(path, table.schema))
            writer.write_table(table)
            count += len(chunk)
        if writer is None:
            path.touch()
    return count


def _with_values(kind: pa.DataType) -> pa.DataType:
    """The type of a column: of texts where its first rows have no value, as the lists of labels of texts that get none."""
    if pa.types.is_list(kind):
        return pa.list_(_with_values(kind.value_type))
    return pa.string() if pa.types.is_null(kind) else kind


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Without nesting, as a table has it: `probability.LABEL` for each class, lists as `task.train_file` has them.

    Words and their tags are separated by spaces, labels of a text by `|`.
    """
    separator = LABELS_SEPARATORS[0] if "probabilities" in row else " "
    flat = {f"probability.{label}": value for label, value in row.get("probabilities", {}).items()}
    plain = {key: value for key, value in row.items() if key != "probabilities"}
    return {key: separator.join(map(str, value)) if isinstance(value, list) else value for key, value in plain.items()} | flat


Item = TypeVar("Item")


def chunks(rows: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` rows, the last one shorter."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk


# Texts of the user

Row = tuple[list[str], dict[str, Any]]
"""The one or two texts of a row, or its words; and its copied columns."""


@dataclass(frozen=True)
class Columns:
    """What is read of a row: one or two texts, or one list of `words`, and what is kept `beside` them.

    `whose` says who reads them, in errors. `any_texts`: each line may be empty, or a pair, which is parted at its last mark.
    """

    fields: tuple[str, ...]
    whose: str
    words: bool = False
    beside: tuple[str, ...] = ()
    any_texts: bool = False
    lists: bool = False  # the second field is a list of texts

    @classmethod
    def of_task(cls, task: TaskConfig, beside: tuple[str, ...]) -> "Columns":
        """Those that a run on the task reads."""
        whose, lists = f"task {task.name!r} of the run", lists_endings(task, task.fields[-1])
        return cls(tuple(task.fields), whose, task.kind is TaskKind.tokens, beside, lists=lists)


def read_rows(path: Path, columns: Columns, advance: Callable[[int], object]) -> Iterator[Row]:
    """Each row, as files are read for training; `advance` gets the bytes read so far. InputError naming the line that cannot be
    read."""
    where = f"input={str(path)!r}"
    try:
        if ending(path) == ".txt" or (columns.any_texts and ending(path) not in TABLES):
            yield from _lines(path, columns, where, advance)
            return
        wanted = Wanted(columns.fields, None, columns.beside, columns.words)
        read = rows_of_file(path, where, "input", wanted, Mistakes(first_ends=True), advance)
        for number, (line, row) in enumerate(read, 1):
            yield _fields(row, columns, f"{where}, {f'row {number}' if line is None else f'line {line}'}")
    except OSError as error:
        raise InputError(f"{where} cannot be read: {' '.join(str(error).split())}") from error


def _lines(path: Path, columns: Columns, where: str, advance: Callable[[int], object]) -> Iterator[Row]:
    for number, line in text_lines(path, where, "input", advance):
        if columns.any_texts:
            yield line.strip().rsplit(SEPARATOR, 1), {}
            continue
        texts = line.split() if columns.words else line.strip().split(SEPARATOR)
        if not texts or not all(text.strip() for text in texts):
            raise InputError(f"{where}, line {number} is empty: expected a text on every line")
        if not (columns.words or columns.lists) and len(texts) != len(columns.fields):
            raise InputError(
                f"{where}, line {number} has {len(texts)} texts, {columns.whose} has {len(columns.fields)}: "
                f"separate the texts of a pair by {SEPARATOR!r}"
            )
        values = [texts] if columns.words else [texts[0], texts[1:]] if columns.lists else texts
        yield texts, _kept(dict(zip(columns.fields, values, strict=True)), columns, f"{where}, line {number}")


def _kept(row: dict[str, Any], columns: Columns, where: str) -> dict[str, Any]:
    """The input columns copied into the output."""
    kept = {name: _column(row, name, where, " of beside= (name another, or leave it out)") for name in columns.beside}
    if has_half_characters(json.dumps(kept, ensure_ascii=False, default=str)):
        raise InputError(f"{where}: expected text in {', '.join(kept)} of beside=, got an unpaired surrogate")
    return kept


def _column(row: dict[str, Any], name: str, where: str, reader: str) -> Any:
    outer, *names = name.split(".")
    if name not in row and isinstance(row.get(outer), dict | list):
        return inner(row[outer], names)
    if name not in row:
        there = ", ".join(on_one_line(key) for key in row if key) or "none"
        raise InputError(f"{where} lacks the column {name!r}{reader}; it has: {there}")
    return row[name]


def _fields(row: dict[str, Any], columns: Columns, where: str) -> Row:
    """The values of the fields, of which `a+b` joins two columns as in training, and what is kept."""
    texts: Any = []
    for name in columns.fields:
        parts = [name] if name in row else name.split("+")
        values = [_column(row, part, where, f", which {columns.whose} reads (rename or add it)") for part in parts]
        texts.append(values[0] if len(values) == 1 else joined(values))
    if columns.words:
        (texts,) = texts
    if columns.lists and isinstance(texts[1], list):
        texts = [texts[0], *texts[1]]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        expected = "a list of words" if columns.words else "text"
        raise InputError(f"{where}: expected {expected} in {', '.join(columns.fields)}, got {texts!r:.60}")
    if any(map(has_half_characters, texts)):
        raise InputError(f"{where}: expected text in {', '.join(columns.fields)}, got an unpaired surrogate: {texts!r:.60}")
    return texts, _kept(row, columns, where)
