"""Time by component from the events of one profiled forward pass and one training step.

The self time of an event counts for the component of the innermost range around it, so that all parts add up to the whole.
A backward event counts for the component whose forward operator recorded its node: both have the sequence number of the node.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from torch import nn
from torch.autograd.profiler import record_function
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from harness.errors import present
from harness.measure import latency, subject, warmup
from harness.measure.records import TRACE, Request, Trace, TracedCall
from harness.measure.subject import Subject
from harness.models.attention.disentangled import RelativePositions
from harness.models.decoder import CrossAttentionBlock
from harness.models.encoder import Embeddings
from harness.models.heads import Classifier, MaskedLMHead, Pooler
from harness.models.layers import AttentionBlock, FeedForwardBlock
from harness.models.norms import RMSNorm
from harness.models.positions import BIASES
from harness.training.measured_steps import TrainingSteps

EMBEDDINGS, ATTENTION, FEED_FORWARD, NORMS, HEAD = "embeddings", "attention", "feed-forward", "norms", "head"

OTHER = "other"
"""What is in none of the modules below: recurrent layers, rotations, operators between modules."""

COMPONENTS = (EMBEDDINGS, ATTENTION, FEED_FORWARD, NORMS, HEAD, OTHER)

OF_TYPE: dict[type[nn.Module], str] = {
    Embeddings: EMBEDDINGS,
    AttentionBlock: ATTENTION,
    CrossAttentionBlock: ATTENTION,
    RelativePositions: ATTENTION,
    **dict.fromkeys(BIASES.values(), ATTENTION),
    FeedForwardBlock: FEED_FORWARD,
    nn.LayerNorm: NORMS,
    RMSNorm: NORMS,
    Pooler: HEAD,
    MaskedLMHead: HEAD,
}
"""Type of a module -> component. A module inside another counts for the outer one unless it has its own entry, as norms have:
dropout and residual sum of a block belong to the component of the block."""

OF_NAME = {"dropout": HEAD, "head": HEAD}
"""Components of the classifier's direct children, by name."""

SEPARATOR = " | "
"""Between component and module name in the name of a range."""


def component_of(name: str, module: nn.Module) -> str | None:
    """Component of the module of this name in a classifier; None if it belongs to that of the enclosing module."""
    return OF_TYPE.get(type(module), OF_NAME.get(name))


def of_range(name: str) -> str | None:
    """Component of a profiler range by its name; None for other ranges and operators."""
    component, separator, _ = name.partition(SEPARATOR)
    return component if separator and component in COMPONENTS else None


@contextlib.contextmanager
def ranges(model: Classifier) -> Iterator[None]:
    """Inside its block, every call of a module with a component is a profiler range `component | name`."""
    running = []

    def begin(title: str, *_: object) -> None:
        running.append(record_function(title))
        running[-1].__enter__()

    def end(*_: object) -> None:
        running.pop().__exit__(None, None, None)

    with contextlib.ExitStack() as hooks:
        for name, module in model.named_modules():
            if (component := component_of(name, module)) is not None:
                hooks.enter_context(module.register_forward_pre_hook(partial(begin, f"{component}{SEPARATOR}{name}")))
                hooks.enter_context(module.register_forward_hook(end, always_call=True))
        yield


# Spans of time

PASS, STEP = "forward pass", "training step"
"""Names of the profiled ranges."""

FORWARD, BACKWARD, OPTIMISER = "forward", "backward", "optimiser"
PHASES = (FORWARD, BACKWARD, OPTIMISER, OTHER)
"""Phases of a training step; what is in none of the first three counts as OTHER."""

ENGINE = "autograd::engine::evaluate_function: "
SESSIONS = 5
"""Profiled sessions, after one that is discarded because the profiler starts in it."""

TOLERANCE = 0.05
"""Largest relative difference between parts and whole that is not an error."""

ENTERING_MS = 0.1
"""Allowance for entering and leaving a range, which matters for very short calls."""


@dataclass
class Spent:
    """Milliseconds by phase and component, and by the clock outside of the profiler."""

    whole_ms: float
    outside: str = OTHER  # phase of what is in no other phase
    parts_ms: dict[str, dict[str, float]] = field(default_factory=dict)  # phase -> component -> time

    def add(self, phase: str, component: str, microseconds: float) -> None:
        """Adds time to a component."""
        parts = self.parts_ms.setdefault(phase, {})
        parts[component] = parts.get(component, 0.0) + microseconds / 1e3

    @property
    def sum_ms(self) -> float:
        """Sum of all parts."""
        return sum(value for parts in self.parts_ms.values() for value in parts.values())

    @property
    def adds_up(self) -> bool:
        """Whether parts and whole agree, so that no part is missing."""
        return abs(self.whole_ms - self.sum_ms) <= max(TOLERANCE * self.whole_ms, ENTERING_MS)

    def checked(self) -> "Spent":
        """This, with the rest counted as OTHER; RuntimeError if the parts do not add up."""
        if not self.adds_up:
            raise RuntimeError(f"the components add up to {self.sum_ms:.3f} ms, but the clock says {self.whole_ms:.3f} ms")
        self.add(self.outside, OTHER, max(0.0, self.whole_ms - self.sum_ms) * 1e3)
        return self


