"""The smallest difference that a sweep can show, known before it runs.

How replicates scatter is known from earlier ones of the same arms and conditions, how the items of the validation data leave a
score open from any run.
"""

import math
from dataclasses import dataclass
from statistics import fmean

from harness import metrics, tags
from harness.comparison import paired
from harness.comparison.paired import ASSUMED_SCORE, Replicate, compare_paired
from harness.config.choices import TaskKind
from harness.plugins.shared.seeds import smallest_difference
from harness.study import forecast, replicates, tracked_study
from harness.study.plan import PlannedRun
from harness.tasks import prepared
from harness.terminal import counted

Values = dict[tuple[str, ...], dict[Replicate, dict[str, float]]]
"""Kind of a run -> replicate -> results of the finished run."""


@dataclass(frozen=True)
class Smallest:
    """The smallest true difference that is shown with a power of 80 %, by the number of replicates, and how that is known.

    None for too few replicates, and where nothing is known of how they scatter.
    """

    task: str
    unit: str
    by_replicates: dict[int, float | None]
    source: str


def smallest(planned: list[PlannedRun]) -> list[Smallest]:
    """The mean score over tasks where there are several, and each task; or the held-out masked loss."""
    tasks = replicates.trained(planned)
    baselines = [name for name in tracked_study.baselines(planned) if all(name in arms for arms in tasks.values())]
    if not tasks or not baselines:
        return []
    values: Values = {}
    for run in forecast.finished({run.config.output for run in planned}):
        values.setdefault(run.kind, {})[run.replicate] = run.result["metrics"]
    by_look = replicates.parts(planned)
    counts = (
        list(by_look)
        if len(by_look) > 1
        else [min(replicates.replicates_of(runs) for arms in tasks.values() for runs in arms.values())]
    )
    scored = {task: arms for task, arms in tasks.items() if task != tags.PRETRAINING_TASK}
    families = [scored] * (len(scored) > 1) + [{task: arms} for task, arms in tasks.items()]
    return [_of_family(family, baselines[0], values, counts, len(by_look)) for family in families]


def _of_family(tasks: dict[str, replicates.Arms], baseline: str, values: Values, counts: list[int], number: int) -> Smallest:
    """Smallest difference over these tasks; `number`: of interim analyses."""
    metric = metrics.get(replicates.LOSS if tags.PRETRAINING_TASK in tasks else replicates.SCORE)
    others = dict.fromkeys(label for arms in tasks.values() for label in arms if label != baseline)
    variances, items, pairs = [], [], []
    for label in others:
        shared = [arms for arms in tasks.values() if label in arms]
        sides = [[_found(arms[arm][0], metric.name, values) for arms in shared] for arm in (baseline, label)]
        means = [{one: fmean(task[one] for task in side) for one in set(side[0]).intersection(*side)} for side in sides]
        difference = compare_paired(*means)
        if difference is not None and difference.error is not None and difference.independent:
            variances.append(difference.sd**2)
            pairs.append(difference.n)
        if metric.unit == "score":
            items.append(
                paired.over_tasks([_items_error([arms[arm][0] for arm in (baseline, label)], values) for arms in shared])
            )
    sd, item = math.sqrt(fmean(variances)) if variances else 0.0, max(items, default=0.0)
    sizes = {n: smallest_difference(n, sd, len(others), number, item) for n in counts if not paired.no_study(n)}
    by_replicates = {n: sizes.get(n) if variances or item else None for n in counts}
    source = f"the spread of {counted(min(pairs), 'earlier seed')}" if pairs else "nothing: there are no earlier seeds"
    if item and pairs:
        source += " and the sampling error"
    elif item:
        source = f"sampling error alone, at a score of {ASSUMED_SCORE:g}; the spread of seeds adds to it"
    return Smallest(next(iter(tasks)) if len(tasks) == 1 else f"mean of {len(tasks)} tasks", metric.unit, by_replicates, source)


def _found(run: PlannedRun, name: str, values: Values) -> dict[Replicate, float]:
    """What finished replicates of the run have measured."""
    return {one: results[name] for one, results in values.get(forecast.kind_of(run), {}).items() if name in results}


def _items_error(both: list[PlannedRun], values: Values) -> float:
    """Standard error of a difference over the validation items of the runs, as of arms that err on different ones."""
    task, split = both[0].config.task, prepared.read(both[0].config, both[0].inputs.rows).validation
    assumed = {"eval/examples": len(split), replicates.SCORE: ASSUMED_SCORE}
    if task.headline == "f1" and task.kind is TaskKind.classification:
        assumed["eval/majority_score"] = 2 * split.labels.mean() / (1 + split.labels.mean())
    sides = [
        [one for one in values.get(forecast.kind_of(run), {}).values() if replicates.SCORE in one] or [assumed] for run in both
    ]
    before, after = (fmean(one[replicates.SCORE] for one in side) for side in sides)
    counts = [fmean(paired.rows_of(assumed | one, task.headline) or 0.0 for one in side) for side in sides]
    return paired.items_error(before, after, counts, task.headline)
