"""The numbers of a report as a Parquet file, for other programs."""

import io

import pyarrow
from pyarrow import parquet

from harness.reports.render import Files, Format, Report
from harness.reports.writing.tables import COLUMNS

TYPES = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}


def parquet_file(report: Report) -> Files:
    """The rows of `summary.csv`: text, int64 and float64, null where a row has no value."""
    schema = pyarrow.schema([(column, TYPES[kind]) for column, kind in COLUMNS.items()])
    content = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(report.summary, schema), content, compression="zstd", compression_level=19)
    return {"summary.parquet": content.getvalue()}


PARQUET = Format(parquet_file)