def trace(measured: Subject, request: Request, folder: Path) -> Trace:
    """Time by component of a forward pass at batch 1 and of a training step; writes the trace of these two calls.

    RuntimeError where the components do not add up to the time on the clock.
    """
    config, machine = measured.config, measured.machine
    model, text = subject.build(config, machine), measured.text(present(config.measure.length))
    call = latency.forward(model, machine)
    machine.use_threads(config.measure.threads)
    warmup.until_steady(latency.time_ms(lambda: call(text), machine) for _ in range(warmup.MAXIMUM))
    unprofiled = [latency.time_ms(lambda: call(text), machine) for _ in range(config.measure.repeats)]
    steps = TrainingSteps(config, model, machine)
    steps.run(2)

    def infer() -> None:
        machine.use_threads(config.measure.threads)
        model.eval()
        call(text)

    with ranges(model):
        profiled, spent = undisturbed({PASS: infer, STEP: lambda: steps.run(1)})
    profiled.export_chrome_trace(str(folder / TRACE))
    forward, step = (TracedCall(spent[name].whole_ms, spent[name].parts_ms) for name in (PASS, STEP))
    return Trace(forward, step, median(unprofiled))


def undisturbed(calls: dict[str, Callable[[], object]]) -> tuple[profile, dict[str, Spent]]:
    """The fastest session whose components add up: if another process interrupts, its time is in no component.

    RuntimeError if those of no session add up to the time on the clock.
    """
    session(calls)
    sessions = sorted((session(calls) for _ in range(SESSIONS)), key=lambda one: math.prod(one[1].values()))
    for number, (profiled, clock) in enumerate(sessions, 1):
        spent = {name: by_component(profiled.events(), name, whole) for name, whole in clock.items()}
        if number == SESSIONS or all(one.adds_up for one in spent.values()):
            break
    return profiled, {name: one.checked() for name, one in spent.items()}


def session(calls: dict[str, Callable[[], object]]) -> tuple[profile, dict[str, float]]:
    """Each call once in a range of its name, and its milliseconds by the clock."""
    clock = {}
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for name, call in calls.items():
            started = time.perf_counter_ns()
            with record_function(name):
                call()
            clock[name] = (time.perf_counter_ns() - started) / 1e6
    return profiled, clock


def by_component(events: Iterable[FunctionEvent], name: str, whole_ms: float) -> Spent:
    """Own times of all events within the range of this name."""
    (root,) = (event for event in events if event.name == name)
    outside = FORWARD if name == PASS else OTHER
    owners, spent, last = owners_of_nodes(root), Spent(whole_ms, outside), OTHER
    for event, phase, component in inside(root, outside, OTHER):
        if phase == BACKWARD and event.name.startswith(ENGINE):
            # A gradient is stored by a node without a number, run right after the one that completed it.
            last = owners.get(event.sequence_nr, OTHER if event.sequence_nr >= 0 else last)
        spent.add(phase, last if phase == BACKWARD else component, event.self_cpu_time_total)
    return spent


def inside(event: FunctionEvent, phase: str, component: str) -> Iterator[tuple[FunctionEvent, str, str]]:
    """The event and all within it in the order of time, each with its phase and component."""
    yield event, phase, component
    after = OTHER
    for child in sorted(event.cpu_children, key=lambda one: one.time_range.start):
        if child.name.startswith(ENGINE):
            after = OPTIMISER  # after the gradients: clipping, AdamW, zero_grad
            yield from inside(child, BACKWARD, component)
        elif phase == OTHER and child.name == FORWARD:
            yield from inside(child, FORWARD, OTHER)
        else:
            yield from inside(child, after if phase == OTHER else phase, of_range(child.name) or component)


def owners_of_nodes(root: FunctionEvent) -> dict[int, str]:
    """Sequence number of a node of the graph -> component whose operator recorded it.

    Operators report the next number, and recording a node increments it: of all operators with a number the last recorded it.
    """
    forward = (found for found in inside(root, OTHER, OTHER) if found[1] == FORWARD)
    return {event.sequence_nr: component for event, _, component in forward if event.sequence_nr >= 0}
