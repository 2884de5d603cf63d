"""What theory expects of an arm on a generated task, and whether its score is as expected.

A run has its expectation in its tags, as the harness computed it from the encoder's shape before training.
"""

import enum

from harness.comparison.compare import Comparison
from harness.comparison.paired import grouped
from harness.comparison.runs import Run
from harness.comparison.section import HEADLINE
from harness.errors import some_of
from harness.reports.writing.formats import enumerated, escape

EXPECTED, LOW, HIGH = "expected", "expected_low", "expected_high"
MISSED = {"solves": "score too low", "cannot": "score too high"}
DOES = {"solves": ("solves", "solve"), "cannot": ("cannot solve", "cannot solve")}
"""Expectation -> how it is said where it is missed; where it holds, of one arm and of several."""
MOST = 6
"""Contradictions that the sentence names."""


class Outcome(enum.Enum):
    """Whether a score is as expected."""

    AGREE = "agree"
    DISAGREE = "**DISAGREE**"
    OPEN = "open"


def outcome(run: Run) -> Outcome | None:
    """Whether the run's score is as expected; None without an expectation or a score."""
    if EXPECTED not in run.tags or HEADLINE not in run.metrics:
        return None
    score, expected = run.metrics[HEADLINE], run.tags[EXPECTED]
    if expected not in ("solves", "cannot"):
        return Outcome.OPEN
    agrees = score >= float(run.tags[HIGH]) if expected == "solves" else score <= float(run.tags[LOW])
    return Outcome.AGREE if agrees else Outcome.DISAGREE


def sentence(comparison: Comparison) -> list[str]:
    """Scores that contradict theory, else what is as it expects; empty where it expects nothing."""
    tasks_of: dict[tuple[str, str], list[str]] = {}
    against = []
    for section in comparison.selected_tasks:
        for row in section.rows:
            of_row = [(run, result) for run in row.runs if (result := outcome(run)) not in (None, Outcome.OPEN)]
            for expected, results in grouped((run.tags[EXPECTED], result) for run, result in of_row).items():
                wrong, where = results.count(Outcome.DISAGREE), f"{escape(row.label)} on {escape(section.name)}"
                if wrong:
                    count = f" in {wrong} of {len(results)} runs" if len(results) > 1 else ""
                    against.append(f"{where} ({MISSED[expected]}{count})")
                else:
                    tasks_of.setdefault((expected, escape(row.label)), []).append(escape(section.name))
    if against:
        return [f"**Contradicts theory, a bug until explained**: {some_of(against, MOST, '; ')}."]
    arms_of = grouped(((expected, enumerated(tasks)), arm) for (expected, arm), tasks in tasks_of.items())
    texts = (f"{enumerated(arms)} {DOES[expected][len(arms) > 1]} {tasks}" for (expected, tasks), arms in arms_of.items())
    return [f"**As theory expects**: {'; '.join(texts)}."] if arms_of else []
