"""What a shape costs, by the project's own counters, on the meta device: nothing is allocated."""

from dataclasses import replace

from harness.config.choices import MatchOn
from harness.config.schema import ModelConfig, RunConfig
from harness.errors import InputError
from harness.measure import flops, memory_formula, size, subject
from harness.terminal import scaled
from models.heads import on_meta

UNITS = {MatchOn.params: "", MatchOn.flops: "FLOP", MatchOn.memory: "B", MatchOn.latency: "ms"}


def text(on: MatchOn, value: float) -> str:
    """`1.48 M parameters`, `117 MFLOP`, `35 MB`, `2.41 ms`."""
    if on is MatchOn.latency:
        return f"{value:.3g} ms"
    return f"{scaled(value, UNITS[on])}{' parameters' * (on is MatchOn.params)}"


def counted(on: MatchOn, config: RunConfig, model: ModelConfig) -> float:
    """Parameters, FLOPs or bytes of this model in this resolved run; InputError where its memory is not known.

    Parameters are those of the model with the head of its task; FLOPs those of one forward pass over measure.length tokens;
    memory is that of a training step over finetune.batch_size such texts: weights, gradients, moments and activations.
    """
    run = replace(config, model=model)
    if on is MatchOn.params:
        shape = subject.step_shape(run, 1)
        return size.count(on_meta(shape.config, shape.num_outputs, shape.head))
    if on is MatchOn.flops:
        shape = subject.step_shape(run, 1)
        return flops.formula(shape.config, shape.num_outputs, 1, shape.length, head=shape.head)
    pieces = config.finetune.accumulation
    shape = subject.step_shape(run, config.finetune.batch_size // pieces)
    total = memory_formula.parts(shape, config.hardware, config.finetune.activation_checkpointing).total
    if total is None:
        raise InputError(
            f"match=memory: the training memory of {config.model_name} is not known without training with hardware.device="
            f"{config.hardware.device.value} hardware.dtype={config.hardware.dtype.value}; expected cpu, fp32 and no LSTM, "
            "or match=params, flops or latency"
        )
    return total
