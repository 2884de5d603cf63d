"""One function for each kind of measuring: from a reading to what is measured.

Models are composed once for each text of choices, and counted on the meta device. T tokens.
"""

import functools
import math
import random
import time
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from tokenizers.pre_tokenizers import BertPreTokenizer

from harness.comparison import cached_method
from harness.comparison.paired import CONFIDENCE, of_differences
from harness.comparison.runs import Run
from harness.config import compose
from harness.config.schema import HardwareConfig, RunConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError, unknown
from harness.hardware import peak_flops
from harness.hardware.device import Machine
from harness.measure import flops, size, subject
from harness.measure.subject import OUTPUTS
from harness.models.batch import Batch
from harness.models.config import Activation, Body, EncoderConfig
from harness.models.decoder import CrossAttentionBlock, EncoderDecoder
from harness.models.encoder import Encoder
from harness.models.heads import Classifier, MaskedLMHead, build_classifier, on_meta
from harness.models.layers import ACTIVATIONS, AttentionBlock
from harness.models.objectives.base import Objective
from harness.models.objectives.config import ObjectiveName
from harness.models.reach import attentions, of_layer
from harness.models.stack import Stack
from harness.plugins.audit import claims, scores, tables
from harness.plugins.audit.claims import ModelPart, Reading, Speed
from harness.plugins.audit.verdicts import Measured, Point
from harness.plugins.shared import memory_formula, pretraining_heads

BATCHED = ("bmm", "baddbmm")
"""Operators that multiply a matrix for each head; projections multiply one for all."""


def of_parts(shape: flops.Shape, backward: bool) -> dict[ModelPart, int]:
    """FLOPs of the model, of its attention with projections, and of the products of queries, keys and values.

    Counted by the modules that ran; RuntimeError as `counted`.
    """
    model, counter = flops.run(shape, backward)
    names = [name for name, module in model.named_modules() if isinstance(module, AttentionBlock | CrossAttentionBlock)]
    counts, root = counter.get_flop_counts(), type(model).__name__
    within = [(str(operator), value) for name in names for operator, value in counts.get(f"{root}.{name}", {}).items()]
    products = sum(value for operator, value in within if operator.endswith(BATCHED))
    attention = sum(value for _, value in within)
    return {ModelPart.model: counter.get_total_flops(), ModelPart.attention: attention, ModelPart.attention_products: products}


@dataclass
class Instruments:
    """What measures besides the reading; composes and counts models, each once."""

    config_dir: str | None = None
    timed: bool = False  # whether speed is timed now
    vocab_file: str | None = None
    finished_runs: Callable[[], list[Run]] = list

    @cached_method
    def config(self, choices: str) -> RunConfig:
        """The run of `model=albert scale=base`; InputError for what cannot be composed."""
        words = choices.split()
        task = [] if any(word.startswith("task=") for word in words) else ["task=bag"]
        compose.of_file(words, "a claim")
        return compose.outside_of_a_command([*words, *task], self.config_dir)

    @cached_method
    def protocol(self, name: str, task: str) -> dict[str, str]:
        """What a protocol sets for the task, as on the command line; InputError for an unknown one."""
        source = compose.Source.of({"--config-dir": self.config_dir} if self.config_dir else {})
        with source.opened():
            return dict(word.partition("=")[::2] for word in source.protocol(name).overrides(name, task))

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

    @cached_method
    def flops(self, choices: str, length: int, training: bool) -> dict[ModelPart, int]:
        """Counted over one text of T tokens."""
        return of_parts(flops.Shape(self.config(choices).model, OUTPUTS, 1, length), training)


def _objective(config: RunConfig) -> Objective:
    """The objective of `pretrain=`, masked language modelling where there is none."""
    pretrain = config.pretrain if config.pretrains else replace(config.pretrain, objective=ObjectiveName.mlm)
    return pretraining_heads.shapes(config.model, pretrain)


