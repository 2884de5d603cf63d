"""Costs of a variant, without data and training: `python -m harness profile model=base,windowed scale=mini`.

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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from harness import metrics
from harness.checkpoints import start
from harness.comparison import by_launch
from harness.comparison.by_launch import History
from harness.comparison.paired import CONFIDENCE, Difference, grouped, holm
from harness.config.choices import MatchOn
from harness.config.resolve import resolve
from harness.config.schema import RunConfig, flatten, to_dict
from harness.errors import InputError, present, writing
from harness.hardware import device, facts
from harness.measure import subject
from harness.measure.flops import ModelFlops
from harness.measure.launch import TIMING, launch
from harness.measure.records import TRACE, Launch, Measured, MemoryPeaks, Request, Trace, TracedCall, to_json
from harness.paths import file_name, replaced
from harness.plugins.costs.match import note as match_note
from harness.plugins.costs.match import resized
from harness.plugins.costs.options import Profile
from harness.plugins.costs.trace import COMPONENTS as PARTS
from harness.plugins.costs.trace import PHASES
from harness.plugins.shared.countdown import Countdown
from harness.reports.writing.formats import prefix
from harness.study import timing_session
from harness.terminal import DASH, live_line, table, wrapped

IN_LABEL = ("task.name", "hardware.", "measure.", "finetune.batch_size")
"""Keys that are added to the name of a column where variants are the same but for them."""

VALUES = "profile.json"
"""File of the raw values."""

COMPILED = (
    "compiled: memory excludes what the first call and the compiler leave behind, so it is lower than for uncompiled models"
)
"""Why the two are not to be compared to the byte."""

RATIO = (
    "ratio of a time or rate: to the mean of both timings of the first variant in the same round, geometric mean over rounds "
    "[95 % t interval, Holm-corrected for the variants of a row]; ~ inconclusive: it contains 1. A/A: upper confidence bound "
    "of the difference between two timings of the first variant. Device time is divided by that of a reference workload, which "
    "makes its ratio robust on a busy machine"
)
"""How variants are compared."""

AGAIN = "A/A replicate"
"""Name of the second timing of the first variant, which shows what two timings of the same differ by."""

UNRESOLVED = "~"
"""In place of a ratio whose interval holds 1."""

LEAST, MOST, SECONDS = 5, 20, 60.0
"""Rounds of several variants where none are named: as many as begin within these seconds, and at least and at most so many."""

FIRST_ROUND = ("memory", "sizes", "flops")
"""Instruments of one process of the first round: memory must be alone in it, and what is the same every time comes after."""

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
"""Metric -> short title with unit, so that two variants fit 80 columns; others use the report's."""

HEAD = 14
"""Letters of a line of a head."""

SHORT = {"bytes": "B", "FLOP": "FLOP"}
"""Units that take a prefix, and how they are written then."""

TRACED = "harness.plugins.costs.trace:trace"
"""The instrument that traces."""

WHOLE_PHASES = {"optimiser": "optimiser", "other": "between the phases"}
"""Phases that are no sum of components, as a row names them."""

MISSING = "not measured:"
"""Head of the reasons."""

NO_MARK = "no peak memory: not available on this system, or a served model is not trained"


