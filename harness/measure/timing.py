"""Timing of a variant in a new process. It is built once; its weights do not matter.

Latency, throughput and lengths are separate passes; nothing is written while one of them runs. Between any two calls runs the
reference workload, which shows how fast the machine was just then: a neighbour on the same core comes and goes within a pass.
"""

import functools
import gc
import itertools
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import nn

from harness.config.schema import MeasureConfig
from harness.errors import present
from harness.hardware import energy, load, peak_flops
from harness.hardware.device import COMPILER_CACHE, Machine, empty_compiler_cache
from harness.measure import scenarios, serving
from harness.measure.latency import Clocks, Reference, forward, time_ms
from harness.measure.memory import Baseline
from harness.measure.records import Latency, Launch, LoadTimes, Point, Request, Throughput, WarmUp
from harness.measure.subject import Subject
from harness.measure.warmup import MAXIMUM, STRETCH, until_steady
from harness.models.batch import Batch
from harness.tasks import prepared
from harness.tracking.run_log import now_ms

PASSES, SECONDS_OF_PASSES = 3, 0.25
"""Most measured passes over the throughput batches of a task; one, or as many as take this long."""

FEWEST = 3
"""Fewest calls of a length or batch size, however long they take."""


def measure(subject: Subject, request: Request, folder: Path, import_s: float) -> list[Launch]:
    """Times one launch on measure.threads; returns a record for each of `request.data`.

    The compiler starts without a cache, or with what an earlier launch has left: then the time to compile is None.
    """
    subject.machine.use_threads(subject.config.measure.threads)
    gc.disable()  # a collection would hit the calls of some variants only
    try:
        if request.compiled is None:
            with empty_compiler_cache(folder):
                return _launch(subject, request, folder, import_s)
        is_first = not Path(request.compiled).exists()
        os.environ[COMPILER_CACHE] = request.compiled
        launches = _launch(subject, request, folder, import_s)
        return launches if is_first else [replace(one, compile_s=None) for one in launches]
    finally:
        gc.enable()


