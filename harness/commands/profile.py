"""What a variant costs, without data and training: `python -m harness profile model=base,windowed scale=mini`.

Counts, times and memory are from processes of their own, one after the other: every round launches every variant, in an order
of its own. `--trace` adds the time by component, `--json` writes all values.
"""

import functools
import importlib.metadata
import json
import math
import os
import random
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from harness import metrics
from harness.checkpoints import start
from harness.commands.options import Profile
from harness.comparison import by_launch
from harness.comparison.paired import CONFIDENCE, Difference, grouped, holm
from harness.config.choices import MatchOn
from harness.config.resolve import resolve
from harness.config.schema import RunConfig, flatten, to_dict
from harness.errors import InputError, writing
from harness.hardware import device, facts
from harness.measure import subject
from harness.measure.launch import TIMING, launch
from harness.measure.records import TRACE, Launch, Measured, MemoryPeaks, ModelFlops, Request, Trace, TracedCall
from harness.paths import file_name, replaced
from harness.study.match import note as match_note
from harness.study.match import resized
from harness.study.timing import results
from harness.terminal import DASH, PREFIXES, Countdown, live_line, table, wrapped

IN_LABEL = ("task.name", "hardware.", "measure.", "finetune.batch_size")
"""Keys that are added to the name of a column where variants are the same but for them."""

VALUES = "profile.json"
"""File of the raw values."""

COMPILED = (
    "compiled: memory is without what a first call and the compiler leave behind, so it is below that of uncompiled models"
)
"""Why the two are not to be compared to the byte."""

RATIO = (
    "ratio of a time or rate: to the mean of both timings of the first variant in the same round, geometric mean over rounds "
    "[95 % t interval, Holm's for the variants of a row]; ~ where it holds 1: not resolved. A/A: what two timings of the first "
    "variant may differ by, the larger end of the 95 % t interval. The ratio of device time is divided by that of a reference "
    "workload, so that it holds beside other work"
)
"""How variants are compared."""

AGAIN = "A/A replicate"
"""Name of the second timing of the first variant, which shows what two timings of the same differ by."""

UNRESOLVED = "~"
"""In place of a ratio whose interval holds 1."""

LEAST, MOST, SECONDS = 5, 20, 60.0
"""Rounds of several variants where none are named: as many as begin within these seconds, and at least and at most so many."""

COUNTED = ("sizes", "flops")
"""Instruments whose results are the same every time; they run after what must be alone in its process."""

COMPONENTS = tuple(f"model/params_component_{name}" for name in metrics.PARAMETER_COMPONENTS)
COMPILING = "setup/compile_s"
"""A dash for a variant that runs uncompiled, and no row where all do."""

ROWS = {
    "sizes": ("model/params_total", "model/params_effective", *COMPONENTS, "model/weights_bytes"),
    "flops": ("model/flops_forward", "model/flops_train_step"),
    "timing": (
        "inference/latency_device_ms",
        *(f"inference/latency_ms_{name}" for name in ("min", "p50", "p90", "p99")),
        "inference/first_call_ms",
        "setup/import_s",
        "setup/build_s",
        COMPILING,
        "inference/device_tokens_per_s",
        "inference/tokens_per_s",
        "train_step/device_tokens_per_s",
        "train_step/tokens_per_s",
    ),
    "memory": ("inference/peak_memory_bytes", "train_step/peak_memory_bytes"),
}
"""Instrument -> names of its metrics, in the order of the rows."""

TITLES = {
    "inference/latency_device_ms": "latency, device",
    "inference/device_tokens_per_s": "inference, device",
    "inference/tokens_per_s": "inference",
    "train_step/device_tokens_per_s": "training, device",
    "train_step/tokens_per_s": "training",
    "train_step/peak_memory_bytes": "training peak memory",
}
"""Metric -> title beside which two variants fit 80 columns, with the unit behind it; all others are those of reports."""

HEAD = 14
"""Letters of a line of a head."""

SHORT = {"bytes": "B", "FLOP": "FLOP"}
"""Units that take a prefix, and how they are written then."""

CALLS = ("forward", "training_step")
"""Fields of a trace."""

PHASES = ("forward", "backward", "optimiser", "other")
PARTS = ("embeddings", "attention", "feed-forward", "norms", "head", "other")
"""Phases and components of time, as a trace names them, in the order of rows."""

MISSING = "not measured:"
"""Head of the reasons."""

NO_MARK = "the system gives no peak of memory"


