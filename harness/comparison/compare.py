"""Which runs are compared with which: sections of rows, one section per task and conditions, one row per arm.

Runs under different conditions never meet in one section. A change is computed from the replicates that an arm shares with
the baseline; a counted metric does not depend on the seed.
"""

import functools
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from harness import tags
from harness.comparison import arms, comparable, launches
from harness.comparison import labels as naming
from harness.comparison.items import ErrorsOf, no_errors
from harness.comparison.labels import baseline_of, choose_baseline, replicate_order
from harness.comparison.launches import SectionKey, Sessions
from harness.comparison.paired import Replicate, grouped
from harness.comparison.runs import Run, states_text
from harness.comparison.section import Row, Section
from harness.errors import InputError

FREE_SETTINGS = (*arms.NAMES, *arms.SEEDS)
"""Settings, or groups of them, that may differ between the runs of one arm and are not reported."""
FIRST = ""
"""The first arm as the baseline: where which one it is does not matter."""
SMALL_ARMS, SMALL_RUNS = 6, 36
"""Most arms and runs of a small study."""


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
        """The runs that enter the comparison."""
        return [run for section in self.sections for run in section.runs]

    @functools.cached_property
    def is_small(self) -> bool:
        """Whether the report shows an answer, a table and a picture, and folds the rest: few runs, no pretraining."""
        pretrained = (run.is_pretraining or run.origin is not None for run in self.runs)
        return len(self.runs) <= SMALL_RUNS and len(self.labels) <= SMALL_ARMS and not any(pretrained)

    def has(self, metric: str) -> bool:
        """Whether any of these runs has the metric."""
        return any(metric in run.metrics for run in self.runs)

    @property
    def superseded(self) -> list[Run]:
        """Superseded runs of all sections."""
        return [run for section in self.sections for run in section.superseded]

    def diverged(self, row: Row) -> set[Replicate]:
        """Replicates of a row that diverged; without them the finished ones are a biased sample."""
        same = {(run.task, run.tags[tags.ARM], run.tags[tags.CONDITIONS]) for run in row.runs}
        runs = [run for run in self.left_out if run.status == "diverged"]
        lost = {run.replicate for run in runs if (run.task, run.tags[tags.ARM], run.tags[tags.CONDITIONS]) in same}
        return lost - row.by_replicate.keys()

    @functools.cached_property
    def selected(self) -> tuple[Section, ...]:
        """One section of each task: of its conditions those with the baseline, then with the most arms, then the newest.

        Pretrainings are those that the selected runs start from, where these are of any.
        """
        by_task = grouped((section.task, section) for section in self.sections)
        tasks = [max(group, key=_weight) for group in by_task.values() if not group[0].is_pretraining]
        origins = {run.origin for section in tasks for run in section.runs if run.origin}
        pretrainings = [group for group in by_task.values() if group[0].is_pretraining]
        first = [max(group, key=lambda section: (_used(section, origins), *_weight(section))) for group in pretrainings]
        return tuple(section for section in self.sections if section in (*first, *tasks))

    @property
    def others(self) -> list[str]:
        """The labels without the baseline."""
        return [label for label in self.labels if label != self.baseline]

    @property
    def tasks(self) -> list[Section]:
        """All sections except pretrainings."""
        return [section for section in self.sections if not section.is_pretraining]

    @property
    def pretrainings(self) -> list[Section]:
        """All sections of pretrainings."""
        return [section for section in self.sections if section.is_pretraining]

    @property
    def selected_tasks(self) -> list[Section]:
        """The selected sections except pretrainings."""
        return [section for section in self.selected if not section.is_pretraining]

    @functools.cached_property
    def labels(self) -> list[str]:
        """Every row's label once, the baseline first."""
        found = dict.fromkeys(row.label for section in self.sections for row in section.rows)
        return naming.in_order(found, self.baseline)


def compare(
    study: str, runs: list[Run], baseline: str | None = None, along: Iterable[str] = (), errors: ErrorsOf = no_errors
) -> Comparison:
    """The study's comparison, of runs oldest first, whose predictions `errors` reads; its baseline may be FIRST.

    InputError without a finished run, without the baseline, or for a key of `along` that no run has.
    """
    done = naming.with_newest_recipes([run for run in runs if run.status == "finished"])
    finished = [run for run in done if not run.is_aa_replicate]
    left_out = tuple(run for run in runs if run.status != "finished")
    if not finished:
        why = f"`{shlex.join(['python', '-m', 'harness', 'status', study])}` says why"
        states = states_text(run.status for run in runs)
        raise InputError(f"study {study!r} has no finished run ({states}); a report needs at least one; {why}")
    keys = naming.along_keys(finished, along)
    labels = naming.label_runs(done, keys)
    facts = comparable.conditions(done, naming.lifted_keys(done, keys))
    places = {run.run_id: SectionKey(run.task, arms.short_hash(facts[run.run_id])) for run in done}
    timed = launches.gather(done, labels, places)
    chosen = labels[finished[0].run_id] if baseline == FIRST else choose_baseline(finished, labels, baseline, left_out)
    groups = grouped(((run.task, arms.known(facts[run.run_id])), run) for run in finished)
    sections = []
    of_tasks = grouped((group[0].task, group) for group in groups.values())
    tasks = list(naming.by_task(finished))
    for group in sorted(groups.values(), key=lambda group: (not group[0].is_pretraining, tasks.index(group[0].task))):
        first, own_baseline = group[0].run_id, baseline_of(group, finished, labels, chosen)
        place, rows = places[first], _rows(group, labels, own_baseline, timed)
        name = place.task if len(of_tasks[place.task]) == 1 else f"{place.task} ({place.conditions})"
        sections.append(Section(place, name, facts[first], own_baseline, rows, timed, errors))
    return Comparison(study, chosen, tuple(sections), left_out, timed)


def _rows(runs: list[Run], labels: dict[str, str], baseline: str, timed: Sessions) -> tuple[Row, ...]:
    """Rows of a section; of the same arm and seeds the newest measured run counts. `runs` are oldest first."""
    of_label = grouped((labels[run.run_id], run) for run in runs)
    rows = []
    for label in naming.in_order(of_label, baseline):
        attempts = grouped((run.replicate, run) for run in sorted(of_label[label], key=lambda run: run.is_measured))
        attempts = {replicate: attempts[replicate] for replicate in sorted(attempts, key=replicate_order)}
        counted = {replicate: runs[-1] for replicate, runs in attempts.items()}
        rows.append(Row(label, counted, tuple(run for runs in attempts.values() for run in runs[:-1]), timed))
    return tuple(rows)


def differing_settings(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Dotted key -> its values where these runs differ, apart from seeds and from where results go."""
    settings = [run.params for run in runs]
    keys = [key for key in arms.varying(settings) if not arms.within(key, FREE_SETTINGS)]
    return {key: list(dict.fromkeys(setting.get(key, "not set") for setting in settings)) for key in keys}


def _weight(section: Section) -> tuple[bool, int, int]:
    return section.before is not None, len(section.rows), max(run.started for run in section.runs)


def _used(section: Section, origins: set[str]) -> int:
    """How many of its pretrainings are among these fingerprints."""
    return sum(run.tags.get(tags.FINGERPRINT) in origins for run in section.runs)
