"""The runs of a command with `match`: each variant in the shape that costs as much as the baseline, under a name that says so.

A shape is searched once for all tasks and seeds of an arm, on the first of its tasks; the others are checked. What a
measured search found is kept in the folder of the study, so that the same command has the same runs again.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness import arms, paths
from harness.config.choices import MatchOn
from harness.config.schema import RunConfig, to_dict
from harness.errors import InputError
from harness.study.match import costs, latency, shapes
from harness.study.match.shapes import Ladder
from harness.terminal import live_line
from harness.tracking import run_log
from models.keys import unmet

KEPT = "match.json"
"""In the folder of a study: shapes that a measured search found."""

Resolve = Callable[[RunConfig], RunConfig]
"""The config that runs, of a composed one: with the vocabulary of its text."""


@dataclass(frozen=True)
class Found:
    """What a search found: costs of the baseline, of the variant as published, and of its new shape."""

    keys: dict[str, int]
    matched: dict[str, float]


def resized(composed: list[RunConfig], resolve: Resolve) -> list[RunConfig]:
    """The same runs, those with `match` resized; InputError for one that cannot be matched within match.tolerance."""
    if all(config.match.cost is MatchOn.none for config in composed):
        return composed
    found: dict[str, Found] = {}
    runs = []
    for config in composed:
        if config.match.cost is MatchOn.none or config.matched:  # as it is, or resized before
            runs.append(config)
            continue
        _refuse_weights(config)
        baseline = baseline_of(config, composed)
        if _is_alike(config, baseline):
            runs.append(replace(config, arm=baseline.arm, settings=_without_match(config.settings)))
        else:
            runs.append(_resized(config, baseline, resolve, found))
    return runs


def baseline_of(config: RunConfig, composed: list[RunConfig]) -> RunConfig:
    """The run of the command that this one is matched to: match.to as composed with fewest settings, all else alike.

    InputError where there is none.
    """
    others = {key: value for key, value in config.settings.items() if not arms.within(key, ("model.", "match."))}
    fitting = [
        one
        for one in composed
        if one.model_name == config.match.to
        and not any(one.enhancements.values())
        and (one.scale_name, one.task.name, one.seed) == (config.scale_name, config.task.name, config.seed)
        and {key: value for key, value in one.settings.items() if not arms.within(key, ("model.", "match."))} == others
    ]
    if not fitting:
        models = ", ".join(dict.fromkeys(one.model_name for one in composed))
        raise InputError(
            f"match={config.match.cost.value} needs the baseline in the same command: expected model={config.match.to} "
            f"without enhancements beside {models}, or match.to=MODEL with one of these"
        )
    return min(fitting, key=lambda one: len(one.settings))


def _refuse_weights(config: RunConfig) -> None:
    weights = {"model.init_from": config.model.init_from, "pretrain.from": config.pretrain.checkpoint}
    for key, value in weights.items():
        if value is not None:
            raise InputError(
                f"match={config.match.cost.value} cannot resize the weights of {key}={value}: leave one of them out"
            )


def _is_alike(config: RunConfig, baseline: RunConfig) -> bool:
    return config.model == baseline.model and config.enhancements == baseline.enhancements


def _without_match(settings: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if not key.startswith("match.")}


def _resized(config: RunConfig, baseline: RunConfig, resolve: Resolve, found: dict[str, Found]) -> RunConfig:
    variant, against = resolve(config), resolve(baseline)
    arm = _key(config, baseline)
    on_task = f"{arm} {config.task.name}"
    if arm not in found:
        found[arm] = _search(variant, against, arm)
    if on_task not in found:
        found[on_task] = found[arm] if config.match.cost is MatchOn.latency else _counted(found[arm].keys, variant, against)
        _refuse_beyond_tolerance(variant, found[on_task])
    return _named(config, found[on_task])


def _key(config: RunConfig, baseline: RunConfig) -> str:
    """Equal for runs of one arm, whatever their task and seed."""
    parts = (config.model, baseline.model, config.match, config.hardware, config.measure, config.finetune.batch_size)
    return hashlib.sha256(repr([to_dict(part) for part in parts]).encode()).hexdigest()[:16]


def _search(variant: RunConfig, baseline: RunConfig, key: str) -> Found:
    ladder, on = Ladder(variant.model, variant.match.by), variant.match.cost
    if on is MatchOn.latency:
        return _timed(ladder, variant, baseline, key)
    return _counted(ladder.keys(_steps(on, ladder, variant, baseline)), variant, baseline)


def _steps(on: MatchOn, ladder: Ladder, variant: RunConfig, baseline: RunConfig) -> int:
    """Of the shape whose counted cost is nearest to the baseline's."""
    target = costs.counted(on, baseline, baseline.model)
    return shapes.nearest(ladder, lambda model: costs.counted(on, variant, model), target)


