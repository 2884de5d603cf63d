"""The command that runs each row of the report again."""

import json
import shlex

from harness import tags
from reports.comparison.labels import in_order
from reports.comparison.replicates import seed_order
from reports.comparison.study import Study
from reports.reading.store import Run
from reports.writing import formats
from reports.writing.chapter import Chapter
from reports.writing.formats import escape

HEADING = "## Run it again"
INTRO = "What has finished is skipped; `rerun=true` runs it again. A pretraining is run before the first task that needs it."

Overrides = tuple[str, ...]


def chapter(study: Study) -> Chapter:
    """One row an arm and command; empty where no run says what its command line was."""
    labels = {run.run_id: row.label for one in study.comparison.sections for row in one.rows for run in row.runs.values()}
    found: dict[tuple[str, Overrides], list[Run]] = {}
    for run in study.comparison.runs:
        said = None if run.is_pretraining else overrides(run)
        if said is not None:
            others = tuple(override for override in said if not override.startswith("task="))
            found.setdefault((labels[run.run_id], others), []).append(run)
    if not found:
        return Chapter()
    order = in_order((label for label, _ in found), study.comparison.baseline)
    lines = sorted(found, key=lambda key: order.index(key[0]))
    rows = [[escape(label), f"`{escape_code(command(others, found[label, others]))}`"] for label, others in lines]
    return Chapter([HEADING, INTRO, formats.table(["arm", "command"], rows, left=2)])


def overrides(run: Run) -> list[str] | None:
    """What the command line said of the run; None where its tag is missing or cannot be read."""
    try:
        known = json.loads(run.tags.get(tags.OVERRIDES, ""))
    except json.JSONDecodeError:
        return None
    return known if isinstance(known, list) and all(isinstance(one, str) for one in known) else None


def command(others: Overrides, runs: list[Run]) -> str:
    """For a shell, over all tasks and seeds of these runs."""
    swept = {"task": [run.task for run in runs], "seed": sorted({run.replicate.seed for run in runs}, key=seed_order)}
    pretrained = {run.replicate.pretrain_seed for run in runs}
    if all(pretrained) and any(run.replicate.pretrain_seed != run.replicate.seed for run in runs):
        swept["pretrain.seed"] = sorted(pretrained, key=seed_order)
    keys = [f"{key}={','.join(dict.fromkeys(values))}" for key, values in swept.items()]
    return shlex.join(["python", "-m", "harness", *(["-m"] if any("," in key for key in keys) else []), *others, *keys])


def escape_code(text: str) -> str:
    """Within backticks and in a table."""
    return " ".join(text.split()).replace("`", "'").replace("|", r"\|")
