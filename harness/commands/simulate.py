"""A sweep on many machines before it is started: `python -m harness simulate --runs 100000 --workers 1000`."""

from dataclasses import fields

from harness.commands.arguments import Parser
from harness.errors import InputError
from harness.study.simulation import Outcome, Setting, Simulation
from harness.terminal import counted, duration, live_line, wrapped

OPTIONS = {
    "runs": (int, 1, "of the sweep"),
    "workers": (int, 1, "runs at once, of all commands together"),
    "commands": (int, 1, "calls of the same command at once on one shared folder, such as one a machine"),
    "minutes": (float, 0, "median time of a run"),
    "spread": (float, 0, "standard deviation of the logarithm of that time"),
    "pretrainings": (int, 0, "of the runs, on which all others depend"),
    "failing": (float, 0, "share of the runs that fail whenever they run"),
    "killed": (float, 0, "chance that the worker of a run is killed"),
    "retries": (int, 0, "times that its command runs such a run again at once, as sweep.retries"),
    "crash_hours": (float, 0, "mean hours between two crashes of a command; without it none crashes"),
    "restart_minutes": (float, 0, "until a command that crashed, stopped or left runs open is called again"),
    "look_ms": (float, 0, "time of a command for each run that it starts or skips"),
    "lease_seconds": (float, 0, "for which the runs of a crashed command stay locked (90 is usual on NFS)"),
    "seed": (int, 0, "of the simulation"),
}
"""Of each option its type, its smallest value and what it means."""

SHARES = ("failing", "killed")


def main(arguments: list[str]) -> int:
    """0 where no run was lost or finished twice, else 1; InputError for a number out of its range."""
    parser = Parser(
        "simulate",
        "Simulates a sweep on many machines with the harness's own order of runs and limits of failures.",
        "Simulated are runs and their locks: how long they take, which fail, which workers are killed, which commands crash.",
    )
    for name, (kind, _, meaning) in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, type=kind, metavar="N", help=meaning)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    _refuse_impossible(given)
    setting = Setting(**given)
    if setting.commands > setting.workers or setting.pretrainings >= setting.runs:
        raise InputError(
            f"--commands {setting.commands} must be at most --workers {setting.workers}, "
            f"and --pretrainings {setting.pretrainings} less than --runs {setting.runs}"
        )
    with live_line("simulating"):
        outcome = Simulation(setting).run()
    print("\n".join(report(setting, outcome)))
    return int(outcome.lost > 0 or outcome.doubled > 0)


def _refuse_impossible(given: dict[str, float]) -> None:
    for name, value in given.items():
        least = OPTIONS[name][1]
        option = f"--{name.replace('_', '-')}"
        if name in ("minutes", "crash_hours") and not 0 < value < float("inf"):
            raise InputError(f"{option} {value} must be above 0 and finite")
        if not least <= value < float("inf"):
            raise InputError(f"{option} {value} must be at least {least} and finite")
        if name in SHARES and value >= 1:
            raise InputError(f"{option} {value} is a share: expected less than 1")


def report(setting: Setting, outcome: Outcome) -> list[str]:
    """What came of it, one line a subject."""
    commands = f" of {counted(setting.commands, 'command')}" if setting.commands > 1 else ""
    span = max(outcome.makespan_s, 1.0)
    lines = {
        "simulated": f"{counted(setting.runs, 'run')} on {counted(setting.workers, 'worker')}{commands}: {_changed(setting)}",
        "time": f"{duration(span)}; at least {duration(outcome.bound_s)} are needed "
        f"({100 * outcome.bound_s / span:.1f} % of the time)",
        "runs": f"{outcome.finished:,} finished, {outcome.failing:,} can never finish; "
        f"{outcome.lost:,} lost, {outcome.doubled:,} finished twice",
        "lost work": f"{duration(outcome.wasted_s) if outcome.wasted_s else 'none'}; "
        f"{outcome.killed:,} workers were killed, {counted(outcome.crashes, 'command')} crashed",
        "calls": f"the command was called {counted(outcome.calls, 'time')}"
        + (f"; {outcome.breaks} calls were stopped by failures in a row (sweep.same_failures)" if outcome.breaks else ""),
        "shared folder": f"{outcome.looks:,} looks at runs, {outcome.looks / span:,.1f} a second, "
        f"{outcome.peak_looks:,.1f} in the busiest minute",
        "tracking store": f"{outcome.store_calls / span:,.1f} calls a second, "
        f"{outcome.peak_store_calls:,.1f} in the busiest minute",
        "scheduling": f"{1e6 * outcome.cpu_s / setting.runs:.0f} µs of CPU a run, measured here",
    }
    width = max(map(len, lines)) + 2
    return [wrapped(text, width, name) for name, text in lines.items()]


def _changed(setting: Setting) -> str:
    """All but the first three options, as they were simulated."""
    known = [(field.name.replace("_", " "), getattr(setting, field.name)) for field in fields(setting)[3:]]
    return ", ".join(f"{name} {value:g}" for name, value in known if value is not None)