def _launch(subject: Subject, request: Request, folder: Path, import_s: float) -> list[Launch]:
    settings, machine = subject.config.measure, subject.machine
    baseline = Baseline(machine)
    baseline.start()
    started = time.perf_counter()
    model = serving.build(subject.config, machine, folder)
    built, call = time.perf_counter() - started, forward(model, machine)
    text = subject.text(present(settings.length))
    first_call_ms = time_ms(lambda: call(text), machine)
    peak = None if machine.compiles else baseline.peak()
    peaks = memory_of_points(model, subject, baseline)  # before the reference workload, whose memory is not the model's
    span, reference = load.ForeignLoad(), Reference(machine)
    keys = request.data or (None,)
    batches = [subject.timed_batches(key) for key in (keys[:1] if settings.throughput_texts else keys)]
    if machine.compiles:
        for batch in itertools.chain(*batches):  # shapes that compile further graphs
            call(batch)
    timed = latency(lambda: call(text), settings, machine, reference)
    work = [throughput(call, of_task, machine, reference) for of_task in batches] * (len(keys) // len(batches))
    measured = [point(model, subject, *shape, peak) for shape, peak in zip(shapes(subject), peaks, strict=True)]
    lengths = len(measured) - len(settings.batch_sizes)
    measured = [replace(one, of_sizes=number >= lengths) for number, one in enumerate(measured)]
    foreign_cpus = span.foreign_cpus()
    first = Launch(
        time=now_ms(),
        import_s=import_s,
        build_s=built,
        compile_s=compile_s(first_call_ms, timed, machine),
        first_call_ms=first_call_ms,
        latency=timed,
        throughput=work[0],
        points=measured,
        foreign_cpus=foreign_cpus,
        load_average=load.load_average(),
        cpu_mhz=load.cpu_mhz(),
        gpu_processes=load.other_gpu_processes() if machine.is_cuda else None,
        peak_flops_per_s=peak_flops.peak_flops_per_s(machine) if request.with_peak_flops else None,
        peak_memory_bytes=peak,
    )
    return [
        replace(first, throughput=of_task, load=_load(subject, call, key) if settings.load else None)
        for of_task, key in zip(work, keys, strict=True)
    ]


def _load(subject: Subject, call: Callable[[Batch], object], key: str | None) -> LoadTimes:
    config, machine = subject.config, subject.machine
    if key is None:
        split, pad = scenarios.random_texts(subject.vocab_size, config.measure), 0
    else:
        split, pad = prepared.read_validation(config, key), prepared.facts(config.output, key).pad_token_id
    return scenarios.measure(call, split, pad, config.measure, machine)


def latency(call: Callable[[], object], settings: MeasureConfig, machine: Machine, reference: Reference) -> Latency:
    """measure.repeats calls of one level: the steady ones that ended the warm-up, and further ones."""
    clocks = Clocks(machine, reference)
    taken = until_steady(clocks.between(call) for _ in range(MAXIMUM))
    counted = min(STRETCH, settings.repeats) if taken.steady else 0
    for _ in range(settings.repeats - counted):
        clocks.between(call)
    calls = taken.calls - counted
    return Latency(warm_up=WarmUp(calls, taken.steady, taken.raw_ms[:calls]), **clocks.lists(calls))


def compile_s(first_call_ms: float, timed: Latency, machine: Machine) -> float | None:
    """Time of the first call beyond a steady one: compilation and other one-time work; None for uncompiled models."""
    return max(0.0, first_call_ms - timed.ms) / 1e3 if machine.compiles else None


def throughput(call: Callable[[Batch], object], batches: list[Batch], machine: Machine, reference: Reference) -> Throughput:
    """Total work and total synchronised time of the passes over the batches, after an unmeasured one: new shapes are slow.

    The time of the unmeasured one says how many follow. The reference workload runs before and after each batch. A GPU takes a
    pass at once, as it is used.
    """

    def work() -> None:
        for batch in batches:
            call(batch)

    pieces = [work] if machine.is_cuda else [functools.partial(call, batch) for batch in batches]
    passes = max(1, min(PASSES, math.ceil(1e3 * SECONDS_OF_PASSES / time_ms(work, machine))))
    clocks = Clocks(machine, reference)
    with energy.EnergyMeter(energy.counters(cuda=machine.is_cuda)) as meter:
        for piece in passes * pieces:
            clocks.time(piece)
            with meter.paused():
                clocks.time_reference()
    lists = clocks.lists()
    return Throughput(
        seconds=sum(lists["raw_ms"]) / 1e3,
        tokens=passes * sum(batch.tokens for batch in batches),
        padded_tokens=passes * sum(batch.input_ids.numel() for batch in batches),
        samples=passes * sum(len(batch.input_ids) for batch in batches),
        joules=meter.counted,
        reference_ms=lists["reference_ms"],
        device_seconds=None if (device := lists["device_ms"]) is None else sum(device) / 1e3,
        reference_device_ms=lists["reference_device_ms"],
    )


def shapes(subject: Subject) -> list[tuple[int, int]]:
    """Batch size and length: measure.lengths that the model can read, at batch 1, and measure.batch_sizes."""
    settings, longest = subject.config.measure, subject.config.model.longest_text
    lengths = [(1, length) for length in settings.lengths if length <= longest]
    return lengths + [(size, present(settings.length)) for size in settings.batch_sizes]


def memory_of_points(model: nn.Module, subject: Subject, baseline: Baseline) -> list[int | None]:
    """Peak bytes of one call of each shape, above the process before the model."""
    call, peaks = forward(model, subject.machine), []
    for size, length in shapes(subject):
        text = subject.text(length, size)
        if subject.machine.compiles:
            with baseline.leave_out():
                call(text)
        baseline.start()
        call(text)
        peaks.append(baseline.peak())
    return peaks


def point(model: nn.Module, subject: Subject, size: int, length: int, peak: int | None) -> Point:
    """Latency, throughput and peak memory of texts without padding.

    Throughput is that of a batch with about as many tokens as one of measure.length, so that short texts are
    not slow for being alone; a longer text is such a batch itself.
    """
    settings, machine = subject.config.measure, subject.machine
    call, text = forward(model, machine), subject.text(length, size)
    raw = repeated(lambda: call(text), settings.repeats, settings.seconds_per_length, machine)
    texts, taken = size, raw
    tokens = settings.batch_size * present(settings.length)
    if tokens >= 2 * size * length:
        texts = tokens // length
        wide = subject.text(length, texts)
        taken = repeated(lambda: call(wide), FEWEST, 0.0, machine)
    return Point(size, length, raw, len(taken) * texts * length / (sum(taken) / 1e3), peak)


def repeated(call: Callable[[], object], repeats: int, seconds: float, machine: Machine) -> list[float]:
    """Milliseconds of up to `repeats` calls within `seconds`, at least FEWEST, after an unmeasured one."""
    call()
    raw: list[float] = []
    ends = time.perf_counter() + seconds
    while len(raw) < FEWEST or (len(raw) < repeats and time.perf_counter() < ends):
        raw.append(time_ms(call, machine))
    return raw
