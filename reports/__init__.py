"""The report on a study: reads the tracking store and writes tables, pictures and a summary."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from harness.reports.judging import Verdicts


def load(
    study: str | Sequence[str] | None = None, uri: str | None = None, where: str | None = None, along: Iterable[str] = ()
) -> "pd.DataFrame":
    """The runs of a study, or of several, as a pandas DataFrame: one row a run, oldest first, without A/A replicates.

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


def judge(
    frame: "pd.DataFrame",
    baseline: str | None = None,
    unpaired: bool = False,
    all_pairs: bool = False,
    random_tasks: bool = False,
    **said: str,
) -> "Verdicts":
    """Verdicts on results of any tool: a row a value, with the columns of `harness.comparison.frame.COLUMNS`.

    `arm`, `task`, `metric` and `value` are needed, `seed`, `item`, `unit`, `direction` and others say more; `said` gives one of
    them for all rows, such as task="rte". Units and directions of well-known metrics need not be said. Each arm is compared
    with `baseline`, by default `base`: paired by seed where arms share seeds, unless `unpaired`. `all_pairs` adds ranks and
    groups of all arms; `random_tasks`: over tasks as a sample of others. InputError (harness.errors) for values that do not
    compare.
    """
    from harness.reports import judging  # pandas and scipy take seconds: `import reports` does without

    return judging.judge(frame, baseline, unpaired, all_pairs, random_tasks, **said)
