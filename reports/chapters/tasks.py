"""The tasks, each with its scores, and what to know of the pretrainings that they start from."""

from harness import tags
from harness.comparison import plateau
from harness.comparison.compare import Comparison
from harness.comparison.paired import grouped
from harness.comparison.section import Section
from harness.document import DASH
from harness.document import Section as Part
from harness.reports.chapters import timing
from harness.reports.reading.study import Study
from harness.reports.writing import findings, formats, section_text
from harness.reports.writing.formats import Chapter, bullets, escape, listed

OVERLAP = "corpus/overlap"
OVERLAP_LENGTH = 13
"""Tokens of an n-gram."""


def chapter(study: Study) -> Chapter:
    """The sections of all tasks, after what to know of several; empty if the study has only pretrainings."""
    comparison = study.comparison
    is_single = len(comparison.selected_tasks) < 2
    every = [
        (
            section,
            [
                *notes_of_task(comparison, section),
                *section_text.notes(comparison, section, with_data=is_single),
                *timing.notes(section),
                *section_text.notes_of_scores(section),
            ],
        )
        for section in comparison.tasks
    ]
    if is_single:
        return Chapter([section_text.chapter(comparison, *one) for one in every])
    tasks_of = sorted(grouped((text, section.name) for section, notes in every for text in notes).items())
    said = [text if len(names) == len(every) else f"{listed(names)}: {text}" for text, names in tasks_of]
    of_tasks = [section_text.chapter(comparison, section, [], every[0][0]) for section, _ in every]
    of_data = {escape(section.name): section_text.data(section) for section in comparison.tasks}
    rows = [[name, *(escape(text) or DASH for text in data.values())] for name, data in of_data.items()]
    data = formats.table(["task", "conditions (hash)", "data set", "licence"], rows, left=4)
    return Chapter([Part("Tasks: conditions, data, seeds", [data, *bullets(said)]), *of_tasks])


def notes_of_task(comparison: Comparison, section: Section) -> list[str]:
    """Sentences on the pretrainings of a task: a plateau, overlap, and what this report does not show."""
    found, old = ({run.tags.get(tags.FINGERPRINT) for run in runs} for runs in (comparison.runs, comparison.superseded))
    stuck = {run.tags.get(tags.FINGERPRINT) for run in comparison.runs if plateau.is_on(run.metrics)}
    origins = {run.origin for run in section.runs if run.origin}
    started = {
        "**Pretraining still on the unigram plateau**": origins & stuck,
        "The run whose weights these start from was superseded by a later run": origins & old - found,
        "The run whose weights these start from is not in this store": origins - old - found,
    }
    rows = {
        what: [row.label for row in section.rows if any(run.origin in some for run in row.runs)]
        for what, some in started.items()
    }
    return [*(f"{what}: {listed(labels)}." for what, labels in rows.items() if labels), *_overlap(section)]


def warnings(comparison: Comparison) -> list[str]:
    """Sentences for the head of the report: pretrainings that have not learned."""
    return [note for section in comparison.pretrainings for note in (*on_plateau(section), *outside(section))]


def on_plateau(section: Section) -> list[str]:
    """Which rows have a pretraining that knows little more than word frequencies."""
    rows, entropies = [], []
    for row in section.rows:
        if stuck := [run.metrics for run in row.runs if plateau.is_on(run.metrics)]:
            entropies.append(stuck[0][plateau.ENTROPY])
            losses = ", ".join(f"{metrics[plateau.LOSS]:.2f}" for metrics in stuck)
            some = f"{len(stuck)} of {len(row.runs)} pretraining runs, " if len(stuck) < len(row.runs) else ""
            rows.append(f"{escape(row.label)} ({some}masked loss {losses})")
    if not rows:
        return []
    return [
        f"**Still on the unigram plateau** of {entropies[0]:.2f} nats: {', '.join(rows)}. Undertrained: differences mostly "
        "show which model left the plateau."
    ]


def outside(section: Section) -> list[str]:
    """Warnings of runs that left the plateau: a loss that rose, or that differs from the reference."""
    return [
        f"**{escape(f'{row.label}, seed {run.replicate.pretrain_seed}')}**: {escape(run.tags[tags.WARNING])}."
        for row in section.rows
        for run in row.runs
        if findings.is_warned(run) and not plateau.is_on(run.metrics)
    ]


def _overlap(section: Section) -> list[str]:
    texts = []
    for row in section.rows:
        if shares := row.values(OVERLAP).values():
            ends = (formats.plain(100 * share, 2 if 0 < share < 0.01 else 1) for share in (min(shares), max(shares)))
            texts.append((" to ".join(dict.fromkeys(ends)), row.label))
    labels_of = grouped(texts)
    each = (f"{shares} %{f' ({listed(labels)})' if len(labels_of) > 1 else ''}" for shares, labels in labels_of.items())
    text = f"Evaluation items with a {OVERLAP_LENGTH}-gram overlap with the pretraining corpus"
    return [f"{text}: {'; '.join(each)}."] if texts else []
