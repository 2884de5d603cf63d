"""GLUE as the paper on BERT states it, beside what finished runs reached here: `python -m harness audit --glue`."""

from statistics import fmean

from harness import tags
from harness.comparison.paired import grouped
from harness.comparison.runs import Run
from harness.metrics import SCORE_TITLES
from harness.terminal import DASH, Row, counted, table, wrapped

STATED = "arXiv:1810.04805, table 1, page 6"
SYSTEMS = ("before GPT", "ELMo", "GPT", "BERT-base", "BERT-large")
ROWS: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (
    ("MNLI, matched", "mnli", "accuracy", (80.6, 76.4, 82.1, 84.6, 86.7)),
    ("MNLI, mismatched", "mnli", "accuracy_mismatched", (80.1, 76.1, 81.4, 83.4, 85.9)),
    ("QQP", "qqp", "f1", (66.1, 64.8, 70.3, 71.2, 72.1)),
    ("QNLI", "qnli", "accuracy", (82.3, 79.8, 87.4, 90.5, 92.7)),
    ("SST-2", "sst2", "accuracy", (93.2, 90.4, 91.3, 93.5, 94.9)),
    ("CoLA", "cola", "matthews", (35.0, 36.0, 45.4, 52.1, 60.5)),
    ("STS-B", "stsb", "spearman", (81.0, 73.3, 80.0, 85.8, 86.5)),
    ("MRPC", "mrpc", "f1", (86.0, 84.9, 82.3, 88.9, 89.3)),
    ("RTE", "rte", "accuracy", (61.7, 56.8, 56.0, 66.4, 70.1)),
)
"""Title, task, metric, and the points of each of SYSTEMS on the test set."""


def compared(runs: list[Run]) -> str:
    """The table, and where its numbers are from."""
    rows: list[Row] = []
    for title, task, metric, stated in ROWS:
        name = SCORE_TITLES[metric.partition("_")[0]]
        rows.append((f"{title} ({name})", *(f"{score:.1f}" for score in stated), *best(runs, task, f"eval/{metric}")))
    columns = zip(*(stated for *_, stated in ROWS), strict=True)
    rows.append(("mean", *(f"{fmean(column):.1f}" for column in columns), DASH, ""))
    head = ("task", *SYSTEMS, "here", "best arm of the finished runs")
    notes = [
        f"Stated in {STATED}, on the test sets, one submission each. Before GPT: the best system of each task; ELMo: a BiLSTM "
        "with its vectors and attention. The mean is of these rows.",
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
