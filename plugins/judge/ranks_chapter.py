"""Ranks of all arms, with a picture of their means; shown where `all_pairs` asks for it."""

from matplotlib.figure import Figure

from harness import metrics
from harness.document import Section
from harness.plugins.judge.ranks import Ranking, letters_text, name_of, rank_text, rankings_of, ranks_section
from harness.plugins.pictures import plots
from harness.reports.chapters import Added, tasks
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter

CAPTION = (
    "Means with 95 % intervals (not corrected, without the seed effect common to all arms), and ranks. "
    "Arms that share no letter differ significantly"
)
MOST_PANELS = 6


def chapter(study: Study) -> Chapter:
    """Empty where it was not asked for, and where no two arms have a score."""
    comparison, by_task = study.comparison, study.options.random_tasks
    if not (study.options.all_pairs or by_task):
        return Chapter()
    section = ranks_section(comparison, by_task)
    pictures, files = plots.drawn({"ranks.svg": (CAPTION, means, rankings_of(comparison, by_task)[:MOST_PANELS])})
    blocks = [*pictures, *section.blocks]
    return Chapter([Section(section.title, blocks)] if blocks else [], files)


def means(rankings: list[Ranking]) -> Figure | None:
    """A panel for each table, of the best MOST_ARMS; None without any."""
    if not rankings:
        return None
    places = [ranking.places[: plots.MOST_ARMS] for ranking in rankings]
    figure, axes = plots.rows_of([[place.label for place in shown] for shown in places], 5.6)
    for panel, ranking, shown in zip(axes, rankings, places, strict=True):
        metric = metrics.get(ranking.metric)
        for row, place in enumerate(shown):
            text = f"{place.label}\n{formats.value(place.mean, metric.unit)}\nrank {rank_text(place)}"
            plots.interval(panel, row, place.mean, place.interval or (), text)
            beside = f"{rank_text(place)}  {letters_text(place)}"
            panel.annotate(beside, (1.02, row), xycoords=panel.get_yaxis_transform(), va="center", annotation_clip=False)
        panel.set(title=name_of(ranking), xlabel=plots.with_unit(metric.title, formats.scaling(metric.unit, 1.0)[1]))
    return figure


CHAPTER = Added(chapter, before=tasks.chapter, order=6)
