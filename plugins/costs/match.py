"""Fair comparisons: variants resized until they cost as much as the baseline of their command, under a name that says so.

A shape is searched once for all tasks and seeds of an arm, on the first of its tasks; the others are checked. What a measured
search found is kept in the folder of the study, so that the same command has the same runs again.

Counted costs are those of the project's own counters, on the meta device. Latency is measured in interleaved launches of fresh
processes and compared with the baseline's round by round; each is divided by the time of the reference workload next to its
calls, which takes out how busy the machine was.
"""

import bisect
import functools
import hashlib
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from harness import paths, records
from harness.comparison import by_launch
from harness.config.choices import MatchBy, MatchOn
from harness.config.schema import ModelConfig, RunConfig, to_dict, without
from harness.errors import InputError
from harness.measure import flops, size, subject
from harness.measure.launch import TIMING, launch
from harness.measure.records import Request
from harness.models.config import Position
from harness.models.keys import refuse_unread, unmet
from harness.plugins.shared import memory_formula
from harness.study.plan import Resizing
from harness.terminal import live_line, scaled

FEED_FORWARD_STEP = 8
"""Multiple to which gated feed-forward widths are rounded."""

LARGEST = 64
"""Times the published value up to which a key is raised."""

OTHER_WIDTHS = ("intermediate_size", "feed_forward_size", "head_size")
"""Keys that a width takes along, in proportion."""


def keys_of(model: ModelConfig, by: MatchBy) -> list[str]:
    """Keys that a model of this shape has and reads, of those that may change."""
    others = OTHER_WIDTHS if by is MatchBy.hidden_size else ()
    return [by.value, *(key for key in others if getattr(model, key) is not None and not unmet(model, key))]


@dataclass(frozen=True)
class Ladder:
    """The shapes of one variant, by the number of steps: a key has that many times its step."""

    model: ModelConfig  # as published
    by: MatchBy

    def __post_init__(self) -> None:
        """InputError for a key that the variant does not read."""
        try:
            refuse_unread(self.model, [self.by.value])
        except ValueError as error:
            raise InputError(f"match.by={self.by.value}: {error}; set match.by to another key") from error
        if self.by is MatchBy.intermediate_size and self.model.feed_forward_size is not None:
            raise InputError("match.by=intermediate_size: model.feed_forward_size sets the width; set match.by to another key")

    @functools.cached_property
    def step(self) -> int:
        """Step of the key: heads divide a width, and rotary positions need even heads, LSTMs an even width."""
        if self.by is MatchBy.num_hidden_layers:
            return 1
        if self.by is MatchBy.intermediate_size:
            return FEED_FORWARD_STEP
        heads = self.model.num_attention_heads if self.model.head_size is None else 1
        return heads * 2 if self.model.position is Position.rotary else math.lcm(heads, 2)

    @property
    def most(self) -> int:
        """Steps of the largest shape."""
        published: int = getattr(self.model, self.by.value)
        return LARGEST * max(1, math.ceil(published / self.step))

    def keys(self, steps: int) -> dict[str, Any]:
        """Key of the model -> value of this shape."""
        value, published = steps * self.step, getattr(self.model, self.by.value)
        sizes = {key: max(1, round(getattr(self.model, key) * value / published)) for key in keys_of(self.model, self.by)}
        return sizes | {self.by.value: value}

    def shape(self, steps: int) -> ModelConfig | None:
        """None for one that cannot be, such as one with fewer layers than groups of them."""
        try:
            return replace(self.model, **self.keys(steps))
        except ValueError:
            return None


def nearest_by_count(ladder: Ladder, cost: Callable[[ModelConfig], float], target: float) -> int:
    """Steps of the shape whose cost is nearest to the target in ratio, of equal ones the published: costs never fall."""

    @functools.cache
    def of(steps: int) -> float:
        shape = ladder.shape(steps) if steps else None
        return 0.0 if shape is None else cost(shape)

    above = bisect.bisect_left(range(ladder.most), target, key=of)
    published = getattr(ladder.model, ladder.by.value) // ladder.step
    possible = [steps for steps in (published, above - 1, above) if of(steps) > 0]
    return min(possible, key=lambda steps: abs(math.log(of(steps) / target)))