def visible_pairs(config: EncoderConfig, length: int) -> int:
    """Pairs (token, token that it sees) in all layers, by the receptive field that their attention states; InputError without
    one.
    """
    if config.body is not Body.transformer or config.global_tokens or config.segment_length is not None:
        raise InputError(
            "part: visible_pairs counts layers of attention without global tokens and segments, got "
            f"body={config.body.value}, global_tokens={config.global_tokens} and segment_length={config.segment_length}"
        )
    pairs = 0
    for number in attentions(config):
        reach = of_layer(config, number)
        left, right = min(reach.rightwards, length - 1), min(reach.leftwards, length - 1)
        pairs += int(sum(min(place, left) + min(length - 1 - place, right) + 1 for place in range(length)))
    return pairs


SIDES = {(True, True): "bidirectional", (True, False): "causal", (False, True): "reversed", (False, False): "none"}
"""Whether a token reads those before it, and those after it -> a word."""

SEVERAL = 9
"""Tokens of the text whose middle one is looked at."""


def directions(config: EncoderConfig) -> dict[str, str]:
    """Stack -> which tokens of its own text the middle one reads, as its gradients say of randomly initialised layers.

    A decoder is looked at with what its encoder says held fixed.
    """
    body = build_classifier(config, OUTPUTS, seed=0).encoder.eval().layers
    batch = Batch(torch.zeros(1, SEVERAL, dtype=torch.int64))
    fixed, direction = torch.randn(2, 1, SEVERAL, config.hidden_size, generator=torch.Generator().manual_seed(0))
    stacks: dict[str, Callable[..., Any]] = {"encoder": body}
    if isinstance(body, EncoderDecoder):
        stacks = {"encoder": body.encoder, "decoder": lambda hidden, batch: body.decoder(hidden, batch, fixed, None)}
    sides, middle = {}, SEVERAL // 2
    for name, stack in stacks.items():
        hidden = fixed.clone().requires_grad_()
        *_, last = stack(hidden, batch)
        (last * direction)[:, middle].sum().backward()
        reads = hidden.grad[0].any(dim=-1)
        sides[name] = SIDES[bool(reads[:middle].any()), bool(reads[middle + 1 :].any())]
    return sides


def _first_layer(model: Classifier, name: str = "") -> int:
    """Parameters of the modules of this name in the first layer, or of the whole layer without one."""
    blocks = model.encoder.layers.execution_order()[0]
    return sum(map(size.count, [getattr(block, name) for block in blocks if hasattr(block, name)] or blocks))


def _output_matrix(objective: Objective) -> int:
    """None of its own where it is the token embedding."""
    head, embedding = objective.masked_head, objective.encoder.embeddings.token_embedding
    if not isinstance(head, MaskedLMHead) or head.output.weight is embedding.weight:
        return 0
    return head.output.weight.numel()


OF_MODEL: dict[str, Callable[[Classifier], int]] = {
    "total": size.count,
    "effective": size.effective,
    "encoder": lambda model: size.count(model.encoder),
    "encoder_and_pooler": lambda model: size.count(model.encoder) + size.count(model.pooler),
    "layer": _first_layer,
    "layer_attention": functools.partial(_first_layer, name="attention"),
    "layer_feed_forward": functools.partial(_first_layer, name="feed_forward"),
}
"""Part -> its parameters in a classifier of two classes, in addition to those of the component table."""

OF_OBJECTIVE: dict[str, Callable[[Objective], int]] = {"pretraining": size.count, "masked_lm_output": _output_matrix}
"""Part -> its parameters in the pretraining; the output matrix has none of its own where it is the token embedding."""


GRID = 100_001
"""Points between the ends at which two non-linearities are compared."""

DAY = 86_400

VOCABULARY = "../shared/data/vocab/bert-base-uncased/vocab.txt"
"""BERT's vocabulary, where the data of the printed studies is."""

BACKWARD = 2
"""FLOPs of a backward pass against its forward pass."""


@functools.singledispatch
def measure(reading: Reading, tools: Instruments) -> Measured:
    """By the function below that is registered for its kind; InputError for a reading that cannot be measured."""
    raise NotImplementedError(f"{type(reading).__name__} has no function in measures.py")


def change(value: float, against: float) -> float:
    """Relative to `against`; InputError where that is 0."""
    if not against:
        raise InputError("against: the value to compare with is 0; choose another part or model")
    return value / against - 1


