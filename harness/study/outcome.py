"""What went wrong in a training that has ended, from what its run recorded: its losses, its evaluations, its predictions.

One place judges; the line of the run, `status`, the trackers and the report say what it found.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from harness import metrics
from harness.comparison import plateau
from harness.config.choices import KeepBest, TaskKind
from harness.config.conditions import has_task, is_only_scored, starts_from_weights
from harness.config.rules import BUDGETS
from harness.config.schema import RunConfig
from harness.tasks.synthetic import theory
from harness.tracking.run_log import Entry, Reader, RunLog, State

SMALLEST_LOSS = 0.01
"""Smaller losses count as this one: a training that begins and ends below it has not risen."""

FIRST_NOISE = 0.5
"""Scatter of the logarithm of one batch's loss, where the last losses are too few to show theirs."""

SIGMAS = 3
"""Standard errors from which a loss counts as risen or falling: one of 700 healthy trainings exceeds it."""

FEWEST_STEPS = 20
"""Minimum number of steps to say that a loss still falls."""

FALLING = 0.15
"""Share of the whole fall that happens in the last fifth of the steps; a straight line has a quarter there."""

LEFT = 0.1
"""Share of the first loss below which nothing is left to fall."""

GAP = 1.2
"""Validation loss over training loss above which more training fits the training rows alone."""

VARIETY = 0.1
"""Predictions vary less than labels by this factor: (1 - share of the most frequent prediction) over that of the labels."""

ONE_SIDED = 1.645
"""Standard errors over the items by which a score must be above another one, to be so in 95 of 100 samples of them."""

SKEWED = 1.3
"""Share of the most frequent label over that of equally frequent ones from which on weights of the classes may help."""

FEWEST_EVALUATIONS = 3
LOSS_ROSE = 1.01
"""Last held-out loss over the first one from which on it rose; both are of the same tokens."""


class Note(NamedTuple):
    """One thing that went wrong: its kind, and a sentence with numbers and the key to change."""

    kind: str
    text: str


def state_of(found: Iterable[Note]) -> State:
    """`diverged` for a training whose loss rose and that has learned nothing, else `finished`."""
    return State.diverged if any(note.kind == State.diverged for note in found) else State.finished


def not_finite(config: RunConfig, error: Exception) -> Note:
    """The note on a loss that is not finite."""
    phase = "finetune" if has_task(config) else "pretrain"
    return Note(State.diverged, f"{error}: lower {_key(config, phase, 'learning_rate')}")


def notes(config: RunConfig, run_log: RunLog, parameters: Mapping[str, str]) -> list[Note]:
    """What went wrong in the training of this log, the worst first; empty for a healthy one. `parameters`: the tracked ones."""
    entries = Reader(run_log.folder).new_entries()
    return judged(config, entries, {entry["result"]: entry["value"] for entry in entries if "result" in entry}, parameters)


def judged(
    config: RunConfig, entries: Sequence[Entry], values: Mapping[str, float], parameters: Mapping[str, str]
) -> list[Note]:
    """Notes from a run's log entries, their curves, and its results by metric."""
    pretrains = not has_task(config)
    phase = "pretrain" if pretrains else "finetune"
    losses = [entry["value"] for entry in entries if entry.get("key") == f"{phase}/loss"]
    if pretrains and config.pretrain.phases:  # only the losses of one phase compare with each other
        losses = losses[round(len(losses) * (1 - config.pretrain.shares[-1])) + 1 :]
    still = _still_falls(losses, None if pretrains else values.get("eval/loss"))
    options = getattr(config, phase)
    if pretrains:
        ended_by = next(key for key in BUDGETS if getattr(options, key) is not None)
    else:
        ended_by = "seconds" if options.seconds is not None else "max_steps" if options.max_steps == len(losses) else "epochs"
    budget, rate = _key(config, phase, ended_by), _key(config, phase, "learning_rate")
    if still:
        cure = f"raise {budget}, because {still}"
    else:
        cure = f"raise {budget}" if len(losses) < FEWEST_STEPS else f"try another {rate}, or raise {budget}"
    if pretrains:
        said = plateau.warning(values, parameters)
        stuck = plateau.is_on(values)
        unlearned = [Note("plateau", f"{said}; raise {budget}") if stuck else Note("reference", said)] if said else []
    else:
        unlearned = _of_task(config, values, parameters, cure)
    first_best = _best_first(config, entries, values, phase)
    late = [Note("best_first", f"{first_best}: lower {rate} or {budget}")] if first_best else []
    if rise := _rise(losses):
        if pretrains:  # a probe knows what the encoder does
            knows = values.get(plateau.LOSS, math.inf) <= plateau.SHARE * values.get(plateau.ENTROPY, 0.0)
        else:
            knows = "eval/score" in values and not unlearned
        lower = f"training loss {rise}: lower {rate}"
        return [Note("rose", lower), *late] if knows else [Note(State.diverged, lower)]
    is_perfect = values.get("eval/score", 0.0) >= 1 - _error(config, 1.0, values.get("eval/examples"))  # as items can tell
    falls = [Note("falling", f"{still}: raise {budget}")] if still and not (unlearned or is_perfect) else []
    return [*unlearned, *late, *falls]


