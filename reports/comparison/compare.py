"""Which runs are compared with which: sections of rows, one section per task and conditions, one row per arm.

Runs under different conditions never meet in one section. A change is computed from the replicates that an arm shares with
the baseline; a counted metric does not depend on the seed.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness import arms
from harness.paired import Replicate
from reports.comparison import labels as naming
from reports.comparison import sessions
from reports.comparison.baselines import baseline_of, choose_baseline
from reports.comparison.replicates import replicate_order
from reports.comparison.section import Row, Section
from reports.comparison.sessions import Place, Sessions
from reports.errors import ReportError
from reports.reading.store import Run, states_text

FREE_SETTINGS = (*arms.NAMES, *arms.SEEDS)
"""Settings, or groups of them, that may differ between the runs of one arm and are not reported."""


@dataclass(frozen=True)
class Comparison:
    """All sections of a study."""

    study: str
    baseline: str
    sections: tuple[Section, ...]
    left_out: tuple[Run, ...]
    sessions: Sessions

    @property
    def runs(self) -> list[Run]:
        """The runs that count."""
        return [run for section in self.sections for run in section.runs]

    @property
    def superseded(self) -> list[Run]:
        """Superseded runs of all sections."""
        return [run for section in self.sections for run in section.superseded]

    @functools.cached_property
    def labels(self) -> list[str]:
        """Every row's label once, the baseline first."""
        found = dict.fromkeys(row.label for section in self.sections for row in section.rows)
        return naming.in_order(found, self.baseline)


def compare(
    study: str, runs: list[Run], baseline: str | None = None, along: Iterable[str] = (), output: Path | None = None
) -> Comparison:
    """The study's comparison, of runs oldest first, whose files are in `output` or where they say.

    ReportError without a finished run, without the baseline, or for a key of `along` that no run has.
    """
    done = naming.with_newest_recipes([run for run in runs if run.status == "finished"])
    finished = [run for run in done if not run.is_aa_replicate]
    left_out = tuple(run for run in runs if run.status != "finished")
    if not finished:
        raise ReportError(f"study {study!r} has no finished run ({states_text(runs)}); a report needs at least one")
    keys = naming.along_keys(finished, along)
    labels = naming.label_runs(done, keys)
    lifted = naming.lifted_keys(done, keys)
    facts = {run.run_id: arms.conditions(run.facts, lifted[run.task]) for run in done}
    places = {run.run_id: Place(run.task, arms.short_hash(facts[run.run_id])) for run in done}
    timed = sessions.gather(done, labels, places)
    chosen = choose_baseline(finished, labels, baseline, left_out)
    groups: dict[tuple[str, arms.Known], list[Run]] = {}
    for run in finished:
        groups.setdefault((run.task, arms.known(facts[run.run_id])), []).append(run)
    sections = []
    tasks = list(naming.by_task(finished))
    for group in sorted(groups.values(), key=lambda group: (not group[0].is_pretraining, tasks.index(group[0].task))):
        first, own_baseline = group[0].run_id, baseline_of(group, finished, labels, chosen)
        rows = _rows(group, labels, own_baseline, timed)
        sections.append(Section(places[first], facts[first], own_baseline, rows, timed, output))
    return Comparison(study, chosen, tuple(sections), left_out, timed)


def _rows(runs: list[Run], labels: dict[str, str], baseline: str, timed: Sessions) -> tuple[Row, ...]:
    """Rows of a section; of runs of the same arm and seeds the newest counts. `runs` are oldest first."""
    found: dict[str, dict[Replicate, list[Run]]] = {}
    for run in runs:
        found.setdefault(labels[run.run_id], {}).setdefault(run.replicate, []).append(run)
    rows = []
    for label in naming.in_order(found, baseline):
        attempts = {replicate: found[label][replicate] for replicate in sorted(found[label], key=replicate_order)}
        counted = {replicate: runs[-1] for replicate, runs in attempts.items()}
        rows.append(Row(label, counted, tuple(run for runs in attempts.values() for run in runs[:-1]), timed))
    return tuple(rows)


def differing_settings(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Dotted key -> its values where these runs differ, apart from seeds and from where results go."""
    settings = [run.params for run in runs]
    keys = [key for key in arms.varying(settings) if not arms.within(key, FREE_SETTINGS)]
    return {key: list(dict.fromkeys(setting.get(key, "not set") for setting in settings)) for key in keys}