def _each(by: str, names: list[str], values: Iterable[object], unit: str = "") -> Measured:
    """A point for each name; one alone needs none."""
    pairs = zip(names, values, strict=True)
    return Measured(tuple(Point(value, {by: name} if len(names) > 1 else {}) for name, value in pairs), unit)


@measure.register
def _(reading: claims.Parameters, tools: Instruments) -> Measured:
    unit = "share" if reading.against else "bytes" if reading.bytes_each else "parameters"
    values = []
    for parts in [[part] for part in reading.parts] if reading.apart else [reading.parts]:
        sides = [choices for choices in (reading.of, reading.against) if choices]
        of, *against = (sum(tools.parameters(side, part) for part in parts) for side in sides)
        values.append(change(of, *against) if against else of * (reading.bytes_each or 1))
    return _each("part", reading.parts if reading.apart else [""], values, unit)


@measure.register
def _(reading: claims.Flops, tools: Instruments) -> Measured:
    def of(choices: str, length: int) -> int:
        if reading.part is ModelPart.visible_pairs:
            return visible_pairs(tools.config(choices).model, length)
        return tools.flops(choices, length, reading.training)[reading.part]

    points = []
    for length in reading.lengths:
        values = [of(choices, length) for choices in (reading.of, reading.against) if choices]
        value = change(*(values[::-1] if reading.rate else values)) if len(values) > 1 else values[0]
        points.append(Point(value, {"length": length}))
    return Measured(tuple(points), "share" if reading.against else "FLOP")


@measure.register
def _(reading: claims.TrainingMemory, tools: Instruments) -> Measured:
    config, hardware = tools.config(reading.of).model, HardwareConfig()
    points = []
    for length in reading.lengths:
        for batch_size in reading.batch_sizes:
            shape = flops.Shape(config, OUTPUTS, batch_size, length)
            value = getattr(memory_formula.parts(shape, hardware, checkpointing=False), reading.part.value)
            if value is None:
                return Measured(missing="measured activations (`python -m harness memory`)")
            points.append(Point(value, {"length": length, "batch": batch_size}))
    return Measured(tuple(points), "bytes")


@measure.register
def _(reading: claims.OutputBytes, tools: Instruments) -> Measured:
    with torch.device("meta"):
        encoder, points = Encoder(tools.config(reading.of).model), []
        for length in reading.lengths:
            output = encoder(torch.zeros(1, length, dtype=torch.int64))  # (1, T, D)
            points.append(Point(output.numel() * output.element_size(), {"length": length}))
    return Measured(tuple(points), "bytes")


@measure.register
def _(reading: claims.Config, tools: Instruments) -> Measured:
    model = tools.config(reading.of).model
    if unknown_keys := [key for key in reading.keys if not hasattr(model, key) or key.startswith("_")]:
        raise InputError(f"keys: expected keys of the model or values derived from them, not {', '.join(unknown_keys)}")
    values = [getattr(model, key) for key in reading.keys]
    return _each("key", reading.keys, [getattr(one, "value", one) for one in values])


@measure.register
def _(reading: claims.Directions, tools: Instruments) -> Measured:
    sides = directions(tools.config(reading.of).model)
    return _each("stack", [*sides], sides.values())


@measure.register
def _(reading: claims.ActivationDifference, _: Instruments) -> Measured:
    names = {activation.value: ACTIVATIONS[activation] for activation in Activation}
    for name in (reading.of, reading.against):
        if name not in names:
            raise InputError(f"of, against: expected one of {', '.join(names)}, not {name!r}")
    x = torch.linspace(reading.low, reading.high, GRID, dtype=torch.float64)
    return Measured((Point((names[reading.of](x) - names[reading.against](x)).abs().max().item(), {}),), "1")


@measure.register
def _(reading: claims.Ids, _: Instruments) -> Measured:
    words = [len(BertPreTokenizer().pre_tokenize_str(text)) for text in reading.texts]
    measured = _each("text", reading.texts, [count + 2 for count in words], "ids")
    return replace(measured, note="at least one id per word, plus [CLS] and [SEP]")