UNITS = {MatchOn.params: "", MatchOn.flops: "FLOP", MatchOn.memory: "B"}


def cost_text(on: MatchOn, value: float) -> str:
    """`1.48 M parameters`, `117 MFLOP`, `35 MB`, `2.41 ms`."""
    if on is MatchOn.latency:
        return f"{value:.3g} ms"
    return f"{scaled(value, UNITS[on])}{' parameters' * (on is MatchOn.params)}"


def counted_cost(on: MatchOn, config: RunConfig, model: ModelConfig) -> float:
    """Parameters, FLOPs or bytes of this model in this resolved run; InputError where its memory is not known, or FLOPs are 0.

    Parameters are those of the model with the head of its task; FLOPs those of one forward pass over measure.length tokens;
    memory is that of a training step over finetune.batch_size such texts: weights, gradients, moments and activations.
    """
    run = replace(config, model=model)
    if on is MatchOn.params:
        return size.count(subject.step_shape(run, 1).model())
    if on is MatchOn.flops:
        needed = flops.formula(subject.step_shape(run, 1))
        if not needed:
            raise InputError(f"match=flops: {config.model_name} multiplies no matrices here; expected match=params or memory")
        return needed
    shape = subject.step_shape(run, config.finetune.batch_size // config.finetune.accumulation)
    total = memory_formula.parts(shape, config.hardware, config.finetune.activation_checkpointing).total
    if total is None:
        raise InputError(
            f"match=memory: the training memory of {config.model_name} is not known without training with hardware.device="
            f"{config.hardware.device.value} hardware.dtype={config.hardware.dtype.value}; expected cpu, fp32 and no LSTM, "
            "or match=params, flops or latency"
        )
    return total


MOST_TRIED = 8
"""Shapes that are timed before the search ends with the best of them."""


@dataclass(frozen=True)
class Ratio:
    """Latency over the baseline: mean logarithm of the rounds' ratios, half of its 95 % interval, and the baseline in ms."""

    log: float
    half_width: float
    baseline_ms: float


def latency_ratio(baseline: RunConfig, variant: RunConfig) -> Ratio:
    """Over match.rounds rounds, in each of which both are launched, in changing order; InputError where a launch fails."""
    launches: tuple[dict[int, dict[str, float]], ...] = ({}, {})
    for number in range(variant.match.rounds):
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            launches[place][number] = _launch((baseline, variant)[place])
    before, after = (by_launch.history_of(values.items()) for values in launches)
    metric = by_launch.headlines(before)[0]
    difference = by_launch.compared(metric, before, after)
    if difference is None or difference.interval is None:
        raise InputError(f"match=latency: {variant.label} and {baseline.label} share no round")
    half_width = difference.interval[1] - difference.mean
    return Ratio(difference.mean, half_width, math.exp(fmean(by_launch.logs_of(before, metric).values())))


def _launch(config: RunConfig) -> dict[str, float]:
    """What one launch measures, on texts of random ids."""
    plain = replace(config.measure, lengths=[], batch_sizes=[], batch_size=1, train_steps=0)
    with tempfile.TemporaryDirectory(prefix="harness-match-") as folder:
        outcome = launch(replace(config, measure=plain), Request(TIMING), Path(folder))
        if not outcome.measured.timing:
            raise InputError(f"match=latency: {config.label} cannot be timed: {outcome.ending.reason}")
        return outcome.measured.timing[0].values


def nearest_by_latency(ladder: Ladder, baseline: RunConfig, variant: RunConfig, begin: int) -> tuple[int, Ratio]:
    """(steps, ratio) of the first shape that is as fast as the baseline within the noise, or of the nearest of those tried.

    The search begins at `begin` steps and follows the secant of the logarithms. InputError where no shape can be timed.
    """
    tried: dict[int, Ratio] = {}
    steps = begin
    while steps not in tried and len(tried) < MOST_TRIED and (shape := ladder.shape(steps)):
        tried[steps] = latency_ratio(baseline, replace(variant, model=shape))
        if abs(tried[steps].log) <= tried[steps].half_width:  # no difference is seen in this noise
            return steps, tried[steps]
        nearest, *others = sorted(tried, key=lambda steps: abs(tried[steps].log))
        log, slope = tried[nearest].log, 1.0
        if others:
            slope = (log - tried[others[0]].log) / math.log(nearest / others[0])
        aim = round(nearest * math.exp(-log / min(max(slope, 0.3), 3.0)))  # noise can turn the line around
        steps = max(1, min(ladder.most, aim if aim != nearest else nearest + (1 if log < 0 else -1)))
    if not tried:
        raise InputError(f"match=latency: {ladder.by.value}={begin * ladder.step} is not a shape of {variant.label}")
    return min(tried.items(), key=lambda item: abs(item[1].log))


SHAPES_FILE = "match.json"
"""In the folder of a study: shapes that a measured search found."""

Resolve = Callable[[RunConfig], RunConfig]
"""The config that runs, of a composed one: with the vocabulary of its text."""


@dataclass(frozen=True)
class MatchResult:
    """What a search found: costs of the baseline, of the variant as published, and of its new shape."""

    keys: dict[str, Any]
    matched: dict[str, float]


def resized(composed: list[RunConfig], resolve: Resolve) -> list[RunConfig]:
    """The runs, those with `match` resized; InputError for one that cannot be matched within match.tolerance."""
    results: dict[tuple[str, ...], MatchResult] = {}
    return [
        config if config.match.cost is MatchOn.none or config.matched else _resized(config, composed, resolve, results)
        for config in composed
    ]


def baseline_of(config: RunConfig, composed: list[RunConfig]) -> RunConfig:
    """The run of the command that this one is matched to: match.to as composed with fewest settings, all else alike.

    InputError where there is none.
    """
    others = config.settings_without("model.", "match.")
    fitting = [
        run
        for run in composed
        if run.model_name == config.match.to
        and not any(run.enhancements.values())
        and (run.scale_name, run.task.name, run.seed) == (config.scale_name, config.task.name, config.seed)
        and run.settings_without("model.", "match.") == others
    ]
    if not fitting:
        models = ", ".join(dict.fromkeys(run.model_name for run in composed))
        raise InputError(
            f"match={config.match.cost.value} needs the baseline in the same command: expected model={config.match.to} "
            f"without enhancements next to {models}, or match.to=MODEL with one of these"
        )
    return min(fitting, key=lambda run: len(run.settings))


def _resized(
    config: RunConfig, composed: list[RunConfig], resolve: Resolve, results: dict[tuple[str, ...], MatchResult]
) -> RunConfig:
    on = config.match.cost
    for key, value in {"model.init_from": config.model.init_from, "pretrain.from": config.pretrain.checkpoint}.items():
        if value is not None:
            raise InputError(f"match={on.value} cannot resize the weights of {key}={value}: leave one of them out")
    baseline = baseline_of(config, composed)
    if config.model == baseline.model and config.enhancements == baseline.enhancements:
        return replace(config, arm=baseline.arm, settings=config.settings_without("match."))
    variant, against = resolve(config), resolve(baseline)
    parts = (config.model, baseline.model, config.match, config.hardware, config.measure, config.finetune.batch_size)
    arm = hashlib.sha256(repr([to_dict(part) for part in parts]).encode()).hexdigest()[:16]  # whatever the task and seed
    if (arm,) not in results:
        ladder = Ladder(variant.model, variant.match.by)
        results[arm,] = _timed(ladder, variant, against, arm) if on is MatchOn.latency else _counted(ladder, variant, against)
    on_task = (arm, config.task.name)
    if on_task not in results:
        result = results[arm,]
        results[on_task] = result if on is MatchOn.latency else MatchResult(result.keys, _costs(result.keys, variant, against))
        _refuse_beyond_tolerance(variant, results[on_task])
    return _named(config, results[on_task])


def _counted(ladder: Ladder, variant: RunConfig, baseline: RunConfig, on: MatchOn | None = None) -> MatchResult:
    """The shape whose counted cost is nearest to the baseline's."""
    cost = on or variant.match.cost
    target = counted_cost(cost, baseline, baseline.model)
    return MatchResult(ladder.keys(nearest_by_count(ladder, lambda model: counted_cost(cost, variant, model), target)), {})


def _costs(keys: dict[str, Any], variant: RunConfig, baseline: RunConfig) -> dict[str, float]:
    models = {"target": (baseline, baseline.model), "published": (variant, variant.model)}
    models["reached"] = (variant, replace(variant.model, **keys))
    return {name: float(counted_cost(variant.match.cost, run, model)) for name, (run, model) in models.items()}


def _timed(ladder: Ladder, variant: RunConfig, baseline: RunConfig, key: str) -> MatchResult:
    """Measured, or as kept; the search begins where FLOPs are equal."""
    path = paths.study_folder(variant.output, variant.study) / SHAPES_FILE
    earlier = records.read_or_set_aside(path, dict[str, MatchResult])
    if key in earlier:
        return earlier[key]
    with live_line(f"timing shapes of {variant.label}"):
        published = latency_ratio(baseline, variant)
        begin = _counted(ladder, variant, baseline, MatchOn.flops).keys[ladder.by.value] // ladder.step
        steps, ratio = nearest_by_latency(ladder, baseline, variant, begin)
    values = {"target": ratio.baseline_ms, "reached": ratio.baseline_ms * math.exp(ratio.log), "half_width": ratio.half_width}
    values["published"] = ratio.baseline_ms * math.exp(published.log)
    result = MatchResult(ladder.keys(steps), values)
    _refuse_beyond_tolerance(variant, result)
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, {name: asdict(one) for name, one in {**earlier, key: result}.items()})
    return result