@dataclass
class Column:
    """Measurements of one variant: instrument -> round -> record, and reasons for missing ones."""

    records: dict[str, dict[int, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # instrument -> why its process failed

    def add(self, number: int, instruments: tuple[str, ...], measured: Measured, reason: str) -> None:
        """Adds the measurements of one launch."""
        for instrument in instruments:
            instrument = instrument.rpartition(":")[2]
            record = getattr(measured, instrument)
            if record is not None:
                self.records.setdefault(instrument, {})[number] = record[0] if isinstance(record, list) else record
            else:
                self.missing[instrument] = reason

    def history(self, instrument: str) -> History:
        """Metric -> round -> value, where known; timings include those of their launches."""
        return by_launch.history_of((number, metrics_of(one)) for number, one in self.records.get(instrument, {}).items())

    def why(self, instrument: str) -> str:
        """Why it lacks a metric of this instrument."""
        return NO_MARK if self.records.get(instrument) else self.missing.get(instrument, "not measured")

    def to_json(self) -> dict[str, Any]:
        """Metrics and records of every round, and why others are missing."""
        rounds = {name: by_round.items() for name, by_round in self.records.items()}
        return {
            "metrics": {name: {number: metrics_of(one) for number, one in items} for name, items in rounds.items()},
            "records": {
                name: {number: one if isinstance(one, dict) else to_json(one) for number, one in items}
                for name, items in rounds.items()
            },
            "missing": self.missing,
        }


def metrics_of(record: Any) -> dict[str, float]:
    """Metric name -> value of one instrument's record, where it is known; sizes have their names already."""
    values = record if isinstance(record, dict) else {}
    if isinstance(record, Launch):
        values = timing_session.timing_values([record]) | record.values
    if isinstance(record, MemoryPeaks):
        values = dict(zip(ROWS["memory"], (record.inference.kernel, record.training_step.kernel), strict=True))
    if isinstance(record, ModelFlops):
        values = dict(zip(ROWS["flops"], (record.forward, record.train_step), strict=True))
    return {name: value for name, value in values.items() if value is not None}


def main(options: Profile, configs: list[RunConfig]) -> int:
    """Measures all variants, prints the tables, and writes the files that are switched on; 0, or 1 where something is missing.

    InputError for an absent GPU, and for what cannot be traced or written.
    """
    variants = variants_of(configs)
    for config in variants.values():
        if options.trace and config.hardware.compile:
            raise InputError("--trace finds no components in a compiled model: expected hardware.compile=false")
        if options.trace and config.measure.is_served:
            raise InputError("--trace runs models as they train: leave out measure.backend and measure.precision")
        device.refuse_absent(config.hardware)
    file = options.to / VALUES
    traces = {label: options.to / f"{file_name(label)}.trace.json" for label in variants} if options.trace else {}
    with writing(options.to):  # a folder that cannot be written is refused before anything is measured
        if traces or options.json:
            options.to.mkdir(parents=True, exist_ok=True)
        if options.json:
            file.touch()
    before = conditions(variants)
    columns = measure(variants, options.rounds, traces)
    print("\n\n".join([wrapped(before), render(columns), "\n".join(notes(variants, columns))]))
    if traces:
        print(f"\n{component_rows(columns)}\n")
        print(*traces.values(), sep="\n")
    if options.json:
        values = {"conditions": before, "variants": {label: column.to_json() for label, column in columns.items()}}
        with writing(options.to), replaced(file) as temporary:
            temporary.write_text(json.dumps(values, indent=1))
        print(f"\n{file}")
    return int(any(column.missing for column in columns.values()))


def variants_of(composed: list[RunConfig]) -> dict[str, RunConfig]:
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


def _every(variants: dict[str, RunConfig], value: str | Callable[[RunConfig], object]) -> str:
    """The value of every variant, by its key or by a function of the config; equal ones once."""
    get = attrgetter(value) if isinstance(value, str) else value
    return "/".join(dict.fromkeys(str(get(config)) for config in variants.values()))


def conditions(variants: dict[str, RunConfig]) -> str:
    """One line: device, arithmetic, threads, length, library and load."""
    every, load = functools.partial(_every, variants), ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{every(lambda config: facts.device_name(config.hardware))}, {every('hardware.dtype.value')}, "
        f"{every(lambda config: 'compiled' if config.hardware.compile else 'not compiled')}; "
        f"threads: {every('measure.threads')} for latency and throughput, "
        f"{every(lambda config: facts.threads(config.hardware))} for training; length {every('measure.length')}; "
        f"torch {importlib.metadata.version('torch')}; load average {load} of {os.cpu_count()} cores"
    )


def notes(variants: dict[str, RunConfig], columns: dict[str, Column]) -> list[str]:
    """What the numbers are of, a list item each."""
    every, are_several = functools.partial(_every, variants), len(variants) > 1
    launches = {label: [*column.records.get("timing", {}).values()] for label, column in columns.items()}
    lines = [
        "random weights, texts of random ids without padding; the vocabulary is that of the model's config, not of a tokenizer",
        f"times: median over processes{'' if are_several else ' (lowest to highest)'}, {max(map(len, launches.values()))} "
        "each, in turn in shuffled order; memory: one each; device: CPU time of the thread, or GPU time",
        f"latency: batch 1, quantiles of {every('measure.repeats')} calls a launch after a warm-up until steady",
        f"throughput: batch {every(lambda config: config.measure.throughput_texts or config.measure.batch_size)}; time to "
        "import: from the start of the process until torch and the model's code are there",
        f"peak memory: above a process with only its libraries loaded; inference: batch {every('measure.batch_size')}",
        f"training step, FLOPs and memory: batch {every('finetune.batch_size')}; its tokens/s: batch "
        f"{every('measure.train_batch_size')}",
        *([RATIO] if are_several else []),
        *([COMPILED] if any(config.hardware.compile for config in variants.values()) else []),
        *dict.fromkeys(filter(None, map(match_note, variants.values()))),
    ]
    for label, timed in launches.items():
        if unsteady := sum(not one.latency.warm_up.steady for one in timed):
            lines.append(f"latency of {label}: NOT steady after the longest warm-up in {unsteady} of {len(timed)} launches")
    return [wrapped(line, 2, "-") for line in lines]


def measure(variants: dict[str, RunConfig], rounds: int | None, traces: dict[str, Path]) -> dict[str, Column]:
    """Label -> what was measured, of several variants the A/A replicate too, which is their last.

    Every round launches every variant, in an order of its own. `rounds` None: as many as fit into a minute, of a single variant
    one. `traces`: files of the traces of all, empty for none.
    """
    are_several = len(variants) > 1
    timed = variants | ({AGAIN: next(iter(variants.values()))} if are_several else {})
    columns = {label: Column() for label in timed}
    most = rounds or (MOST if are_several else 1)
    began, stream, countdown = time.monotonic(), random.Random(0), Countdown(most * len(timed) + len(variants) + len(traces))
    with live_line("measuring") as line:

        def run(label: str, number: int, instruments: tuple[str, ...]) -> None:
            line.show(countdown.part(f"round {number + 1}, {label}, {', '.join(instruments)}"))
            config = timed[label]
            config = replace(config, measure=replace(config.measure, lengths=[], batch_sizes=[]))  # which no row shows
            with tempfile.TemporaryDirectory(prefix="harness-profile-") as folder:
                outcome = launch(config, Request(instruments, number), Path(folder))
                columns[label].add(number, instruments, outcome.measured, outcome.ending.reason)
                if (trace := Path(folder, TRACE)).exists():
                    traces[label].write_bytes(trace.read_bytes())

        for number in range(most):
            if rounds is None and number >= LEAST and time.monotonic() - began > SECONDS:
                countdown.total -= (most - number) * len(timed)
                break
            steps: list[tuple[str, tuple[str, ...]]] = [(label, TIMING) for label in timed]
            steps += [(label, FIRST_ROUND) for label in variants if number == 0]
            stream.shuffle(steps)
            for label, instruments in steps:
                run(label, number, instruments)
        for label in traces:
            run(label, 0, (TRACED,))
    return columns


def render(columns: dict[str, Column]) -> str:
    """The table, each variant with its ratio, and below it the reasons for dashes."""
    variants = {label: column for label, column in columns.items() if label != AGAIN}
    rows = []
    missing = []
    for instrument, names in ROWS.items():
        histories = [column.history(instrument) for column in variants.values()]
        again = columns[AGAIN].history(instrument if instrument == "timing" else "") if AGAIN in columns else None
        for name in names:
            lacking = [label for label, history in zip(variants, histories, strict=True) if name not in history]
            values = [value for history in histories for value in history.get(name, {}).values()]
            if name in (*COMPONENTS, COMPILING) and not any(values):
                continue  # what no variant has
            rows.append(_row(name, values, histories, again))
            if name != COMPILING:
                missing += [(label, variants[label].why(instrument), metrics.get(name).title) for label in lacking]
    first, *others = ("\n".join(textwrap.wrap(label, HEAD, break_long_words=False)) for label in variants)
    ratio = "\n".join(textwrap.wrap(f"/ {next(iter(variants))}", HEAD, break_long_words=False))
    head = ("", first, *(["A/A"] if AGAIN in columns else []), *(cell for other in others for cell in (other, ratio)))
    aligned = "l" + "r" * (len(head) - 1 - 2 * len(others)) + "rR" * len(others)
    return "\n".join([table(head, rows, aligned), *reasons(missing)])


def _row(name: str, values: list[float], histories: list[History], again: History | None) -> tuple[str, ...]:
    metric, largest = metrics.get(name), max(values, default=0.0)
    factor, letter = prefix(largest) if metric.unit in SHORT else (1.0, "")
    unit = letter + SHORT.get(metric.unit, metric.unit) if largest else metric.unit
    title = f"{'  ' * (name in COMPONENTS)}{TITLES.get(name, metric.title)}{f', {unit}' * (unit != 'parameters')}"
    cells = [spread([one / factor for one in it.get(name, {}).values()], len(histories) == 1) for it in histories]
    floor, ratios = compared(name, histories, again or {})
    beside = (cell for pair in zip(cells[1:], ratios, strict=True) for cell in pair)
    return (title, cells[0], *([] if again is None else [floor]), *beside)


def compared(name: str, histories: list[History], again: History) -> tuple[str, list[str]]:
    """The floor of a timing, by the A/A replicate, and the ratio of every other variant to the mean of both timings.

    Device time is divided by that of the reference workload next to it. Counts and memory, measured once, have no floor.
    """
    metric = metrics.get(name).launch
    is_corrected = metric in metrics.DEVICE_TIME.values()
    first, second, *others = (
        by_launch.corrected(one, present(metric)) if is_corrected and name in one else by_launch.logs_of(one, name)
        for one in (histories[0], again, *histories[1:])
    )
    both = {number: (first[number] + second[number]) / 2 for number in first if number in second} if name in again else first
    twice, *differences = (
        by_launch.of_rounds([after[number] - before[number] for number in after if number in before])
        for before, after in [(first, second), *((both, other) for other in others)]
    )
    factors = iter(holm([it.t_test_p() for it in differences if it]))
    intervals = [it.interval_at(1 - (1 - CONFIDENCE) / next(factors)) if it else None for it in differences]
    floor = by_launch.noise_floor(twice)
    ratios = [_ratio(it, interval, name in again) for it, interval in zip(differences, intervals, strict=True)]
    return DASH if floor is None else f"{by_launch.percent(floor):.1f} %", ratios


def _ratio(difference: Difference | None, interval: tuple[float, float] | None, is_timing: bool) -> str:
    """`0.908 [0.861, 0.957]`; UNRESOLVED in place of the number where its interval holds 1; a dash where there is none."""
    if difference is None:
        return DASH
    ratio = f"{math.exp(difference.mean):.3f}"
    if interval is None:
        return f"{ratio}, one round" if is_timing else ratio
    if not difference.error:  # the same in every round
        return ratio
    ends = f"[{', '.join(f'{math.exp(end):.3f}' for end in interval)}]"
    return f"{UNRESOLVED if interval[0] <= 0 <= interval[1] else ratio} {ends}"


def reasons(missing: list[tuple[str, str, str]]) -> list[str]:
    """The dashes as lines, one for each variant and reason; `missing`: variant, why, and what."""
    whats = grouped(((label, why), what) for label, why, what in missing)
    lines = [f"  {label}: {why} ({', '.join(what)})" for (label, why), what in whats.items()]
    return ["", MISSING, *lines] if lines else []


def spread(values: list[float], with_range: bool) -> str:
    """The median, and the range where values differ; a dash where there is none."""
    if not values:
        return DASH
    ends = f" ({number(min(values))} to {number(max(values))})" if with_range and min(values) != max(values) else ""
    return f"{number(median(values))}{ends}"


def number(value: float) -> str:
    """Whole numbers with thousands apart, others with three digits that count at least."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def component_rows(columns: dict[str, Column]) -> str:
    """Time by component under the profiler: a row for each phase and component, milliseconds and share for each variant."""
    traces: dict[str, Trace] = {label: it.records["trace"][0] for label, it in columns.items() if "trace" in it.records}
    rows = []
    for call in ("forward", "training_step"):
        calls: list[TracedCall] = [getattr(trace, call) for trace in traces.values()]
        rows.append((call.replace("_", " "), "ms", *(number(timed.whole_ms) for timed in calls)))
        for phase, component in [(phase, component) for phase in PHASES for component in PARTS]:
            times = [(timed.parts_ms.get(phase, {}).get(component, 0.0), timed.whole_ms) for timed in calls]
            if any(ms for ms, _ in times):
                shares = [f"{number(ms)} ({100 * ms / whole:.0f} %)" if ms else DASH for ms, whole in times]
                title = WHOLE_PHASES.get(phase, component if call == "forward" else f"{phase}: {component}")
                rows.append((f"  {title}", "ms", *shares))
    rows.append(("forward pass, no profiler", "ms", *(number(trace.unprofiled_forward_ms) for trace in traces.values())))
    missing = [(label, it.missing["trace"], "time by component") for label, it in columns.items() if "trace" in it.missing]
    text = table(("time by component", "unit", *traces), rows, "llr", keys=2) if traces else ""
    return "\n".join([text, *reasons(missing)])
