"""`python -m harness audit [claims=NAME] [where=verdict=refuted] [--measure | --glue]`: claims against what is measured here.

Counts parameters, FLOPs and bytes at the dimensions of each claim, compares scores of finished runs, and with --measure times
what is claimed of speed. Prints a table, and writes the record that `python -m reports` shows.
"""

from collections import Counter

from harness.errors import InputError, unknown
from harness.plugins.audit import glue, run, verdicts
from harness.plugins.audit.claims import Claim, read_all
from harness.plugins.audit.options import Audit
from harness.plugins.audit.run import Row, texts
from harness.terminal import counted, live_line, wrapped

FILTERS = {
    "verdict": lambda row: [row.settled.verdict.value],
    "source": lambda row: [row.claim.file.stem],
    "measure": lambda row: [line.reading.measure for line in row.lines],
}
"""Key of `where` -> what a row has of it."""

STEP, VERDICTS = 2, 19
"""Columns of an indent, and of the verdicts."""

FAMILY = """\
One reading decides a claim, and its tests are one family, whatever else is audited: intervals are of 95 % for one test, of
more for several (Holm)."""

COMMANDS = "Commands that would settle what is undecided:"

CONTINUED = " \\"
"""At the end of a line of a command that continues."""


def main(options: Audit) -> int:
    """0; InputError for a claim that cannot be read or measured."""
    if options.glue:
        print(glue.compared(run.instruments(None, False, None, options.uri, options.output).finished_runs()))
        return 0
    claims = read_all(list(options.claims), options.config_dir)
    _refuse_unmet(options.where, claims)
    tools = run.instruments(options.config_dir, options.measure, options.vocab_file, options.uri, options.output)
    rows = []
    with live_line("auditing") as line:
        for number, claim in enumerate(claims, 1):
            line.show(f"{number}/{len(claims)}: {claim.name}")
            rows.append(run.settle(claim, run.measured(claim, tools)))
    path = run.write(rows, options.output, keep_others=bool(options.claims))
    conditions = [condition.partition("=") for condition in options.where]
    fitting = [row for row in rows if all(value in FILTERS[key](row) for key, _, value in conditions)]
    if not fitting:
        raise InputError(f"where={','.join(options.where)}: no claim of {len(rows)} fits")
    print(text(fitting))
    print(f"\n{path}")
    return 0


def _refuse_unmet(conditions: tuple[str, ...], claims: list[Claim]) -> None:
    """InputError for a value that no row can have, whatever is measured."""
    possible = {
        "verdict": {verdict.value for verdict in verdicts.Verdict},
        "source": {claim.file.stem for claim in claims},
        "measure": {reading.measure for claim in claims for reading in claim.readings.values()},
    }
    for key, _, value in (condition.partition("=") for condition in conditions):
        if value not in possible[key]:
            raise unknown(key, value, possible[key], "where")


def text(rows: list[Row]) -> str:
    """Claims with their verdicts, commands that would settle the others, how values were measured, and a count of verdicts."""
    parts = [_block(row) for row in rows]
    deciding = {row.claim.name: row.deciding for row in rows}
    commands = {name: line.measured.command for name, line in deciding.items() if line.is_open and line.measured.command}
    if commands:
        parts.append(f"\n{COMMANDS}")
    for name, command in commands.items():
        parts += [name, wrapped(command, STEP, ending=CONTINUED)]
    notes = dict.fromkeys(f"{line.name}: {line.measured.note}" for row in rows for line in row.lines if line.measured.note)
    parts += ["", *(wrapped(note, STEP, "-") for note in notes)] if notes else []
    if any(line.tests for line in deciding.values()):
        parts.append("\n" + wrapped(FAMILY))
    count = Counter(row.settled.verdict.value for row in rows)
    ending = ", ".join(f"{number} {verdict}" for verdict, number in count.most_common())
    return "\n".join([*parts, "\n" + wrapped(f"{counted(len(rows), 'claim')}: {ending}")])


def _block(row: Row) -> str:
    """The verdict beside the claim, and below it a text for each reading."""
    head, readings = texts(row)
    return "\n".join(
        [wrapped(head, VERDICTS, row.settled.verdict.value), *(wrapped(reading, VERDICTS + STEP) for reading in readings)]
    )
