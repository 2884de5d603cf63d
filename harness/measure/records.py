"""Requests to a measuring process, results of its instruments, and their JSON."""

from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from harness import metrics
from harness.measure.flops import ModelFlops, StepFlops

CONFIG, REQUEST, MEASURED, TRACE = "config.json", "request.json", "measured.json", "trace.json"
"""Files in the folder of a measuring process: config, request, results, and events of a trace."""


@dataclass
class Peak:
    """Bytes above the baseline at the worst moment of a phase; None where the system does not report them.

    `reserved` and `process` exist on CUDA alone: what the allocator reserved, and all that the driver counts for the process.
    """

    kernel: int | None = None
    sampled: int | None = None
    reserved: int | None = None
    process: int | None = None


@dataclass(frozen=True)
class WarmUp:
    """Calls before those that count; not `steady` when the warm-up ended at its maximum."""

    calls: int
    steady: bool
    raw_ms: list[float]


TRIMMED = 0.2
"""Share of the calls that a trimmed mean leaves out at either end."""


def trimmed_mean(values: list[float] | None) -> float | None:
    """The mean without the smallest and the largest fifth; None without values."""
    if not values:
        return None
    cut = int(TRIMMED * len(values))
    return fmean(sorted(values)[cut : len(values) - cut])


@dataclass(frozen=True)
class Latency:
    """Milliseconds of every timed call, and of the reference workload between them, by the wall clock.

    `device_ms`, `reference_device_ms`: the same calls by the clock of the device (`latency.Clocked`); None where it has none.
    """

    raw_ms: list[float]
    reference_ms: list[float]
    warm_up: WarmUp
    device_ms: list[float] | None = None
    reference_device_ms: list[float] | None = None

    @property
    def ms(self) -> float:
        """Median of the calls by the wall clock."""
        return median(self.raw_ms)


@dataclass(frozen=True)
class Throughput:
    """Total work and total synchronised time; joules are None without an energy counter.

    `device_seconds`, `reference_device_ms`: by the clock of the device; None where it has none.
    """

    seconds: float
    tokens: int
    padded_tokens: int
    samples: int
    joules: float | None
    reference_ms: list[float]
    device_seconds: float | None = None
    reference_device_ms: list[float] | None = None

    @property
    def tokens_per_s(self) -> float:
        """Without padding."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class TrainingTime:
    """Milliseconds of every timed training step over batches of so many tokens, without padding, by both clocks as Latency."""

    tokens: int
    raw_ms: list[float]
    reference_ms: list[float]
    device_ms: list[float] | None = None
    reference_device_ms: list[float] | None = None


@dataclass(frozen=True)
class Point:
    """Texts of one length in batches of one size."""

    batch_size: int
    length: int
    raw_ms: list[float]
    tokens_per_s: float
    peak_memory_bytes: int | None
    of_sizes: bool = False  # one of measure.batch_sizes, which may be 1, not of measure.lengths


@dataclass(frozen=True)
class LoadTimes:
    """Scenario -> texts per second, offline and as they arrive at the server; and milliseconds until each text is answered."""

    samples_per_s: dict[str, float]
    latencies_ms: dict[str, list[float]]


@dataclass(frozen=True)
class Launch:
    """One timing in a new process, with the throughput on the texts of one task. `peak_flops_per_s` is set if requested."""

    time: int  # milliseconds since the epoch
    import_s: float
    build_s: float
    compile_s: float | None
    first_call_ms: float
    latency: Latency
    throughput: Throughput
    points: list[Point]
    foreign_cpus: float | None
    load_average: float
    cpu_mhz: float | None
    gpu_processes: int | None
    peak_flops_per_s: float | None
    training: TrainingTime | None = None
    peak_memory_bytes: int | None = None  # of building the model and its first call, at batch 1
    round: int = 0
    repeated: int = 0  # launches of this round that were discarded
    seconds: float | None = None  # wall clock of its process, and of those that were discarded
    load: LoadTimes | None = None  # with measure.load, on the texts of the throughput

    @property
    def values(self) -> dict[str, float]:
        """Metric of a launch -> value, of what was measured: medians by the wall clock, trimmed means by that of the device."""
        work, steps = self.throughput, self.training
        values: dict[str, float | None] = {
            metrics.LATENCY: self.latency.ms,
            "timing/reference_ms": median(self.latency.reference_ms),
            metrics.THROUGHPUT: work.tokens_per_s,
            "timing/throughput_reference_ms": median(work.reference_ms),
            "timing/peak_memory_bytes": self.peak_memory_bytes,
            "timing/load_average": self.load_average,
            "timing/cpu_mhz": self.cpu_mhz,
            "timing/foreign_cpus": self.foreign_cpus,
            "timing/launch_s": self.seconds,
            metrics.DEVICE_LATENCY: trimmed_mean(self.latency.device_ms),
            "timing/reference_device_ms": trimmed_mean(self.latency.reference_device_ms),
            metrics.DEVICE_THROUGHPUT: work.tokens / work.device_seconds if work.device_seconds else None,
            "timing/throughput_reference_device_ms": trimmed_mean(work.reference_device_ms),
        }
        if steps:
            device_ms = trimmed_mean(steps.device_ms)
            values |= {
                metrics.TRAINING: 1e3 * steps.tokens / median(steps.raw_ms),
                "timing/train_reference_ms": median(steps.reference_ms),
                metrics.DEVICE_TRAINING: 1e3 * steps.tokens / device_ms if device_ms else None,
                "timing/train_reference_device_ms": trimmed_mean(steps.reference_device_ms),
            }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class MemoryPeaks:
    """Peaks while building the model and one inference batch, then of a few training steps; both above the same baseline."""

    inference: Peak
    training_step: Peak


@dataclass(frozen=True)
class TracedCall:
    """Milliseconds on the clock, and those of each component by phase."""

    whole_ms: float
    parts_ms: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Trace:
    """Time by component under the profiler; the process's folder has the events."""

    forward: TracedCall
    training_step: TracedCall
    unprofiled_forward_ms: float


