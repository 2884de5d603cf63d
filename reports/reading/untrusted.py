"""Parquet and commands that others may have written: data of a limited size, or an error of one line."""

import contextlib
import re
import resource
import shlex
from collections.abc import Iterator, Sequence

import psutil
import pyarrow
import pyarrow.compute
from pyarrow import parquet, types

from harness.errors import InputError, on_one_line

LARGEST_JSON = 1 << 24
"""Bytes of a manifest, a plan or an audit in an archive."""

LARGEST_TEXT = 1 << 20
"""Characters of one text."""

LARGEST_TABLES = 1 << 30
"""Bytes that the tables of an archive take in memory, together."""

MOST_VALUES = 1 << 25
"""Values of a table: rows times columns, or the entries of its lists."""

MOST_PARTS = 1 << 12
"""Columns of a table, its groups of rows, and files of an archive."""

HEADROOM = 3 * LARGEST_TABLES
"""Additional bytes that reading a table may take: its pages may be larger than its footer states."""

PLAIN = (types.is_string, types.is_large_string, types.is_boolean, types.is_integer, types.is_floating)
"""Types of the values in a table."""


def table_of(content: bytes, where: str, most: int = LARGEST_TABLES, columns: Sequence[str] | None = None) -> pyarrow.Table:
    """The table of a Parquet file, of at most `most` bytes in memory, or these columns of it.

    InputError for a damaged, empty or larger one.

    Its footer bounds rows and pages. It does not bound texts, one of which may occur in all rows: they are read as numbers of
    different texts first, and their lengths added up.
    """
    try:
        with limited_memory():
            footer = parquet.read_metadata(pyarrow.BufferReader(content))
            _refuse_large(footer, where, most)
            for field in footer.schema.to_arrow_schema():
                if (columns is None or field.name in columns) and not _is_plain(field.type):
                    raise InputError(f"{where}: column {field.name!r} is of type {field.type}: expected text or numbers")
            leaves = [footer.schema.column(number) for number in range(footer.num_columns)]
            of_text = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
            numbered = parquet.ParquetFile(pyarrow.BufferReader(content), read_dictionary=of_text).read(columns)
            size = sum(_size(chunk, where) for column in numbered.columns for chunk in column.chunks)
            if size > most:
                raise InputError(f"{where} takes {size:,} bytes in memory: expected at most {most:,}")
            table = parquet.ParquetFile(pyarrow.BufferReader(content)).read(columns)
            table.validate(full=True)
            return table
    except (OSError, MemoryError, pyarrow.ArrowException, UnicodeError) as error:
        raise InputError(
            f"{where} cannot be read as Parquet: {on_one_line(str(error), 100) or type(error).__name__}"
        ) from error


def _refuse_large(footer: parquet.FileMetaData, where: str, most: int) -> None:
    parts = max(footer.num_columns, footer.num_row_groups)
    if parts > MOST_PARTS or footer.num_columns == 0:
        raise InputError(f"{where} has {parts:,} columns or groups of rows: expected 1 to {MOST_PARTS:,}")
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(footer.num_columns)]
    values = max(footer.num_rows * footer.num_columns, sum(chunk.num_values for chunk in chunks))
    if values > MOST_VALUES or min((chunk.num_values for chunk in chunks), default=0) < 0:
        raise InputError(f"{where} has {values:,} values: expected at most {MOST_VALUES:,}")
    if (size := sum(chunk.total_uncompressed_size for chunk in chunks)) > most:
        raise InputError(f"{where} has {size:,} bytes of pages: expected at most {most:,}")


def _is_plain(kind: pyarrow.DataType) -> bool:
    """Texts, numbers, and lists and maps of them."""
    if types.is_map(kind):
        return _is_plain(kind.key_type) and _is_plain(kind.item_type)
    single = kind.value_type if types.is_list(kind) or types.is_dictionary(kind) else kind
    return any(is_of(single) for is_of in PLAIN)


def _size(array: pyarrow.Array, where: str) -> int:
    """Bytes of an array with its texts expanded."""
    if isinstance(array, pyarrow.MapArray):
        return array.nbytes + _size(array.keys, where) + _size(array.items, where)
    if isinstance(array, pyarrow.ListArray):
        return array.nbytes + _size(array.values, where)
    if not isinstance(array, pyarrow.DictionaryArray):
        return array.nbytes
    lengths = pyarrow.compute.binary_length(array.dictionary)
    if (longest := pyarrow.compute.max(lengths).as_py() or 0) > LARGEST_TEXT:
        raise InputError(f"{where} has a text of {longest:,} bytes: expected at most {LARGEST_TEXT:,}")
    in_places = pyarrow.compute.take(lengths.cast(pyarrow.int64()), array.indices)
    return array.nbytes + 4 * len(array) + (pyarrow.compute.sum(in_places).as_py() or 0)


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    """The block fails with MemoryError rather than take more than HEADROOM."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [limit for limit in (soft, hard, psutil.Process().memory_info().vms + HEADROOM) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


WORD = re.compile(r"[+~]{0,2}[A-Za-z_][\w.@/:-]*=.*|-m|--multirun|-q|--quiet|audit|--measure")
"""What a recorded command of the harness may have after its name: keys with values, which a shell reads as one word."""


def command_of(text: str) -> list[str] | None:
    """The words of a recorded command, `harness` first; None for anything but a command of the harness: readers type it
    again.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    words = words[2:] if words[:2] == ["python", "-m"] else words
    named = [words[at] for at in range(1, len(words)) if words[at] != "--config-dir" and words[at - 1] != "--config-dir"]
    is_plain = text.isprintable() and "`" not in text
    return words if is_plain and words[:1] == ["harness"] and all(map(WORD.fullmatch, named)) else None
