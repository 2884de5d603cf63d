"""Results folders of MTEB (1.11 to 2.26): `MODEL/REVISION/TASK.json`; each subset is a task, and so is each split but `test`.

The metric is `main_score`, or that of --metric. The files state no seeds and no single items.
"""

from functools import partial
from pathlib import Path

import pandas as pd

from harness import paths
from harness.errors import InputError
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results import folders

TOOL = "MTEB"
PLACES = r"(.*/(?P<arm>(?!experiments/)[^/]+)/(?P<revision>[^/]+(/experiments/[^/]+)?))/[^/]+\.json"
BEGINS = r'(?s)\s*\{.*"(dataset_(revision|version)|mteb_\w+)"'


def _of_task(metric: str, file: Path) -> pd.DataFrame:
    output, rows = paths.read_object(file), []
    if "scores" not in output:
        raise InputError(f"{str(file)!r} has no scores, as before MTEB 1.11: evaluate anew, or leave it out")
    for split, subsets in output["scores"].items():
        for scores in subsets:
            places = [place for place in (split, scores["hf_subset"]) if place not in ("test", "default")]
            rows.append((" ".join([output["task_name"], *places]), metric, scores[metric]))
    return pd.DataFrame(rows, columns=["task", "metric", "value"]).assign(version=output["dataset_revision"])


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """A row for each subset of a task."""
    of_task = partial(_of_task, asked.metric or "main_score")
    return folders.results(TOOL, PLACES, BEGINS, of_task).read(path, asked)


MTEB = Results(TOOL, read)
