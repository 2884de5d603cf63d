"""The report on a study: reads the tracking store and writes tables, pictures and a summary."""

from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from harness import extensions

if TYPE_CHECKING:
    import pandas as pd


def load(
    study: str | Sequence[str] | None = None, uri: str | None = None, where: str | None = None, along: Iterable[str] = ()
) -> "pd.DataFrame":
    """Loads the runs of one or several studies as a pandas DataFrame: one row per run, oldest first, without A/A replicates.

    Columns: `arm`, `model`, `scale`, `enhancements`, `task`, `seed`, `pretrain_seed`, `conditions`, `status`, `counted`,
    `study`, `started`, `run_id`, `folder`, the parameters in which runs differ, and every metric under its declared name
    (harness/metrics.py) in base units (`frame.attrs["units"]`). Values that a run lacks are missing. `counted` is False for
    runs that a report leaves out; `status` gives the reason, such as superseded, failed or other conditions. Pretrainings that
    the runs start from have rows of their own, even if they belong to other studies.

    `study` defaults to the newest one with a finished run, `uri` to multirun/mlflow.db; `where` and `along` are those of
    `python -m reports`. Raises InputError (harness.errors) if the store has no such runs.
    """
    from harness.reports import frame  # pandas and scipy take seconds: `import reports` does without

    return frame.load(study, uri, where, along)


def __getattr__(name: str) -> Any:
    """A function of a plug-in, such as `judge`, imported on first use because its imports take seconds."""
    if name not in (added := extensions.declared("harness.functions")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return extensions.load(added[name], FunctionType)