def _counted(keys: dict[str, int], variant: RunConfig, baseline: RunConfig) -> Found:
    models = {"target": (baseline, baseline.model), "published": (variant, variant.model)}
    models["reached"] = (variant, replace(variant.model, **keys))
    on = variant.match.cost
    return Found(keys, {name: float(costs.counted(on, run, model)) for name, (run, model) in models.items()})


def _timed(ladder: Ladder, variant: RunConfig, baseline: RunConfig, key: str) -> Found:
    """Measured, or as kept; the search begins where FLOPs are equal."""
    path = paths.study_folder(variant.output, variant.study) / KEPT
    kept = run_log.read_or_set_aside(path)
    if key in kept:
        return Found(**kept[key])
    with live_line(f"timing shapes of {variant.label}"):
        published = latency.measured(baseline, variant)
        steps, ratio = latency.nearest(ladder, baseline, variant, _steps(MatchOn.flops, ladder, variant, baseline))
    values = {"target": ratio.baseline_ms, "reached": ratio.baseline_ms * math.exp(ratio.log), "half_width": ratio.half_width}
    values["published"] = ratio.baseline_ms * math.exp(published.log)
    found = Found(ladder.keys(steps), values)
    _refuse_beyond_tolerance(variant, found)
    path.parent.mkdir(parents=True, exist_ok=True)
    run_log.write_json(path, {**run_log.read_json(path), key: {"keys": found.keys, "matched": found.matched}})
    return found


def miss(matched: dict[str, float]) -> float:
    """By what share of the baseline's cost the reached one is above it."""
    return matched["reached"] / matched["target"] - 1


def _refuse_beyond_tolerance(variant: RunConfig, found: Found) -> None:
    match, on = variant.match, variant.match.cost
    shape = " ".join(f"model.{key}={value}" for key, value in found.keys.items())
    if abs(miss(found.matched)) > match.tolerance:
        raise InputError(
            f"match={on.value}: {variant.label} cannot have the cost of {match.to}, {costs.text(on, found.matched['target'])}, "
            f"by {match.by.value}: the nearest is {shape} with {costs.text(on, found.matched['reached'])} "
            f"({100 * miss(found.matched):+.1f} %); expected within match.tolerance={match.tolerance:g}: "
            "set match.by to another key, or raise match.tolerance"
        )
    noise = found.matched.get("half_width", 0.0)
    if noise > match.tolerance:
        raise InputError(
            f"match={on.value}: the latency of {variant.label} is known within ± {100 * noise:.0f} % only after "
            f"{match.rounds} rounds; expected match.tolerance={match.tolerance:g}: "
            "try on a quieter machine, or raise match.rounds"
        )


def _named(config: RunConfig, found: Found) -> RunConfig:
    """The run in its new shape; its overrides compose it again without a search. In its published one it keeps its name."""
    if all(getattr(config.model, key) == value for key, value in found.keys.items()):
        return replace(config, settings=_without_match(config.settings), matched=found.matched)
    arm = f"{config.arm} ({words(config.match.cost)} as {config.match.to})"
    replaced = [f"model.{key}" for key in found.keys]
    others = [one for one in config.overrides if not arms.within(one.lstrip("+").partition("=")[0], _OWN + tuple(replaced))]
    sizes = [f"model.{key}={value}" for key, value in found.keys.items()]
    return replace(
        config,
        arm=arm,
        model=replace(config.model, **found.keys),
        settings={key: value for key, value in config.settings.items() if key not in replaced},
        overrides=[*others, *sizes, f"arm='{arm}'"],
        matched=found.matched,
    )


_OWN = ("match", "match.", "arm")


def words(on: MatchOn) -> str:
    """`params`, `FLOPs`, `memory`, `latency`."""
    return "FLOPs" if on is MatchOn.flops else on.value


def note(config: RunConfig) -> str | None:
    """One line on the shape of a resized run; None for others."""
    if not config.matched:
        return None
    on, matched = config.match.cost, config.matched
    keys = [
        key
        for key in shapes.keys_of(config.match.by)
        if getattr(config.model, key) is not None and not unmet(config.model, key)
    ]
    shape = " ".join(f"{key}={getattr(config.model, key)}" for key in keys)
    off = miss(matched)
    text = (
        f"{config.label}: {shape}, {costs.text(on, matched['reached'])}, {100 * off:+.2f} % of the "
        f"{costs.text(on, matched['target'])} of {config.match.to}; as published {costs.text(on, matched['published'])}"
    )
    if "half_width" in matched:
        return f"{text} (± {100 * matched['half_width']:.1f} % over {config.match.rounds} rounds)"
    return f"{text} (nothing nearer fits the steps of the key)" if abs(off) > config.match.within else text
