"""Runs that do not count: those that did not finish, were not started, or are superseded by a newer one."""

from harness import tags
from reports.comparison.study import Study
from reports.reading import folders
from reports.writing import formats
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape

HEADING = "## Runs that do not count"
NOT_RUN = "Planned and not started, {count} of them; a budget of time (`sweep.budget_minutes`) leaves such runs out: {names}."
MOST = 50
SUPERSEDED = "superseded by a newer run"


def chapter(study: Study) -> Chapter:
    """A table of these runs by name and state; empty where every run counts."""
    runs = [(run, run.status) for run in study.comparison.left_out]
    runs += [(run, SUPERSEDED) for run in study.comparison.superseded]
    missing = folders.not_run(study.comparison.study, study.output)
    named = [NOT_RUN.format(count=len(missing), names=_titles(missing))] if missing else []
    if not runs:
        return Chapter([HEADING, *named] if named else [])
    rows = [[run.name, *(run.tags.get(tag, DASH) for tag in (tags.ARM, tags.TASK, tags.SEED)), state] for run, state in runs]
    table = formats.table(["run", "arm", "task", "seed", "state"], [[escape(text) for text in row] for row in rows], left=5)
    return Chapter([HEADING, table, *named])


def _titles(missing: list[str]) -> str:
    more = f" and {len(missing) - MOST} more" if len(missing) > MOST else ""
    return "; ".join(map(escape, missing[:MOST])) + more
