"""`python -m harness audit [claims=NAME] [where=verdict=refuted] [--measure]`: claims against what is measured here.

Counts parameters, FLOPs and bytes at the model size of each claim, compares scores of finished runs, and with --measure times
claims about speed. Prints a table, and writes the record that `python -m reports` shows.
"""

import functools
import math
import shlex
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from harness import records
from harness.comparison.runs import Run, oldest_first
from harness.config.schema import HardwareConfig
from harness.errors import InputError, unknown
from harness.hardware import facts
from harness.paths import audit_file, conf_directory, database_uri
from harness.plugins.audit import record, tables, verdicts
from harness.plugins.audit.claims import Claim, Reading, Relation, TableScore, read_all
from harness.plugins.audit.measures import Instruments, measure
from harness.plugins.audit.options import Audit
from harness.plugins.audit.verdicts import SETTLED, Measured, Point, Verdict, conditions, shown
from harness.plugins.trackers import sqlite_store
from harness.reports.read import connect
from harness.reports.reading.store import runs_of
from harness.terminal import counted, live_line, wrapped
from harness.tracking.run_log import now_ms

PREFIXES = {"bytes": ((1e9, "GB"), (1e6, "MB")), "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"))}

SIGNS = {Relation.equal: "", Relation.at_most: "≤ ", Relation.at_least: "≥ "}

STEP, VERDICTS = 2, 19
"""Columns of an indent, and of the verdicts."""

FAMILY = "The tests of a reading are one family: 95 % intervals for one test, wider ones for several (Holm)."


def main(options: Audit) -> int:
    """0; InputError for a claim that cannot be read or measured."""
    finished_runs = functools.cache(functools.partial(finished_runs_of, options.uri, options.output))
    claims = read_all(list(options.claims), options.config_dir)
    wanted = [condition.partition("=")[::2] for condition in options.where]
    possible = {
        "verdict": {verdict.value for verdict in Verdict},
        "source": {claim.file.stem for claim in claims},
        "measure": {reading.measure for claim in claims for reading in claim.readings.values()},
    }
    for key, value in wanted:  # before minutes of measuring
        if value not in possible[key]:
            raise unknown(key, value, possible[key], "where")
    tools = Instruments(options.config_dir, options.measure, options.vocab_file, finished_runs)
    settled = []
    with live_line("auditing") as line:
        for number, claim in enumerate(claims, 1):
            line.show(f"{number}/{len(claims)}: {claim.name}")
            settled.append(settle(claim, measured(claim, tools)))
    path = write(settled, options.output, keep_others=bool(options.claims))
    fitting = []
    for claim, each in zip(claims, settled, strict=True):
        of = {"verdict": [each.verdict], "source": [claim.file.stem], "measure": [part.measure for part in each.readings]}
        if all(value in of[key] for key, value in wanted):
            fitting.append(each)
    if not fitting:
        raise InputError(f"where={','.join(options.where)}: no claim matches")
    print(f"{text(fitting)}\n\n{path}")
    return 0


def finished_runs_of(uri: str | None, output: str) -> list[Run]:
    """The finished runs of all studies, oldest first; none where there is no store. InputError where it cannot be read."""
    if not sqlite_store.exists(address := uri or database_uri(output)):
        return []
    reader = connect(address)
    every = (run for number in reader.studies().values() for run in runs_of(reader, number))
    return oldest_first(run for run in every if run.status == "finished")


def measured(claim: Claim, tools: Instruments) -> list[Measured]:
    """What is measured for each reading; InputError, naming file and reading, for what cannot be measured."""
    config_dir, of_all = tools.config_dir, []
    is_found_by_name = any(claim.file.is_relative_to(folder) for folder in (conf_directory(), config_dir) if folder)
    for name, reading in claim.readings.items():
        try:
            each = measure(reading, tools)
            verdicts.with_claimed(reading, each)
        except ValueError as error:
            raise InputError(f"{claim.file}: claims.{claim.name}.readings.{name}: {error}") from error
        if each.options:
            more = ["--config-dir", config_dir] if config_dir else []
            named = f"claims={claim.name if is_found_by_name else claim.file}"
            each = replace(each, command=shlex.join(["python", "-m", "harness", "audit", *more, named, each.options]))
        of_all.append(each)
    return of_all


def settle(claim: Claim, of_readings: list[Measured]) -> record.Claim:
    """The claim with its verdict, after Holm's correction over the points of each reading."""
    readings, deciding = [], []
    pairs = zip(claim.readings.values(), of_readings, strict=True)
    not_run = [reading for reading, each in pairs if isinstance(reading, TableScore) and not each.points]
    for (name, reading), raw in zip(claim.readings.items(), of_readings, strict=True):
        each = verdicts.corrected(reading, raw)
        settled = verdicts.of_reading(reading, each)
        if not reading.beside:
            deciding.append(settled)
        tests = sum(point.is_test for point in each.points)
        values = ", ".join(point_text(point, each.points, each.unit) for point in each.points) or "-"
        is_open = settled.verdict is Verdict.UNDECIDED and not reading.beside
        command = tables.command(not_run) if reading in not_run else each.command if is_open else ""
        readings.append(
            record.Reading(
                name=name,
                measure=reading.measure,
                beside=reading.beside,
                claimed=claimed_text(reading, each.unit),
                claimed_number=reading.claimed,
                measured=f"{each.origin}: {values}" if each.origin and each.points else values,
                verdict=str(settled),
                note=each.note,
                family=f"{tests} tests in one family" if tests > 1 else "",
                command=command,
                unit=each.unit,
                points=[record.Point(one.value, tuple(map(_finite, one.interval)), dict(one.where)) for one in each.points],
            )
        )
    decided = verdicts.of_claim(deciding)
    note = claim.note if decided.verdict in SETTLED else ""
    return record.Claim(
        name=claim.name,
        claim=claim.text,
        source=claim.source,
        conditions=claim.conditions,
        note=claim.note,
        verdict=decided.verdict.value,
        text=f"{decided} ({note})" if note else str(decided),
        reason=" · ".join(filter(None, (decided.text, note))),
        readings=readings,
        time=now_ms(),
        machine=f"{facts.device_name(HardwareConfig())}, torch {torch.__version__}",
    )


