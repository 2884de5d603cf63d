"""A sweep on many machines before it is started: `python -m harness simulate --runs 100000 --workers 1000`."""

from dataclasses import fields

from harness.commands.arguments import Parser
from harness.errors import InputError
from harness.study.simulation import Outcome, Setting, Simulation
from harness.terminal import counted, duration, live_line, wrapped

OPTIONS = {option.name: option for option in fields(Setting)}


def main(arguments: list[str]) -> int:
    """0 where no run was lost or finished twice, else 1; InputError for a number out of its range, or without an end."""
    parser = Parser(
        "simulate",
        "Simulates a sweep on many machines with the harness's own order of runs and limits of failures.",
        "Simulated are runs and their locks: how long they take, which fail, which workers are killed, which commands crash.",
    )
    for name, option in OPTIONS.items():
        kind, meaning = int if option.type is int else float, option.metadata["meaning"]
        meaning += f" (default {option.default:g})" if option.default is not None else ""
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, type=kind, metavar="N", help=meaning)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    _refuse_impossible(given)
    setting = Setting(**given)
    if setting.commands > setting.workers:
        raise InputError(f"--commands {setting.commands} must be at most --workers {setting.workers}")
    if setting.pretrainings >= setting.runs:
        raise InputError(
            f"--pretrainings {setting.pretrainings} must be less than --runs {setting.runs}, of which they are a part"
        )
    with live_line("simulating"):
        outcome = Simulation(setting).run()
    print("\n".join(report(setting, outcome)))
    return int(outcome.lost > 0 or outcome.doubled > 0)


def _refuse_impossible(given: dict[str, float]) -> None:
    for name, value in given.items():
        allowed = OPTIONS[name].metadata["range"]
        if not allowed.has(value):
            raise InputError(f"--{name.replace('_', '-')} {value} must be {allowed.expected(value)}")


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