@dataclass(frozen=True)
class Parts:
    """Bytes of a training step; activations are None where they are not known."""

    weights: int
    gradients: int
    optimiser: int
    activations: int | None

    @property
    def total(self) -> int | None:
        """Sum of all four. A step never holds them at once: activations are freed while gradients are allocated."""
        return None if self.activations is None else self.lasting + self.gradients + self.activations

    @property
    def lasting(self) -> int:
        """Bytes that stay allocated from the second step on."""
        return self.weights + self.optimiser


@dataclass(frozen=True)
class StepRequest:
    """The training step whose memory is measured."""

    batch_size: int
    checkpointing: bool = False
    timed_steps: int = 5
    against_plain: bool = False  # each timed step is paired with one without checkpointing: a changing load slows both


@dataclass(frozen=True)
class TrainingStepMemory:
    """One training step: bytes, seconds and FLOPs."""

    step: StepRequest
    parts: Parts
    formula: Parts
    peak: Peak
    step_s: float | None  # median
    flops: StepFlops
    plain_step_s: float | None = None  # median of the steps without checkpointing that were timed in between
    peak_flops_per_s: float | None = None  # of the fastest matrix product, if steps were timed


@dataclass(frozen=True)
class Request:
    """Instruments of one measuring process: fields of Measured, in this order."""

    instruments: tuple[str, ...]
    round: int = 0
    data: tuple[str, ...] = ()  # of a timing: keys of the prepared data with whose texts throughput is measured; (): random ids
    with_peak_flops: bool = False  # of a timing
    step: StepRequest | None = None  # for `training_step`
    memory_limit: int | None = None  # bytes; the process is refused memory far beyond it
    compiled: str | None = None  # of a timing: where torch.compile leaves what later launches need not compile; None: nowhere


@dataclass(frozen=True)
class Measured:
    """Results of one process, one field per instrument; None for what was not requested or failed."""

    timing: list[Launch] | None = None  # one for each of Request.data; they differ in throughput alone
    training_time: TrainingTime | None = None
    memory: MemoryPeaks | None = None
    training_step: TrainingStepMemory | None = None
    sizes: dict[str, int] | None = None  # metric name -> value
    flops: ModelFlops | None = None
    trace: Trace | None = None
    served: int | None = None  # bytes of the file of the model as it is served


def to_json(record: Any) -> dict[str, Any]:
    """The record as JSON values."""
    return asdict(record)
