"""Fair comparisons: variants resized until they cost as much as the baseline of their command, under a name that says so.

A shape is searched once for all tasks and seeds of an arm, on the first of its tasks; the others are checked. What a measured
search found is kept in the folder of the study, so that the same command has the same runs again.

Counted costs are those of the project's own counters, on the meta device. Latency is measured in interleaved launches of fresh
processes and compared with the baseline's round by round; each is divided by the time of the reference workload beside its
calls, which takes out how busy the machine was.
"""

import functools
import hashlib
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harness import paths, records
from harness.comparison import by_launch
from harness.comparison.paired import t_quantile
from harness.config.choices import MatchBy, MatchOn
from harness.config.schema import ModelConfig, RunConfig, to_dict, without
from harness.errors import InputError
from harness.measure import flops, memory_formula, size, subject
from harness.measure.launch import TIMING, launch
from harness.measure.records import Request
from harness.models.choices import Position
from harness.models.keys import refuse_unread, unmet
from harness.terminal import live_line, scaled

FEED_FORWARD_STEP = 8
"""Of a feed-forward width: the multiple that gated ones are rounded to."""

LARGEST = 64
"""Times the published value up to which a key is raised."""

OTHER_WIDTHS = ("intermediate_size", "feed_forward_size", "head_size")
"""Keys that a width takes along, in proportion."""


def keys_of(by: MatchBy) -> tuple[str, ...]:
    """Keys of a model that may change with this one."""
    return (by.value, *OTHER_WIDTHS) if by is MatchBy.hidden_size else (by.value,)


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

    @property
    def published(self) -> int:
        """Value of the key as published."""
        return int(getattr(self.model, self.by.value))

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
        return LARGEST * max(1, math.ceil(self.published / self.step))

    def keys(self, steps: int) -> dict[str, Any]:
        """Key of the model -> value of this shape, of the keys that the variant reads."""
        value = steps * self.step
        sizes = {self.by.value: value}
        if self.by is MatchBy.hidden_size:
            for key in keys_of(self.by)[1:]:
                size = getattr(self.model, key)
                if size is not None and not unmet(self.model, key):
                    sizes[key] = max(1, round(size * value / self.published))
        return sizes

    def shape(self, steps: int) -> ModelConfig | None:
        """None for one that cannot be, such as one with fewer layers than groups of them."""
        try:
            return replace(self.model, **self.keys(steps))
        except ValueError:
            return None


