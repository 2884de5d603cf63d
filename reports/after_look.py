"""Verdicts on the finished runs of a sweep, judged as in its report: before timing, and at every interim analysis
(`sweep.until`).

python -m reports.after_look, with a JSON object on stdin: the `study`, the `folders` of its runs and its `output`, and
`baselines`, of which the first that there is counts. With `headline`, a metric or null, prints, as JSON, a text of every arm
and which arms are inconclusive; without it what the report opens with, a `harness.document.Screen` or null.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness import metrics, processes
from harness.command import refused
from harness.comparison.compare import Comparison
from harness.comparison.overall import of_pretrainings, of_tasks
from harness.comparison.plateau import LOSS
from harness.comparison.runs import oldest_first
from harness.comparison.section import HEADLINE
from harness.comparison.verdicts import Change, Verdict
from harness.document import DASH
from harness.errors import InputError
from harness.metrics import PER_BYTE, Compared, has_one_vocabulary
from harness.reports.read import compare_with_first
from harness.reports.reading import folders
from harness.reports.screen import screen
from harness.reports.writing import tables

RESOLVED = (Verdict.BETTER, Verdict.WORSE, Verdict.SAME, Verdict.EQUAL)


def judge(comparison: Comparison, headline: str | None = None) -> dict[str, Any]:
    """Arm -> its change in the headline in words, and the arms that more seeds may still resolve; InputError without a value.

    The headline is the mean score over tasks, or for pretrainings the held-out masked loss, per byte if vocabularies differ.
    """
    by_token = has_one_vocabulary(run.params for run in comparison.runs)
    names = (headline,) if headline else (HEADLINE, LOSS if by_token else PER_BYTE[LOSS])
    candidates = [(name, over) for name in names for over in (of_tasks(comparison), of_pretrainings(comparison))]
    having = ((name, over) for name, over in candidates if any(over.having(label, name) for label in over.labels))
    first = next(having, None)
    if first is None:
        raise InputError(f"no run has a value of {headline or 'the headline'} (sweep.headline)")
    name, over = first
    changes = {label: over.change(label, name) for label in comparison.others}
    unit = metrics.get(name).unit
    texts = {
        label: f"{tables.size_text(change, unit)} {tables.verdict_text(change, unit)}" if change else DASH
        for label, change in changes.items()
    }
    return {"arms": texts, "unresolved": [label for label, change in changes.items() if is_open(change)]}


def is_open(change: Change | None) -> bool:
    """Whether more seeds may change the verdict; false for what is not comparable."""
    return change is None or (change.verdict not in RESOLVED and change.evidence is not None)


def main() -> int:
    """Returns 0; 2, with one line on stderr, for runs that cannot be judged."""
    request = json.load(sys.stdin)
    try:
        runs = [folders.run_of(Path(folder)) for folder in request["folders"]]
        if "headline" not in request:  # what the clock of one training says is in the report: here it would fill a second table
            shown = {name for name, metric in metrics.METRICS.items() if metric.compared is not Compared.OWN_CLOCK}
            runs = [replace(run, metrics={key: run.metrics[key] for key in run.metrics if key in shown}) for run in runs]
        runs = oldest_first(runs)
        comparison = compare_with_first(request["study"], runs, Path(request["output"]), request["baselines"])
        looked = judge(comparison, request["headline"]) if "headline" in request else screen(comparison)
        print(msgspec.json.encode(looked).decode())
        return 0
    except InputError as error:
        return refused(error)


if __name__ == "__main__":
    processes.leave(main())
