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
    """The runs of a study, or of several, as a pandas DataFrame: one row per run, oldest first, without A/A replicates.

    Columns: `arm`, `model`, `scale`, `enhancements`, `task`, `seed`, `pretrain_seed`, `conditions`, `status`, `counted`,
    `study`, `started`, `run_id`, `folder` (missing where there is none), the parameters in which runs differ, and every metric
    under its declared name (harness/metrics.py) in base units, which `frame.attrs["units"]` names. A value that a run lacks is
    missing. `counted` is False for runs that a report leaves out: `status` says superseded, failed, other conditions (of a
    task that was run under several, see the report's first lines), ... Pretrainings that the runs start from are rows of their
    own, even those of other studies.

    `study` is by default the newest with a finished run, `uri` that of multirun/mlflow.db; `where` and `along` are those of
    `python -m reports`. InputError (harness.errors) where the store has no answer.
    """
    from harness.reports import frame  # pandas and scipy take seconds: `import reports` does without

    return frame.load(study, uri, where, along)


def __getattr__(name: str) -> Any:
    """A function of a plug-in, such as `judge`; what it needs takes seconds, which `import reports` does without."""
    if name not in (added := extensions.declared("harness.functions")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return extensions.load(added[name], FunctionType)
