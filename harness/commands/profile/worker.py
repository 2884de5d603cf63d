"""One launch: `python -m harness.profile.worker FOLDER MEASURE ...` measures one variant in this process and no other.

Reads FOLDER/config.yaml and writes FOLDER/result.json after every measure, so that one that fails loses none before it.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.config.schema import RunConfig
    from harness.hardware.device import Machine

STEPS = 2
"""Training steps of which the peak of memory is read: from the second on the optimiser's state is there beside activations."""

BATCHES = 2
"""Timed batches of throughput: all have one length, so that more of them would say the same."""


def sizes(config: "RunConfig", machine: "Machine") -> dict[str, Any]:
    """Metric name -> parameters and bytes of weights."""
    from harness import tasks
    from harness.commands.profile.subject import outputs_of
    from harness.measure import size

    return size.sizes(size.on_meta(config.model, outputs_of(config.task), tasks.kind_of(config.task).head()))


def flops(config: "RunConfig", machine: "Machine") -> dict[str, Any]:
    """Metric name -> FLOPs of one text, and of a training step; RuntimeError when count and formula disagree."""
    from harness import tasks
    from harness.commands.profile.subject import outputs_of
    from harness.measure.flops import counted

    outputs, length, head = outputs_of(config.task), config.measure.length, tasks.kind_of(config.task).head()
    return {
        "model/flops_forward": counted(config.model, outputs, 1, length, False, head),
        "model/flops_train_step": counted(config.model, outputs, config.finetune.batch_size, length, True, head),
    }


def speed(config: "RunConfig", machine: "Machine") -> dict[str, Any]:
    """Times of building, first call, steady calls and throughput, and the raw values behind them."""
    from harness.commands.profile import subject
    from harness.hardware.device import empty_compiler_cache
    from harness.measure import latency as speed
    from harness.measure.reference import Reference
    from harness.study.timing import launch, summary

    machine.use_threads(config.measure.threads)
    started = time.perf_counter()
    model = subject.build(config, machine)
    build_s = time.perf_counter() - started
    call, text = speed.forward(model, machine), speed.text_of(config.measure.length, config.model.vocab_size, machine)
    with empty_compiler_cache():
        first, reference = speed.time_ms(lambda: call(text), machine), Reference(machine)
    latency = launch.latencies(lambda: call(text), config.measure, machine, reference)
    batches = [subject.texts(config, config.measure.batch_size, machine)] * BATCHES
    compile_s = launch.compile_s(first, latency, machine)
    work = launch.throughput(call, batches, machine, reference)
    return {
        "setup/build_s": build_s,
        **({} if compile_s is None else {"setup/compile_s": compile_s}),
        "inference/first_call_ms": first,
        **summary.percentiles(latency["raw_ms"]),
        "inference/tokens_per_s": work["tokens"] / work["seconds"],
        **latency,
    }


def memory(config: "RunConfig", machine: "Machine") -> dict[str, Any]:
    """Peak bytes of building and inference, then of training, above this process with its libraries before any model."""
    from harness.commands.profile import subject
    from harness.measure.latency import forward
    from harness.measure.memory import PeakMemory

    peak, built = PeakMemory(machine), []

    def build() -> None:
        built.append(subject.build(config, machine))

    def infer() -> None:
        forward(built[0], machine)(subject.texts(config, config.measure.batch_size, machine))

    if machine.compiles:
        build()
        peak.leave_out(infer)
    inference = peak.of(infer if built else lambda: (build(), infer()))
    if machine.compiles:
        peak.leave_out(subject.Steps(config, built[0], machine).compile_ahead)
    training = peak.of(lambda: subject.Steps(config, built[0], machine).run(STEPS))
    return {"inference/peak_memory_bytes": inference, "finetune/peak_memory_bytes": training}


def trace(config: "RunConfig", machine: "Machine") -> dict[str, Any]:
    """Time by component; leaves trace.json in the folder that is worked in."""
    from harness.commands.profile import trace

    return trace.measure(config, machine, Path("trace.json"))


MEASURES: dict[str, Callable[["RunConfig", "Machine"], dict[str, Any]]] = {
    "memory": memory,
    "speed": speed,
    "sizes": sizes,
    "flops": flops,
    "trace": trace,
}
"""Name -> what measures; `memory` and `speed` want a process of their own, as what ran before changes what they see."""


def main(folder: Path, measures: list[str]) -> None:
    """Measures in the given order; an exception leaves the results before it."""
    os.chdir(folder)
    import_s = _import_s()
    from harness.config import resolve
    from harness.hardware.device import Machine

    config = resolve.load(Path("config.yaml"))
    machine = Machine(config.hardware)
    result: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    for name in measures:
        result[name] = MEASURES[name](config, machine)
        if name == "speed":
            result[name]["setup/import_s"] = import_s
        Path("result.json").write_text(json.dumps(result))


def _import_s() -> float:
    """Seconds to load torch and the model's code into this process, which must not have them yet."""
    started = time.perf_counter()
    import torch  # noqa: F401

    import models.heads  # noqa: F401

    return time.perf_counter() - started


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