def _finite(end: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(end, float) and not math.isfinite(end) else end


def write(claims: list[record.Claim], output: str, keep_others: bool) -> Path:
    """The path that was written; `keep_others` keeps the claims that were not audited now, as an earlier audit found them."""
    path = audit_file(output)
    written = {(claim.source, claim.name): asdict(claim) for claim in claims}
    if keep_others and path.is_file():
        earlier = records.read(path, dict[str, list[dict[str, Any]]])["claims"]
        written = {(claim["source"], claim["name"]): claim for claim in earlier} | written
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, {"claims": list(written.values())})
    return path


# Text


def text(claims: list[record.Claim]) -> str:
    """Claims with their verdicts, commands that would settle the others, how values were measured, and a count of verdicts."""
    parts = []
    notes: dict[str, None] = {}
    for claim in claims:
        parts.append(wrapped(f"{claim.claim} · {claim.reason}" if claim.reason else claim.claim, VERDICTS, claim.verdict))
        several = len(claim.readings) > 1
        not_run = [
            f"{reading.name} {reading.claimed}" for reading in claim.readings if reading.verdict == Verdict.NOT_RUN.value
        ]
        parts += [wrapped(f"not run: {', '.join(not_run)}", VERDICTS + STEP)] if not_run else []
        for reading in claim.readings:
            if reading.verdict == Verdict.NOT_RUN.value:
                continue
            values = filter(None, (reading.measured, reading.family, f"claimed {reading.claimed}"))
            line = "; ".join(value for value in values if value not in ("-", "claimed -"))
            line = f"{reading.name}: {line}" if several else line
            line += f" → {reading.verdict}" if several and reading.points and not reading.beside else ""
            if line:
                parts.append(wrapped(f"[{line}]" if reading.beside else line, VERDICTS + STEP))
            if reading.note:
                notes[f"{reading.name}: {reading.note}"] = None
    commands = {claim.name: reading.command for claim in claims for reading in claim.readings if reading.command}
    if commands:
        parts.append(f"\n{record.COMMANDS}")
    for name, command in commands.items():
        parts += [name, wrapped(command, STEP, ending=" \\")]
    parts += ["", *(wrapped(note, STEP, "-") for note in notes)] if notes else []
    if any(reading.family for claim in claims for reading in claim.readings):
        parts.append("\n" + wrapped(FAMILY))
    ending = ", ".join(f"{number} {verdict}" for verdict, number in Counter(claim.verdict for claim in claims).most_common())
    return "\n".join([*parts, "\n" + wrapped(f"{counted(len(claims), 'claim')}: {ending}")])


def claimed_text(reading: Reading, unit: str) -> str:
    """The claimed value in the unit of what is measured, with its tolerance."""
    if reading.relation in (Relation.better, Relation.no_difference):
        margin = f" (margin {number(reading.margin, unit).lstrip('+')})" if reading.margin else ""
        return f"{reading.relation.value.replace('_', ' ')}{margin}"
    if reading.claimed is None:
        return "-"
    values = reading.claimed if isinstance(reading.claimed, list) else [reading.claimed]
    tolerance = f" ± {100 * reading.tolerance:g} %" if reading.tolerance else ""
    return SIGNS[reading.relation] + ", ".join(number(value, unit) for value in values) + tolerance


def point_text(point: Point, points: tuple[Point, ...], unit: str) -> str:
    """`−86.4 % (length 64)`, with its interval where it has one; after the first point without the name of the condition."""
    value, (low, high) = number(point.value, unit), point.interval
    if low != high and abs(low) != float("inf"):
        value += f" [{number(low, unit).split()[0]}, {number(high, unit).split()[0]}]"
    keys = [key for key in point.where if len(points) == 1 or len({str(each.where.get(key)) for each in points}) > 1]
    if not keys:
        return value
    if len(keys) == 1 and point is not points[0] and keys[0] in points[0].where:
        return f"{value} ({shown(point.where[keys[0]])})"
    return f"{value} ({conditions({key: point.where[key] for key in keys})})"


def number(value: object, unit: str) -> str:
    """With thousands separators, in percent, or with the prefix of its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(getattr(value, "value", value))
    if unit in ("share", "score"):
        return f"{100 * value:+.1f} {'%' if unit == 'share' else 'points'}"
    for factor, name in PREFIXES.get(unit, ()):
        if abs(value) >= factor:
            return f"{value / factor:,.4g} {name}"
    digits = f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.3g}"
    return digits if unit in ("parameters", "1", "") else f"{digits} {unit}"
