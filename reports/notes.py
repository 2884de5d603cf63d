"""What a reader must know beside the numbers: conditions, superseded runs, unpaired seeds, differing settings and protocols."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from reports import formats
from reports.compare import Comparison, Section, differing_facts, differing_settings, seed_order
from reports.formats import escape
from reports.store import Run

SHOWN_VALUES = 5
SAID_ELSEWHERE = ("device", "dtype", "threads", "compile", "git_commit", "git_dirty", "load_average", "measure_version")
SAID_ELSEWHERE += ("energy_counter",)
"""Facts of the environment that a header line of their own, or the protocol, tells already."""
FACT_WORDS = {
    "pretrain.objective": "objective of pretraining",
    "pretrain.tokens": "pretraining budget in tokens",
    "pretrain.steps": "pretraining budget in steps",
    "pretrain.flops": "pretraining budget in FLOPs",
    "pretrain.seconds": "pretraining budget in seconds",
    "pretrain.length": "tokens of a pretraining sequence",
    "pretrain.batch_size": "sequences of a pretraining step",
    "pretrain.mask_rate": "share of tokens predicted in pretraining",
    "pretrain.masking": "what is masked in pretraining",
    "pretrain.learning_rate": "learning rate of pretraining",
    "pretrain.probe_steps": "steps of the probe for masked tokens",
    "pretrain.eval_sequences": "held-out sequences of pretraining",
    "corpus.name": "corpus of pretraining",
    "corpus.key": "content of the corpus",
    "tokenizer.trained_on": "text that the tokenizer was trained on",
}
"""Protocol fact -> what it is; other facts are told by their key alone."""


def header(comparison: Comparison) -> str:
    """What was run on what, as a Markdown list."""
    runs = comparison.runs
    facts = {
        "study": escape(comparison.study),
        "newest run": f"{datetime.fromtimestamp(max(run.started for run in runs) / 1000, UTC):%Y-%m-%d %H:%M} UTC",
        "baseline": escape(comparison.baseline),
        "variants": listed(comparison.labels, most=None),
        "tasks": listed((section.task for section in comparison.sections if not section.is_pretraining), most=None) or "none",
        "seeds": listed(sorted({run.tags["seed"] for run in runs}, key=seed_order), most=None),
        "runs": f"{len(runs)} counted, {len(comparison.left_out)} left out",
        "hardware": listed(run.tags.get("hardware", "not recorded") for run in runs),
        "code": listed(_commit(run) for run in runs),
    }
    facts["load average"] = _load_range(runs)
    facts |= _energy(runs)
    facts["versions"] = ", ".join(
        f"{escape(key.removeprefix('environment.'))} {listed(run.params.get(key, 'not recorded') for run in runs)}"
        for key in sorted({key for run in runs for key in run.params if key.startswith("environment.")})
        if key.removeprefix("environment.") not in SAID_ELSEWHERE
    )
    return "\n".join(f"- **{name}**: {fact}" for name, fact in facts.items())


def listed(values: Iterable[str], most: int | None = SHOWN_VALUES) -> str:
    """Each value once, escaped; of more than `most` the rest is counted."""
    seen = list(dict.fromkeys(values))
    shown = seen[:most]
    more = f" and {len(seen) - len(shown)} more" if len(seen) > len(shown) else ""
    return ", ".join(escape(value) for value in shown) + more


def _load_range(runs: list[Run]) -> str:
    """Load of the machine when the runs began: other work beside them disturbs what is timed."""
    given = [run.params.get("environment.load_average", "") for run in runs]
    loads = [float(value) for value in given if value.replace(".", "", 1).isdigit()]
    return f"{min(loads):.1f} to {max(loads):.1f}" if loads else "not recorded"


def _energy(runs: list[Run]) -> dict[str, str]:
    """Which counters there are, where all runs say it."""
    told = [run.params.get("environment.energy_counter") for run in runs]
    if None in told:
        return {}
    if set(told) == {"None"}:
        return {"energy": "not available, no counter on this machine (or none that may be read)"}
    return {"energy": "counted by " + listed("no counter" if name == "None" else name for name in told)}


def _commit(run: Run) -> str:
    commit = run.tags.get("git_commit", "not recorded")[:12]
    return f"{commit} with uncommitted changes" if run.tags.get("git_dirty") == "true" else commit


def section_notes(section: Section) -> list[str]:
    """Sentences on this section, in order of weight."""
    return [
        *_missing_baseline(section),
        *_unpaired(section),
        *_differing(section),
        *_superseded(section),
    ]


def _missing_baseline(section: Section) -> list[str]:
    if section.before:
        return []
    return [f"The baseline {escape(section.baseline)} has no finished run here: no change can be computed."]


def _unpaired(section: Section) -> list[str]:
    before = section.before
    odd = [row for row in section.rows if before and set(row.runs) != set(before.runs)]
    return [
        f"{escape(row.label)} ran seeds {_seeds(row.runs)}, the baseline {_seeds(before.runs)}: changes use "
        f"{_seeds(row.runs.keys() & before.runs.keys()) or 'none of them'} (counted metrics do not depend on the seed)."
        for row in odd
    ]


def _seeds(seeds: Iterable[str]) -> str:
    return ", ".join(escape(seed) for seed in sorted(seeds, key=seed_order))


def _differing(section: Section) -> list[str]:
    differing = {row.label: differing_settings(row.runs.values()) for row in section.rows}
    return [
        f"The seeds of {escape(label)} differ in {_settings(settings)}." for label, settings in differing.items() if settings
    ]


def _settings(settings: dict[str, list[str]]) -> str:
    return "; ".join(f"{escape(key)} ({listed(values)})" for key, values in settings.items())


def _superseded(section: Section) -> list[str]:
    if not section.superseded:
        return []
    counted = {run.identity: run for run in section.runs}
    keys = {key for old in section.superseded for key in differing_settings([old, counted[old.identity]])}
    count = len(section.superseded)
    note = f"{count} older run{'s' * (count > 1)} of the same cell {'were' if count > 1 else 'was'} superseded by the latest."
    return [note + (f" They had other settings: {listed(sorted(keys))}." if keys else "")]


def protocol_differences(comparison: Comparison, section: Section) -> str | None:
    """How the protocols of this section's task differ, as a table; None where the task has only one."""
    sections = [other for other in comparison.sections if other.task == section.task]
    if len(sections) < 2:
        return None
    intro = f"**{escape(section.task)} was run under {len(sections)} protocols, which are not compared with one another.**"
    facts = differing_facts(sections)
    if not facts:
        return f"{intro} What differs between them was not recorded."
    rows = [[_fact_name(key), *(_fact(value) for value in values)] for key, values in facts.items()]
    header = ["fact", *(escape(other.protocol) + " (this one)" * (other is section) for other in sections)]
    return f"{intro} They differ in:\n\n{formats.table(header, rows, left=len(header))}"


def _fact_name(key: str) -> str:
    return f"{FACT_WORDS[key]} ({escape(key)})" if key in FACT_WORDS else escape(key)


def _fact(value: object) -> str:
    if value is None:
        return formats.DASH
    return escape(value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def left_out(runs: Iterable[Run]) -> str:
    """A table of the runs that do not count, by name and state."""
    rows = [[run.name, *(run.tags.get(tag, formats.DASH) for tag in ("variant", "task", "seed")), run.status] for run in runs]
    return formats.table(["run", "variant", "task", "seed", "state"], [[escape(text) for text in row] for row in rows], left=5)
