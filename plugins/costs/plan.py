"""Runs of a command and their costs: `python -m harness plan -m model=base,albert task=sst2 [--probe]`.

One row for runs that differ in seeds alone, in the order typed: what is done, parameters, FLOPs of training, memory, and the
time of one run. Time and memory are those of earlier runs on this machine; where there are none, `--probe` times a few steps.
"""

from harness.comparison.paired import POWER
from harness.config.choices import KeepBest, Sampler, Until
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import device, facts
from harness.plugins.costs import expected
from harness.plugins.costs.expected import Group, Timing, Work
from harness.plugins.costs.options import Plan
from harness.plugins.costs.smallest_difference import Smallest, smallest
from harness.plugins.tuning import search
from harness.study import replicates, supervisor, tracked_study
from harness.study.forecast import Pace, training_s
from harness.study.plan import PlannedRun, plan, with_workers
from harness.study.runner import LoadCheck
from harness.terminal import DASH, console, counted, duration, live_line, scaled, table, wrapped


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
    found = [one for one in smallest(planned) if {*one.by_replicates.values()} != {None}]
    labels, lines = {run.config.label for run in planned}, [text for text in (replicates.no_study(planned),) if text]
    lines += [f"Baseline: {next(name for name in tracked_study.baselines(planned) if name in labels)}"] * (len(labels) > 1)
    if planned[0].config.sweep.until is Until.resolved:
        lines.append(wrapped(replicates.announced(planned)))
    if not found:
        return lines
    numbers = list(found[0].by_replicates)
    head = ("smallest difference", *(f"{number} seeds" for number in numbers), "estimated from")
    cells = [(one.task, *(_size(one, size) for size in one.by_replicates.values()), one.source) for one in found]
    note = f"Smallest difference shown with a power of {100 * POWER:.0f} %; smaller where arms err on the same items."
    if len(sources := {one.source for one in found}) == 1:
        head, cells, note = head[:-1], [row[:-1] for row in cells], f"{note} Estimated from {sources.pop()}."
    return [*lines, "", wrapped(note), "", table(head, cells, "l" + "r" * len(numbers) + "l")]


def _size(one: Smallest, size: float | None) -> str:
    if size is None:
        return DASH
    return f"{100 * size:.2g} points" if one.unit == "score" else f"{size:.2g} {one.unit}"


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
        count = f"{counted(timing.variants, 'variant')} and {counted(timing.replicates, 'A/A replicate')}"
        rounds, ends = f"{timing.rounds[0]} to {timing.rounds[1]} rounds", timing.seconds()
        took = f": about {duration(ends[0])} to {duration(ends[1])}" if ends else "; time unknown, --probe times a launch"
        lines.append(f"Timing: {count}, {rounds}{took} (measure=none skips it)")
        if ends and todo and not unknown:
            before = training + sum(seconds)
            lines.append(f"In all about {duration(before + ends[0])} to {duration(before + ends[1])}")
    return [*map(wrapped, lines)]
