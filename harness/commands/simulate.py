"""A sweep on many machines before it is started: `python -m harness simulate runs=100000 workers=1000`."""

from dataclasses import fields

from harness.study.simulation import Outcome, Setting, Simulation
from harness.terminal import counted, duration, live_line, wrapped


def main(setting: Setting) -> int:
    """0 where no run was lost or finished twice, else 1; InputError for a simulation without an end."""
    with live_line("simulating"):
        outcome = Simulation(setting).run()
    print("\n".join(report(setting, outcome)))
    return int(outcome.lost > 0 or outcome.doubled > 0)


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
        "shared folder": f"{outcome.looks:,} looks at runs, {outcome.looks / span:,.1f} a second",
        "scheduling": f"{1e6 * outcome.cpu_s / setting.runs:.0f} µs of CPU a run, measured here",
    }
    width = max(map(len, lines)) + 2
    return [wrapped(text, width, name) for name, text in lines.items()]


def _changed(setting: Setting) -> str:
    """All but the first three options, as they were simulated."""
    values = {field.name.replace("_", " "): getattr(setting, field.name) for field in fields(setting)[3:]}
    return ", ".join(f"{name} {value:g}" for name, value in values.items() if value is not None)
