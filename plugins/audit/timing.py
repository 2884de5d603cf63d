"""Relative speed of two variants, timed in this process: interleaved rounds, by the CPU time of the one thread that computes.

Every round times `of`, `against`, and `against` again, in an order of its own: `of` is compared with the mean of both others.
Weights are random.
"""

import gc
import math
import random
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from harness.comparison.paired import CONFIDENCE, of_differences
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.measure import subject
from harness.models.batch import Batch
from harness.models.heads import Classifier
from harness.models.stack import Stack
from harness.plugins.audit.claims import ModelPart, Speed
from harness.plugins.audit.verdicts import Measured, Point

ROUNDS = 8
SECONDS = 0.02
"""Seconds of the calls that one value is the mean of, at least."""

Call = Callable[[], object]


def compare(reading: Speed, first: RunConfig, second: RunConfig) -> Measured:
    """A point for each length: the change and its 95 % interval over rounds.

    InputError for a part that the model does not have.
    """
    machine, before = Machine(first.hardware), torch.get_num_threads()
    models = [subject.build(config, machine).train(reading.training) for config in (first, second)]
    machine.use_threads(1)
    gc.disable()
    try:
        points = [_point(reading, models, length) for length in reading.lengths]
    finally:
        gc.enable()
        torch.set_num_threads(before)
    note = f"{ROUNDS} interleaved rounds, 1 thread, CPU time, batch {reading.batch_size}"
    return Measured(tuple(points), "share", missing="a quieter machine", options="--measure", note=note)


def _point(reading: Speed, models: list[Classifier], length: int) -> Point:
    of, against = (_call(reading, model, length) for model in models)
    calls, repeats, logs = {"of": of, "against": against, "again": against}, {}, []
    for call in (of, against):
        call()  # a warm-up
        repeats[call] = max(1, math.ceil(SECONDS / max(_seconds(call, 1), 1e-6)))
    for number in range(ROUNDS):
        order = list(calls)
        random.Random(number).shuffle(order)
        took = {name: _seconds(calls[name], repeats[calls[name]]) for name in order}
        log = math.log(took["of"] / math.sqrt(took["against"] * took["again"]))
        logs.append(-log if reading.rate else log)
    difference = replace(of_differences(logs), p=None)  # the t test alone, as for launches
    return Point(math.expm1(difference.mean), {"length": length}, difference=difference, ratio=True).at(CONFIDENCE)


def _seconds(call: Call, repeats: int) -> float:
    """CPU seconds of this thread for one call, mean of so many."""
    started = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - started) / repeats


def _call(reading: Speed, model: Classifier, length: int) -> Call:
    """One pass over random texts (B, T), through the whole model or through the attention of its last layer alone."""
    stream = torch.Generator().manual_seed(length)
    config = model.encoder.config
    ids = torch.randint(0, config.vocab_size, (reading.batch_size, length), generator=stream)
    if reading.part is ModelPart.model:
        return _passes(lambda: model(ids), reading.training)
    stack = model.encoder.layers
    if reading.part is not ModelPart.attention or not isinstance(stack, Stack):
        raise InputError(f"part: expected model, or attention of a model with model.body=transformer, not {reading.part.value}")
    hidden = torch.randn(*ids.shape, config.hidden_size, generator=stream, requires_grad=True)  # (B, T, D)
    batch, attention = Batch(input_ids=ids), stack.execution_order()[-1][0].attention
    return _passes(lambda: attention(hidden, stack.context(batch)), reading.training)


def _passes(forward: Call, training: bool) -> Call:
    return (lambda: forward().sum().backward()) if training else torch.inference_mode()(forward)
