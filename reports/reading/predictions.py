"""Predictions of runs for the items of the validation data, by the files in their folders."""

from pathlib import Path

import pyarrow

from harness import paths
from harness.comparison import items
from harness.comparison.items import ErrorsOf
from harness.comparison.runs import Run
from harness.errors import InputError
from harness.reports.reading import folders
from harness.reports.reading.store import Output, Packed
from harness.reports.reading.untrusted import LARGEST_TABLES, table_of

FILE = "predictions.parquet"


def predictions(run: Run, output: Output) -> pyarrow.Table | None:
    """The table of a run; None where they are gone or cannot be read."""
    if isinstance(output, Packed):
        return output.predictions.get(run.run_id)
    folder = folders.folder_of(run, output)
    return None if folder is None else read_table(folder / FILE)


def read_table(path: Path) -> pyarrow.Table | None:
    """The table of a file; None where it is gone or cannot be read."""
    try:
        return table_of(paths.read(path, LARGEST_TABLES), str(path))
    except (OSError, InputError):
        return None


def errors_in(output: Output) -> ErrorsOf:
    """Reads the errors of runs whose files are in `output`."""
    known = output.errors if isinstance(output, Packed) else {}
    return lambda run: known.get(run.run_id) or items.errors(run, predictions(run, output))
