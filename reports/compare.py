"""Which runs are compared with which, and what changed: sections of rows, one section per task and protocol.

Runs of different protocols never meet in one section. A change is computed from the seeds that a variant shares with the
baseline; a counted metric does not depend on the seed.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness import metrics
from reports import sessions
from reports.changes import Change, change
from reports.errors import ReportError, unknown
from reports.sessions import Rows, Sessions
from reports.statistics import Spread, spread
from reports.store import Run

FREE_SETTINGS = ("environment.", "tracking.")
"""Settings that may differ between the runs of one variant without changing what it is."""


@dataclass(frozen=True)
class Row:
    """The finished runs of one variant in one section, by seed."""

    label: str
    runs: dict[str, Run]

    def values(self, metric: str) -> dict[str, float]:
        """Seed -> value, for the seeds that have one."""
        return {seed: run.metrics[metric] for seed, run in self.runs.items() if metric in run.metrics}

    def spread(self, metric: str) -> Spread | None:
        """Over all of its own seeds, or over launches for what these measured; None where no run has the metric."""
        values = list(self.values(metric).values())
        return sessions.timed_spread(self.runs.values(), metric) or (spread(values) if values else None)

    def mean(self, metric: str) -> float | None:
        """Over all of its own seeds; None where no run has the metric."""
        seen = self.spread(metric)
        return seen.mean if seen else None


@dataclass(frozen=True)
class Section:
    """All that may be compared: one task under one protocol, the baseline's row first where it exists."""

    task: str
    protocol: str
    baseline: str
    rows: tuple[Row, ...]
    superseded: tuple[Run, ...]
    sessions: Sessions  # of the whole study

    @property
    def runs(self) -> list[Run]:
        return [run for row in self.rows for run in row.runs.values()]

    @property
    def is_pretraining(self) -> bool:
        return self.runs[0].is_pretraining

    @property
    def before(self) -> Row | None:
        """The baseline's row."""
        return next((row for row in self.rows if row.label == self.baseline), None)

    @property
    def headline(self) -> str | None:
        """Name of the task's headline score; None where no run says it."""
        return next((run.params["task.headline"] for run in self.runs if "task.headline" in run.params), None)

    def change(self, row: Row, metric: str) -> Change | None:
        """Against the baseline; None for the baseline itself and where nothing can be paired."""
        before = self.before
        if before is None or before is row:
            return None
        if sessions.is_timing(metric):
            return sessions.timed_change(self.sessions, self.against(row), metric)
        return change(metrics.get(metric), before.values(metric), row.values(metric))

    def against(self, row: Row) -> Rows:
        """The baseline's runs and this row's, as their timings are compared."""
        return Rows((self.task, self.protocol), self.baseline, self.before.runs if self.before else {}, row.runs)


@dataclass(frozen=True)
class Comparison:
    """A whole study, made comparable."""

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
    def labels(self) -> list[str]:
        """Every row's label once, the baseline first."""
        seen = dict.fromkeys(row.label for section in self.sections for row in section.rows)
        return in_order(seen, self.baseline)


def compare(study: str, runs: list[Run], baseline: str | None = None) -> Comparison:
    """The study's comparison, of runs given oldest first; ReportError without a finished run or without the baseline."""
    done = [run for run in runs if run.status == "finished"]
    finished = [run for run in done if not run.is_twin]
    left_out = tuple(run for run in runs if run.status != "finished")
    if not finished:
        states = ", ".join(f"{count} {status}" for status, count in sorted(Counter(run.status for run in runs).items()))
        raise ReportError(f"study {study!r} has no finished run ({states or 'no runs'}); a report needs at least one")
    labels = label_runs(done)
    timed = sessions.gather(done, labels)
    chosen = choose_baseline(finished, labels, baseline)
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in finished:
        groups.setdefault((run.tags["task"], run.tags[metrics.PROTOCOL_TAG]), []).append(run)
    ordered = sorted(groups.values(), key=lambda group: not group[0].is_pretraining)
    sections = tuple(_section(part, labels, baseline_of(part, finished, labels, chosen), timed) for part in ordered)
    return Comparison(study, chosen, sections, left_out, timed)