@measure.register
def _(reading: claims.Encoded, tools: Instruments) -> Measured:
    if tools.vocab_file is None:
        return Measured(missing="the vocabulary (vocab_file=FILE)", options=f"vocab_file={VOCABULARY}")
    encodings = tokenizer.build(TokenizerConfig(vocab_file=tools.vocab_file), []).encode_batch(reading.texts)
    values = [one.tokens[1:-1] if reading.pieces else map(str, one.ids) for one in encodings]
    return _each("text", reading.texts, map(" ".join, values))


@measure.register
def _(reading: claims.Published, _: Instruments) -> Measured:
    """A point for each figure; with `against` the difference, or the relative change of speed."""
    values: dict[str, Any] = reading.values
    against = reading.against
    if against:
        values = {name: change(against[name], one) if reading.rate else one - against[name] for name, one in values.items()}
    points = tuple(Point(one, {reading.by: name} if reading.by else {}) for name, one in values.items())
    return Measured(points, "share" if reading.rate else reading.unit, origin=f"stated in {reading.stated}")


@measure.register
def _(reading: claims.PretrainingDays, tools: Instruments) -> Measured:
    objective, texts = _objective(tools.config(reading.of)), reading.sequences()
    flops = (1 + BACKWARD) * texts * sum(share * objective.flops(length) for length, share in reading.shares.items())
    tokens = texts * sum(share * length for length, share in reading.shares.items())
    rates = reading.flops_per_s or [peak_flops.peak_flops_per_s(Machine(HardwareConfig(threads=1)))]
    how = "stated rates" if reading.flops_per_s else "the fastest matrix product measured here"
    points = tuple(Point(flops / (reading.devices * rate) / DAY, {"TFLOP/s of a device": rate / 1e12}) for rate in rates)
    return Measured(
        points,
        "days",
        origin="extrapolated",
        note=f"extrapolated: {flops:.3g} FLOPs counted for {tokens:.3g} tokens, {reading.devices} devices, at {how}",
    )


@measure.register
def _(reading: claims.Speed, tools: Instruments) -> Measured:
    if not tools.timed:
        return Measured(missing="a timing (--measure)", unit="share", options="--measure")
    return timed(reading, *map(tools.config, (reading.of, reading.against)))


@measure.register
def _(reading: claims.TableScore, tools: Instruments) -> Measured:
    settings = tools.protocol(reading.protocol, reading.task) if reading.protocol else {}
    return tables.compare(reading, tools.finished_runs(), settings)


@measure.register
def _(reading: claims.Score, tools: Instruments) -> Measured:
    return scores.compare(reading, tools.finished_runs())


@measure.register
def _(reading: claims.NotTestable, _: Instruments) -> Measured:
    return Measured(missing=reading.reason, testable=False)


# Speed

ROUNDS, SECONDS = 8, 0.02
"""Number of timings, and minimum seconds of the calls that one value averages."""

Call = Callable[[], object]


def timed(reading: Speed, first: RunConfig, second: RunConfig) -> Measured:
    """A point for each length: the change and its 95 % interval over interleaved rounds, in this process, with random weights.

    Every round times `of`, `against`, and `against` again, in an order of its own, by the CPU time of the one thread that
    computes: `of` is compared with the mean of both others.

    InputError for a part that the model does not have.
    """
    machine, before = Machine(first.hardware), torch.get_num_threads()
    models = [subject.build(config, machine).train(reading.training) for config in (first, second)]
    machine.use_threads(1)
    try:
        points = [_timed_at(reading, models, length) for length in reading.lengths]
    finally:
        torch.set_num_threads(before)
    note = f"{ROUNDS} interleaved rounds, 1 thread, CPU time, batch {reading.batch_size}"
    return Measured(tuple(points), "share", missing="a quieter machine", options="--measure", note=note)


def _timed_at(reading: Speed, models: list[Classifier], length: int) -> Point:
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
    """CPU seconds of this thread for one call, mean of so many, without garbage collection."""
    return timeit.timeit(call, timer=time.thread_time, number=repeats) / repeats


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


def _passes(forward: Callable[[], torch.Tensor], training: bool) -> Call:
    return (lambda: forward().sum().backward()) if training else torch.inference_mode()(forward)
