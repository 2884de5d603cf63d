"""Differences of two arms over finished runs of the tracking store, paired by seed, and how many seeds a verdict needs.

Two runs are compared if all facts agree that the claim does not name. Where their models differ, so may the keys of a model,
except those that the arm of one of them sets.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from scipy.special import nctdtr

from harness import metrics, tags
from harness.comparison import arms, comparable, paired
from harness.comparison.labels import typed
from harness.comparison.launches import SectionKey
from harness.comparison.paired import CONFIDENCE, MOST_PAIRS, Difference, Tells, grouped
from harness.comparison.runs import Run
from harness.comparison.section import Pairing, Row, Section
from harness.config.keys import known_keys, unknown_key
from harness.errors import InputError, unknown
from harness.metrics import FEWEST_REPLICATES, Direction, Metric
from harness.plugins.audit.claims import Relation, Score, arms_of
from harness.plugins.audit.verdicts import PAIRS, Measured, Point, conditions
from harness.plugins.shared.seeds import has_enough

PARAMETERS = {
    "model": "model_name",
    "scale": "scale_name",
    "pretrain": "pretrain.objective",
    "corpus": "corpus.name",
    "task": "task.name",
}
"""Group of choices -> the parameter of a run that names its choice."""

VOCABULARY = "facts.tokenizer_file"
FREE_WITH = {
    "model_name": ("model.", "tokenizer.", VOCABULARY),
    **dict.fromkeys(("model.init_from", "tokenizer.kind", "tokenizer.vocab_file"), (VOCABULARY,)),
    "pretrain.objective": tuple(key for key in arms.OF_ARM if key.startswith("pretrain.")),
}
"""Parameter -> keys that may differ too where the two arms differ in it: they follow from the choice."""

FREE = ("facts.recipe",)
"""Hash of what follows from the named keys."""

SIDES = ("of", "against")

MOST_NAMED = 2
"""Settings that are named of matches which differ in nothing else; a resized model differs in more."""

Arms = dict[arms.Known, list[Run]]
"""Facts of an arm -> its runs."""

Pair = tuple[list[Run], ...]
"""The runs of two arms: of `of` and of `against`."""


@dataclass
class Match:
    """Two arms that agree in all facts but those that the claim names: the pairing's arm is `of`, its baseline `against`."""

    pairing: Pairing
    settings: dict[str, str]  # that the claim does not name: of the model for both arms, and what tells matches apart

    @property
    def run(self) -> Run:
        """Any run of `of`, for what all of its runs share."""
        return self.pairing.after.first

    @property
    def against(self) -> Run:
        return self.pairing.before.first


def difference(pairing: Pairing, metric: Metric, margin: float) -> Difference | str | None:
    """By how much the arm is better, with its error over replicates and items; why nothing tells, or None without a pair."""
    if reason := comparable.why_not(metric.name, pairing.before.runs, pairing.after.runs):
        return reason
    if (tells := pairing.tells(metric.name, margin)) is not Tells.EVERYTHING:
        return tells.value if metric.unit == "score" else "both arms are on the unigram plateau"
    sign = -1 if metric.direction is Direction.LOWER else 1
    before, after = ({key: sign * value for key, value in side.values(metric.name).items()} for side in pairing.sides)
    difference = paired.compare_paired(before, after)
    return difference and difference.with_items(pairing.items_error(metric.name))


