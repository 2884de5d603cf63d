"""The table of a profile: a row for each quantity, a column for each variant, then each one's ratio to the first."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness import metrics
from harness.commands.profile.launch import AGAIN, Column
from harness.measure.records import Trace, TracedCall
from harness.paired import CONFIDENCE, Difference, holm, of_differences
from harness.terminal import table

COMPONENTS = tuple(f"model/params_component_{name}" for name in metrics.PARAMETER_COMPONENTS)
COMPILING = "setup/compile_s"
"""A dash for a variant that runs uncompiled, and no row where all do."""

ROWS = {
    "sizes": ("model/params_total", "model/params_effective", *COMPONENTS, "model/weights_bytes"),
    "flops": ("model/flops_forward", "model/flops_train_step"),
    "timing": (
        *(f"inference/latency_ms_{name}" for name in ("min", "p50", "p90", "p99")),
        "inference/first_call_ms",
        "setup/import_s",
        "setup/build_s",
        COMPILING,
        "inference/tokens_per_s",
    ),
    "memory": ("inference/peak_memory_bytes", "train_step/peak_memory_bytes"),
}
"""Instrument -> names of its metrics, in the order of the rows."""

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
SHORT = {"bytes": "B", "FLOP": "FLOP"}
"""Units that take a prefix, and how they are written then."""

CALLS = ("forward", "training_step")
"""Fields of a trace."""

PHASES = ("forward", "backward", "optimiser", "other")
PARTS = ("embeddings", "attention", "feed-forward", "norms", "head", "other")
"""Phases and components of time, as a trace names them, in the order of rows and bars."""

DASH = "-"
MISSING = "not measured:"
"""Head of the reasons."""

NO_MARK = "the system gives no peak of memory"


@dataclass(frozen=True)
class Values:
    """One quantity of one variant, by round; `why` is the reason where there are none."""

    rounds: dict[int, float]
    why: str = ""


def values_of(column: Column, instrument: str, name: str) -> Values:
    """What was measured, or why it was not."""
    launches = column.values(instrument, name)
    known = {number: value for number, value in launches.items() if value is not None}
    if known or (launches and name == COMPILING):
        return Values(known)
    return Values({}, NO_MARK if launches else column.missing.get(instrument, "not measured"))


def ratios(values: Values, first: Values) -> Values:
    """To the first variant's value of the same round; where that is 0 or missing, there is none."""
    shared = [number for number in values.rounds if first.rounds.get(number)]
    return Values({number: values.rounds[number] / first.rounds[number] for number in shared})


def render(measured: dict[str, Column]) -> str:
    """The table, and below it the reasons of its dashes."""
    labels = [label for label in measured if label != AGAIN]
    replicate = measured.get(AGAIN)
    beside = ("A/A",) if replicate else ()
    head = ("", "unit", *labels, *beside, *(f"{label} / {labels[0]}" for label in labels[1:]))
    rows, missing = [], []
    for instrument, names in ROWS.items():
        for name in names:
            values = [values_of(measured[label], instrument, name) for label in labels]
            if name in (*COMPONENTS, COMPILING) and not any(any(one.rounds.values()) for one in values if not one.why):
                continue  # what no variant has
            again = values_of(replicate, instrument, name) if replicate and instrument == "timing" else None
            rows.append(_row(name, values, again, beside))
            title = metrics.get(name).title
            missing += [(label, one.why, title) for label, one in zip(labels, values, strict=True) if one.why]
    text = table(head, rows, "ll" + "r" * (len(head) - 2))
    return "\n".join([text, *reasons(missing)])


def _row(name: str, values: list[Values], again: Values | None, beside: tuple[str, ...]) -> tuple[str, ...]:
    metric = metrics.get(name)
    factor, unit = scale(metric.unit, [value for one in values for value in one.rounds.values()])
    title = f"  {metric.title}" if name in COMPONENTS else metric.title
    shown = [spread([value / factor for value in one.rounds.values()]) for one in values]
    if again is not None:
        return (title, unit, *shown, *compared(values, again))
    plain = [spread(list(ratios(one, values[0]).rounds.values()), ratio=True) for one in values[1:]]
    return (title, unit, *shown, *(DASH for _ in beside), *plain)


def compared(values: list[Values], again: Values) -> list[str]:
    """Ratios of a timing: of the A/A replicate to the first variant, then of every other variant to the mean of both."""
    first, second, *others = [_logs(one) for one in (values[0], again, *values[1:])]
    both = {number: (first[number] + second[number]) / 2 for number in first if number in second}
    twice = _difference(first, second)
    found = [_difference(both, one) for one in others]
    factors = iter(holm([one.t_test_p() for one in found if one]))
    intervals = [one.interval_at(1 - (1 - CONFIDENCE) / next(factors)) if one else None for one in found]
    texts = [_ratio(one, interval, judged=True) for one, interval in zip(found, intervals, strict=True)]
    return [_ratio(twice, twice.interval if twice else None, judged=False), *texts]


