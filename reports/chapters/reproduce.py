"""The commands that ran the study, as they were typed: arms of one command are timed in one session."""

import shlex
from collections.abc import Iterable

from harness import tags
from reports.comparison.labels import in_order
from reports.comparison.study import Study
from reports.reading.store import Run
from reports.writing import formats
from reports.writing.chapter import Chapter
from reports.writing.formats import listed

HEADING = "## Run it again"
INTRO = """\
The commands of the runs that count, in their order; arms of one command are timed in one session. What has finished is skipped:
`rerun=true` runs it again, `sweep.retime=true` times it again. Relative paths begin where the command was typed."""
MOST = 6
"""Arms that are named."""
AGAIN = ("rerun=true", "sweep.retime=true", "sweep.quiet=true", "-q", "--quiet")
"""Words that repeat what is finished, or print less."""


def chapter(study: Study) -> Chapter:
    """One row a command; empty where no run says its own."""
    comparison = study.comparison
    labels = {run.run_id: row.label for one in comparison.sections for row in one.rows for run in row.runs.values()}
    rows = []
    for command, runs in commands(run for run in comparison.runs if not run.elsewhere).items():
        arms = in_order({labels[run.run_id] for run in runs}, comparison.baseline)
        rows.append([listed(arms, most=MOST), str(len(runs)), f"`{escape_code(command)}`"])
    return Chapter([HEADING, INTRO, formats.table(["arms", "runs", "command"], rows, left=3)] if rows else [])


def commands(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Command for a shell -> its runs, oldest first; passwords in it are hidden."""
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.started, run.run_id)):
        if said := run.tags.get(tags.COMMAND):
            words = [word for word in shlex.split(said) if word.lstrip("+") not in AGAIN]
            found.setdefault(shlex.join(["python", "-m", *words]), []).append(run)
    return found


def escape_code(text: str) -> str:
    """Within backticks and in a table."""
    return " ".join(text.split()).replace("`", "'").replace("|", r"\|")
