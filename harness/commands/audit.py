"""`python -m harness audit [claims=NAME] [--where verdict=refuted] [--measure]`: claims against what is measured here.

Counts parameters, FLOPs and bytes at the dimensions of each claim, compares scores of finished runs, and with --measure times
what is claimed of speed. Prints a table, and writes the record that `python -m reports` shows.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import Parser
from harness.config import names
from harness.errors import InputError, unknown
from harness.terminal import counted, live_line, wrapped

if TYPE_CHECKING:
    from harness.audit.claims import Claim
    from harness.audit.show import Row

KEYS = {
    "claims": "names of files in conf/claims/, names of claims, or paths, separated by commas (all)",
    "vocab_file": "a WordPiece vocabulary, one piece a line, for claims about the ids of a text",
}

FILTERS = {
    "verdict": lambda row: [row.settled.verdict.value],
    "source": lambda row: [row.claim.file.stem],
    "measure": lambda row: [line.reading.measure for line in row.lines],
}
"""Key of --where -> what a row has of it."""

STEP, VERDICTS = 2, 19
"""Columns of an indent, and of the verdicts."""

FAMILY = """\
One reading decides a claim, and its tests are one family, whatever else is audited: intervals are of 95 % for one test, of
more for several (Holm)."""

CONTINUED = " \\"
"""At the end of a line of a command that continues."""

EPILOG = """\
A claim is a few lines of YAML: in conf/claims/; in a file of yours, claims=FILE.yaml; below my_conf/claims/ with
--config-dir my_conf; or those that a variant carries, my_conf/model/claims/NAME.yaml beside my_conf/model/NAME.yaml."""


def parse(arguments: list[str]) -> tuple[argparse.Namespace, dict[str, str]]:
    """Options and own keys; InputError for anything else."""
    parser = Parser("audit", __doc__.split("\n\n")[1].replace("\n", " "), EPILOG, KEYS)
    parser.add_argument(
        "--where", metavar="KEY=VALUE", action="append", default=[], help=f"only rows of this {', '.join(FILTERS)}"
    )
    parser.add_argument("--measure", action="store_true", help="times what is claimed of speed: minutes")
    parser.add_argument("--output", metavar="DIR", help="folder of the runs and of the record (multirun)")
    parser.add_argument("--uri", help="tracking store (SQLite in the output folder)")
    options, own, rest = parser.parse_composed(arguments)
    rest = [word for word in rest if not word.startswith("--config-dir=")]
    if rest:
        raise unknown("key", rest[0].partition("=")[0], KEYS, "audit")
    for one in options.where:
        if one.partition("=")[0] not in FILTERS:
            raise unknown("key", one.partition("=")[0], FILTERS, "--where")
    if options.output is not None and not Path(options.output).is_dir():
        raise InputError(f"--output={options.output!r} is not a folder: expected the one of the runs")
    options.output = options.output or "multirun"
    names.refuse_address(options.uri, "--uri")
    return options, own


def main(arguments: list[str]) -> int:
    """0; InputError for a claim that cannot be read or measured."""
    options, own = parse(arguments)
    from harness.audit.claims import read_all  # OmegaConf takes 0.1 s, which --help does not need

    claims = read_all([name for name in own.get("claims", "").split(",") if name], options.config_dir)
    from harness.audit import record, run, verdicts  # torch: a wrong claim is refused before it is loaded

    _refuse_unmet(options.where, claims, [verdict.value for verdict in verdicts.Verdict])
    tools = run.instruments(options.config_dir, options.measure, own.get("vocab_file"), options.uri, options.output)
    rows = []
    with live_line("auditing") as line:
        for number, one in enumerate(run.measured(claims, tools), 1):
            line.show(f"[{number}/{len(claims)}] {claims[number - 1].name}")
            rows.append(run.settle(claims[number - 1], one))
    path = record.write(rows, options.output, keep_others="claims" in own)
    kept = [row for row in rows if all(_fits(row, one) for one in options.where)]
    if not kept:
        raise InputError(f"--where {' '.join(options.where)}: no claim of {len(rows)} fits")
    print(text(kept))
    print(f"\n{path}")
    return 0


def _refuse_unmet(conditions: list[str], claims: "list[Claim]", verdicts: list[str]) -> None:
    """InputError for a value that no row can have, whatever is measured."""
    known = {
        "verdict": set(verdicts),
        "source": {claim.file.stem for claim in claims},
        "measure": {reading.measure for claim in claims for reading in claim.readings.values()},
    }
    for key, _, value in (one.partition("=") for one in conditions):
        if value not in known[key]:
            raise unknown(key, value, known[key], "--where")


def _fits(row: "Row", condition: str) -> bool:
    key, _, value = condition.partition("=")
    return value in FILTERS[key](row)


def text(rows: "list[Row]") -> str:
    """Claims with their verdicts, the studies that are missing, how values were measured, and how many have each verdict."""
    parts = [_block(row) for row in rows]
    deciding = {row.claim.name: row.deciding for row in rows}
    studies = {name: line.measured.command for name, line in deciding.items() if line.is_open and line.measured.command}
    if studies:
        parts.append("\nStudies that would settle what is undecided:")
    for name, command in studies.items():
        parts += [name, wrapped(command, STEP, ending=CONTINUED)]
    notes = dict.fromkeys(f"{line.name}: {line.measured.note}" for row in rows for line in row.lines if line.measured.note)
    parts += ["", *(wrapped(note, STEP, "-") for note in notes)] if notes else []
    if any(line.tests for line in deciding.values()):
        parts.append("\n" + wrapped(FAMILY, 0))
    count = Counter(row.settled.verdict.value for row in rows)
    ending = ", ".join(f"{number} {verdict}" for verdict, number in count.most_common())
    return "\n".join([*parts, "\n" + wrapped(f"{counted(len(rows), 'claim')}: {ending}", 0)])


def _block(row: "Row") -> str:
    """The verdict beside the claim, and below it a text for each reading."""
    from harness.audit.show import texts  # OmegaConf

    head, readings = texts(row)
    return "\n".join([wrapped(head, VERDICTS, row.settled.verdict.value), *(wrapped(one, VERDICTS + STEP) for one in readings)])