def nearest_by_count(ladder: Ladder, cost: Callable[[ModelConfig], float], target: float) -> int:
    """Steps of the shape whose cost is nearest to the target in ratio: costs rise with the steps."""

    @functools.cache
    def of(steps: int) -> float:
        shape = ladder.shape(steps)
        return -math.inf if shape is None else cost(shape)

    low, high = 0, max(1, round(ladder.published / ladder.step))
    while of(high) < target and high < ladder.most:
        low, high = high, min(2 * high, ladder.most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if of(middle) < target else (low, middle)
    possible = [steps for steps in (low, high) if steps and of(steps) > 0]
    return min(possible, key=lambda steps: abs(math.log(of(steps) / target)))


UNITS = {MatchOn.params: "", MatchOn.flops: "FLOP", MatchOn.memory: "B", MatchOn.latency: "ms"}


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


MOST_TRIED = 8
"""Shapes that are timed before the search ends with the best of them."""


@dataclass(frozen=True)
class Ratio:
    """Latency over that of the baseline: logarithms of the rounds' ratios, and the baseline's geometric mean in ms."""

    logs: tuple[float, ...]
    baseline_ms: float

    @property
    def log(self) -> float:
        return fmean(self.logs)

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of `log`: Student's t over the rounds."""
        return t_quantile(len(self.logs) - 1) * stdev(self.logs) / math.sqrt(len(self.logs))


def latency_ratio(baseline: RunConfig, variant: RunConfig) -> Ratio:
    """Over match.rounds rounds, in each of which both are launched, in changing order; InputError where a launch fails."""
    logs, times = [], []
    for number in range(variant.match.rounds):
        first = number % 2
        launched = [_launch(config) for config in ((baseline, variant) if first == 0 else (variant, baseline))]
        (before_ms, before), (_, after) = launched[first], launched[1 - first]
        logs.append(after - before)
        times.append(before_ms)
    return Ratio(tuple(logs), math.exp(fmean(times)))


def _launch(config: RunConfig) -> tuple[float, float]:
    """Logs of the latency in ms and over the reference workload, on texts of random ids; by device time where there is one."""
    plain = replace(config.measure, lengths=[], batch_sizes=[], batch_size=1, train_steps=0)
    with tempfile.TemporaryDirectory(prefix="harness-match-") as folder:
        outcome = launch(replace(config, measure=plain), Request(TIMING), Path(folder))
        if not outcome.measured.timing:
            raise InputError(f"match=latency: {config.label} cannot be timed: {outcome.ending.reason}")
        history = by_launch.history_of([(0, outcome.measured.timing[0].values)])
        metric = by_launch.headlines(history)[0]
        return by_launch.logs_of(history, metric)[0], by_launch.corrected(history, metric)[0]


def nearest_by_latency(ladder: Ladder, baseline: RunConfig, variant: RunConfig, begin: int) -> tuple[int, Ratio]:
    """(steps, ratio) of the first shape that is as fast as the baseline within the noise, or of the nearest of those tried.

    The search begins at `begin` steps and follows the secant of the logarithms. InputError where no shape can be timed.
    """
    tried: dict[int, Ratio] = {}
    steps = begin
    while steps not in tried and len(tried) < MOST_TRIED:
        shape = ladder.shape(steps)
        if shape is None:
            break
        tried[steps] = latency_ratio(baseline, replace(variant, model=shape))
        if abs(tried[steps].log) <= tried[steps].half_width:  # no difference is seen in this noise
            return steps, tried[steps]
        steps = max(1, min(ladder.most, _next(tried, steps)))
    if not tried:
        raise InputError(f"match=latency: {ladder.by.value}={begin * ladder.step} is no shape of {variant.label}")
    best = min(tried, key=lambda steps: abs(tried[steps].log))
    return best, tried[best]


def _next(tried: dict[int, Ratio], last: int) -> int:
    """Where the line through the two shapes nearest to equal crosses it; a slope of 1 with one shape, at least one step on."""
    two = sorted(tried, key=lambda steps: abs(tried[steps].log))[:2]
    slope = 1.0
    if len(two) == 2:
        slope = (tried[two[0]].log - tried[two[1]].log) / math.log(two[0] / two[1])
    slope = min(max(slope, 0.3), 3.0)  # noise can turn the line around
    aim = round(two[0] * math.exp(-tried[two[0]].log / slope))
    return aim if aim != two[0] else two[0] + (1 if tried[two[0]].log < 0 else -1)


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
    if all(config.match.cost is MatchOn.none for config in composed):
        return composed
    results: dict[str, MatchResult] = {}
    runs = []
    for config in composed:
        if config.match.cost is MatchOn.none or config.matched:  # as it is, or resized before
            runs.append(config)
            continue
        for key, value in {"model.init_from": config.model.init_from, "pretrain.from": config.pretrain.checkpoint}.items():
            if value is not None:
                raise InputError(
                    f"match={config.match.cost.value} cannot resize the weights of {key}={value}: leave one of them out"
                )
        baseline = baseline_of(config, composed)
        if config.model == baseline.model and config.enhancements == baseline.enhancements:
            runs.append(replace(config, arm=baseline.arm, settings=config.settings_without("match.")))
        else:
            runs.append(_resized(config, baseline, resolve, results))
    return runs


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
            f"without enhancements beside {models}, or match.to=MODEL with one of these"
        )
    return min(fitting, key=lambda run: len(run.settings))


