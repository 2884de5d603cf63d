"""Claims of papers and other sources, and the verdicts of the last `python -m harness audit`."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reports.chapters import audit_pictures
from reports.comparison.study import Study
from reports.errors import ReportError
from reports.writing import formats, plots
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape

HEADING = "## Claims and what is measured here"
STUDIES = "Studies that would settle the undecided ones:"
INTRO = """\
{count} claims, audited on {days} ({machines}): {verdicts}. Counts are those at the dimensions of each claim. A claim that can
be read in several ways has a row for each reading: one decides, those in *italics* explain. The tests of one reading are one
family: their intervals are of 95 % for one test, of more for several (Holm)."""


def chapter(study: Study) -> Chapter:
    """A table for each source; empty where no audit was made. ReportError for a record that cannot be read."""
    if study.options.audit is None:
        return Chapter()
    claims = _read(study.options.audit)
    count = Counter(claim["verdict"] for claim in claims)
    intro = INTRO.format(
        count=len(claims),
        days=formats.listed(datetime.fromtimestamp(claim["time"] / 1000, tz=UTC).date().isoformat() for claim in claims),
        machines=formats.listed(claim["machine"] for claim in claims),
        verdicts=", ".join(f"{number} {verdict}" for verdict, number in count.most_common()),
    )
    tables = []
    for source in dict.fromkeys(claim["source"] for claim in claims):
        rows = [row for claim in claims if claim["source"] == source for row in _rows(claim)]
        head = ["claim", "claimed", "measured here", "verdict"]
        tables += [f"### {escape(source[:1].upper() + source[1:])}", formats.table(head, rows, left=4)]
    captions, files = audit_pictures.by_length(claims)
    after = [*_list("How it was measured:", _notes(claims)), *_list(STUDIES, _studies(claims))]
    return Chapter([HEADING, intro, *tables, *plots.pictured(captions, files), *after], files)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        claims = json.loads(path.read_text())["claims"]
        return [claim | {key: claim[key] for key in ("time", "machine", "source", "readings")} for claim in claims]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"--audit {str(path)!r}: expected the file that `python -m harness audit` wrote") from error


def _rows(claim: dict[str, Any]) -> list[list[str]]:
    """One for the claim, and one below it for each of several readings."""
    readings = claim["readings"]
    conditions = f"<br>({escape(claim['conditions'])})" if claim["conditions"] else ""
    text, verdict = escape(claim["claim"]), escape(claim["text"])
    if len(readings) == 1:
        return [[text + conditions, escape(readings[0]["claimed"]), _measured(readings[0]), verdict]]
    below = [_reading(reading) for reading in readings]
    return [[f"**{text}**{conditions}", "", "", f"**{verdict}**"], *below]


def _reading(reading: dict[str, Any]) -> list[str]:
    cells = [escape(reading["name"]), escape(reading["claimed"]), _measured(reading)]
    return [*(f"*{cell}*" for cell in cells), ""] if reading["beside"] else [*cells, escape(reading["verdict"])]


def _measured(reading: dict[str, Any]) -> str:
    family = f"; {reading['family']}" if reading.get("family") else ""
    return DASH if reading["measured"] == "-" else escape(reading["measured"] + family)


def _notes(claims: list[dict[str, Any]]) -> list[str]:
    found = (f"{one['name']}: {one['note']}" for claim in claims for one in claim["readings"] if one["note"])
    return [escape(note) for note in dict.fromkeys(found)]


def _studies(claims: list[dict[str, Any]]) -> list[str]:
    commands = dict.fromkeys(reading["command"] for claim in claims for reading in claim["readings"] if reading["command"])
    return [f"`{command}`" for command in commands]


def _list(heading: str, lines: list[str]) -> list[str]:
    return [f"{heading}\n\n" + "\n".join(f"- {line}" for line in lines)] if lines else []
