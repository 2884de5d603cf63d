"""All pairs of arms: ranks with intervals, groups without significant differences, and the probability of being best."""

from string import ascii_letters

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.paired import Design
from harness.comparison.section import HEADLINE
from harness.document import DASH, Block, Cell, Section
from harness.plugins.judge.ranks import MOST_LETTERS, Place, Ranking, rankings
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import escape, listed

INTRO = f"""\
All pairs of arms are compared, paired as with the baseline; p values and intervals are Holm-corrected for the pairs of a
table. Arms that share no letter differ significantly; arms that share one do not, or, where an arm would have more than
{MOST_LETTERS} letters, are ranked between arms that do not. *rank* is the rank of the mean, with a 95 % interval, simultaneous
for all arms of a table: above are the arms shown to be better, below those shown to be worse. *best* is the probability that
no other arm is better, by Student's t with the variance of all arms and test-set sampling error; it is not corrected and not
a verdict."""
OF_TASKS = "Tasks are the unit of replication, as a sample of tasks: their variance includes that of seeds and items."


def ranks_section(comparison: Comparison, random_tasks: bool) -> Section:
    """A table for all tasks and one for each; empty where no two arms have the same score or metric of another tool.

    `random_tasks`: tasks are the unit of replication, in one table.
    """
    found = rankings_of(comparison, random_tasks)
    parts: list[Block] = [OF_TASKS] if found and random_tasks else []
    for ranking in found:
        metric, count = metrics.get(ranking.metric), len(ranking.labels)
        rows = [
            [
                escape(place.label),
                formats.cell(place.mean, metric.unit),
                Cell(rank_text(place), place.rank),
                letters_text(place),
                DASH if place.best is None else Cell(formats.chance(place.best), place.best),
            ]
            for place in ranking.places
        ]
        apart = {pair: change for pair, change in ranking.changes.items() if {pair, pair[::-1]} & ranking.better}
        blocks: list[Block] = [formats.table(["arm", "mean", "rank", "letters", "best"], rows)]
        blocks.append(f"{len(apart)} of {count * (count - 1) // 2} pairs differ significantly.")
        if apart:
            lines = [[*map(escape, pair[::-1]), tables.difference(change, metric.unit)] for pair, change in apart.items()]
            blocks.append(Section("", [formats.table(["arm", "minus", "difference"], lines, left=2)], detail=True))
        if missing := [label for label in comparison.labels if label not in ranking.labels]:
            blocks.append(f"Left out, without a value: {listed(missing)}.")
        title = "" if ranking.metric == HEADLINE else f"{metric.title}: "
        parts.append(Section(escape(title + name_of(ranking)), blocks))
    return Section("All pairs and ranks", [*parts, INTRO] if parts else [])


def rankings_of(comparison: Comparison, random_tasks: bool) -> list[Ranking]:
    """Rankings by the headline score, and by what other tools have also measured."""
    measured = dict.fromkeys(name for run in comparison.runs for name in run.metrics)
    names = [name for name in measured if name == HEADLINE or name.startswith(metrics.OF_OTHERS)]
    design = Design.TASKS if random_tasks else None
    return [ranking for name in names for ranking in rankings(comparison, name, design)]


def rank_text(place: Place) -> str:
    """`2 [1, 3]`."""
    return f"{place.rank} [{place.ranks[0]}, {place.ranks[1]}]"


def letters_text(place: Place) -> str:
    """`a–e` where there are more than three in a row."""
    in_a_row = len(place.letters) > 3 and place.letters in ascii_letters
    return f"{place.letters[0]}–{place.letters[-1]}" if in_a_row else place.letters


def name_of(ranking: Ranking) -> str:
    """The task, or how many."""
    sections = ranking.sections
    return sections[0].name if len(sections) == 1 else f"mean of {len(sections)} tasks"
