"""Results of the BabyLM challenge (2025), in `MODEL/REVISION`: reports without training, and `finetune/TASK/results.txt`.

As the `run.py` of `evaluation_pipeline/sentence_zero_shot` and of `evaluation_pipeline/finetune` write them, in the repository
babylm/evaluation-pipeline-2025. The score of a data set without training is the mean of its paradigms, which are its items. The
files state no seeds.
"""

import re
import statistics
from pathlib import Path

import pandas as pd

from harness import paths
from harness.plugins.results import folders

PLACES = (
    r"(.*/(?P<arm>[^/]+)/(?P<revision>[^/]+))/(zero_shot/.+|finetune)/(?P<task>[^/]+)/(best_temperature_report|results)\.txt"
)
ROUNDING = 0.01
"""By which a mean of numbers with two places differs from the mean with two places."""


def _of_report(file: Path) -> pd.DataFrame:
    text = paths.read(file, paths.LARGEST_RECORD).decode(errors="replace")
    rows: list[tuple[str, float, str | None]] = []
    if file.name == "results.txt":
        rows += [(name, float(value), None) for name, value in re.findall(r"(\w+): (.+)", text)]
    else:
        sections = {title: lines for title, *lines in (part.splitlines() for part in text.split("### "))}
        title = next(title for title in sections if title.startswith("AVERAGE "))
        metric, score = title.removeprefix("AVERAGE ").lower(), float(sections[title][0])
        lines = (line.rpartition(": ") for line in sections[title.replace("AVERAGE", "UID")])
        single = {name: float(value) for name, _, value in lines if name}
        is_mean = len(single) > 1 and abs(statistics.fmean(single.values()) - score) <= ROUNDING
        percent = 0.01 if metric == "accuracy" and max(score, *single.values()) > 1 else 1  # a share otherwise
        rows += [(metric, value * percent, name) for name, value in (single if is_mean else {None: score}).items()]
    return pd.DataFrame(rows, columns=["metric", "value", "item"]).assign(unit="share", direction="higher")


BABYLM = folders.results("the BabyLM evaluation", PLACES, r"TEMPERATURE: |(accuracy|f1|mcc): ", _of_report)
