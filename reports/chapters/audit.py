"""Claims of papers and other sources, and the verdicts of the last `python -m harness audit`."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reports import formats
from reports.errors import ReportError
from reports.formats import DASH, escape
from reports.study import Chapter, Study

HEADING = "## Claims and what is measured here"
INTRO = """\
{count} claims, audited on {day} ({machine}): {verdicts}. Counts are those at the dimensions of each claim. Days of training are
extrapolated. A claim that can be read in several ways has a line for each; lines in *italics* explain and do not count."""


def chapter(study: Study) -> Chapter:
    """A table of all claims; empty where no audit was made. ReportError for a record that cannot be read."""
    if study.options.audit is None:
        return Chapter()
    record = _read(study.options.audit)
    claims = record["claims"]
    count = Counter(claim["verdict"] for claim in claims)
    day = datetime.fromtimestamp(record["time"] / 1000, tz=UTC).date().isoformat()
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in count.most_common())
    intro = INTRO.format(count=len(claims), day=day, machine=escape(record["machine"]), verdicts=verdicts)
    table = formats.table(["claim", "claimed", "measured here", "verdict"], [_row(claim) for claim in claims], left=4)
    return Chapter([HEADING, intro, table, *_studies(claims)])


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
        return {"time": record["time"], "machine": record["machine"], "claims": record["claims"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"--audit {str(path)!r} cannot be read; expected the file that `python -m harness audit` wrote"
        ) from error


def _row(claim: dict[str, Any]) -> list[str]:
    readings = claim["readings"]
    claimed = list(dict.fromkeys(reading["claimed"] for reading in readings if not reading["beside"]))
    lines = [_measured(reading, named=len(readings) > 1) for reading in readings]
    return [escape(claim["claim"]), "<br>".join(map(escape, claimed)), "<br>".join(lines), escape(claim["text"])]


def _measured(reading: dict[str, Any], named: bool) -> str:
    value = DASH if reading["measured"] == "-" else escape(reading["measured"])
    text = f"{escape(reading['name'])}: {value}" if named else value
    return f"*{text}*" if reading["beside"] else text


def _studies(claims: list[dict[str, Any]]) -> list[str]:
    """The commands that would settle what is undecided."""
    commands = dict.fromkeys(reading["command"] for claim in claims for reading in claim["readings"] if reading["command"])
    return (
        ["Studies that would settle the undecided ones:\n\n" + "\n".join(f"- `{one}`" for one in commands)] if commands else []
    )
