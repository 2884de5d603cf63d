"""The chapter on cost by length of the text: tables of exponents and of crossovers, their picture, and the values as CSV."""

import math
from dataclasses import dataclass

import pandas as pd

from harness import metrics
from reports import formats
from reports.chapter import Chapter
from reports.compare import Comparison, Section
from reports.formats import DASH, escape
from reports.scaling import Crossing, Fit, Race, Replicates, fit, race
from reports.statistics import CONFIDENCE
from reports.tables import section_name

QUANTITIES = ("scaling/latency_ms", "scaling/flops_forward", "scaling/peak_memory_bytes", "scaling/tokens_per_s")
Histories = dict[str, dict[str, Replicates]]
"""Metric -> run id -> its values by length."""

INTRO = """\
An exponent is the slope on logarithmic axes: 1 is linear in the length, 2 quadratic (0 and −1 for throughput in tokens). In
brackets stands the {level:.0%} t interval over the lengths, one point a length (geometric mean of launches and seeds); what is
counted has none. Cost is a + b T + c T^2, so one exponent only sums up the measured lengths: *last doubling* is the exponent at
the long end, and *off by* the largest distance of a length from the line."""
CROSSOVER = """\
Lengths at which a variant beats {baseline}, straight between measured lengths on logarithmic axes, up to {longest} tokens. In
brackets stand the lengths at which the {level:.0%} interval of the ratio includes 1 (Welch's, over launches and seeds); without
brackets nothing was measured twice, or it is counted."""


@dataclass(frozen=True)
class Group:
    """What may be compared: one section on one device, the baseline first where it was measured."""

    section: Section
    hardware: str
    baseline: str
    values: dict[str, dict[str, Replicates]]  # quantity -> label -> values of all seeds

    @property
    def labels(self) -> list[str]:
        seen = {label for rows in self.values.values() for label in rows}
        return [row.label for row in self.section.rows if row.label in seen]

    def race(self, quantity: str, label: str) -> Race | None:
        """Against the baseline; None for the baseline itself, and where one of the two was not measured."""
        rows = self.values[quantity]
        if label == self.baseline or label not in rows or self.baseline not in rows:
            return None
        return race(rows[self.baseline], rows[label], metrics.get(quantity).direction)


def groups(comparison: Comparison, histories: Histories) -> list[Group]:
    """One for each section and device with any length measured."""
    found = []
    for section in comparison.sections:
        for hardware in dict.fromkeys(run.tags.get("hardware", "not recorded") for run in section.runs):
            values = {quantity: _rows(section, hardware, histories.get(quantity, {})) for quantity in QUANTITIES}
            values = {quantity: rows for quantity, rows in values.items() if rows}
            if values:
                found.append(Group(section, hardware, section.baseline, values))
    return found


def _rows(section: Section, hardware: str, of_runs: dict[str, Replicates]) -> dict[str, Replicates]:
    rows: dict[str, Replicates] = {}
    for row in section.rows:
        for run in row.runs.values():
            if run.tags.get("hardware", "not recorded") == hardware:
                for length, values in of_runs.get(run.run_id, {}).items():
                    rows.setdefault(row.label, {}).setdefault(length, []).extend(values)
    return rows


def chapter(comparison: Comparison, histories: Histories) -> Chapter:
    """Empty where no run measured a length."""
    from reports import plots, scaling_plots

    found = groups(comparison, histories)
    if not found:
        return Chapter()
    paragraphs, files = ["## Cost by length of the text", INTRO.format(level=CONFIDENCE)], {"scaling.csv": _csv(found)}
    for number, group in enumerate(found, 1):
        name = "scaling.svg" if len(found) == 1 else f"scaling_{number}.svg"
        files[name] = plots.draw(scaling_plots.panels, comparison.labels, group)
        where = f"{section_name(comparison, group.section)}, {escape(group.hardware)}"
        paragraphs += [f"### By length: {where}", exponents(group), *_crossovers(group)]
        caption = f"Cost by length, {where}; bars reach from the least to the largest value, rings mark crossovers"
        paragraphs.append(f"![{caption}]({name})\n\n*{caption}.*")
    return Chapter(paragraphs, files)


def exponents(group: Group) -> str:
    """One row a variant, one column a quantity."""
    rows = [[escape(label), *(fit_text(_fit(group, quantity, label)) for quantity in group.values)] for label in group.labels]
    return formats.table(["variant", *(f"exponent of {_title(quantity)}" for quantity in group.values)], rows)


def _title(quantity: str) -> str:
    return metrics.get(quantity).title.removesuffix(" by length")


def _fit(group: Group, quantity: str, label: str) -> Fit | None:
    return fit(group.values[quantity].get(label, {}), metrics.get(quantity).deterministic)


