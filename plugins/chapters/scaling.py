"""The chapter on cost by sequence length: tables of exponents and of crossovers, their picture, and the values as CSV."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import geometric_mean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness import metrics
from harness.comparison.paired import CONFIDENCE
from harness.comparison.section import Section
from harness.document import DASH, Block, Cell, Table
from harness.document import Section as Part
from harness.plugins.chapters.growth import Crossing, PowerLaw, Race, Replicates, centres, fit, race
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import ArmStyle
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape

INTRO = """\
An exponent is the slope on log-log axes: 1 is linear in sequence length, 2 quadratic (0 and −1 for throughput in tokens). In
brackets: the {level:.0%} t interval over lengths, one point per length (geometric mean of launches and seeds); counted
quantities have none. Cost is a + b T + c T^2, so one exponent only summarizes the measured lengths: *last doubling* is the
exponent at the long end, *off by* the largest deviation of a length from the fit."""
CROSSOVER = """\
Sequence lengths at which an arm beats {baseline}, interpolated on log-log axes, up to {longest} tokens. In brackets: lengths at
which the {level:.0%} Welch interval of the ratio (over launches and seeds) includes 1, for quantities measured repeatedly."""


QUANTITIES = ("scaling/latency_ms", "scaling/flops_forward", "scaling/peak_memory_bytes", "scaling/tokens_per_s")


@dataclass(frozen=True)
class Group:
    """Comparable rows: one section on one device, the baseline first where it was measured."""

    section: Section
    hardware: str
    baseline: str
    values: dict[str, dict[str, Replicates]]  # quantity -> label -> values of all seeds

    @property
    def labels(self) -> list[str]:
        return [row.label for row in self.section.rows if any(row.label in rows for rows in self.values.values())]

    def race(self, quantity: str, label: str) -> Race | None:
        """Against the baseline; None for the baseline itself, and where one of the two was not measured."""
        rows = self.values[quantity]
        if label == self.baseline or label not in rows or self.baseline not in rows:
            return None
        return race(rows[self.baseline], rows[label], metrics.get(quantity).direction)


def groups(study: Study) -> list[Group]:
    """One for each section and device with any length measured."""
    found = []
    for section in study.comparison.sections:
        for hardware in dict.fromkeys(run.hardware for run in section.runs):
            every = {quantity: _measured(section, hardware, quantity, study.history(quantity)) for quantity in QUANTITIES}
            if values := {quantity: rows for quantity, rows in every.items() if rows}:
                found.append(Group(section, hardware, section.baseline, values))
    return found


def _measured(section: Section, hardware: str, quantity: str, of_runs: dict[str, Replicates]) -> dict[str, Replicates]:
    """Seeds that one session timed share its launches, which count once."""
    rows: dict[str, Replicates] = {}
    for row in section.rows:
        here = [run for run in row.runs if run.hardware == hardware]
        if not metrics.get(quantity).deterministic:
            here = list({run.session or run.run_id: run for run in here if run.run_id in of_runs}.values())
        for run in here:
            for length, values in of_runs.get(run.run_id, {}).items():
                rows.setdefault(row.label, {}).setdefault(length, []).extend(values)
    return rows


def chapter(study: Study) -> Chapter:
    """Empty where no run measured a length."""
    comparison, devices = study.comparison, groups(study)
    if not devices:
        return Chapter()
    blocks: list[Block] = [INTRO.format(level=CONFIDENCE)]
    files: dict[str, bytes] = {"scaling.csv": _csv(devices)}
    for number, group in enumerate(devices, 1):
        name = "scaling.svg" if len(devices) == 1 else f"scaling_{number}.svg"
        where = f"{escape(group.section.name)}, {escape(group.hardware)}"
        caption = f"Cost by sequence length, {where}; bars span minimum to maximum"
        pictures, of_group = plots.drawn({name: (caption, picture, comparison.labels, group)})
        files |= of_group
        blocks.append(Part(f"By length: {where}", [exponents(group), *_crossovers(group), *pictures]))
    return Chapter([Part("Cost by sequence length", blocks)], files)


def exponents(group: Group) -> Table:
    """One row per arm, one column per quantity."""
    rows = []
    for label in group.labels:
        points = {quantity: of_arms.get(label, {}) for quantity, of_arms in group.values.items()}
        rows.append([escape(label), *(exponent(fit(points[name], metrics.get(name).deterministic)) for name in points)])
    return formats.table(["arm", *(f"exponent of {_title(quantity)}" for quantity in group.values)], rows)


def _title(quantity: str) -> str:
    return metrics.get(quantity).title.removesuffix(" by length")


def exponent(line: PowerLaw | None) -> Cell:
    """`1.42 [1.30, 1.54]`, and on a second line the exponent of the last doubling and how far off the line it is."""
    if line is None:
        return Cell(DASH)
    interval = f" [{', '.join(formats.plain(end, 2) for end in line.interval)}]" if line.interval else ""
    begin, end = line.doubling
    where = "last doubling" if end == 2 * begin else f"{begin:,} to {end:,}"
    off = "0 %" if line.deviation < 1e-9 else f"{100 * line.deviation:.2g} %"
    below = f"{where} {formats.plain(line.last, 2)}, off by {off}"
    return Cell(f"{formats.plain(line.exponent, 2)}{interval}", line.exponent, change=below)


def _crossovers(group: Group) -> list[Block]:
    races = {label: [group.race(quantity, label) for quantity in group.values] for label in group.labels}
    races = {label: of_label for label, of_label in races.items() if any(of_label)}
    if not races:
        return []
    longest = max(race.lengths[-1] for of_label in races.values() for race in of_label if race)
    intro = CROSSOVER.format(baseline=escape(group.baseline), level=CONFIDENCE, longest=f"{longest:,}")
    rows = [[escape(label), *(race_text(race) if race else DASH for race in of_label)] for label, of_label in races.items()]
    return [intro, formats.table(["arm", *(f"wins in {_title(quantity)}" for quantity in group.values)], rows)]


def race_text(race: Race) -> str:
    """`from 742 [600, 900] on`, `never up to 4,096`, every stretch of an arm that wins and loses in turn."""
    first, last = race.lengths[0], race.lengths[-1]
    if not any(race.lead):
        return "equal at all lengths"
    if race.half and len(race.unclear) == len(race.lengths):
        return f"unclear: every interval from {first:,} to {last:,} includes 1"
    if race.crossings:
        return " and ".join(_stretches(race))
    doubt = f" (unclear at {', '.join(f'{length:,}' for length in race.unclear)})" if race.unclear else ""
    return (f"from the shortest length on ({first:,})" if max(race.lead) > 0 else f"never up to {last:,}") + doubt


def _stretches(race: Race) -> list[str]:
    """Where it wins, in words: `from 742 [600, 900] on`; an interval within one token is left out."""
    stretches, begun = [], "" if race.lead[0] > 0 else None
    for crossing in race.crossings:
        place, ends = f"{crossing.length:,.0f}", _ends(crossing, race)
        place += "" if set(ends) <= {place} else f" [{', '.join(ends)}]"
        if crossing.begins:
            begun = f"from {place}"
        else:
            stretches.append(f"{begun} to {place}" if begun else f"up to {place}")
            begun = None
    return stretches + ([f"{begun} on"] if begun else [])


def _ends(crossing: Crossing, race: Race) -> list[str]:
    """Text of its interval; an end beyond the measured lengths is marked."""
    if crossing.interval is None:
        return []
    low, high = crossing.interval
    below = f"<{race.lengths[0]:,}" if low is None else f"{low:,.0f}"
    above = f">{race.lengths[-1]:,}" if high is None else f"{high:,.0f}"
    return [escape(below), escape(above)]


def _csv(devices: list[Group]) -> bytes:
    """One row per device, arm, quantity and length, in base units."""
    lines = []
    for group in devices:
        of = {"task": group.section.task, "conditions": group.section.conditions, "hardware": group.hardware}
        for quantity, rows in group.values.items():
            for label, points in rows.items():
                of |= {"arm": label, "metric": quantity, "unit": metrics.get(quantity).unit}
                for length, values in sorted(points.items()):
                    mean = geometric_mean(values) if min(values) > 0 else None
                    spread = {"n": len(values), "geometric_mean": mean, "min": min(values), "max": max(values)}
                    lines.append(of | {"length": length} | spread)
    return formats.csv_file(lines, list(lines[0]))


def picture(labels: list[str], group: Group) -> Figure | None:
    """All quantities of a device that have a positive value; None without one. `labels` are the report's, for the styles."""
    contents = {}
    for quantity, rows in group.values.items():
        if of_arms := {label: line for label, points in rows.items() if (line := centres(points))}:
            contents[quantity] = of_arms

    def draw(axes: Axes, quantity: str, rows: Mapping[ArmStyle, dict[int, float]]) -> None:
        values = [value for line in rows.values() for value in line.values()]
        factor, unit = plots.axis_unit(quantity, values)
        for arm, line in rows.items():
            points = group.values[quantity][arm.label]
            middles = [value / factor for value in line.values()]
            ends = [[value / factor for value in points[length]] for length in line]
            plots.series(axes, arm, [*line], middles, y_bars=plots.reaching_bars(middles, ends))
        axes.set(xscale="log", xlabel="length (tokens)", ylabel=f"{_title(quantity)} ({unit})")
        lengths = sorted({length for line in rows.values() for length in line})
        plots.ticks_at_lengths(axes, lengths[:: math.ceil(len(lengths) / 8)])
        plots.scale_axis(axes.yaxis, [value / factor for value in values], True)

    return plots.panels(labels, contents, draw, wide=4.0, high=3.3, most=2)


CHAPTER = Added(chapter, before=timing.chapter, order=2)
