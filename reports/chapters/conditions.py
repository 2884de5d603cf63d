"""What was run on what, with which versions: the last page."""

from datetime import UTC, datetime

from harness import tags
from reports.comparison.compare import Comparison
from reports.comparison.replicates import seed_order
from reports.comparison.study import Study
from reports.reading.store import Run
from reports.writing.chapter import Chapter
from reports.writing.formats import escape, listed

SHOWN_ELSEWHERE = ("device", "dtype", "threads", "compile", "git_commit", "git_dirty", "load_average", "measure_version")
SHOWN_ELSEWHERE += ("energy_counter",)
"""Facts of the environment that another line of the header, or the conditions, show already."""


def chapter(study: Study) -> Chapter:
    """Always there."""
    return Chapter(["## Conditions", header(study.comparison)])


def header(comparison: Comparison) -> str:
    """What was run on what, as a Markdown list."""
    runs = comparison.runs
    facts = {
        "study": escape(comparison.study),
        "newest run": f"{datetime.fromtimestamp(max(run.started for run in runs) / 1000, UTC):%Y-%m-%d %H:%M} UTC",
        "baseline": escape(comparison.baseline),
        "arms": listed(comparison.labels, most=None),
        "tasks": listed((section.task for section in comparison.sections if not section.is_pretraining), most=None) or "none",
        "seeds": _seeds(runs),
        "runs": f"{len(runs)} counted, {len(comparison.left_out)} left out",
        "hardware": listed(run.tags.get(tags.HARDWARE, "not recorded") for run in runs),
        "code": listed(_commit(run) for run in runs),
        "load average": _load_range(runs),
    }
    if comparison.superseded:
        facts["runs"] += f", {len(comparison.superseded)} superseded"
    facts |= _energy(runs)
    facts["versions"] = ", ".join(
        f"{escape(key.removeprefix('environment.'))} {listed(run.params.get(key, 'not recorded') for run in runs)}"
        for key in sorted({key for run in runs for key in run.params if key.startswith("environment.")})
        if key.removeprefix("environment.") not in SHOWN_ELSEWHERE
    )
    return "\n".join(f"- **{name}**: {fact}" for name, fact in facts.items())


def _seeds(runs: list[Run]) -> str:
    """Of fine-tunings, and of pretrainings where there are any."""
    replicates = {run.replicate for run in runs}
    pretrainings = sorted({one.pretrain_seed for one in replicates if one.pretrain_seed}, key=seed_order)
    seeds = listed(sorted({run.replicate.seed for run in runs if not run.is_pretraining}, key=seed_order), most=None)
    if not pretrainings:
        return seeds
    return f"{seeds or 'none'} (of pretraining: {listed(pretrainings, most=None)})"


def _load_range(runs: list[Run]) -> str:
    """Load of the machine when the runs began: other work beside them disturbs what is timed."""
    recorded = [run.params.get("environment.load_average", "") for run in runs]
    loads = [float(value) for value in recorded if value.replace(".", "", 1).isdigit()]
    return f"{min(loads):.1f} to {max(loads):.1f}" if loads else "not recorded"


def _energy(runs: list[Run]) -> dict[str, str]:
    """Which counters there are; nothing unless all runs say it."""
    counters = [run.params.get("environment.energy_counter") for run in runs]
    if None in counters:
        return {}
    if set(counters) == {"None"}:
        return {"energy": "not available, no counter on this machine (or none that may be read)"}
    return {"energy": "counted by " + listed("no counter" if name == "None" else name for name in counters)}


def _commit(run: Run) -> str:
    commit = run.tags.get(tags.GIT_COMMIT, "not recorded")[:12]
    return f"{commit} with uncommitted changes" if run.tags.get(tags.GIT_DIRTY) == "true" else commit