@dataclass(frozen=True)
class Step:
    """One process: which variant, in which round, and what is measured there."""

    label: str
    round: int
    instruments: tuple[str, ...]


@dataclass
class Column:
    """What the launches of one variant measured: instrument -> round -> record, and the reason for what is missing."""

    records: dict[str, dict[int, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # instrument -> why its process failed

    def add(self, step: Step, measured: Measured, reason: str) -> None:
        """Takes over what one launch measured."""
        for instrument in step.instruments:
            record = getattr(measured, instrument)
            if record is not None:
                self.records.setdefault(instrument, {})[step.round] = record[0] if instrument in TIMING else record
            else:
                self.missing[instrument] = reason

    def values(self, instrument: str, name: str) -> dict[int, float | None]:
        """Round -> value of this metric."""
        return {number: metrics_of(record).get(name) for number, record in self.records.get(instrument, {}).items()}

    def to_json(self) -> dict[str, Any]:
        """Metrics and records of every round, and why others are missing."""
        rounds = {name: by_round.items() for name, by_round in self.records.items()}
        return {
            "metrics": {name: {number: metrics_of(record) for number, record in items} for name, items in rounds.items()},
            "records": {
                name: {
                    number: asdict(record) if is_dataclass(record) and not isinstance(record, type) else record
                    for number, record in items
                }
                for name, items in rounds.items()
            },
            "missing": self.missing,
        }


def metrics_of(record: Any) -> dict[str, float | None]:
    """Metric name -> value of one instrument's record; sizes have their names already."""
    if isinstance(record, Launch):
        return results.timing_values([record])
    if isinstance(record, MemoryPeaks):
        return {
            "inference/peak_memory_bytes": record.inference.kernel,
            "train_step/peak_memory_bytes": record.training_step.kernel,
        }
    if isinstance(record, ModelFlops):
        return {"model/flops_forward": record.forward, "model/flops_train_step": record.train_step}
    return record if isinstance(record, dict) else {}


def main(options: Profile, configs: list[RunConfig]) -> int:
    """Measures all variants, prints the tables, and writes the files that are switched on; 0, or 1 where something is missing.

    InputError for an absent GPU, and for what cannot be traced or written.
    """
    columns = columns_of(configs)
    if options.trace and any(config.hardware.device.value != "cpu" for config in columns.values()):
        raise InputError("--trace reads the clock of the CPU: expected hardware=cpu")
    if options.trace and any(config.hardware.compile for config in columns.values()):
        raise InputError("--trace finds no components in a compiled model: expected hardware.compile=false")
    if options.trace and any(config.measure.is_served for config in columns.values()):
        raise InputError("--trace is of models as they train: leave out measure.backend and measure.precision")
    for config in columns.values():
        device.refuse_absent(config.hardware)
    values = options.to / VALUES
    traces = {label: options.to / f"{file_name(label)}.trace.json" for label in columns} if options.trace else {}
    with writing(options.to):  # a folder that cannot be written is refused before anything is measured
        if traces or options.json:
            options.to.mkdir(parents=True, exist_ok=True)
        if options.json:
            values.touch()
    before = conditions(columns)
    measured = measure(columns, options.rounds, traces)
    print("\n\n".join([wrapped(before), render(measured), "\n".join(notes(columns, measured))]))
    if traces:
        print("\n" + component_rows(measured))
        print("\n" + "\n".join(map(str, traces.values())))
    if options.json:
        variants = {label: column.to_json() for label, column in measured.items()}
        with writing(options.to), replaced(values) as temporary:
            temporary.write_text(json.dumps({"conditions": before, "variants": variants}, indent=1))
        print(f"\n{values}")
    return 1 if any(column.missing for column in measured.values()) else 0


def columns_of(composed: list[RunConfig]) -> dict[str, RunConfig]:
    """Name of a column -> config, as a run of it resolves it, with the vocabulary of its model.

    InputError for a `match` that cannot be reached, or that only a run finds.
    """
    if any(config.match.cost is MatchOn.latency for config in composed):
        raise InputError(
            "match=latency times the texts of a task: expected match=params, flops or memory here, or plan in place of profile"
        )

    def resolved(config: RunConfig) -> RunConfig:
        subject.refuse_scored(config.task)
        return resolve(config, start.read(config))

    return labelled([resolved(config) for config in resized(composed, resolved)])


def labelled(configs: list[RunConfig]) -> dict[str, RunConfig]:
    """Name of a column -> config: the variant, with the scale and other keys where these alone differ between columns."""
    flat = [{key: value for key, value in flatten(to_dict(config)).items() if key.startswith(IN_LABEL)} for config in configs]
    differing = [key for key in flat[0] if len({str(values[key]) for values in flat}) > 1]
    scaled = len({config.scale_name for config in configs}) > 1
    labels: dict[str, RunConfig] = {}
    for config, keys in zip(configs, flat, strict=True):
        parts = [config.label, *([config.scale_name] if scaled else []), *(f"{key}={keys[key]}" for key in differing)]
        labels.setdefault(" ".join(parts), config)
    return labels


def conditions(configs: dict[str, RunConfig]) -> str:
    """One line: device, arithmetic, threads, length, library and load."""
    each = functools.partial(_each, configs)
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{each(lambda config: facts.device_name(config.hardware))}, {each(lambda config: config.hardware.dtype.value)}, "
        f"{each(lambda config: 'compiled' if config.hardware.compile else 'not compiled')}; "
        f"threads: {each(lambda config: config.measure.threads)} for latency and throughput, "
        f"{each(lambda config: facts.threads(config.hardware))} for training; "
        f"length {each(lambda config: config.measure.length)}; "
        f"torch {importlib.metadata.version('torch')}; load average {load} of {os.cpu_count()} cores"
    )


def notes(configs: dict[str, RunConfig], measured: dict[str, Column]) -> list[str]:
    """What the numbers are of, a list item each."""
    each = functools.partial(_each, configs)
    batch, calls = each(lambda config: config.measure.batch_size), each(lambda config: config.measure.repeats)
    timed = each(lambda config: config.measure.throughput_texts or config.measure.batch_size)
    rounds = max((len(column.records.get("timing", {})) for column in measured.values()), default=0)
    lines = [
        "random weights, texts of random ids without padding; the vocabulary is that of the model's config, not of a tokenizer",
        f"times: median over processes{'' if len(configs) > 1 else ' (lowest to highest)'}, {rounds} each, in turn in shuffled "
        "order; memory: one each; device: CPU time of the thread, or GPU time",
        f"latency: batch 1, quantiles of {calls} calls a launch after a warm-up until steady",
        f"throughput: batch {timed}; time to import: from the start of the process until torch and the model's code are there",
        f"peak memory: above a process with only its libraries loaded; inference: batch {batch}",
        f"training step, FLOPs and memory: batch {each(lambda config: config.finetune.batch_size)}",
        *([RATIO] if len(configs) > 1 else []),
        *([COMPILED] if any(config.hardware.compile for config in configs.values()) else []),
        *dict.fromkeys(filter(None, map(match_note, configs.values()))),
    ]
    for label, column in measured.items():
        warm_ups = [launch.latency.warm_up for launch in column.records.get("timing", {}).values()]
        unsteady = sum(not warm_up.steady for warm_up in warm_ups)
        ending = f"; NOT steady in {unsteady} of {len(warm_ups)} launches" if unsteady else ""
        if warm_ups:
            lines.append(f"warm-up calls of {label}: {', '.join(str(warm_up.calls) for warm_up in warm_ups)}{ending}")
    return [wrapped(line, 2, "-") for line in lines]


def _each(configs: dict[str, RunConfig], value: Callable[[RunConfig], object]) -> str:
    """The value of every variant, equal ones once."""
    return "/".join(dict.fromkeys(str(value(config)) for config in configs.values()))


# Processes


def plan(labels: list[str], rounds: int, traced: bool, again: bool = False) -> list[Step]:
    """All launches in order. Timing and memory have processes of their own, for each would measure what the other left.

    What does not depend on the load of the machine is measured in the first round alone. `again`: the A/A replicate too.
    """
    order, stream = [], random.Random(0)
    for number in range(rounds):
        steps = [Step(label, number, TIMING) for label in [*labels, *([AGAIN] if again else [])]]
        steps += [Step(label, number, ("memory", *COUNTED)) for label in labels if number == 0]
        stream.shuffle(steps)
        order += steps
    return order + [Step(label, 0, ("trace",)) for label in labels if traced]


def measure(configs: dict[str, RunConfig], rounds: int | None, traces: dict[str, Path]) -> dict[str, Column]:
    """Label -> what was measured, of several variants the A/A replicate too, which is their last.

    `rounds` None: as many as fit into a minute, of a single variant one. `traces`: files of the traces of all, empty for none.
    """
    compared = len(configs) > 1
    timed = configs | ({AGAIN: next(iter(configs.values()))} if compared else {})
    columns = {label: Column() for label in timed}
    steps = plan(list(configs), rounds or (MOST if compared else 1), bool(traces), compared)
    began, last, enough = time.monotonic(), 0, False
    countdown = Countdown(len(steps))
    with live_line("measuring") as line:
        for step in steps:
            if rounds is None and step.round > last:
                last = step.round
                enough = enough or (last >= LEAST and time.monotonic() - began > SECONDS)
            if enough and step.instruments == TIMING:
                countdown.total -= 1
                continue
            line.show(countdown.part(f"round {step.round + 1}, {step.label}, {', '.join(step.instruments)}"))
            config = timed[step.label]
            config = replace(config, measure=replace(config.measure, lengths=[], batch_sizes=[]))  # which no row shows
            with tempfile.TemporaryDirectory(prefix="harness-profile-") as folder:
                outcome = launch(config, Request(step.instruments, step.round), Path(folder))
                columns[step.label].add(step, outcome.measured, outcome.ending.reason)
                if (trace := Path(folder, TRACE)).exists():
                    traces[step.label].write_bytes(trace.read_bytes())
    return columns


# Tables


@dataclass(frozen=True)
class Values:
    """One quantity of one variant, by round; `why` is the reason where there are none.

    `corrected`: logs of device times, divided by that of the reference workload beside them, as they are compared.
    """

    rounds: dict[int, float]
    why: str = ""
    corrected: dict[int, float] = field(default_factory=dict)

    @property
    def logs(self) -> dict[int, float]:
        """Round -> log of the value as it is compared."""
        return self.corrected or {number: math.log(value) for number, value in self.rounds.items() if value > 0}


def values_of(column: Column, instrument: str, name: str) -> Values:
    """What was measured, or why it was not."""
    launches = column.values(instrument, name)
    values = {number: value for number, value in launches.items() if value is not None}
    launch_metric = metrics.get(name).launch
    if values and launch_metric and launch_metric in metrics.DEVICE_TIME.values():
        history = by_launch.history_of((number, record.values) for number, record in column.records[instrument].items())
        return Values(values, corrected=by_launch.corrected(history, launch_metric))
    if values or (launches and name == COMPILING):
        return Values(values)
    return Values({}, NO_MARK if launches else column.missing.get(instrument, "not measured"))


def render(measured: dict[str, Column]) -> str:
    """The table, each variant with its ratio beside it, and below it the reasons of its dashes."""
    labels = [label for label in measured if label != AGAIN]
    replicate = measured.get(AGAIN)
    rows, missing = [], []
    for instrument, names in ROWS.items():
        for name in names:
            values = [values_of(measured[label], instrument, name) for label in labels]
            if name in (*COMPONENTS, COMPILING) and not any(any(value.rounds.values()) for value in values if not value.why):
                continue  # what no variant has
            again = values_of(replicate, instrument, name) if replicate and instrument == "timing" else None
            rows.append(_row(name, values, again, bool(replicate)))
            title = metrics.get(name).title
            missing += [(label, value.why, title) for label, value in zip(labels, values, strict=True) if value.why]
    first, *others = ("\n".join(textwrap.wrap(label, HEAD, break_long_words=False)) for label in labels)
    ratio = "\n".join(textwrap.wrap(f"/ {labels[0]}", HEAD, break_long_words=False))
    head = ("", first, *(["A/A"] if replicate else []), *(cell for other in others for cell in (other, ratio)))
    aligned = "l" + "r" * (len(head) - 1 - 2 * len(others)) + "rR" * len(others)
    return "\n".join([table(head, rows, aligned), *reasons(missing)])


def _row(name: str, values: list[Values], again: Values | None, has_replicate: bool) -> tuple[str, ...]:
    metric = metrics.get(name)
    factor, unit = scale(metric.unit, [number for value in values for number in value.rounds.values()])
    title = f"{'  ' * (name in COMPONENTS)}{TITLES.get(name, metric.title)}{f', {unit}' * (unit != 'parameters')}"
    scaled = [[one / factor for one in value.rounds.values()] for value in values]
    first, *texts = [spread(of) if len(values) == 1 else number(median(of)) if of else DASH for of in scaled]
    if again is not None:
        floor, *ratios = compared(values, again)
    else:
        floor, (before, *others) = DASH, (value.rounds for value in values)  # counts and memory have one round
        ratios = [f"{here[0] / before[0]:.3f}" if here.get(0) is not None and before.get(0) else DASH for here in others]
    beside = (cell for pair in zip(texts, ratios, strict=True) for cell in pair)
    return (title, first, *([floor] if has_replicate else []), *beside)


def compared(values: list[Values], again: Values) -> list[str]:
    """The floor of a timing, by the A/A replicate, then the ratio of every other variant to the mean of both timings."""
    first, second, *others = [value.logs for value in (values[0], again, *values[1:])]
    both = {number: (first[number] + second[number]) / 2 for number in first if number in second}
    twice, *differences = (
        by_launch.of_rounds([after[number] - before[number] for number in after if number in before])
        for before, after in [(first, second), *((both, other) for other in others)]
    )
    factors = iter(holm([difference.t_test_p() for difference in differences if difference]))
    intervals = [it.interval_at(1 - (1 - CONFIDENCE) / next(factors)) if it else None for it in differences]
    floor = by_launch.noise_floor(twice)
    return [
        DASH if floor is None else f"{by_launch.percent(floor):.1f} %",
        *(_ratio(it, interval) for it, interval in zip(differences, intervals, strict=True)),
    ]


def _ratio(difference: Difference | None, interval: tuple[float, float] | None) -> str:
    """`0.908 [0.861, 0.957]`; UNRESOLVED in place of the number where its interval holds 1; a dash where there is none."""
    if difference is None:
        return DASH
    if interval is None:
        return f"{math.exp(difference.mean):.3f}, one round"
    if not difference.error:  # the same in every round
        return f"{math.exp(difference.mean):.3f}"
    ends = f"[{', '.join(f'{math.exp(end):.3f}' for end in interval)}]"
    return f"{UNRESOLVED if interval[0] <= 0 <= interval[1] else f'{math.exp(difference.mean):.3f}'} {ends}"


def reasons(missing: list[tuple[str, str, str]]) -> list[str]:
    """(variant, why, what) of all dashes as lines, one for each variant and reason."""
    whats = grouped(((label, why), what) for label, why, what in missing)
    lines = [f"  {label}: {why} ({', '.join(what)})" for (label, why), what in whats.items()]
    return ["", MISSING, *lines] if lines else []


def scale(unit: str, values: Sequence[float]) -> tuple[float, str]:
    """What all values of a row are divided by, and the unit then."""
    largest = max(values, default=0.0)
    if unit not in SHORT or not largest:
        return 1.0, unit
    factor, prefix = next((pair for pair in PREFIXES if largest >= pair[0]), (1.0, ""))
    return factor, f"{prefix}{SHORT[unit]}"


def spread(values: list[float]) -> str:
    """The median, and the range where values differ; a dash where there is none."""
    if not values:
        return DASH
    middle, low, high = map(number, (median(values), min(values), max(values)))
    return middle if min(values) == max(values) else f"{middle} ({low} to {high})"


def number(value: float) -> str:
    """Whole numbers with thousands apart, others with three digits that count at least."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def component_rows(measured: dict[str, Column]) -> str:
    """Time by component under the profiler: a row for each phase and component, milliseconds and share for each variant."""
    traced: dict[str, Trace] = {label: it.records["trace"][0] for label, it in measured.items() if "trace" in it.records}
    rows = []
    for call in CALLS:
        calls: list[TracedCall] = [getattr(trace, call) for trace in traced.values()]
        rows.append((call.replace("_", " "), "ms", *(number(timed.whole_ms) for timed in calls)))
        for phase, component in [(phase, component) for phase in PHASES for component in PARTS]:
            times = [timed.parts_ms.get(phase, {}).get(component) for timed in calls]
            if any(times):
                pairs = [(time, timed.whole_ms) for time, timed in zip(times, calls, strict=True)]
                shares = [DASH if ms is None else f"{number(ms)} ({100 * ms / whole:.0f} %)" for ms, whole in pairs]
                rows.append((f"  {part_title(call, phase, component)}", "ms", *shares))
    rows.append(("forward pass, no profiler", "ms", *(number(trace.unprofiled_forward_ms) for trace in traced.values())))
    missing = [(label, it.missing["trace"], "time by component") for label, it in measured.items() if "trace" in it.missing]
    text = table(("time by component", "unit", *traced), rows, "llr", keys=2) if traced else ""
    return "\n".join([text, *reasons(missing)])


def part_title(call: str, phase: str, component: str) -> str:
    """The name of a part of the forward pass or of the training step."""
    if phase in ("optimiser", "other"):
        return "optimiser" if phase == "optimiser" else "between the phases"
    return component if call == "forward" else f"{phase}: {component}"