def compare(reading: Score, runs: list[Run]) -> Measured:
    """One point for each task, arm of `against` and conditions, positive where `of` is better; and what would settle it.

    Without a known standard deviation, the study is planned for a difference of one.
    """
    if reading.metric not in metrics.METRICS:
        raise unknown("metric", reading.metric, metrics.METRICS, "metric")
    metric = metrics.get(reading.metric)
    if metric.direction is Direction.NEITHER and reading.relation is Relation.better:
        raise InputError(f"metric: {reading.metric} has no better direction; expected relation: no_difference")
    points: list[Point] = []
    silent, absent, unlike = [], [], True
    for against in arms_of(reading.against):
        named = {"against": against} if isinstance(reading.against, list) else {}
        measured = len(points)
        for match in _matches(reading, against, runs):
            found, where = difference(match.pairing, metric, reading.margin), named | _conditions(match)
            if isinstance(found, str):
                silent.append(f"{conditions(named | {'task': match.run.tags[tags.TASK]})} ({found})")
                held, study = arms.facts(match.run.params), facts_of(reading.study)  # of which another may be able to tell
                unlike &= any(key in held and plain(held[key]) != plain(value) for key, value in study.items())
            elif found is not None:
                point = Point(found.mean, where | {PAIRS: found.n}, -math.inf, math.inf, difference=found)
                # too few replicates, or equal ones, leave no scatter to judge by
                points.append(point.at(CONFIDENCE) if has_enough(found) and found.error else point)
        there = {point.where["task"] for point in points[measured:]}
        absent += [conditions(named | {"task": task}) for task in reading.tasks if task not in there]
        absent += [conditions(named)] if named and not there and not reading.tasks else []
    needed = max((_seeds(reading, point) for point in points), default=seeds_needed(1.0))
    enough = needed < MOST_PAIRS
    missing = f"a study of {needed} seeds" if enough else f"more than {MOST_PAIRS:,} seeds, or more items"
    return Measured(
        tuple(points),
        metric.unit,
        missing=f"another study, as these support no verdict: {', '.join(silent)}" if silent else missing,
        command=study_command(reading, needed) if enough and unlike else "",
        incomplete=", ".join(dict.fromkeys([*silent, *absent])) if points else "",
        scope="; ".join(conditions(point.where) for point in points),
    )


def _matches(reading: Score, against: str, runs: list[Run]) -> list[Match]:
    """Every pair of arms of the two sides whose facts agree: what is free may differ within a side."""
    sides, needed = [facts_of(text) for text in (reading.of, against)], facts_of(reading.needs)
    found: dict[arms.Known, tuple[Arms, Arms]] = {}
    differing = arms.varying(sides)  # where two models differ, their keys are free
    free = [*FREE, *differing, *(key for name in differing for key in FREE_WITH.get(name, ()))]
    for run in runs:
        places = [place for place, facts in enumerate(sides) if _has(run, facts)]
        fits = reading.metric in run.metrics and _has(run, needed) and not run.is_aa_replicate
        if len(places) != 1 or not fits or (reading.tasks and run.tags.get(tags.TASK) not in reading.tasks):
            continue
        facts = arms.facts(run.params)
        held = {key: value for key, value in facts.items() if not arms.within(key, free)}
        found.setdefault(arms.known(held), ({}, {}))[places[0]].setdefault(arms.known(facts), []).append(run)
    matches = []
    for pair in (pair for of_sides in found.values() for pair in product(*(side.values() for side in of_sides))):
        after, before = (Row(label, {run.replicate: run for run in side}) for label, side in zip(SIDES, pair, strict=True))
        ours, theirs, keys = after.first.params, before.first.params, _set_keys(pair, sides)
        if any(plain(ours[key]) != plain(theirs[key]) for key in keys if key in ours and key in theirs):
            continue  # of a key that the arm of either sets
        place = SectionKey(after.first.task, "")
        section = Section(place, place.task, {}, before.label, (before, after), before.sessions)
        matches.append(Match(Pairing(section, before, after), {key: ours.get(key, "") for key in keys}))
    _tell_apart(matches)
    _complete(matches)
    return matches


def _tell_apart(matches: list[Match]) -> None:
    """Adds to matches that read alike the first settings in which they differ."""
    for group in grouped((str(_conditions(match)), match) for match in matches).values():
        facts = [
            {key: _of_both(match, key) for key in {**arms.facts(match.run.params), **arms.facts(match.against.params)}}
            for match in group
        ]
        differing = [key for key in arms.varying(facts) if not key.startswith("facts.")]
        for match, one in zip(group, facts, strict=True):
            match.settings |= {key: one.get(key, "") for key in differing[:MOST_NAMED]}


def _complete(matches: list[Match]) -> None:
    """A setting that tells a match from others of its task is stated of each of them, also where it has its default."""
    of_task: dict[str, dict[str, None]] = {}
    for match in matches:
        of_task.setdefault(match.run.tags[tags.TASK], {}).update(dict.fromkeys(match.settings))
    for match in matches:
        match.settings = {key: _of_both(match, key) for key in of_task[match.run.tags[tags.TASK]]}


def _of_both(match: Match, key: str) -> str:
    """`1e-3`, or `194 and 128` where the two arms differ in it."""
    return " and ".join(dict.fromkeys(map(_spelled, [run.params.get(key, "None") for run in (match.run, match.against)])))


