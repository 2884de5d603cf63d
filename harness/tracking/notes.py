"""The descriptions of runs and studies in MLflow, in Markdown: what it is, how it went, score, cost, and where the rest is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import metrics, tags

LOSS = "pretrain/masked_loss"

SHOWN = (
    *("eval/score", "eval/majority_score", LOSS, "pretrain/masked_accuracy", "pretrain/tokens"),
    *("model/params_total", "model/flops_forward", "inference/latency_ms_p50", "inference/tokens_per_s"),
    *("inference/peak_memory_bytes", "finetune/tokens_per_s", "finetune/duration_s", "finetune/peak_memory_bytes"),
    *("pretrain/tokens_per_s", "pretrain/duration_s", "pretrain/peak_memory_bytes"),
)
"""Metrics in the table of a run: score, size, speed, memory."""

COSTS = {
    "model/params_total": "parameters",
    "inference/latency_ms_p50": "latency",
    "inference/peak_memory_bytes": "memory",
    "finetune/duration_s": "fine-tuning",
    "pretrain/duration_s": "pretraining",
}
"""In the first sentence of a run, which the page shows without unfolding the rest."""

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
PREFIXED = {"bytes": "B", "FLOP": "FLOP", "parameters": "", "tokens": "tokens", "tokens/s": "tokens/s"}
"""Units that get a prefix -> how they are written."""

MOST_CHARACTERS = 4000
"""Of a study's description: MLflow keeps 8,000 of a tag."""

TRAINING = "workflowType=machine_learning"
"""Of an address: without it MLflow's pages are those for language-model apps."""

REPORT_FOLDER = "report"
"""In the files of a study's run."""


@dataclass(frozen=True)
class Links:
    """Addresses within MLflow's pages."""

    experiment: str
    study_run: str | None = None
    files: tuple[str, ...] = ()  # of the report

    @property
    def report(self) -> str | None:
        """Page of the study's run with its report, in HTML where there is one; with all its files before it is written."""
        page = f"#/experiments/{self.experiment}/runs/{self.study_run}/artifacts"
        names = [f"/{REPORT_FOLDER}/{name}" for name in ("report.html", "report.md") if name in self.files]
        return self.study_run and f"{page}{names[0] if names else ''}?{TRAINING}"


def of_run(record: Mapping[str, Any], values: Mapping[str, float], status: str, folder: Path, links: Links) -> str:
    """What the run is, how it ended, its main numbers, and links to files and report."""
    known = record["tags"]
    lines = [f"{_what(known)}. {status.capitalize().replace('_', ' ')}{_score(values)}{_cost(values)}.", ""]
    lines += [f"`{end['reason']}`", ""] if (end := record.get(tags.END)) and end["reason"] else []
    rows = [
        f"| {metrics.get(key).title} | {value_text(key, values[key])}{_interval(key, values)} |"
        for key in SHOWN
        if key in values
    ]
    lines += ["| | |", "| :-- | --: |", *rows, ""] if rows else []
    lines += [f"**{known[tags.WARNING]}**", ""] if tags.WARNING in known else []
    lines.append(f"Files: `{folder.parent.name}/{folder.name}` below the output folder, and under Artifacts.")
    if links.report:
        lines.append(f"[Report of the study]({links.report})")
    return "\n".join(lines)


def _what(known: Mapping[str, str]) -> str:
    kind = "A second timing of " if known.get(tags.REPLICATE) == "true" else ""
    place = ", ".join(f"{name} {known[name]}" for name in (tags.SCALE, tags.SEED) if name in known)
    return f"{kind}**{known.get(tags.ARM, 'run')}** on *{known.get(tags.TASK, 'no task')}*, {place}"


def _score(values: Mapping[str, float]) -> str:
    if "eval/score" not in values:
        return f": held-out masked loss {values[LOSS]:.3f} nats" if LOSS in values else ""
    constant = f" (constant answer {values['eval/majority_score']:.3f})" if "eval/majority_score" in values else ""
    return f": score {values['eval/score']:.3f}{constant}"


def _cost(values: Mapping[str, float]) -> str:
    texts = [f"{title} {value_text(key, values[key])}" for key, title in COSTS.items() if key in values]
    return f"; {', '.join(texts)}" if texts else ""


def _interval(key: str, values: Mapping[str, float]) -> str:
    """` [6.5, 7.3]` where the run measured its 95 % interval."""
    ends = [values.get(f"{key}_{end}") for end in ("low", "high")]
    return "" if None in ends else f" [{ends[0]:.4g}, {ends[1]:.4g}]"


def value_text(key: str, value: float) -> str:
    """`12.3 ms`, `34.1 MB`, `900.7 k`: three or four digits and the declared unit."""
    unit = metrics.get(key).unit
    if unit in PREFIXED:
        size, prefix = next(((size, prefix) for size, prefix in PREFIXES if abs(value) >= size), (1, ""))
        return f"{value / size:.4g} {prefix}{PREFIXED[unit]}".rstrip()
    if unit in ("score", "share"):
        return f"{value:.3f}"
    return f"{value:.4g} {unit}"


def of_study(study: str, plan: Sequence[Mapping[str, str]], command: str, links: Links, report: str | None = None) -> str:
    """What was compared, the beginning of its report, and where the rest is. `plan`: the tags of each planned run."""
    link = f" [The whole report]({links.report})" if report and links.report else ""  # the page shows the first line unfolded
    lines = [f"**{study}**: {_counted(plan)}.{link}", "", *([f"Command: `{command}`", ""] if command else [])]
    lines += [beginning(report)] if report else ["The report is written when a sweep ends: `python -m reports`."]
    return "\n".join(lines)


def _counted(plan: Sequence[Mapping[str, str]]) -> str:
    """`12 runs: 2 arms (base, albert), 3 tasks (bag, order, distance), 2 seeds`."""
    parts = []
    for tag, noun in ((tags.ARM, "arm"), (tags.TASK, "task"), (tags.SEED, "seed")):
        names = list(dict.fromkeys(known[tag] for known in plan if tag in known))
        listed = f" ({', '.join(names)})" if tag != tags.SEED and len(names) <= 8 else ""
        parts.append(f"{len(names)} {noun}{'s'[: len(names) != 1]}{listed}")
    return f"{len(plan)} run{'s'[: len(plan) != 1]}: {', '.join(parts)}"


def beginning(report: str) -> str:
    """The first chapters of a report in Markdown without their pictures, which this page does not show."""
    chapters = re.split(r"(?m)^(?=## )", re.sub(r"(?m)^!\[.*\n?", "", report))
    kept = chapters[0]
    for chapter in chapters[1:]:
        if len(kept) + len(chapter) > MOST_CHARACTERS:
            break
        kept += chapter
    return kept[:MOST_CHARACTERS].rstrip()


def plan_table(plan: Sequence[Mapping[str, str]]) -> str:
    """One row a planned run, in the order of running."""
    rows = [" | ".join((str(number), *(known.get(key, "-") for key in PLANNED))) for number, known in enumerate(plan, 1)]
    return "\n".join([f"| | {' | '.join(PLANNED)} |", f"| --: |{' :-- |' * len(PLANNED)}", *(f"| {row} |" for row in rows), ""])


PLANNED = (tags.ARM, tags.SCALE, tags.TASK, tags.SEED, tags.PRETRAIN_SEED, "folder", tags.STATUS)
"""Columns of the plan."""
