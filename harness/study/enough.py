"""Whether a sweep has replicates enough for a verdict, and the smallest difference that it can show, before it runs.

How replicates scatter is known from earlier ones of the same arms and conditions. How the items of the validation data leave a
score open is known before any run.
"""

import math
from dataclasses import dataclass
from statistics import fmean

from harness import metrics, paired
from harness.paired import Replicate, compare_paired, grouped
from harness.study import forecast, looks, tracked_study
from harness.study.budget import LOSS, SCORE
from harness.study.plan import PlannedRun
from harness.tasks import prepared
from harness.terminal import counted

ASSUMED_SCORE = 0.8
"""Score at which the items are counted where no earlier run says one."""

Arms = dict[str, list[PlannedRun]]
"""Label -> the runs of an arm on one task."""


def trained(planned: list[PlannedRun]) -> dict[str, Arms]:
    """Task -> its arms, of the tasks on which several are trained; pretrainings where nothing is fine-tuned."""
    needed = {id(run.needs) for run in planned}
    own = [run for run in planned if id(run) not in needed and (run.inputs.data is None or run.config.finetune.enabled)]
    tasks = grouped((run.identity.task, run) for run in sorted(own, key=lambda run: run.place))
    arms = {task: grouped((run.config.label, run) for run in runs) for task, runs in tasks.items()}
    return {task: of_task for task, of_task in arms.items() if len(of_task) > 1}


def no_study(planned: list[PlannedRun]) -> str:
    """Why what is planned is no study; empty where it is, and where nothing is compared."""
    counts = [_replicates(runs) for arms in trained(planned).values() for runs in arms.values()]
    return paired.no_study(min(counts)) if counts else ""


def _replicates(runs: list[PlannedRun]) -> int:
    return paired.replicates(
        Replicate(str(run.config.pretrain.seed) if run.needs or not run.inputs.data else "", str(run.config.seed))
        for run in runs
    )


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
    """Of the mean score over tasks where there are several, and of each task, or of the held-out masked loss."""
    tasks = trained(planned)
    baselines = [name for name in ("base", tracked_study.first_arm(planned)) if all(name in arms for arms in tasks.values())]
    if not tasks or not baselines:
        return []
    values: dict[tuple[str, ...], dict[Replicate, dict[str, float]]] = {}
    for run in forecast.finished({run.config.output for run in planned}):
        values.setdefault(run.kind, {})[run.replicate] = run.result["metrics"]
    parts = looks.parts(planned)
    counts = list(parts) if len(parts) > 1 else [min(_replicates(runs) for arms in tasks.values() for runs in arms.values())]
    families = [tasks] * (len(tasks) > 1) + [{task: arms} for task, arms in tasks.items()]
    return [_of_family(family, baselines[0], values, counts, len(parts)) for family in families]


def _of_family(tasks: dict[str, Arms], baseline: str, values: dict, counts: list[int], number: int) -> Smallest:
    """Over these tasks; `values`: kind of a run -> replicate -> results, `number`: of looks."""
    (name,) = {LOSS if runs[0].inputs.data is None else SCORE for arms in tasks.values() for runs in arms.values()}
    metric, others = metrics.get(name), [label for label in next(iter(tasks.values())) if label != baseline]
    variances, items, pairs = [], [], []
    for label in others:
        sides = [
            [
                {
                    replicate: found[name]
                    for replicate, found in values.get(forecast.kind_of(arms[arm][0]), {}).items()
                    if name in found
                }
                for arms in tasks.values()
                if arm in arms
            ]
            for arm in (baseline, label)
        ]
        means = [
            {one: fmean(task[one] for task in side) for one in side[0] if all(one in task for task in side)} for side in sides
        ]
        difference = compare_paired(*means)
        if difference is not None and difference.error is not None and difference.independent:
            variances.append(difference.replicates_error**2 * difference.independent)
            pairs.append(difference.n)
        if metric.unit == "score":
            scores = [[fmean(task.values()) if task else ASSUMED_SCORE for task in side] for side in sides]
            items.append(
                paired.over_tasks(
                    [
                        paired.items_error(before, after, _items(arms[baseline][0]), arms[baseline][0].config.task.headline)
                        for before, after, arms in zip(*scores, tasks.values(), strict=False)
                    ]
                )
            )
    sd, item = math.sqrt(fmean(variances)) if variances else 0.0, max(items, default=0.0)
    is_known = bool(variances or item)
    by_replicates = {
        n: paired.smallest_difference(n, sd, len(others), number, item) if is_known and not paired.no_study(n) else None
        for n in counts
    }
    source = f"spread of {counted(min(pairs), 'earlier replicate')}" if pairs else "no earlier replicate"
    if item:
        source += (
            " and the items" if pairs else f": the items alone, at a score of {ASSUMED_SCORE:g}; seeds scatter beside them"
        )
    return Smallest(next(iter(tasks)) if len(tasks) == 1 else f"mean of {len(tasks)} tasks", metric.unit, by_replicates, source)


def _items(run: PlannedRun) -> int:
    return len(prepared.read(run.config, run.inputs.data).validation)
