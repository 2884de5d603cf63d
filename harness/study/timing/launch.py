"""One launch: a fresh process that builds a variant once and times it. What it says of the network holds for any weights.

python -m harness.timing.launch FOLDER ROUND     reads config.yaml and launch.json there, leaves launch-ROUND.json

Latency, throughput and lengths are passes of their own; nothing is written while one of them runs. The calls of a pass come
in blocks with the reference workload between them, so that what the machine did in these seconds is seen beside them.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from harness import processes, tasks
from harness.config import resolve
from harness.config.schema import MeasureConfig, RunConfig
from harness.hardware import energy, load
from harness.hardware.device import Machine, empty_compiler_cache
from harness.measure import latency as speed
from harness.measure import peak_flops
from harness.measure.memory import PeakMemory
from harness.measure.reference import Reference
from harness.measure.warmup import WarmUp, warm_up
from harness.tasks import prepared as cache
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import now_ms, write_json
from models.batch import Batch
from models.heads import Classifier, build_classifier

IMPORTED = time.time()

BLOCKS = 5
"""Parts that the calls of a pass come in, the reference workload before, between and behind them."""

PASSES = 3
"""Times that a launch goes over the batches of throughput, the reference workload before, between and behind."""

FEWEST = 3
"""Calls of a length or batch size, however long they take."""

Result = dict[str, Any]


def main(folder: Path, number: int) -> None:
    """Times one variant; an exception leaves no file."""
    config = resolve.load(folder / "config.yaml")
    told = json.loads((folder / "launch.json").read_text())
    prepared = cache.read(config, told["data"])
    machine = Machine(config.hardware)
    machine.use_threads(config.measure.threads)
    gc.disable()  # no collection falls into one variant's calls and not into another's
    with empty_compiler_cache():
        write_json(folder / f"launch-{number}.json", timed(config, prepared, machine, number == 0))


def timed(config: RunConfig, prepared: Prepared, machine: Machine, first: bool) -> Result:
    """All that this launch saw; only the first one measures the peak of the machine."""
    measure = config.measure
    memory = PeakMemory(machine) if measure.lengths or measure.batch_sizes else None
    started = time.perf_counter()
    model = build_classifier(config.model, tasks.num_outputs(config.task), 0, tasks.kind_of(config.task).head())
    model = machine.compiled(model.to(machine.device))
    built, call = time.perf_counter() - started, speed.forward(model, machine)
    text = speed.text_of(measure.length, prepared.vocab_size, machine)
    called = speed.time_ms(lambda: call(text), machine)
    span, reference = load.ForeignLoad(), Reference(machine)
    batches = speed.sample_batches(prepared, measure.batch_size, measure.throughput_batches, machine)
    if machine.compiles:
        for batch in batches:  # whatever compiles more graphs
            call(batch)
    latency = latencies(lambda: call(text), measure, machine, reference)
    result = {
        "time": now_ms(),
        "import_s": IMPORTED - psutil.Process().create_time(),
        "build_s": built,
        "compile_s": compile_s(called, latency, machine),
        "first_call_ms": called,
        "latency": latency,
        "throughput": throughput(call, batches, machine, reference),
        "points": points(model, config, prepared, machine, memory),
    }
    foreign = span.foreign_cpus()
    return result | {
        "foreign_cpus": foreign,
        "load_average": load.load_average(),
        "cpu_mhz": load.cpu_mhz(),
        "gpu_processes": load.other_gpu_processes(machine),
        "peak_flops_per_s": peak_flops.peak_flops_per_s(machine) if first else None,
    }


def latencies(call: Callable[[], object], measure: MeasureConfig, machine: Machine, reference: Reference) -> Result:
    """Raw milliseconds of the timed calls behind a warm-up until steady, and of the reference workload among them."""
    warmed: WarmUp = warm_up(call, machine)
    raw, beside = [], [reference.time_ms()]
    for block in range(BLOCKS):
        for _ in range(block, measure.repeats, BLOCKS):
            raw.append(speed.time_ms(call, machine))
        beside.append(reference.time_ms())
    warming = {"calls": warmed.calls, "steady": warmed.steady, "raw_ms": warmed.values_ms}
    return {"raw_ms": raw, "reference_ms": beside, "warm_up": warming}


def compile_s(first_call_ms: float, latency: Result, machine: Machine) -> float | None:
    """What the first call took beyond a steady one: to compile, and all else that is done once; None for uncompiled models."""
    return max(0.0, first_call_ms - median(latency["raw_ms"])) / 1e3 if machine.compiles else None


def throughput(call: Callable[..., object], batches: list[Batch], machine: Machine, reference: Reference) -> Result:
    """Total work and total synchronised time of all passes over the batches, after one unmeasured batch."""
    call(batches[-1])
    beside, meter, milliseconds = [reference.time_ms()], energy.EnergyMeter(energy.counters(machine)), 0.0

    def work() -> None:
        for batch in batches:
            call(batch)

    def passes() -> None:
        nonlocal milliseconds
        for _ in range(PASSES):
            milliseconds += speed.time_ms(work, machine)
            with meter.paused():
                beside.append(reference.time_ms())

    joules = meter.of(passes)
    return {
        "seconds": milliseconds / 1e3,
        "tokens": PASSES * sum(batch.tokens for batch in batches),
        "padded_tokens": PASSES * sum(batch.input_ids.numel() for batch in batches),
        "samples": PASSES * sum(len(batch.input_ids) for batch in batches),
        "joules": joules,
        "reference_ms": beside,
    }


def points(
    model: Classifier, config: RunConfig, prepared: Prepared, machine: Machine, memory: PeakMemory | None
) -> list[Result]:
    """One entry for each of measure.lengths that the model can read, at batch 1, and for each of measure.batch_sizes."""
    measure = config.measure
    shapes = [(1, length) for length in measure.lengths if length <= config.model.longest_text]
    shapes += [(size, measure.length) for size in measure.batch_sizes]
    return [point(model, shape, measure, prepared.vocab_size, machine, memory) for shape in shapes]


def point(
    model: Classifier, shape: tuple[int, int], measure: MeasureConfig, vocab_size: int, machine: Machine, memory: PeakMemory
) -> Result:
    """Latency, throughput and peak memory of texts without padding, `shape` being batch size and length in tokens.

    Throughput is that of a batch with about as many tokens as one of measure.length, so that short texts do not pay for
    being alone; a longer text is such a batch itself.
    """
    call, (size, length) = speed.forward(model, machine), shape
    text = speed.text_of(length, vocab_size, machine, size)
    if machine.compiles:
        memory.leave_out(lambda: call(text))
    highest = memory.of(lambda: call(text))
    raw = repeated(lambda: call(text), measure.repeats, measure.seconds_per_length, machine)
    texts, taken = size, raw
    if measure.batch_size * measure.length >= 2 * size * length:
        texts = measure.batch_size * measure.length // length
        wide = speed.text_of(length, vocab_size, machine, texts)
        taken = repeated(lambda: call(wide), FEWEST, 0.0, machine)
    rate = len(taken) * texts * length / (sum(taken) / 1e3)
    return {"batch_size": size, "length": length, "raw_ms": raw, "tokens_per_s": rate, "peak_memory_bytes": highest}


def repeated(call: Callable[[], object], repeats: int, seconds: float, machine: Machine) -> list[float]:
    """Milliseconds of so many calls after an unmeasured one, of fewer where the time is over, but of FEWEST at least."""
    call()
    raw: list[float] = []
    ends = time.perf_counter() + seconds
    while len(raw) < FEWEST or (len(raw) < repeats and time.perf_counter() < ends):
        raw.append(speed.time_ms(call, machine))
    return raw


if __name__ == "__main__":
    processes.end_with_parent()
    main(Path(sys.argv[1]), int(sys.argv[2]))