def fit_text(seen: Fit | None) -> str:
    """`1.42 [1.30, 1.54]`, and on a second line the exponent of the last doubling and how far off the line it is."""
    if seen is None:
        return DASH
    interval = f" [{', '.join(formats.plain(end, 2) for end in seen.interval)}]" if seen.interval else ""
    begin, end = seen.doubling
    where = "last doubling" if end == 2 * begin else f"{begin:,} to {end:,}"
    return (
        f"{formats.plain(seen.exponent, 2)}{interval}<br>{where} {formats.plain(seen.last, 2)}, off by {_share(seen.deviation)}"
    )


def _share(deviation: float) -> str:
    return "0 %" if deviation < 1e-9 else f"{100 * deviation:.2g} %"


def _crossovers(group: Group) -> list[str]:
    others = [label for label in group.labels if label != group.baseline]
    races = {label: [group.race(quantity, label) for quantity in group.values] for label in others}
    races = {label: seen for label, seen in races.items() if any(seen)}
    if not races:
        return []
    longest = max(one.lengths[-1] for seen in races.values() for one in seen if one)
    intro = CROSSOVER.format(baseline=escape(group.baseline), level=CONFIDENCE, longest=f"{longest:,}")
    rows = [[escape(label), *(race_text(one) if one else DASH for one in seen)] for label, seen in races.items()]
    return [intro, formats.table(["variant", *(f"wins in {_title(quantity)}" for quantity in group.values)], rows)]


def race_text(seen: Race) -> str:
    """`from 742 [600, 900] on`, `never up to 4,096`, every stretch of a variant that wins and loses in turn."""
    first, last = seen.lengths[0], seen.lengths[-1]
    if not any(seen.lead):
        return "equal at every length"
    if seen.half and len(seen.unclear) == len(seen.lengths):
        return f"unclear: every interval from {first:,} to {last:,} includes 1"
    if seen.crossings:
        return " and ".join(_stretches(seen)) + _together(seen)
    doubt = f" (unclear at {', '.join(f'{length:,}' for length in seen.unclear)})" if seen.unclear else ""
    return (f"from the shortest length on ({first:,})" if max(seen.lead) > 0 else f"never up to {last:,}") + doubt


def _stretches(seen: Race) -> list[str]:
    """Where it wins, in words."""
    told, begun = [], "" if seen.lead[0] > 0 else None
    for crossing in seen.crossings:
        place = crossing_text(crossing, seen)
        if crossing.begins:
            begun = f"from {place}"
        else:
            told.append(f"{begun} to {place}" if begun else f"up to {place}")
            begun = None
    return told + ([f"{begun} on"] if begun else [])


def crossing_text(crossing: Crossing, seen: Race) -> str:
    """`742 [600, 900]`; an end beyond the measured lengths is told as such, and an interval within one token not at all."""
    text = f"{crossing.length:,.0f}"
    ends = _ends(crossing, seen)
    return text if set(ends) <= {text} else f"{text} [{', '.join(ends)}]"


def _ends(crossing: Crossing, seen: Race) -> list[str]:
    if crossing.interval is None:
        return []
    low, high = crossing.interval
    below = f"<{seen.lengths[0]:,}" if low is None else f"{low:,.0f}"
    above = f">{seen.lengths[-1]:,}" if high is None else f"{high:,.0f}"
    return [escape(below), escape(above)]


def _together(seen: Race) -> str:
    """A word on crossings that lie in one stretch where nothing is sure."""
    intervals = [crossing.interval for crossing in seen.crossings if crossing.interval]
    shared = [interval for interval in dict.fromkeys(intervals) if intervals.count(interval) > 1]
    told = [_ends(next(one for one in seen.crossings if one.interval == interval), seen) for interval in shared]
    return "".join(f"; unclear which between {below} and {above}" for below, above in told)


def _csv(found: list[Group]) -> bytes:
    """One row a device, variant, quantity and length, in base units."""
    lines = []
    for group in found:
        for quantity, rows in group.values.items():
            for label, points in rows.items():
                of = {"task": group.section.task, "protocol": group.section.protocol, "hardware": group.hardware}
                of |= {"variant": label, "metric": quantity, "unit": metrics.get(quantity).unit}
                lines += [of | {"length": length} | _line(values) for length, values in sorted(points.items())]
    return pd.DataFrame(lines).to_csv(index=False, lineterminator="\n").encode()


def _line(values: list[float]) -> dict[str, float]:
    middle = math.exp(sum(math.log(value) for value in values) / len(values)) if min(values) > 0 else None
    return {"n": len(values), "geometric_mean": middle, "min": min(values), "max": max(values)}