def _rise(losses: Sequence[float]) -> str | None:
    """Where the loss ended and began, if that is higher by more than its scatter, as ratios: losses of steps scatter so."""
    if len(losses) < 2:
        return None
    count = min(len(losses) - 1, max(5, len(losses) // 10))
    first, *last = (math.log(max(loss, SMALLEST_LOSS)) for loss in (losses[0], *losses[-count:]))
    scatter = max(stdev(last) if count > 1 else 0.0, FIRST_NOISE / math.sqrt(count))
    if fmean(last) - first <= SIGMAS * scatter * math.sqrt(1 + 1 / count):
        return None
    return f"ended at {fmean(losses[-count:]):.3g}, above {losses[0]:.3g}, where it began"


def _still_falls(losses: Sequence[float], validation: float | None) -> str | None:
    """How far the loss fell in its last fifth, if that is a large part of its whole fall and no learning by heart."""
    fifth = len(losses) // 5
    if len(losses) < FEWEST_STEPS:
        return None
    before, last, start = losses[-2 * fifth : -fifth], losses[-fifth:], fmean(losses[: max(1, len(losses) // 20)])
    fall, error = fmean(before) - fmean(last), math.hypot(stdev(before), stdev(last)) / math.sqrt(fifth)
    is_by_heart = validation is not None and validation > GAP * fmean(last)
    if is_by_heart or fmean(last) < LEFT * start or fall <= SIGMAS * error or fall < FALLING * (start - fmean(last)):
        return None
    fell = f"from {fmean(before):.3g} to {fmean(last):.3g} in the last fifth of {len(losses):,} steps"
    return f"the loss still fell at the end, {fell}"


def _key(config: RunConfig, phase: str, name: str) -> str:
    """A key of the training with its value."""
    return f"{phase}.{name} ({getattr(getattr(config, phase), name):g})"


def _of_task(config: RunConfig, values: Mapping[str, float], parameters: Mapping[str, str], cure: str) -> list[Note]:
    """Whether the predictions vary, the score is above the majority baseline, and within the reference of its recipe."""
    scored = is_only_scored(config)
    score, constant, items = (values.get(f"eval/{key}") for key in ("score", "majority_score", "examples"))
    has_weights = starts_from_weights(config) and not config.model.random_weights
    if score is None or (scored and not (config.pretrains or has_weights)):  # random weights that nothing trains know nothing
        return []
    cure = "start from weights that were trained longer (pretrain.tokens)" if scored else cure
    expected = theory.expectation(config)
    if expected and expected.verdict is theory.Verdict.cannot:  # no other setting would cure it
        cure = f"as theory expects, it {expected.reason}"
    error = _error(config, score, items)
    predicted, labelled = (values.get(f"eval/most_frequent_{of}_share") for of in ("prediction", "label"))
    if constant is not None and score > constant + error and not (predicted == 1 and labelled != 1):
        said = plateau.warning(values, parameters)  # one answer for all rows beats a majority of few training rows by chance
        return [Note("reference", said)] if said else []
    if predicted is not None and labelled is not None and 1 - predicted < VARIETY * (1 - labelled):
        has_classes = config.task.kind in (TaskKind.classification, TaskKind.tokens) and not scored
        is_skewed = has_classes and labelled > SKEWED / len(config.task.labels) and config.finetune.class_weights is None
        cure += ", or set finetune.class_weights=balanced" if is_skewed else ""
        alike = f"one answer is {100 * predicted:.3g} % of the predictions and {100 * labelled:.3g} % of the labels"
        return [Note("collapsed", f"collapsed: {alike}; {cure}")]
    if constant is None:
        return []
    by = f" by more than its sampling error ({error:.2g})" if score > constant else ""
    return [Note("baseline", f"score {score:.4f} is not above the majority baseline of {constant:.4f}{by}: {cure}")]


def _error(config: RunConfig, score: float, items: float | None) -> float:
    """By how much another score must differ; 0 where the number of items is unknown."""
    from harness.comparison import paired  # scipy, which would be in the memory that a worker measures

    return ONE_SIDED * paired.item_error(score, items, config.task.headline) if items else 0.0


def _best_first(config: RunConfig, entries: Sequence[Entry], values: Mapping[str, float], phase: str) -> str | None:
    """The evaluations, if none was better than the first one and the last one was worse by more than its error."""
    by_tune = config.finetune.keep_best is KeepBest.tune
    key = plateau.LOSS if phase == "pretrain" else "tune/score" if by_tune else "eval/score"
    evaluated = [entry["value"] for entry in entries if entry.get("key") == key]
    if len(evaluated) < FEWEST_EVALUATIONS:
        return None
    first, *others, last = evaluated
    if phase == "pretrain":
        is_worse = min(*others, last) > first and last > LOSS_ROSE * first
    else:
        is_worse = max(*others, last) < first and last < first - _error(config, first, values.get("eval/examples"))
    numbers = f"at the first of {len(evaluated)} evaluations ({first:.4g}, at the last {last:.4g})"
    return f"{metrics.get(key).title} was best {numbers}" if is_worse else None