def _spelled(value: str) -> str:
    """As on the command line: `null`, `true`, `16` for what a store keeps as `None`, `True`, `16.0`."""
    try:
        return f"{float(value):g}"
    except ValueError:
        return typed(value)


def facts_of(text: str) -> dict[str, str]:
    """Parameter of a run -> its value, of choices and keys as on the command line; InputError for an unknown key."""
    facts = {}
    for word in text.split():
        key, equals, value = word.lstrip("+").partition("=")
        if not equals:
            raise InputError(f"{word!r} is not a setting: expected KEY=VALUE")
        if key not in PARAMETERS and key not in known_keys():
            raise unknown_key(key)
        facts[PARAMETERS.get(key, key)] = value
    return facts


def _set_keys(pair: Pair, sides: list[dict[str, str]]) -> list[str]:
    """Keys of model and objective that no side names and an arm sets, by its label: `base hidden_act=relu`.

    A label leaves out what its study sets for all arms, so that the runs of one arm may have several.
    """
    labels = {run.tags.get(tags.ARM, "") for runs in pair for run in runs}
    words = {word.partition("=")[0] for label in labels for word in label.split()[1:] if "=" in word}
    keys = {key for word in words for key in (word, f"model.{word}", f"pretrain.{word}")} & set(known_keys())
    return sorted(key for key in keys if not any(key in facts for facts in sides))


def _has(run: Run, facts: Mapping[str, str]) -> bool:
    params = run.params
    if "pretrain.phases" in params:
        params = params | {"pretrain.objective": arms.objective(params) or ""}
    return all(key in params and plain(params[key]) == plain(value) for key, value in facts.items())


def plain(value: str) -> str:
    """One spelling for `null` and `None`, `1e-3` and `0.001`, `true` and `True`."""
    try:
        return repr(float(value))
    except ValueError:
        return {"null": "none"}.get(value.lower(), value.lower())


def _conditions(match: Match) -> dict[str, object]:
    run = match.run
    budget = "pretrain" if run.tags.get(tags.TASK) == tags.PRETRAINING_TASK else "finetune"
    keys = ("max_steps", "seconds", "epochs", "steps", "tokens", "flops")
    stated = [(key, _spelled(value)) for key in keys if (value := run.params.get(f"{budget}.{key}", "None")) != "None"]
    return {"task": run.tags[tags.TASK], "scale": run.tags[tags.SCALE], **match.settings, **dict(stated[:1])}


def _seeds(reading: Score, point: Point) -> int:
    """Pairs that a verdict needs, by the standard deviation of those there are, if their mean is the true difference."""
    found, value, margin = point.difference, point.value, reading.margin
    sd = math.sqrt(max(0.0, found.error**2 - found.items**2) * (found.independent or found.n)) if found and found.error else 0.0
    if not found or not sd:
        return seeds_needed(1.0)
    distance = max(value, margin - value) if reading.relation is Relation.better else abs(margin - abs(value))
    beyond_items = distance**2 - (paired.t_quantile(math.inf) * found.items) ** 2
    return seeds_needed(math.sqrt(beyond_items) / sd) if beyond_items > 0 else MOST_PAIRS


def seeds_needed(effect: float) -> int:
    """Fewest pairs with which a paired t test at 5 % finds an effect of so many standard deviations with a power of 80 %."""

    def finds(n: int) -> bool:
        return bool(1 - nctdtr(n - 1, effect * math.sqrt(n), paired.t_quantile(n - 1)) >= paired.POWER)

    return paired.fewest(finds, FEWEST_REPLICATES)


def study_command(reading: Score, seeds: int) -> str:
    """What would settle the claim: one sweep, or one for each arm where these differ in several keys."""
    sides = [dict(word.partition("=")[::2] for word in text.split()) for text in (reading.of, *arms_of(reading.against))]
    keys = list(dict.fromkeys(key for side in sides for key in side))
    differing = arms.varying(sides)
    sweeps = [[f"{key}={value}" for key, value in side.items()] for side in sides]
    if len(differing) == 1 and all(differing[0] in side for side in sides):
        sweeps = [[f"{key}={','.join(dict.fromkeys(side[key] for side in sides))}" for key in keys]]
    tasks = [f"task={','.join(reading.tasks)}"] if reading.tasks else []
    common = [*reading.needs.split(), *tasks, *reading.study.split(), f"seed=range(1,{seeds + 1})"]
    return " && ".join(shlex.join(["python", "-m", "harness", "-m", *sweep, *common]) for sweep in sweeps)