def miss(matched: dict[str, float]) -> float:
    """By what share of the baseline's cost the reached one is above it."""
    return matched["reached"] / matched["target"] - 1


def _refuse_beyond_tolerance(variant: RunConfig, result: MatchResult) -> None:
    match, on = variant.match, variant.match.cost
    shape = " ".join(f"model.{key}={value}" for key, value in result.keys.items())
    if abs(miss(result.matched)) > match.tolerance:
        raise InputError(
            f"match={on.value}: {variant.label} cannot have the cost of {match.to}, {cost_text(on, result.matched['target'])}, "
            f"by {match.by.value}: the nearest is {shape} with {cost_text(on, result.matched['reached'])} "
            f"({100 * miss(result.matched):+.1f} %); expected within match.tolerance={match.tolerance:g}: "
            "set match.by to another key, or raise match.tolerance"
        )
    noise = result.matched.get("half_width", 0.0)
    if noise > match.tolerance:
        raise InputError(
            f"match={on.value}: the latency of {variant.label} is known only within ± {100 * noise:.0f} % after "
            f"{match.rounds} rounds; expected match.tolerance={match.tolerance:g}: "
            "try on a quieter machine, or raise match.rounds"
        )


def _named(config: RunConfig, result: MatchResult) -> RunConfig:
    """The run in its new shape; its overrides compose it again without a search. In its published one it keeps its name."""
    if all(getattr(config.model, key) == value for key, value in result.keys.items()):
        return replace(config, settings=config.settings_without("match."), matched=result.matched)
    cost = "FLOPs" if config.match.cost is MatchOn.flops else config.match.cost.value
    arm = f"{config.arm} ({cost} as {config.match.to})"
    replaced = [f"model.{key}" for key in result.keys]
    others = without(config.overrides, ("match", "match.", "arm", *replaced))
    return replace(
        config,
        arm=arm,
        model=replace(config.model, **result.keys),
        settings=config.settings_without(*replaced),
        overrides=[*others, *[f"model.{key}={value}" for key, value in result.keys.items()], f"arm='{arm}'"],
        matched=result.matched,
    )


def note(config: RunConfig) -> str | None:
    """One line on the shape of a resized run; None for others."""
    if not config.matched:
        return None
    on, matched = config.match.cost, config.matched
    shape = " ".join(f"{key}={getattr(config.model, key)}" for key in keys_of(config.model, config.match.by))
    off = miss(matched)
    text = (
        f"{config.label}: {shape}, {cost_text(on, matched['reached'])}, {100 * off:+.2f} % of the "
        f"{cost_text(on, matched['target'])} of {config.match.to}; as published {cost_text(on, matched['published'])}"
    )
    if "half_width" in matched:
        return f"{text} (± {100 * matched['half_width']:.1f} % over {config.match.rounds} rounds)"
    return f"{text} (the key allows nothing nearer)" if abs(off) > config.match.within else text


RESIZING = Resizing(resized, note)