def _logs(values: Values) -> dict[int, float]:
    return {number: math.log(value) for number, value in values.rounds.items() if value > 0}


def _difference(before: dict[int, float], after: dict[int, float]) -> Difference | None:
    """Paired by round; None where they share none."""
    logs = [after[number] - before[number] for number in after if number in before]
    return of_differences(logs) if logs else None


def _ratio(found: Difference | None, interval: tuple[float, float] | None, judged: bool) -> str:
    """`0.908 [0.861, 0.957]`; without a number where its interval holds 1; a dash where there is nothing to tell by."""
    if found is None:
        return DASH
    if interval is None:
        return f"{math.exp(found.mean):.3f}, one round"
    if not found.error:  # the same in every round
        return f"{math.exp(found.mean):.3f}"
    ends = f"[{', '.join(f'{math.exp(end):.3f}' for end in interval)}]"
    unresolved = judged and interval[0] <= 0 <= interval[1]
    return f"{'not resolved' if unresolved else f'{math.exp(found.mean):.3f}'} {ends}"


def reasons(missing: list[tuple[str, str, str]]) -> list[str]:
    """(variant, why, what) of all dashes as lines, one for each variant and reason."""
    whats: dict[tuple[str, str], list[str]] = {}
    for label, why, what in missing:
        whats.setdefault((label, why), []).append(what)
    lines = [f"  {label}: {why} ({', '.join(what)})" for (label, why), what in whats.items()]
    return ["", MISSING, *lines] if lines else []


def scale(unit: str, values: Sequence[float]) -> tuple[float, str]:
    """What all values of a row are divided by, and the unit then."""
    largest = max(values, default=0.0)
    if unit not in SHORT or not largest:
        return 1.0, unit
    factor, prefix = next((factor, prefix) for factor, prefix in PREFIXES if largest >= factor or factor == 1)
    return factor, f"{prefix}{SHORT[unit]}"


def spread(values: list[float], ratio: bool = False) -> str:
    """The median, and the range where values differ; a dash where there is none."""
    if not values:
        return DASH
    shown = f"{median(values):.3f}" if ratio else number(median(values))
    if min(values) == max(values):
        return shown
    low, high = (f"{end:.3f}" if ratio else number(end) for end in (min(values), max(values)))
    return f"{shown} ({low} to {high})"


def number(value: float) -> str:
    """Whole numbers with thousands apart, others with three digits that count at least."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def component_rows(measured: dict[str, Column]) -> str:
    """Time by component under the profiler: a row for each phase and component, milliseconds and share for each variant."""
    traced: dict[str, Trace] = {label: one.records["trace"][0] for label, one in measured.items() if "trace" in one.records}
    rows = []
    for call in CALLS:
        calls: list[TracedCall] = [getattr(one, call) for one in traced.values()]
        rows.append((call.replace("_", " "), "ms", *(number(one.whole_ms) for one in calls)))
        for phase, component in parts_of([one.parts_ms for one in calls]):
            shares = [_share(one.parts_ms.get(phase, {}).get(component), one.whole_ms) for one in calls]
            rows.append((f"  {part_title(call, phase, component)}", "ms", *shares))
    rows.append(("forward pass, no profiler", "ms", *(number(one.unprofiled_forward_ms) for one in traced.values())))
    missing = [(label, one.missing["trace"], "time by component") for label, one in measured.items() if "trace" in one.missing]
    text = table(("time by component", "unit", *traced), rows, "ll" + "r" * len(traced)) if traced else ""
    return "\n".join([text, *reasons(missing)])


def parts_of(variants: list[dict[str, dict[str, float]]]) -> list[tuple[str, str]]:
    """(phase, component) that any variant has, in the order in which they are shown."""
    pairs = [(phase, component) for phase in PHASES for component in PARTS]
    return [(phase, part) for phase, part in pairs if any(parts.get(phase, {}).get(part) for parts in variants)]


def part_title(call: str, phase: str, component: str) -> str:
    """The name of a part of the forward pass or of the training step."""
    if phase in ("optimiser", "other"):
        return "optimiser" if phase == "optimiser" else "between the phases"
    return component if call == "forward" else f"{phase}: {component}"


def _share(value: float | None, whole: float) -> str:
    return DASH if value is None else f"{number(value)} ({100 * value / whole:.0f} %)"
