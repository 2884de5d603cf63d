"""What a command would run, and what that takes: `python -m harness plan -m model=base,albert task=sst2 [--no-probe]`.

One row for runs that differ in seeds alone: what is done, parameters, FLOPs of training, memory, and time of one run. Time and
memory are those of earlier runs on this machine, or of a probe of a few steps, which takes seconds for each row.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import study
from harness.commands.arguments import Parser, compose_and_run
from harness.terminal import counted, duration, live_line, scaled, table, wrapped

if TYPE_CHECKING:
    from harness.config.schema import RunConfig
    from harness.study.forecast import Group, Pace, Timing, Work
    from harness.study.plan import PlannedRun

DASH = "-"


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be composed, or whose data cannot be used."""
    parser = Parser(
        "plan",
        "Shows what a command would run, and about how long it would take, without running it.",
        "Everything else is as for a run: -m model=base,albert task=sst2 seed=1,2 ... or +experiment=NAME",
    )
    parser.add_argument("--no-probe", action="store_true", help="time and memory of earlier runs alone")
    rate = "FLOP/s of another device, to extrapolate the training of what is to do from its counted FLOPs"
    parser.add_argument("--flops-per-second", type=_positive, metavar="N", help=rate)
    parser.add_argument("--price", type=_positive, metavar="N", help="of an hour of one device, to extrapolate the cost")
    options, _, choices = parser.parse_composed(arguments)
    if not options.no_probe:
        study.prepare_workers()  # takes seconds, beside the composition
    elsewhere = Elsewhere(options.flops_per_second, options.price)
    return compose_and_run(choices, lambda configs: _show(configs, not options.no_probe, elsewhere), resizes=True)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


_positive.__name__ = "positive number"  # in the message of argparse


@dataclass(frozen=True)
class Elsewhere:
    """Another device: its measured or stated FLOP/s, and the price of its hour, in any currency."""

    flops_per_second: float | None = None
    price: float | None = None

    def lines(self, groups: "list[Group]") -> list[str]:
        """Time and cost of what is to do; devices that share it divide the time, and the cost stays."""
        todo = [(one, len(one.open)) for one in groups if one.open]
        if self.flops_per_second is None:
            seconds = [one.pace and one.pace.seconds * count for one, count in todo]
            how = "by the times above"
        else:
            seconds = [one.work.flops and one.work.flops * count / self.flops_per_second for one, count in todo]
            how = f"training alone, at {scaled(self.flops_per_second, 'FLOP/s')}: FLOPs are counted, the rate is given"
        if not todo or (self.flops_per_second is None and self.price is None):
            return []
        if None in seconds:
            return ["Extrapolated: -, for the time or the FLOPs of some runs are not known"]
        hours = sum(seconds) / 3600
        cost = "" if self.price is None else f", {hours * self.price:,.2f} at {self.price:g} an hour"
        return [wrapped(f"Extrapolated: about {hours:,.1f} h of one device{cost} ({how})", 0)]


def _show(configs: "list[RunConfig]", probing: bool, elsewhere: Elsewhere) -> int:
    with live_line("loading torch"):
        from harness.study import forecast, search, supervisor  # torch: a wrong key is refused before it is loaded
        from harness.study.process import LoadCheck
    supervisor.refuse_impossible(configs)
    load = LoadCheck()
    with live_line("preparing data"):
        planned = supervisor.plan(configs)
    with live_line("counting") as line:

        def probe(item: "PlannedRun", needed: "Work") -> "Pace | None":
            line.show(f"probing {item.title}")
            return forecast.probe(item, needed, passive=load.exceeds_limit())

        groups = forecast.groups(planned, probe if probing else None)
        line.show("probing a launch of the timing session")
        timing = forecast.timing(planned, probing)
    notes = dict.fromkeys([*(note for item in planned for note in item.notes), *filter(None, [search.announced(configs)])])
    print(
        "\n".join(
            [
                rows(groups),
                "",
                *(wrapped(note, 2) for note in notes),
                *([""] if notes else []),
                *summary(groups, timing, planned[0].config.hardware.workers),
                *elsewhere.lines(groups),
            ]
        )
    )
    return 0


def rows(groups: "list[Group]") -> str:
    """The table: a row for runs that differ in seeds alone."""
    head = ("runs", "to do", "parameters", "training FLOPs", "memory", "time of one", "known from")
    return table(head, [_row(one) for one in groups], "lrrrrrl")


def _row(one: "Group") -> tuple[str, ...]:
    first, pace = one.runs[0], one.pace
    flops = DASH if one.work.flops is None else scaled(one.work.flops, "FLOP")
    memory = DASH if pace is None or pace.memory_bytes is None else scaled(pace.memory_bytes, "B")
    time, source = (DASH, DASH) if pace is None else (f"about {duration(pace.seconds)}", pace.source)
    name = first.title.rpartition(", seed ")[0] if len(one.runs) > 1 else first.title
    todo = f"{len(one.open)} of {len(one.runs)}"
    return (name, todo, scaled(one.work.parameters, ""), flops, memory, time, source)


def summary(groups: "list[Group]", timing: "Timing | None", at_once: int = 1) -> list[str]:
    """How many runs are left, and how long they and the timing session take, as far as that is known."""
    from harness.study import forecast  # torch

    todo = {one.runs[0].title: len(one.open) for one in groups}
    number, every = sum(todo.values()), sum(len(one.runs) for one in groups)
    unknown = sum(len(one.open) for one in groups if one.pace is None)
    seconds = [one.pace.seconds for one in groups if one.pace is not None for _ in one.open]
    training = forecast.training_s(seconds, at_once)
    lines = [f"{counted(every, 'run')}: {every - number} done, {number} to do"]
    if number:
        how = "one after the other" if at_once == 1 else f"{at_once} at once"
        known = f"about {duration(training)}, {how}" if unknown < number else "their time is not known"
        rest = f" (without {unknown} whose time is not known)" if 0 < unknown < number else ""
        lines.append(f"Training and evaluation: {known}{rest}")
    if timing is not None:
        lines.append(_of_timing(timing))
    both = timing and timing.seconds()
    if both and number and not unknown:
        lines.append(f"In all about {duration(training + both[0])} to {duration(training + both[1])}")
    return [wrapped(line, 0) for line in lines]


def _of_timing(timing: "Timing") -> str:
    count = f"{counted(timing.variants, 'shape')} and {counted(timing.replicates, 'A/A replicate')}"
    rounds, ends = f"{timing.rounds[0]} to {timing.rounds[1]} rounds", timing.seconds()
    took = f": about {duration(ends[0])} to {duration(ends[1])}" if ends else ""
    return f"Timing: {count}, {rounds}{took} (measure=none skips it)"
