"""Which arms were tuned, on what, and what more trials would have brought (arXiv:1909.03004, section 3)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.comparison.compare import Comparison, Study
from reports.comparison.section import Section
from reports.reading.store import Run
from reports.writing import formats, plots
from reports.writing.formats import DASH, Chapter, escape
from reports.writing.tables import section_name


def expected_best(scores: Sequence[float], trials: int) -> float:
    """Expectation of the highest of `trials` independent draws from the empirical distribution of the scores, exactly.

    ValueError without a score, or for more trials than there are scores: the distribution says nothing of them.
    """
    count = len(scores)
    if not 1 <= trials <= count:
        raise ValueError(f"{trials=} must be between 1 and the {count} scores")
    return sum(
        score * ((rank / count) ** trials - ((rank - 1) / count) ** trials) for rank, score in enumerate(sorted(scores), 1)
    )


SHOWN = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of trials with a column, and the last one."""
INTRO = """\
Settings of a tuned arm are those of its best trial, scored on rows of the training data that the trials were not trained on.
The runs of this report are trained on all rows, with the seeds of the study. Compare tuned arms with a tuned baseline, such as
`--baseline '{baseline}'`. The expected best score on those rows after n trials is exact for independent draws from the scores
of the trials (arXiv:1909.03004): where it still rises, more trials would help, and arms are to be compared at equal n."""
DEPENDENT = "A dash: the trials followed earlier scores, or some ended early, so that they are no independent draws."
WHOLE = "In brackets: trials that had the whole budget. The others ended early, so that equal trials are no equal cost."
FAILED = "‡ Trials that diverged or failed count with the lowest score of the others."
CAPTION = "Expected best score on the tuning rows against the number of trials"


@dataclass(frozen=True)
class Tuning:
    """The search behind one arm on one task."""

    label: str
    task: str
    settings: dict[str, float]
    found: tuple[float | None, ...]  # scores of the trials
    is_independent: bool
    whole: int  # trials that had the whole budget

    @property
    def scores(self) -> list[float]:
        """With the lowest one for each trial that has none."""
        known = [score for score in self.found if score is not None]
        return [min(known) if score is None else score for score in self.found]

    def expected(self, trials: int) -> float | None:
        """None where the trials are no independent draws, or fewer."""
        return expected_best(self.scores, trials) if self.is_independent and trials <= len(self.found) else None


def chapter(study: Study) -> Chapter:
    """Empty where no arm was tuned."""
    found = tunings(study.comparison)
    if not found:
        return Chapter()
    files = plots.drawn({"tuning.svg": (picture, study.comparison, found)})
    notes = [DEPENDENT] if not all(one.is_independent for one in found) else []
    notes += [WHOLE] if any(one.whole < len(one.found) for one in found) else []
    notes += [FAILED] if any(None in one.found for one in found) else []
    intro = INTRO.format(baseline=next((one.label for one in found if one.label.startswith("base")), found[0].label))
    parts = [
        "## Tuned settings",
        intro,
        table(study.comparison, found),
        *notes,
        *plots.pictured({"tuning.svg": CAPTION}, files),
    ]
    return Chapter(parts, files)


def tunings(comparison: Comparison) -> list[Tuning]:
    """By task, then by arm."""
    sections = [section for section in comparison.selected if not section.is_pretraining]
    runs = [(section, row.label, next(iter(row.runs.values()))) for section in sections for row in section.rows]
    return [_tuning(comparison, section, label, run) for section, label, run in runs if "tuned.scores" in run.params]


def _tuning(comparison: Comparison, section: Section, label: str, run: Run) -> Tuning:
    settings, scores = json.loads(run.params["tuned.settings"]), json.loads(run.params["tuned.scores"])
    short = json.loads(run.params["tuned.short"])
    independent = run.params.get("search.sampler") == "random" and not any(
        early and score is not None for early, score in zip(short, scores, strict=True)
    )
    return Tuning(label, section_name(comparison, section), settings, tuple(scores), independent, short.count(False))


def table(comparison: Comparison, found: list[Tuning]) -> str:
    """One row an arm and task; arms that were not tuned say so."""
    most = max(len(one.found) for one in found)
    columns = [*(number for number in SHOWN if number < most), most]
    tasks = list(dict.fromkeys(one.task for one in found))
    rows = []
    for task in tasks:
        of_task = {one.label: one for one in found if one.task == task}
        for label in comparison.labels:
            rows.append([escape(label), escape(task), *_cells(of_task.get(label), columns)])
    heads = [f"after {number}" for number in columns]
    return formats.table(["arm", "task", "settings", "trials", *heads], rows, left=3)


def _cells(one: Tuning | None, columns: list[int]) -> list[str]:
    if one is None:
        return ["as given", *[DASH] * (1 + len(columns))]
    shown = ", ".join(f"{key.rpartition('.')[2]}={value:.3g}" for key, value in one.settings.items())
    values = [one.expected(number) for number in columns]
    texts = [DASH if value is None else formats.value(value, "score") for value in values]
    whole = f" ({one.whole})" if one.whole < len(one.found) else ""
    return [escape(shown), f"{len(one.found)}{whole}{' ‡' if None in one.found else ''}", *texts]


def picture(comparison: Comparison, found: list[Tuning]) -> Figure | None:
    """One panel a task, one line an arm; None where no trials are independent draws."""
    drawn = [one for one in found if one.is_independent and len(one.found) > 1]
    if not drawn:
        return None
    tasks = list(dict.fromkeys(one.task for one in drawn))
    labels = list(dict.fromkeys(one.label for one in drawn))
    styles = plots.arm_styles(comparison.labels)
    figure, axes = plots.grid(len(tasks))
    for panel, task in zip(axes, tasks, strict=True):
        for one in (one for one in drawn if one.task == task):
            numbers = range(1, len(one.found) + 1)
            style = styles[one.label]
            look = {"color": style.colour, "linestyle": style.line, "marker": style.marker, "markersize": 4}
            panel.plot(numbers, [expected_best(one.scores, number) for number in numbers], label=one.label, **look)
        panel.set(title=task, xlabel="trials", ylabel="expected best score on tuning rows")
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    plots.legend(figure, [plots.handle(styles[label], line=True, marked=True) for label in labels])
    return figure