def label_runs(runs: list[Run]) -> dict[str, str]:
    """Run id -> variant, or variant@scale in a study of several scales."""
    several = len({run.tags["scale"] for run in runs}) > 1
    return {run.run_id: f"{run.tags['variant']}@{run.tags['scale']}" if several else run.tags["variant"] for run in runs}


def choose_baseline(runs: list[Run], labels: dict[str, str], given: str | None) -> str:
    """The baseline's label; ReportError, listing the labels, for one that does not exist or could be several."""
    choices = list(dict.fromkeys(labels.values()))
    name = "base" if given is None else given
    if name in choices:
        return name
    of_variant = _labels(runs, labels, lambda run: run.tags["variant"] == name)
    fitting = of_variant or _labels(runs, labels, lambda run: run.tags.get("model") == name)  # base stands for base+mlm too
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ReportError(f"baseline {name!r} could be {' or '.join(fitting)}; give one with --baseline")
    if given is None:
        raise ReportError(f"this study has no variant 'base' to compare with; name one with --baseline: {', '.join(choices)}")
    raise unknown("baseline", given, choices)


def baseline_of(group: list[Run], runs: list[Run], labels: dict[str, str], chosen: str) -> str:
    """The study's baseline, or for pretrainings of a study whose baseline has none: the one pretraining of the same encoder."""
    if not group[0].is_pretraining or any(labels[run.run_id] == chosen for run in group):
        return chosen
    encoders = {_encoder(run) for run in runs if labels[run.run_id] == chosen}
    alike = _labels(group, labels, lambda run: _encoder(run) in encoders)
    return alike[0] if len(alike) == 1 else chosen


def _encoder(run: Run) -> tuple[str, ...]:
    return run.tags.get("model", run.tags["variant"]), run.tags["scale"], run.tags.get("enhancements", "")


def _labels(runs: list[Run], labels: dict[str, str], fits: Callable[[Run], bool]) -> list[str]:
    return list(dict.fromkeys(labels[run.run_id] for run in runs if fits(run)))


def _section(runs: list[Run], labels: dict[str, str], baseline: str, timed: Sessions) -> Section:
    latest: dict[tuple[str, ...], Run] = {}
    superseded = []
    for run in runs:  # oldest first
        if run.identity in latest:
            superseded.append(latest[run.identity])
        latest[run.identity] = run
    rows: dict[str, dict[str, Run]] = {}
    for run in sorted(latest.values(), key=lambda run: seed_order(run.tags["seed"])):
        rows.setdefault(labels[run.run_id], {})[run.tags["seed"]] = run
    first = runs[0].tags
    ordered = tuple(Row(label, rows[label]) for label in in_order(rows, baseline))
    return Section(first["task"], first[metrics.PROTOCOL_TAG], baseline, ordered, tuple(superseded), timed)


def in_order(labels: Iterable[str], baseline: str) -> list[str]:
    """The baseline first, the others by name with numbers by size: in which order they ran was drawn."""
    return sorted(labels, key=lambda label: (label != baseline, [_numbered(part) for part in re.split(r"(\d+)", label)]))


def _numbered(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdecimal() else (0, part)


def seed_order(seed: str) -> tuple[int, str]:
    """Sorts seeds as numbers, and what is no number behind them."""
    return (int(seed), "") if seed.isdecimal() else (10**12, seed)


def differing_settings(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Dotted key -> its values where these runs differ, apart from the seed and from what may differ."""
    settings = [run.params for run in runs]
    keys = sorted(set().union(*settings)) if settings else []
    watched = [key for key in keys if not key.startswith(FREE_SETTINGS) and key.rpartition(".")[2] != "seed"]
    values = {key: list(dict.fromkeys(setting.get(key, "not set") for setting in settings)) for key in watched}
    return {key: seen for key, seen in values.items() if len(seen) > 1}


def differing_facts(sections: list[Section]) -> dict[str, list[object]]:
    """Protocol fact -> its value in each of these sections (None where unknown), for the facts that differ."""
    facts = [section.runs[0].facts for section in sections]
    keys = sorted(set().union(*facts))
    values = {key: [fact.get(key) for fact in facts] for key in keys}
    return {key: seen for key, seen in values.items() if any(value != seen[0] for value in seen)}
