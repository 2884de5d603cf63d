"""Results of EncodEval: `MODEL/TYPE/DATASET/SETTINGS/results.json`, with the scores of single items of each split.

As hgissbkh/EncodEval (`main.py`, `results/`; arXiv:2507.00994) and Theodb/EncodEval (`encodeval/eval_tasks/`; arXiv:2503.05500)
write them. SETTINGS ends in sdN for a repetition. Other settings are chosen by their validation score, as in
`encodeval/system_ranking.py`; values are those of test. Each subset is a task.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from harness import paths
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results import folders

PLACES = r"(.*/(?P<arm>[^/]+))/(SC|SR|TC|IR|QA)/(?P<task>[^/]+)/((?P<settings>.*?)(_?(sd|seed)(?P<seed>\d+))?/)?results\.json"
CELL = ["arm", "task", "settings"]
LABELS = ("prediction", "label", "labels")
"""Lists of items that are no scores."""


def _scores(split: dict[str, Any]) -> pd.DataFrame:
    """Rows of single items with their subsets, and of what is known over all of them alone."""
    lists = {name: of for name, of in split.get("per_instance", split).items() if isinstance(of, list) and name not in LABELS}
    single = pd.DataFrame({"subset": "", **lists}, index=range(max(map(len, lists.values()), default=0))).rename_axis("item")
    rows = single.rename(columns={"scores_i": "score"}).reset_index().melt(["item", "subset"], var_name="metric")
    said = split.get("average", split).items()
    whole = [(name, value, "") for name, value in said if name not in lists and not isinstance(value, list)]
    return pd.concat([rows, pd.DataFrame(whole, columns=["metric", "value", "subset"])])


def _of_run(file: Path) -> pd.DataFrame:
    output = paths.read_object(file)
    return _scores(output["test"]).assign(validation=_scores(output["validation"]).groupby("subset")["value"].mean().mean())


RUNS = folders.results("EncodEval", PLACES, r'\s*\{\s*"(validation|test)"', _of_run)


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """The rows of all runs at or below the path, with the best settings."""
    rows = RUNS.read(path, asked)
    if rows is not None:
        rows["settings"] = rows["settings"].fillna("")
        rows = rows.set_index(CELL).loc[rows.groupby(CELL)["validation"].mean().groupby(CELL[:2]).idxmax()].reset_index()
        rows["task"] = (rows["task"] + " " + rows["subset"]).str.strip()
    return rows


ENCODEVAL = Results(RUNS.tool, read)
