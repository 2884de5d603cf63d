"""Generated tasks whose winner is known beforehand: what theory expects of an arm, and what was observed."""

from harness.comparison.compare import Comparison
from harness.comparison.labels import seeds_text
from harness.comparison.paired import grouped
from harness.comparison.runs import Run
from harness.comparison.section import HEADLINE, Row, Section
from harness.document import DASH, Block, Bullets, Cell, Table
from harness.document import Section as Part
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.expectation import EXPECTED, HIGH, LOW, MOST, Outcome, outcome
from harness.reports.writing.formats import Chapter, escape

HEADING = "Sanity checks: expected vs. observed"
INTRO = """\
For some arms, theory predicts from the shape alone that they must solve a task, or cannot. *solves*: the score is at least the
bar, 75 % of the way from the shortcut score to the ceiling. *cannot*: at most the bar, three standard errors above the shortcut
score. The shortcut score is the best that an arm of this shape can reach without solving the task; it may be above chance.
*open*: theory predicts nothing at this shape and budget. Scores are means over seeds; each is compared with its bar."""
REASON, CHANCE, CEILING = "expected_reason", "expected_chance", "expected_ceiling"


def chapter(study: Study) -> Chapter:
    """Expected and observed scores; empty if no run has an expectation."""
    comparison = study.comparison
    sections = [section for section in comparison.sections if any(outcome(run) for run in section.runs)]
    if not sections:
        return Chapter()
    against: list[str] = []
    reasons: list[tuple[tuple[str, str], str]] = []
    for section in sections:
        for row in section.rows:
            for run in row.runs:
                reason = escape(run.tags.get(REASON, "no reason stated"))
                if outcome(run):
                    reasons.append(((escape(section.task), f"{run.tags[EXPECTED]}, {reason}"), row.label))
                if outcome(run) is Outcome.DISAGREE:
                    where = f"**{escape(row.label)} on {escape(section.name)}**, {escape(seeds_text([run.replicate]))}"
                    score = formats.value(run.metrics[HEADLINE], "score")
                    against.append(f"{where}: expected {_expected(run)} ({reason}), observed {score}")
    why = [f"{task}, {formats.listed(labels, most=MOST)}: {text}" for (task, text), labels in grouped(reasons).items()]
    heading = f"**{len(against)} result{'s' * (len(against) > 1)} against theory: a bug until explained.**"
    warning: list[Block] = [heading, Bullets(against)] if against else []
    return Chapter([Part(HEADING, [*warning, INTRO, _table(comparison, sections), "Why:", Bullets(why)])])


def _expected(run: Run) -> str:
    bars = {"solves": f"solves ≥ {_score(run, HIGH).text}", "cannot": f"cannot ≤ {_score(run, LOW).text}"}
    return bars.get(run.tags[EXPECTED], "open")


def _score(run: Run, tag: str) -> Cell:
    return formats.cell(float(run.tags[tag]) if tag in run.tags else None, "score")


def _table(comparison: Comparison, sections: list[Section]) -> Table:
    labels = [label for label in comparison.labels if any(section.row_of(label) for section in sections)]
    lines = []
    for section in sections:
        first = next(run for run in section.runs if outcome(run))
        cells = [_found(row) if (row := section.row_of(label)) else Cell(DASH) for label in labels]
        lines.append([escape(section.name), _score(first, CHANCE), _score(first, CEILING), *cells])
    return formats.table(["task", "chance", "ceiling", *(escape(label) for label in labels)], lines)


def _found(row: Row) -> Cell:
    """Score, expectation, and whether they agree; for several runs, how many do not."""
    judged = [(run, result) for run in row.runs if (result := outcome(run))]
    spread = row.spread(HEADLINE)
    if not judged or spread is None:
        return Cell(DASH)
    against = sum(result is Outcome.DISAGREE for _, result in judged)
    result = Outcome.DISAGREE if against else judged[0][1]
    of_runs = f" ({against} of {len(judged)} runs)" if against and len(judged) > 1 else ""
    expected = "; ".join(dict.fromkeys(_expected(run) for run, _ in judged))
    verdict = "" if result is Outcome.OPEN else f"\n{result.value}{of_runs}"
    return Cell(formats.value(spread.mean, "score", spread.sd), spread.mean, "score", f"{expected}{verdict}")


CHAPTER = Added(chapter, before=timing.chapter, order=-1)
