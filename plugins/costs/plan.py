"""Runs of a command and their costs: `python -m harness plan -m model=base,albert task=sst2 [--probe]`.

One row for runs that differ in seeds alone, in the order typed: what is done, parameters, FLOPs of training, memory, and the
time of one run. Time and memory are those of earlier runs on this machine; where there are none, `--probe` times a few steps.
Below it is the smallest difference that the runs can show: how replicates scatter is known from earlier ones of the same arms
and conditions, how the items of the validation data leave a score open from any run.
"""

import math
from statistics import fmean

from harness import metrics, tags
from harness.comparison import paired
from harness.comparison.paired import ASSUMED_SCORE, POWER, Replicate, compare_paired
from harness.config.choices import KeepBest, Sampler, TaskKind, Until
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import device, facts
from harness.plugins.costs import expected
from harness.plugins.costs.expected import Group, Timing, Work
from harness.plugins.costs.options import Plan
from harness.plugins.shared.seeds import smallest_difference
from harness.plugins.tuning import search
from harness.study import forecast, replicates, supervisor, tracked_study
from harness.study.forecast import Pace, training_s
from harness.study.plan import PlannedRun, plan, with_workers
from harness.study.runner import LoadCheck
from harness.tasks import prepared
from harness.terminal import DASH, console, counted, duration, live_line, scaled, table, wrapped

Values = dict[tuple[str, ...], dict[Replicate, dict[str, float]]]
"""Kind of a run -> replicate -> results of the finished run."""

Smallest = tuple[str, dict[int, str], str]
"""Task, the smallest true difference that is detected with 80 % power by the number of replicates, how that is known."""


def main(options: Plan, configs: list[RunConfig]) -> int:
    """Prints what the runs are and take; 0. InputError for what cannot be run, or whose data cannot be used."""
    configs = with_workers(configs, facts.cores())
    supervisor.refuse_as_one_command(configs)
    elsewhere = _for_another_machine(configs)
    if elsewhere and options.probe:
        raise InputError(f"{elsewhere}; without --probe the plan is one for another machine")
    load = LoadCheck()
    with live_line("preparing data") as line:
        planned = plan(configs, line.show)
    with live_line("counting") as line:

        def probe(run: PlannedRun, work: Work) -> Pace | None:
            line.show(f"probing {run.title}")
            return expected.probe(run, work, passive=load.check())

        groups = expected.groups(planned, probe if options.probe else None)
        groups.sort(key=lambda group: group.runs[0].place)  # as the command names them, pretrainings before what needs them
        if options.probe:
            line.show("probing a launch of the timing session")
        timing = expected.of_session(planned, options.probe)
    announced = search.announced(configs)
    said = (f"For another machine: {elsewhere}" if elsewhere else "", announced)
    notes = dict.fromkeys([*(note for run in planned for note in run.notes), *filter(None, said)])
    parts = [rows(groups), "", *(wrapped(note, 2) for note in notes), *([""] if notes else [])]
    parts += [
        *summary(groups, timing, planned[0].config.hardware.workers or 1),
        *extrapolated(groups, options),
        *shown(planned),
    ]
    console.plain("\n".join(parts))
    return 0


def _for_another_machine(configs: list[RunConfig]) -> str:
    """Why the runs cannot run here; empty where they can."""
    try:
        for config in configs:
            device.refuse_missing(config.hardware)
            device.refuse_absent(config.hardware)
    except InputError as error:
        return str(error)
    return ""


def extrapolated(groups: list[Group], options: Plan) -> list[str]:
    """Time and cost of what is to do on another device, in any currency; devices that share it divide the time alone.

    The trials of a search are to do, too.
    """
    todo = [(group, len(group.open) + _trials(group)) for group in groups if group.open]
    rate, price = options.flops_per_second, options.price
    if not todo or (rate is None and price is None):
        return []
    if rate is None:
        seconds = [group.pace.seconds * count if group.pace else None for group, count in todo]
        how = "by the times above"
    else:
        seconds = [group.work.flops * count / rate if group.work.flops else None for group, count in todo]
        how = f"training alone, at {scaled(rate, 'FLOP/s')}: FLOPs are counted, the rate is given"
    known = [of_group for of_group in seconds if of_group is not None]
    if len(known) < len(seconds):
        return ["Extrapolated: -; the time or FLOPs of some runs are unknown"]
    hours = sum(known) / 3600
    cost = "" if price is None else f", {hours * price:,.2f} at {price:g} an hour"
    return [wrapped(f"Extrapolated: about {duration(sum(known))} of one device{cost} ({how})")]


