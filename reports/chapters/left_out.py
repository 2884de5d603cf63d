"""Runs that do not count: those that did not finish, and those that a newer one supersedes."""

from harness import tags
from reports.comparison.study import Study
from reports.writing import formats
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape

SUPERSEDED = "superseded by a newer run"


def chapter(study: Study) -> Chapter:
    """A table of these runs by name and state; empty where every run counts."""
    runs = [(run, run.status) for run in study.comparison.left_out]
    runs += [(run, SUPERSEDED) for run in study.comparison.superseded]
    if not runs:
        return Chapter()
    rows = [[run.name, *(run.tags.get(tag, DASH) for tag in (tags.ARM, tags.TASK, tags.SEED)), state] for run, state in runs]
    table = formats.table(["run", "arm", "task", "seed", "state"], [[escape(text) for text in row] for row in rows], left=5)
    return Chapter(["## Runs that do not count", table])
