"""Memory of one training step, measured and by formula.

Weights, gradients and optimizer state are the real tensors. Activations are what autograd saves while the loss is computed,
each storage once, without parameters and the batch itself. The peaks above the baseline are measured first, without
hooks, as an independent check of the sum. A peak above the sum is mostly what the C library keeps of freed blocks: less
of it with MALLOC_MMAP_THRESHOLD_=65536 in the environment. oneDNN keeps 3 to 7 MB more for its kernels.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median

from harness.config.schema import RunConfig
from harness.errors import present
from harness.hardware.peak_flops import peak_flops_per_s
from harness.measure import flops, subject
from harness.measure.flops import StepFlops
from harness.measure.memory import peak_memory, refuse_less_than
from harness.measure.records import Parts, Request, StepRequest, TrainingStepMemory
from harness.measure.subject import Subject
from harness.models.encoder import set_activation_checkpointing
from harness.plugins.shared import memory_formula
from harness.plugins.shared.memory_formula import Saved, recomputed
from harness.training.measured_steps import STEPS, TrainingSteps, steps_of
from harness.training.optimiser import held

TIMED_S = 3.0
"""Seconds after which no further step is timed, after at least two."""


def training_step(measured: Subject, asked: Request, folder: Path) -> TrainingStepMemory:
    """Measures one step; must be the first thing that a process does with a model.

    RuntimeError if the peak is below the parts that are always allocated.
    """
    request, machine = present(asked.step), measured.machine
    config = one_piece(measured.config, request)
    warm_up = steps_of(one_piece(narrow(config), replace(request, batch_size=1)), machine)
    warm_up.run(1)  # loads the kernels, which count for no model
    with peak_memory(machine) as peak:
        steps = steps_of(config, machine)
        steps.run(STEPS)
    own, plain = step_times(steps, request)
    found, shape = parts(steps), subject.step_shape(config, request.batch_size)
    return TrainingStepMemory(
        step=request,
        parts=found,
        formula=memory_formula.parts(shape, config.hardware, request.checkpointing),
        peak=refuse_less_than(found.lasting, peak),
        step_s=median(own) if own else None,
        flops=flops_of(shape, request.checkpointing),
        plain_step_s=median(plain) if plain else None,
        peak_flops_per_s=peak_flops_per_s(machine) if own else None,
    )


def flops_of(shape: flops.Shape, checkpointing: bool) -> StepFlops:
    """Both counts; RuntimeError as `counted` raises it."""
    needed = flops.counted(shape, backward=True)
    if not checkpointing:
        return StepFlops(needed, needed)
    model = shape.adapted().train()
    set_activation_checkpointing(model, True)
    return StepFlops(needed, flops.of_step(model, shape.batch_size, shape.length))


def one_piece(config: RunConfig, request: StepRequest) -> RunConfig:
    """The config of a step of so many texts without gradient accumulation."""
    budget = replace(
        config.finetune,
        batch_size=request.batch_size,
        accumulation=1,
        activation_checkpointing=request.checkpointing,
    )
    return replace(config, finetune=budget)


def narrow(config: RunConfig) -> RunConfig:
    """The variant with minimal width, so that its memory is negligible."""
    model = config.model
    width = 2 * model.num_attention_heads
    return replace(config, model=replace(model, hidden_size=width, intermediate_size=width, vocab_size=model.pad_token_id + 2))


def step_times(steps: TrainingSteps, request: StepRequest) -> tuple[list[float], list[float]]:
    """Seconds of each timed step, and of those without checkpointing in between."""
    own: list[float] = []
    plain = []
    while len(own) < request.timed_steps and (len(own) < 2 or sum(own) < TIMED_S):
        if request.against_plain:
            plain.append(steps.run(1, checkpointing=False))
        own.append(steps.run(1))
    return own, plain


def parts(steps: TrainingSteps) -> Parts:
    """The four parts, measured on one more step."""
    model, batch = steps.model, [steps.batch.input_ids, present(steps.batch.labels)]
    saved, gradients = Saved([*model.parameters(), *batch]), []
    hook = steps.optimiser.register_step_pre_hook(
        lambda *_: gradients.append(held(parameter.grad for parameter in model.parameters()))
    )
    steps.around_loss = saved
    steps.run(1)
    steps.around_loss = nullcontext()
    hook.remove()
    with steps.machine.autocast():
        again = recomputed(model, steps.batch, batch) if steps.config.finetune.activation_checkpointing else 0
    activations = None if again is None else saved.bytes + again
    return Parts(held(model.parameters()), gradients[0], steps.optimiser.state_bytes, activations)
