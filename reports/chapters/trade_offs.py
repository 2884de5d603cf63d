"""Trade-offs: which arms no other one beats in both score and cost, and how sure that is."""

from reports.comparison import pareto
from reports.comparison.compare import Comparison
from reports.comparison.pareto import FEWEST, Front, Place
from reports.comparison.section import HEADLINE, Section
from reports.comparison.selection import selected
from reports.comparison.study import Study
from reports.writing import formats, tables
from reports.writing.chapter import Chapter
from reports.writing.formats import escape, listed

COSTS = (
    *("model/params_total", "model/flops_forward", "inference/latency_ms_p50", "inference/peak_memory_bytes"),
    *("inference/energy_j_per_token", "finetune/energy_j"),
)
INTRO = """\
An arm is on the *front* where no other arm is at least as good and as cheap, and better in one of both; else the best arm that
beats it is named. Scores are means over the tasks, costs geometric means. The percentage is the probability of being on the
front: the share of 2,000 bootstrap draws over replicates (pretrainings where there are several, else seeds) and over rounds of
launches, the same ones for all arms, widened by √(n / (n − 1))."""
FEW = """\
{count} replicates are few for a bootstrap. Of two equal arms, the dearer one got more than 95 % in 19 % of simulated studies
with 2 replicates, in 15 % with 3, 7 % with 5 and 6 % with 10, where 5 % would be right."""
ALONE = "One replicate in common: the front is that of the numbers measured, and nothing says how sure it is."


def chapter(study: Study) -> Chapter:
    """Empty where no two arms have scores on the same tasks."""
    found = groups(study.comparison)
    if not found:
        return Chapter()
    paragraphs = ["## Trade-offs", INTRO]
    for labels, sections in found:
        fronts = [front for cost in COSTS if (front := pareto.front(sections, labels, cost))]
        if fronts:
            names = ", ".join(tables.section_name(study.comparison, section) for section in sections)
            paragraphs += [f"### Score against cost: {names}"] if len(found) > 1 else []
            paragraphs += [table(sections, labels, fronts), *_notes(study.comparison, labels, fronts)]
    return Chapter(paragraphs) if len(paragraphs) > 2 else Chapter()


def groups(comparison: Comparison) -> list[tuple[list[str], list[Section]]]:
    """Labels and the tasks that all of them have a score on; sections with the same arms are one group."""
    found: dict[tuple[str, ...], list[Section]] = {}
    for section in selected(comparison):
        labels = tuple(row.label for row in section.rows if row.values(HEADLINE))
        if len(labels) > 1 and not section.is_pretraining:
            found.setdefault(labels, []).append(section)
    return [(list(labels), sections) for labels, sections in found.items()]


def table(sections: list[Section], labels: list[str], fronts: list[Front]) -> str:
    """One row an arm, one column a cost."""
    header = ["arm", "score", *(tables.metric_title(front.cost) for front in fronts)]
    rows = [[escape(label), _score(sections, label), *(_place(front.places[label]) for front in fronts)] for label in labels]
    return formats.table(header, rows)


def _score(sections: list[Section], label: str) -> str:
    means = [section.row_of(label).mean(HEADLINE) for section in sections]
    return formats.value(sum(means) / len(means), "score")


def _place(place: Place) -> str:
    where = "**front**" if place.behind is None else f"behind {escape(place.behind)}"
    return where if place.probability is None else f"{where}<br>{percent(place.probability)}"


def percent(share: float) -> str:
    """Of draws; what never or always came is not called certain."""
    return "< 1 %" if share < 0.005 else "> 99 %" if share > 0.995 else f"{100 * share:.0f} %"


def _notes(comparison: Comparison, labels: list[str], fronts: list[Front]) -> list[str]:
    replicates = min(front.replicates for front in fronts)
    notes = [ALONE] if replicates < 2 else [FEW.format(count=replicates)] if replicates < FEWEST else []
    missing = [label for label in comparison.labels if label not in labels]
    return notes + ([f"Not among them, for want of a score on these tasks: {listed(missing, most=None)}."] if missing else [])
