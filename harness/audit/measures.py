"""One function for each kind of measuring: from a reading to what is measured.

Models are composed once for each text of choices, and counted on the meta device. T tokens.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from harness.audit import claims, scores, timing
from harness.audit.claims import ModelPart, Reading
from harness.audit.verdicts import Measured, Point, counted
from harness.config import compose
from harness.config.schema import HardwareConfig, RunConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError, unknown
from harness.hardware import peak_flops
from harness.hardware.device import Machine
from harness.measure import flops, memory_formula, pretraining_heads, size
from harness.measure.subject import OUTPUTS
from harness.tracking.run_log import FinishedRun
from models.choices import Body
from models.config import Activation, EncoderConfig
from models.encoder import Encoder
from models.heads import Classifier, MaskedLMHead, build_classifier, on_meta
from models.layers import ACTIVATIONS
from models.objectives.base import Objective
from models.objectives.config import ObjectiveName


@dataclass
class Shapes:
    """Composes and counts; everything once."""

    config_dir: str | None = None

    def __post_init__(self) -> None:
        self.config = functools.cache(self.config)
        self.flops = functools.cache(self.flops)

    def config(self, choices: str) -> RunConfig:
        """The run of `model=albert scale=base`; InputError for what cannot be composed."""
        words = choices.split()
        task = [] if any(word.startswith("task=") for word in words) else ["task=bag"]
        return compose.outside_of_a_command([*words, *task], self.config_dir)

    def parameters(self, choices: str, part: str) -> int:
        """Parameters of one part; InputError for an unknown one."""
        config = self.config(choices)
        if part in OF_OBJECTIVE:
            return OF_OBJECTIVE[part](_objective(config))
        model = on_meta(config.model, OUTPUTS)
        components = size.components(model)
        if part in components:
            return components[part]
        if part not in OF_MODEL:
            raise unknown("part", part, [*components, *OF_MODEL, *OF_OBJECTIVE], "parts")
        return OF_MODEL[part](model)

    def flops(self, choices: str, length: int, training: bool) -> flops.OfParts:
        """Counted over one text of T tokens."""
        return flops.of_parts(self.config(choices).model, OUTPUTS, length, training)


def _objective(config: RunConfig) -> Objective:
    """The objective of `pretrain=`, masked language modelling where there is none."""
    named = config.pretrain.objective is not ObjectiveName.none
    pretrain = config.pretrain if named else replace(config.pretrain, objective=ObjectiveName.mlm)
    return pretraining_heads.shapes(config.model, pretrain)


def visible_pairs(config: EncoderConfig, length: int) -> int:
    """Pairs (token, token that it sees) in all layers, by what their attention states as its reach; InputError without one."""
    if config.body is not Body.transformer or config.global_tokens:
        raise InputError(
            f"part: visible_pairs counts layers of attention without global tokens, got body={config.body.value} and "
            f"global_tokens={config.global_tokens}"
        )
    pairs = 0
    for block, _ in on_meta(config, OUTPUTS).encoder.layers.execution_order():
        reach = block.attention.receptive_field
        left, right = min(reach.rightwards, length - 1), min(reach.leftwards, length - 1)
        pairs += int(sum(min(place, left) + min(length - 1 - place, right) + 1 for place in range(length)))
    return pairs


def _first_layer(*names: str) -> Callable[[Classifier], int]:
    """Counts the named modules of the blocks of the first layer, or all of them without names."""

    def counted(model: Classifier) -> int:
        blocks = model.encoder.layers.execution_order()[0]
        modules = [getattr(block, name) for block in blocks for name in names if hasattr(block, name)] or blocks
        return sum(size.count(module) for module in modules)

    return counted


def _output_matrix(objective: Objective) -> int:
    head = objective.masked_head
    tied = not isinstance(head, MaskedLMHead) or head.output.weight is objective.encoder.embeddings.token_embedding.weight
    return 0 if tied else head.output.weight.numel()


OF_MODEL: dict[str, Callable[[Classifier], int]] = {
    "total": size.count,
    "effective": size.effective,
    "encoder": lambda model: size.count(model.encoder),
    "encoder_and_pooler": lambda model: size.count(model.encoder) + size.count(model.pooler),
    "layer": _first_layer(),
    "layer_attention": _first_layer("attention"),
    "layer_feed_forward": _first_layer("feed_forward"),
}
"""Part -> its parameters in a classifier of two classes, beside the components of the component table."""

OF_OBJECTIVE: dict[str, Callable[[Objective], int]] = {"pretraining": size.count, "masked_lm_output": _output_matrix}
"""Part -> its parameters in the pretraining; the output matrix has none of its own where it is the token embedding."""


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


def _parameters(reading: claims.Parameters, tools: Instruments) -> Measured:
    def total(choices: str) -> int:
        return sum(tools.shapes.parameters(choices, part) for part in reading.parts)

    if reading.against is not None:
        return counted(change(total(reading.of), total(reading.against)), "share")
    each = reading.bytes_each
    return counted(total(reading.of), "parameters") if each is None else counted(each * total(reading.of), "bytes")


def _flops(reading: claims.Flops, tools: Instruments) -> Measured:
    def of(choices: str, length: int) -> int:
        if reading.part is ModelPart.visible_pairs:
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


def _training_memory(reading: claims.TrainingMemory, tools: Instruments) -> Measured:
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


def _output_bytes(reading: claims.OutputBytes, tools: Instruments) -> Measured:
    with torch.device("meta"):
        encoder, points = Encoder(tools.shapes.config(reading.of).model), []
        for length in reading.lengths:
            output = encoder(torch.zeros(1, length, dtype=torch.int64))  # (1, T, D)
            points.append(Point(output.numel() * output.element_size(), {"length": length}))
    return Measured(tuple(points), "bytes")


def _config(reading: claims.Config, tools: Instruments) -> Measured:
    model = tools.shapes.config(reading.of).model
    if not hasattr(model, reading.key) or reading.key.startswith("_"):
        raise InputError(f"key: expected a key of the model or what follows from its keys, not {reading.key!r}")
    return counted(getattr(model, reading.key), "")


def _activation_difference(reading: claims.ActivationDifference, _: Instruments) -> Measured:
    names = {activation.value: ACTIVATIONS[activation] for activation in Activation}
    for name in (reading.of, reading.against):
        if name not in names:
            raise InputError(f"of, against: expected one of {', '.join(names)}, not {name!r}")
    x = torch.linspace(reading.low, reading.high, GRID, dtype=torch.float64)
    return counted((names[reading.of](x) - names[reading.against](x)).abs().max().item(), "1")


def _output_difference(reading: claims.OutputDifference, tools: Instruments) -> Measured:
    configs = [tools.shapes.config(choices).model for choices in (reading.of, reading.against)]
    longest, points = min(config.longest_text for config in configs), []
    if not 0 < max(reading.lengths, default=0) <= longest:
        raise InputError(f"lengths: expected at most the {longest} tokens that both models take, not {reading.lengths}")
    first, second = (build_classifier(config, OUTPUTS, seed=0).eval() for config in configs)
    for length in reading.lengths:
        stream = torch.Generator().manual_seed(length)
        ids = torch.randint(0, min(config.vocab_size for config in configs), (4, length), generator=stream)  # (B, T)
        with torch.inference_mode():
            points.append(Point((first(ids) - second(ids)).abs().max().item(), {"length": length}))
    return Measured(tuple(points), "1")


def _ids(reading: claims.Ids, tools: Instruments) -> Measured:
    if reading.vocab_file and tools.vocab_file is None:
        return Measured(missing="the vocabulary: vocab_file=FILE on the command line")
    if not reading.vocab_file:
        words = len(tokenizer.BertPreTokenizer().pre_tokenize_str(reading.text))
        return Measured((Point(words + 2, {}),), "ids", note="each word has at least one id, and [CLS] and [SEP] have theirs")
    ids = tokenizer.build(TokenizerConfig(vocab_file=tools.vocab_file), []).encode(reading.text).ids
    if reading.count:
        return counted(len(ids), "ids")
    return counted(" ".join(map(str, ids)), "")


def _pretraining_days(reading: claims.PretrainingDays, tools: Instruments) -> Measured:
    config = tools.shapes.config(reading.of)
    flops = sum(
        reading.tokens * share / length * (1 + BACKWARD) * _objective(config).flops(length)
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


def _speed(reading: claims.Speed, tools: Instruments) -> Measured:
    if not tools.timed:
        return Measured(missing="a timing (--measure)", unit="share")
    key = (reading.of, reading.against, reading.part, reading.training, reading.rate, *reading.lengths, reading.batch_size)
    if key not in tools.speeds:  # readings of one speed differ in what they claim of it alone
        tools.speeds[key] = timing.compare(reading, tools.shapes.config(reading.of), tools.shapes.config(reading.against))
    return tools.speeds[key]


def _score(reading: claims.Score, tools: Instruments) -> Measured:
    return scores.compare(reading, tools.finished_runs())


def _not_testable(reading: claims.NotTestable, _: Instruments) -> Measured:
    return Measured(missing=reading.reason, testable=False)


MEASURES: dict[type[Reading], Callable[[Any, Instruments], Measured]] = {
    claims.Parameters: _parameters,
    claims.Flops: _flops,
    claims.TrainingMemory: _training_memory,
    claims.OutputBytes: _output_bytes,
    claims.Config: _config,
    claims.ActivationDifference: _activation_difference,
    claims.OutputDifference: _output_difference,
    claims.Ids: _ids,
    claims.PretrainingDays: _pretraining_days,
    claims.Speed: _speed,
    claims.Score: _score,
    claims.NotTestable: _not_testable,
}
