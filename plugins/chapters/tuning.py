"""Which arms were tuned, on what, and the gain expected of more trials (arXiv:1909.03004, section 3)."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.comparison.compare import Comparison
from harness.document import Block, Cell, Section, Table
from harness.plugins.pictures import plots
from harness.reports.chapters import Added, tasks
from harness.reports.reading.study import Study
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import Chapter, code, escape, listed


def expected_best(scores: Sequence[float], trials: int) -> float:
    """Expectation of the highest of `trials` independent draws from the empirical distribution of the scores, exactly.

    ValueError without a score, or for more trials than there are scores: the distribution does not cover them.
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
A tuned arm uses the settings of its best trial, scored on held-out training rows, or on the reported rows (§). The runs of
this report train on all rows, with the seeds of the study. Compare tuned arms with a tuned baseline, such as {baseline}. The
expected best score on the tuning rows after n trials is exact for independent draws (arXiv:1909.03004): while it rises, more
trials would help; compare arms at equal n."""
DEPENDENT = "– trials of a grid, that follow earlier scores, or that stopped early are not independent draws."
WHOLE = "In brackets: trials with the full budget. The others stopped early, so equal trials do not mean equal cost."
FAILED = "‡ Trials that diverged or failed count as the lowest score of the others."
CAPTION = "Expected best score on the tuning rows against the number of trials"


@dataclass(frozen=True)
class Tuning:
    """The search behind one arm on one task."""

    label: str
    task: str
    mark: str  # of settings that were selected on the reported rows
    settings: dict[str, float]
    scores: list[float]  # of the trials, the lowest one for each that has none
    failed: bool  # whether a trial has none
    is_independent: bool
    whole: int  # trials that had the whole budget


def chapter(study: Study) -> Chapter:
    """Empty where no arm was tuned."""
    searches = tunings(study.comparison)
    if not searches:
        return Chapter()
    pictures, files = plots.drawn({"tuning.svg": (CAPTION, picture, study.comparison, searches)})
    notes = [] if all(search.is_independent for search in searches) else [DEPENDENT]
    notes += [WHOLE] if any(search.whole < len(search.scores) for search in searches) else []
    notes += [tables.SELECTED_NOTE] if any(search.mark for search in searches) else []
    notes += [FAILED] if any(search.failed for search in searches) else []
    labels = [search.label for search in searches]
    baseline = next((label for label in labels if label.startswith("base")), labels[0])
    intro = INTRO.format(baseline=code(f"baseline={shlex.quote(baseline)}"))
    blocks: list[Block] = [intro, table(searches), *untuned(study.comparison, searches), *notes, *pictures]
    return Chapter([Section("Tuned settings", blocks)], files)


def tunings(comparison: Comparison) -> list[Tuning]:
    """By task, then by arm."""
    searches = []
    for section in comparison.selected_tasks:
        for row in section.rows:
            params = row.first.params
            if "tuned.scores" in params:
                settings, scores, short = (json.loads(params[f"tuned.{key}"]) for key in ("settings", "scores", "short"))
                lowest = min((score for score in scores if score is not None), default=float("nan"))
                scored_early = any(early and score is not None for early, score in zip(short, scores, strict=True))
                searches.append(
                    Tuning(
                        label=row.label,
                        task=section.name,
                        mark=tables.selection_mark(row.runs),
                        settings=settings,
                        scores=[lowest if score is None else score for score in scores],
                        failed=None in scores,
                        is_independent=params.get("search.sampler") == "random" and not scored_early,
                        whole=short.count(False),
                    )
                )
    return searches


def table(searches: list[Tuning]) -> Table:
    """One row per task and tuned arm; the expected best scores where a search has them."""
    most = max(len(search.scores) for search in searches)
    columns = (
        [*(number for number in SHOWN if number < most), most] if any(search.is_independent for search in searches) else []
    )
    rows = []
    for search in searches:
        count = len(search.scores)
        settings = ", ".join(
            f"{key.rpartition('.')[2]}={value if isinstance(value, int) else f'{value:.3g}'}"
            for key, value in search.settings.items()
        )
        whole = f" ({search.whole})" if search.whole < count else ""
        shown = [number if search.is_independent and number <= count else None for number in columns]
        best = [formats.cell(number and expected_best(search.scores, number), "score") for number in shown]
        trials = Cell(f"{count}{whole}{' ‡' * search.failed}", count)
        rows.append([escape(search.label), escape(search.task), escape(settings) + search.mark, trials, *best])
    return formats.table(["arm", "task", "settings", "trials", *[f"after {number}" for number in columns]], rows, left=3)


def untuned(comparison: Comparison, searches: list[Tuning]) -> list[str]:
    """A sentence with the arms that were not tuned, or not on all tasks that others were tuned on."""
    tasks = {*(search.task for search in searches)}
    known = {(search.task, search.label) for search in searches}
    lacking = {label: sorted(task for task in tasks if (task, label) not in known) for label in comparison.labels}
    texts = [escape(label + f" on {listed(of)}" * (len(of) < len(tasks))) for label, of in lacking.items() if of]
    return [f"Not tuned: {'; '.join(texts)}."] if texts else []


def picture(comparison: Comparison, searches: list[Tuning]) -> Figure | None:
    """One panel a task, one line an arm; None where no trials are independent draws."""
    contents: dict[str, dict[str, list[float]]] = {}
    for search in searches:
        if search.is_independent and len(search.scores) > 1:
            contents.setdefault(search.task, {})[search.label] = search.scores
    return plots.panels(comparison.labels, contents, _draw)


def _draw(axes: Axes, task: str, arms: Mapping[plots.ArmStyle, list[float]]) -> None:
    for arm, scores in arms.items():
        numbers = range(1, len(scores) + 1)
        plots.series(axes, arm, numbers, [expected_best(scores, number) for number in numbers])
    axes.set(title=task, xlabel="trials", ylabel="expected best score on tuning rows")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


CHAPTER = Added(chapter, before=tasks.chapter, order=2)