def _resized(config: RunConfig, baseline: RunConfig, resolve: Resolve, results: dict[str, MatchResult]) -> RunConfig:
    variant, against = resolve(config), resolve(baseline)
    arm = _key(config, baseline)
    on_task = f"{arm} {config.task.name}"
    if arm not in results:
        ladder, on = Ladder(variant.model, variant.match.by), variant.match.cost
        if on is MatchOn.latency:
            results[arm] = _timed(ladder, variant, against, arm)
        else:
            results[arm] = _counted(ladder.keys(_steps(on, ladder, variant, against)), variant, against)
    if on_task not in results:
        is_measured = config.match.cost is MatchOn.latency
        results[on_task] = results[arm] if is_measured else _counted(results[arm].keys, variant, against)
        _refuse_beyond_tolerance(variant, results[on_task])
    return _named(config, results[on_task])


def _key(config: RunConfig, baseline: RunConfig) -> str:
    """Equal for runs of one arm, whatever their task and seed."""
    parts = (config.model, baseline.model, config.match, config.hardware, config.measure, config.finetune.batch_size)
    return hashlib.sha256(repr([to_dict(part) for part in parts]).encode()).hexdigest()[:16]


def _steps(on: MatchOn, ladder: Ladder, variant: RunConfig, baseline: RunConfig) -> int:
    """Steps of the shape whose counted cost is nearest to the baseline's."""
    target = counted_cost(on, baseline, baseline.model)
    return nearest_by_count(ladder, lambda model: counted_cost(on, variant, model), target)


def _counted(keys: dict[str, Any], variant: RunConfig, baseline: RunConfig) -> MatchResult:
    models = {"target": (baseline, baseline.model), "published": (variant, variant.model)}
    models["reached"] = (variant, replace(variant.model, **keys))
    on = variant.match.cost
    return MatchResult(keys, {name: float(counted_cost(on, run, model)) for name, (run, model) in models.items()})


def _timed(ladder: Ladder, variant: RunConfig, baseline: RunConfig, key: str) -> MatchResult:
    """Measured, or as kept; the search begins where FLOPs are equal."""
    path = paths.study_folder(variant.output, variant.study) / SHAPES_FILE
    earlier = records.read_or_set_aside(path, dict[str, Any], {})
    if key in earlier:
        return MatchResult(**earlier[key])
    with live_line(f"timing shapes of {variant.label}"):
        published = latency_ratio(baseline, variant)
        steps, ratio = nearest_by_latency(ladder, baseline, variant, _steps(MatchOn.flops, ladder, variant, baseline))
    values = {"target": ratio.baseline_ms, "reached": ratio.baseline_ms * math.exp(ratio.log), "half_width": ratio.half_width}
    values["published"] = ratio.baseline_ms * math.exp(published.log)
    result = MatchResult(ladder.keys(steps), values)
    _refuse_beyond_tolerance(variant, result)
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, {**records.read_or(path, dict[str, Any], {}), key: {"keys": result.keys, "matched": result.matched}})
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
            f"match={on.value}: the latency of {variant.label} is known within ± {100 * noise:.0f} % only after "
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
    sizes = [f"model.{key}={value}" for key, value in result.keys.items()]
    return replace(
        config,
        arm=arm,
        model=replace(config.model, **result.keys),
        settings=config.settings_without(*replaced),
        overrides=[*others, *sizes, f"arm='{arm}'"],
        matched=result.matched,
    )


def note(config: RunConfig) -> str | None:
    """One line on the shape of a resized run; None for others."""
    if not config.matched:
        return None
    on, matched = config.match.cost, config.matched
    keys = [key for key in keys_of(config.match.by) if getattr(config.model, key) is not None and not unmet(config.model, key)]
    shape = " ".join(f"{key}={getattr(config.model, key)}" for key in keys)
    off = miss(matched)
    text = (
        f"{config.label}: {shape}, {cost_text(on, matched['reached'])}, {100 * off:+.2f} % of the "
        f"{cost_text(on, matched['target'])} of {config.match.to}; as published {cost_text(on, matched['published'])}"
    )
    if "half_width" in matched:
        return f"{text} (± {100 * matched['half_width']:.1f} % over {config.match.rounds} rounds)"
    return f"{text} (nothing nearer fits the steps of the key)" if abs(off) > config.match.within else text
