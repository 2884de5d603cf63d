"""One function for each kind of measuring: from a reading to what is measured. T tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.audit import kinds, scores, timing
from harness.audit.kinds import Part, Reading
from harness.audit.measured import Measured, Point, counted
from harness.audit.shapes import Shapes, objective_flops, visible_pairs
from harness.config.schema import HardwareConfig
from harness.config.texts import TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.hardware import peak_flops
from harness.hardware.device import Machine
from harness.measure import memory_formula
from harness.measure.subject import OUTPUTS
from harness.tracking.run_log import FinishedRun
from models.config import Activation
from models.encoder import Encoder
from models.heads import build_classifier
from models.layers import ACTIVATIONS

GRID = 100_001
"""Points between the ends at which two non-linearities are compared."""

DAY = 86_400

BACKWARD = 2
"""FLOPs of a backward pass against its forward pass."""


@dataclass(frozen=True)
class Instruments:
    """What measuring needs beside the reading."""

    shapes: Shapes
    timed: bool  # whether speed is timed now
    vocab_file: str | None
    finished_runs: Callable[[], list[FinishedRun]]
    speeds: dict[tuple, Measured] = field(default_factory=dict)  # what was timed


def measure(reading: Reading, instruments: Instruments) -> Measured:
    """InputError for a reading that nothing can be measured of."""
    return MEASURES[type(reading)](reading, instruments)


def change(value: float, against: float) -> float:
    """Relative to `against`; InputError where that is 0."""
    if not against:
        raise InputError("against: the value to compare with is 0; choose another part or model")
    return value / against - 1


def _parameters(reading: kinds.Parameters, tools: Instruments) -> Measured:
    def total(choices: str) -> int:
        return sum(tools.shapes.parameters(choices, part) for part in reading.parts)

    if reading.against is not None:
        return counted(change(total(reading.of), total(reading.against)), "share")
    each = reading.bytes_each
    return counted(total(reading.of), "parameters") if each is None else counted(each * total(reading.of), "bytes")


def _flops(reading: kinds.Flops, tools: Instruments) -> Measured:
    def of(choices: str, length: int) -> int:
        if reading.part is Part.visible_pairs:
            return visible_pairs(tools.shapes.config(choices).model, length)
        return getattr(tools.shapes.flops(choices, length, reading.training), reading.part.value)

    points = []
    for length in reading.lengths:
        value = of(reading.of, length)
        if reading.against is not None:
            pair = (of(reading.against, length), value) if reading.rate else (value, of(reading.against, length))
            value = change(*pair)
        points.append(Point(value, {"length": length}))
    return Measured(tuple(points), "FLOP" if reading.against is None else "share")


def _training_memory(reading: kinds.TrainingMemory, tools: Instruments) -> Measured:
    config, hardware = tools.shapes.config(reading.of).model, HardwareConfig()
    points = []
    for length in reading.lengths:
        for batch_size in reading.batch_sizes:
            shape = memory_formula.Shape(config, OUTPUTS, batch_size, length)
            total = memory_formula.parts(shape, hardware, checkpointing=False).total
            if total is None:
                return Measured(
                    missing="its activations are not known without training: `python -m harness memory` measures them"
                )
            points.append(Point(total, {"length": length, "batch": batch_size}))
    return Measured(tuple(points), "bytes")


def _output_bytes(reading: kinds.OutputBytes, tools: Instruments) -> Measured:
    with torch.device("meta"):
        encoder, points = Encoder(tools.shapes.config(reading.of).model), []
        for length in reading.lengths:
            output = encoder(torch.zeros(1, length, dtype=torch.int64))  # (1, T, D)
            points.append(Point(output.numel() * output.element_size(), {"length": length}))
    return Measured(tuple(points), "bytes")


def _config(reading: kinds.Config, tools: Instruments) -> Measured:
    model = tools.shapes.config(reading.of).model
    if not hasattr(model, reading.key) or reading.key.startswith("_"):
        raise InputError(f"key: expected a key of the model or what follows from its keys, not {reading.key!r}")
    return counted(getattr(model, reading.key), "")


def _activation_difference(reading: kinds.ActivationDifference, _: Instruments) -> Measured:
    names = {activation.value: ACTIVATIONS[activation] for activation in Activation}
    for name in (reading.of, reading.against):
        if name not in names:
            raise InputError(f"of, against: expected one of {', '.join(names)}, not {name!r}")
    x = torch.linspace(reading.low, reading.high, GRID, dtype=torch.float64)
    return counted((names[reading.of](x) - names[reading.against](x)).abs().max().item(), "1")


def _output_difference(reading: kinds.OutputDifference, tools: Instruments) -> Measured:
    configs = [tools.shapes.config(choices).model for choices in (reading.of, reading.against)]
    longest, points = min(config.longest_text for config in configs), []
    if not 0 < max(reading.lengths, default=0) <= longest:
        raise InputError(f"lengths: expected at most the {longest} tokens that both models take, not {reading.lengths}")
    one, other = (build_classifier(config, OUTPUTS, seed=0).eval() for config in configs)
    for length in reading.lengths:
        stream = torch.Generator().manual_seed(length)
        ids = torch.randint(0, min(config.vocab_size for config in configs), (4, length), generator=stream)  # (B, T)
        with torch.inference_mode():
            points.append(Point((one(ids) - other(ids)).abs().max().item(), {"length": length}))
    return Measured(tuple(points), "1")


def _ids(reading: kinds.Ids, tools: Instruments) -> Measured:
    if reading.vocab_file and tools.vocab_file is None:
        return Measured(missing="the vocabulary: vocab_file=FILE on the command line")
    if not reading.vocab_file:
        words = len(tokenizer.BertPreTokenizer().pre_tokenize_str(reading.text))
        return Measured((Point(words + 2, {}),), "ids", note="each word has at least one id, and [CLS] and [SEP] have theirs")
    ids = tokenizer.build(TokenizerConfig(vocab_file=tools.vocab_file), []).encode(reading.text).ids
    if reading.count:
        return counted(len(ids), "ids")
    return counted(" ".join(map(str, ids)), "")


def _pretraining_days(reading: kinds.PretrainingDays, tools: Instruments) -> Measured:
    config = tools.shapes.config(reading.of)
    flops = sum(
        reading.tokens * share / length * (1 + BACKWARD) * objective_flops(config, length)
        for length, share in reading.shares.items()
    )
    rates, how = reading.flops_per_s, "at stated rates"
    if not rates:
        rates, how = (
            [peak_flops.peak_flops_per_s(Machine(HardwareConfig(threads=1)))],
            "at the fastest matrix product measured here",
        )
    points = tuple(Point(flops / (reading.devices * rate) / DAY, {"TFLOP/s of a device": rate / 1e12}) for rate in rates)
    return Measured(
        points, "days", extrapolated=True, note=f"extrapolated: {flops:.3g} FLOPs counted, {reading.devices} devices, {how}"
    )


def _speed(reading: kinds.Speed, tools: Instruments) -> Measured:
    if not tools.timed:
        return Measured(missing="a timing (--measure)", unit="share")
    key = (reading.of, reading.against, reading.part, reading.training, reading.rate, *reading.lengths, reading.batch_size)
    if key not in tools.speeds:  # readings of one speed differ in what they claim of it alone
        tools.speeds[key] = timing.compare(reading, tools.shapes.config(reading.of), tools.shapes.config(reading.against))
    return tools.speeds[key]


def _score(reading: kinds.Score, tools: Instruments) -> Measured:
    return scores.compare(reading, tools.finished_runs())


def _not_testable(reading: kinds.NotTestable, _: Instruments) -> Measured:
    return Measured(missing=reading.reason, testable=False)


MEASURES: dict[type[Reading], Callable[[Any, Instruments], Measured]] = {
    kinds.Parameters: _parameters,
    kinds.Flops: _flops,
    kinds.TrainingMemory: _training_memory,
    kinds.OutputBytes: _output_bytes,
    kinds.Config: _config,
    kinds.ActivationDifference: _activation_difference,
    kinds.OutputDifference: _output_difference,
    kinds.Ids: _ids,
    kinds.PretrainingDays: _pretraining_days,
    kinds.Speed: _speed,
    kinds.Score: _score,
    kinds.NotTestable: _not_testable,
}