def shown(planned: list[PlannedRun]) -> list[str]:
    """Whether the runs are a study, and the smallest difference that they can show."""
    found = [one for one in smallest(planned) if {*one[1].values()} != {DASH}]
    labels, lines = {run.config.label for run in planned}, [text for text in (replicates.no_study(planned),) if text]
    lines += [f"Baseline: {next(name for name in tracked_study.baselines(planned) if name in labels)}"] * (len(labels) > 1)
    if planned[0].config.sweep.until is Until.resolved:
        lines.append(wrapped(replicates.announced(planned)))
    if not found:
        return lines
    numbers = list(found[0][1])
    head = ("smallest difference", *(f"{number} seeds" for number in numbers), "estimated from")
    cells = [(task, *sizes.values(), source) for task, sizes, source in found]
    note = f"Smallest difference detected with {100 * POWER:.0f} % power; smaller where arms err on the same items."
    if len(sources := {source for *_, source in found}) == 1:
        head, cells, note = head[:-1], [row[:-1] for row in cells], f"{note} Estimated from {sources.pop()}."
    return [*lines, "", wrapped(note), "", table(head, cells, "l" + "r" * len(numbers) + "l")]


def _size(size: float | None, unit: str) -> str:
    """A dash for too few replicates, and where nothing is known of how they scatter."""
    if size is None:
        return DASH
    return f"{100 * size:.1f} points" if unit == "score" else f"{size:.2g} {unit}"


def rows(groups: list[Group]) -> str:
    """The table: a row for runs that differ in seeds alone."""
    head = ("runs", "to do", "parameters", "training FLOPs", "memory", "time of one", "known from")
    lines = []
    for group in groups:
        title, pace = group.runs[0].title, group.pace
        flops = DASH if group.work.flops is None else scaled(group.work.flops, "FLOP")
        memory = DASH if pace is None or pace.memory_bytes is None else scaled(pace.memory_bytes, "B")
        time, source = (DASH, DASH) if pace is None else (f"about {duration(pace.seconds)}", pace.source)
        name = title.rpartition(", seed ")[0] if len(group.runs) > 1 else title
        todo = f"{len(group.open)} of {len(group.runs)}"
        lines.append((name, todo, scaled(group.work.parameters, ""), flops, memory, time, source))
    shown = [column for column in range(len(head)) if any(line[column] != DASH for line in lines)]
    titles, aligned, *rest = (tuple(cells[column] for column in shown) for cells in (head, "lrrrrrl", *lines))
    return table(titles, rest, "".join(aligned))


def _trials(group: Group) -> float:
    """The trials of a search as a number of its runs: each with its epochs, without the rows that they are scored on.

    0 without a search, and for a pretraining, which its trials share.
    """
    run = group.runs[0].config
    if not (run.search.space and run.finetune.enabled):
        return 0.0
    epochs = run.finetune.epochs
    share = 0.0 if run.search.selected_on is KeepBest.validation else run.task.tune_share or run.search.tune_share
    settings = search.grid(run) if run.search.sampler is Sampler.grid else [{}] * run.search.trials
    return (1 - share) * sum(float(one.get("finetune.epochs", epochs)) / epochs for one in settings)


def summary(groups: list[Group], timing: Timing | None, at_once: int = 1) -> list[str]:
    """How many runs are left, and how long they and the timing session take, as far as that is known."""
    todo, every = sum(len(group.open) for group in groups), sum(len(group.runs) for group in groups)
    unknown = sum(len(group.open) for group in groups if group.pace is None)
    training = training_s([group.pace.seconds for group in groups if group.pace for _ in group.open], at_once)
    lines = [f"{counted(every, 'run')}: {every - todo} done, {todo} to do"]
    if todo:
        how = "one after the other" if min(at_once, todo) == 1 else f"{at_once} at once"
        rest = f" (without {unknown} of unknown duration)" if unknown else ""
        known = f"about {duration(training)}, {how}{rest}"
        time = known if unknown < todo else "unknown; --probe times a few steps"
        lines.append(f"Training and evaluation: {time}")
    tuned = [(group, trials) for group in groups if group.open and (trials := _trials(group))]
    seconds = [trials * group.pace.seconds for group, trials in tuned if group.pace]
    if tuned:
        flops = [trials * group.work.flops for group, trials in tuned if group.work.flops]
        known = f", about {duration(sum(seconds))}" if len(seconds) == len(tuned) else ""
        lines.append(f"Search trials, before these runs: {scaled(sum(flops), 'FLOP')} of training{known}")
    if timing is not None:
        count = f"{counted(timing.variants, 'model')} and {counted(timing.replicates, 'A/A replicate')}"
        rounds, ends = f"{timing.rounds[0]} to {timing.rounds[1]} rounds", timing.seconds()
        took = f": about {duration(ends[0])} to {duration(ends[1])}" if ends else "; time unknown, --probe times a launch"
        lines.append(f"Timing: {count}, {rounds}{took} (measure=none skips it)")
        if ends and todo and not unknown:
            before = training + sum(seconds)
            lines.append(f"In all about {duration(before + ends[0])} to {duration(before + ends[1])}")
    return [*map(wrapped, lines)]


# The smallest difference


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
    by_replicates = {n: _size(sizes.get(n) if variances or item else None, metric.unit) for n in counts}
    source = f"the spread of {counted(min(pairs), 'earlier seed')}" if pairs else "nothing: there are no earlier seeds"
    if item and pairs:
        source += " and the sampling error"
    elif item:
        source = f"sampling error alone, at a score of {ASSUMED_SCORE:g}; the spread of seeds adds to it"
    return next(iter(tasks)) if len(tasks) == 1 else f"mean of {len(tasks)} tasks", by_replicates, source


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
