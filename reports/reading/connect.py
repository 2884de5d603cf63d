"""Which reader reads a tracking store."""

from pathlib import Path
from urllib.parse import urlsplit

from harness.redact import hidden, hide, whole
from reports.errors import ReportError
from reports.reading.sqlite_reader import SqliteReader
from reports.reading.store import Reader


def connect(uri: str) -> Reader:
    """A reader of the store at `uri`; ReportError where there is none. A file that does not exist is not created."""
    try:
        hide(whole(uri))  # what MLflow says of it is printed without its secrets
    except ValueError as error:
        raise ReportError(str(error)) from error
    if "://" not in uri:
        raise ReportError(
            f"--uri {hidden(uri)!r} has no scheme; expected an address such as sqlite:///multirun/mlflow.db or http://host:5000"
        )
    try:
        _ = urlsplit(uri).port
    except ValueError as error:
        raise ReportError(f"--uri {uri!r} is no address ({error}); expected one such as http://host:5000") from error
    if uri.startswith("sqlite:"):
        reader = SqliteReader(Path(uri.removeprefix("sqlite:///").partition("?")[0]))
        if reader.is_known:
            return reader
    from reports.reading.mlflow_reader import MlflowReader  # two seconds, which reading a SQLite file does without

    return MlflowReader(uri)
