"""The chapter on cost by length of the text: tables of exponents and of crossovers, their picture, and the values as CSV."""

import math

from harness import metrics
from harness.paired import CONFIDENCE
from reports.chapters import scaling_pictures
from reports.comparison.growth import Crossing, Fit, Group, Race, fit, groups
from reports.comparison.study import Study
from reports.writing import formats, plots
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape
from reports.writing.tables import section_name

INTRO = """\
An exponent is the slope on logarithmic axes: 1 is linear in the length, 2 quadratic (0 and −1 for throughput in tokens). In
brackets is the {level:.0%} t interval over the lengths, one point a length (geometric mean of launches and seeds); counted
quantities have none. Cost is a + b T + c T^2, so one exponent only summarises the measured lengths: *last doubling* is the
exponent at the long end, and *off by* the largest distance of a length from the line."""
CROSSOVER = """\
Lengths at which an arm beats {baseline}, straight between measured lengths on logarithmic axes, up to {longest} tokens. In
brackets are the lengths at which the {level:.0%} interval of the ratio includes 1 (Welch's, over launches and seeds), for
what was measured more than once."""


def chapter(study: Study) -> Chapter:
    """Empty where no run measured a length."""
    comparison, found = study.comparison, groups(study)
    if not found:
        return Chapter()
    paragraphs, files = ["## Cost by length of the text", INTRO.format(level=CONFIDENCE)], {"scaling.csv": _csv(found)}
    for number, group in enumerate(found, 1):
        name = "scaling.svg" if len(found) == 1 else f"scaling_{number}.svg"
        files[name] = plots.draw(scaling_pictures.panels, comparison.labels, group)
        where = f"{section_name(comparison, group.section)}, {escape(group.hardware)}"
        paragraphs += [f"### By length: {where}", exponents(group), *_crossovers(group)]
        caption = f"Cost by length, {where}; bars reach from the least to the largest value, rings mark crossovers"
        paragraphs.append(f"![{caption}]({name})\n\n*{caption}.*")
    return Chapter(paragraphs, files)


def exponents(group: Group) -> str:
    """One row an arm, one column a quantity."""
    rows = [[escape(label), *(fit_text(_fit(group, quantity, label)) for quantity in group.values)] for label in group.labels]
    return formats.table(["arm", *(f"exponent of {_title(quantity)}" for quantity in group.values)], rows)


def _title(quantity: str) -> str:
    return metrics.get(quantity).title.removesuffix(" by length")


def _fit(group: Group, quantity: str, label: str) -> Fit | None:
    return fit(group.values[quantity].get(label, {}), metrics.get(quantity).deterministic)


def fit_text(line: Fit | None) -> str:
    """`1.42 [1.30, 1.54]`, and on a second line the exponent of the last doubling and how far off the line it is."""
    if line is None:
        return DASH
    interval = f" [{', '.join(formats.plain(end, 2) for end in line.interval)}]" if line.interval else ""
    begin, end = line.doubling
    where = "last doubling" if end == 2 * begin else f"{begin:,} to {end:,}"
    return (
        f"{formats.plain(line.exponent, 2)}{interval}<br>{where} {formats.plain(line.last, 2)}, off by {_share(line.deviation)}"
    )


def _share(deviation: float) -> str:
    return "0 %" if deviation < 1e-9 else f"{100 * deviation:.2g} %"


def _crossovers(group: Group) -> list[str]:
    others = [label for label in group.labels if label != group.baseline]
    races = {label: [group.race(quantity, label) for quantity in group.values] for label in others}
    races = {label: of_label for label, of_label in races.items() if any(of_label)}
    if not races:
        return []
    longest = max(one.lengths[-1] for of_label in races.values() for one in of_label if one)
    intro = CROSSOVER.format(baseline=escape(group.baseline), level=CONFIDENCE, longest=f"{longest:,}")
    rows = [[escape(label), *(race_text(one) if one else DASH for one in of_label)] for label, of_label in races.items()]
    return [intro, formats.table(["arm", *(f"wins in {_title(quantity)}" for quantity in group.values)], rows)]


def race_text(race: Race) -> str:
    """`from 742 [600, 900] on`, `never up to 4,096`, every stretch of an arm that wins and loses in turn."""
    first, last = race.lengths[0], race.lengths[-1]
    if not any(race.lead):
        return "equal at every length"
    if race.half and len(race.unclear) == len(race.lengths):
        return f"unclear: every interval from {first:,} to {last:,} includes 1"
    if race.crossings:
        return " and ".join(_stretches(race)) + _together(race)
    doubt = f" (unclear at {', '.join(f'{length:,}' for length in race.unclear)})" if race.unclear else ""
    return (f"from the shortest length on ({first:,})" if max(race.lead) > 0 else f"never up to {last:,}") + doubt


def _stretches(race: Race) -> list[str]:
    """Where it wins, in words."""
    stretches, begun = [], "" if race.lead[0] > 0 else None
    for crossing in race.crossings:
        place = crossing_text(crossing, race)
        if crossing.begins:
            begun = f"from {place}"
        else:
            stretches.append(f"{begun} to {place}" if begun else f"up to {place}")
            begun = None
    return stretches + ([f"{begun} on"] if begun else [])


def crossing_text(crossing: Crossing, race: Race) -> str:
    """`742 [600, 900]`; an end beyond the measured lengths is marked, and an interval within one token is left out."""
    text = f"{crossing.length:,.0f}"
    ends = _ends(crossing, race)
    return text if set(ends) <= {text} else f"{text} [{', '.join(ends)}]"


def _ends(crossing: Crossing, race: Race) -> list[str]:
    if crossing.interval is None:
        return []
    low, high = crossing.interval
    below = f"<{race.lengths[0]:,}" if low is None else f"{low:,.0f}"
    above = f">{race.lengths[-1]:,}" if high is None else f"{high:,.0f}"
    return [escape(below), escape(above)]


def _together(race: Race) -> str:
    """A word on crossings in one stretch of lengths where every interval includes 1."""
    intervals = [crossing.interval for crossing in race.crossings if crossing.interval]
    shared = [interval for interval in dict.fromkeys(intervals) if intervals.count(interval) > 1]
    unclear = [_ends(next(one for one in race.crossings if one.interval == interval), race) for interval in shared]
    return "".join(f"; unclear which between {below} and {above}" for below, above in unclear)


def _csv(found: list[Group]) -> bytes:
    """One row a device, arm, quantity and length, in base units."""
    lines = []
    for group in found:
        for quantity, rows in group.values.items():
            for label, points in rows.items():
                of = {"task": group.section.task, "conditions": group.section.conditions, "hardware": group.hardware}
                of |= {"arm": label, "metric": quantity, "unit": metrics.get(quantity).unit}
                lines += [of | {"length": length} | _line(values) for length, values in sorted(points.items())]
    return formats.csv_file(lines, list(lines[0]))


def _line(values: list[float]) -> dict[str, float]:
    middle = math.exp(sum(math.log(value) for value in values) / len(values)) if min(values) > 0 else None
    return {"n": len(values), "geometric_mean": middle, "min": min(values), "max": max(values)}
