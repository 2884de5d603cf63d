"""GLUE as the paper on BERT states it, beside what finished runs reached here: `python -m harness audit --glue`."""

from pathlib import Path
from statistics import fmean

import yaml

from harness import tags
from harness.comparison.paired import grouped
from harness.comparison.runs import Run
from harness.metrics import SCORE_TITLES
from harness.terminal import DASH, Row, counted, table, wrapped

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
ROWS = TABLE["rows"]


def compared(runs: list[Run]) -> str:
    """The table, and where its numbers are from."""
    rows: list[Row] = []
    for row in ROWS:
        title = f"{row['title']} ({SCORE_TITLES[row['metric'].partition('_')[0]]})"
        rows.append((title, *(f"{score:.1f}" for score in row["stated"]), *best(runs, row["task"], f"eval/{row['metric']}")))
    means = zip(*(row["stated"] for row in ROWS), strict=True)
    rows.append(("mean", *(f"{fmean(scores):.1f}" for scores in means), DASH, ""))
    head = ("task", *TABLE["systems"], "here", "best arm of the finished runs")
    notes = [
        "Stated in arXiv:1810.04805, table 1, page 6, on the test sets, one submission each. Before GPT: the best system of "
        "each task; ELMo: a BiLSTM with its vectors and attention. The mean is of these rows.",
        "Here: on the validation sets, the mean over the runs of an arm. That is another split, and the best is chosen "
        "afterwards: it shows what was reached, not which is better.",
    ]
    return "\n".join([table(head, rows, "lrrrrrrl"), "", *map(wrapped, notes)])


def best(runs: list[Run], task: str, metric: str) -> tuple[str, str]:
    """The points of the arm with the highest mean, and its name; dashes without a run that has the metric."""
    arms = grouped(
        ((run.tags[tags.ARM], run.tags.get(tags.SCALE, "")), run.metrics[metric])
        for run in runs
        if run.tags.get(tags.TASK) == task and metric in run.metrics and run.tags.get(tags.REPLICATE) != "true"
    )
    if not arms:
        return DASH, DASH
    (arm, scale), scores = max(arms.items(), key=lambda item: fmean(item[1]))
    named = ", ".join(filter(None, (arm, scale, counted(len(scores), "run"))))
    return f"{100 * fmean(scores):.1f}", named
