"""The ledger of `python -m reports gate --ledger FILE`: JSON lines, one a candidate, against one baseline.

The k-th candidate has 6 / (pi k)^2 of the level, or one N-th in a ledger of N candidates: half of it in its first analysis, a
quarter in the second, with more seeds, and so on. All sum to the level at most, so that at most one ledger in twenty holds a
false pass (Bonferroni), whatever the candidates share and whichever is analysed again.
"""

import contextlib
import fcntl
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field
from pydantic.dataclasses import dataclass as validated

from harness import paths
from harness.comparison.paired import LEVEL, Numbers
from harness.comparison.verdicts import Verdict
from harness.document import DASH
from harness.errors import InputError
from harness.plugins.shared.untrusted_json import PART, Entries, Line, json_of
from harness.reports.writing import formats
from harness.terminal import table, wrapped

PASSED = (Verdict.BETTER.value, Verdict.SAME.value)
MOST_LOOKS = 10**6


@validated(config=PART)
class RecordedTest:
    """A test of a candidate, as a line records it."""

    task: Line
    metric: Line
    title: Line
    unit: Line
    direction: Literal["higher", "lower"]
    allowed: Line
    outcome: Line
    reason: Line
    before: float = 0.0
    difference: float = 0.0
    interval: tuple[float, float] | None = None
    confidence: float = 0.0


@validated(config=PART)
class Baseline:
    """The baseline of a candidate."""

    name: Line
    runs: Entries[Line]


@validated(config=PART)
class Candidate:
    """A line of the ledger."""

    look: Annotated[int, Field(ge=1, le=MOST_LOOKS)] | None
    looks: Annotated[int, Field(ge=1)] | None
    arm: Line
    study: Line
    verdict: Verdict
    level: Annotated[float, Field(ge=0, lt=1)]
    tests: Entries[RecordedTest]
    baseline: Baseline
    key: Line
    runs: Entries[Line]


@dataclass(frozen=True)
class Ledger:
    """The candidates so far; `looks`: how many there may be, None without a limit. `look` of a line: which one it is."""

    path: Path
    lines: list[dict[str, Any]]
    looks: int | None = None

    @classmethod
    @contextlib.contextmanager
    def locked(cls, path: Path, looks: int | None) -> Iterator["Ledger"]:
        """The ledger, which no other process changes meanwhile; at the end, all that was added is on disk, or nothing.

        InputError for another number of analyses than it has.
        """
        try:
            file = open(path, "a+b", opener=paths.not_a_link)  # noqa: SIM115 - closed below
        except OSError as error:
            raise InputError(
                f"ledger={str(path)!r} cannot be written ({error.strerror}); expected a file, not a link"
            ) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = cls.read(path)
            if before.lines and looks not in (None, before.looks):
                raise InputError(
                    f"looks={looks}: {str(path)!r} was started with {before.looks or 'no limit'}; expected a new ledger"
                )
            ledger = cls(path, [*before.lines], before.looks if before.lines else looks)
            yield ledger
            content = path.read_bytes()
            added = [json.dumps(line, allow_nan=False) + "\n" for line in ledger.lines[len(before.lines) :]]
            try:
                file.write(b"\n" * (content[-1:] not in (b"", b"\n")) + "".join(added).encode())
                file.flush()
            except OSError:
                file.truncate(len(content))
                raise

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        """As it is on disk; InputError for a line that no gate has written."""
        lines: list[dict[str, Any]] = []
        for number, line in enumerate(paths.read(path, paths.LARGEST_PLAN).splitlines(), 1):
            said = f"ledger={str(path)!r} line {number} is not a candidate"
            candidate = json_of(line, Candidate, said, "lines written by gate")
            if lines and candidate.looks != lines[0]["looks"]:
                raise InputError(f"{said}: looks= of line 1 is another: expected lines written by gate")
            lines.append(json.loads(line) | {"verdict": candidate.verdict.value})
        return cls(path, lines, lines[-1]["looks"] if lines else None)

    @staticmethod
    def key(*facts: object) -> str:
        """A hash that identifies a candidate."""
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def spent(self) -> int:
        """Candidates so far."""
        return max((line["look"] or 0 for line in self.lines), default=0)

    def place(self, runs: list[str]) -> tuple[int, float]:
        """Which candidate these runs are, and the level of this analysis of it; InputError where none remains."""
        earlier = (line["look"] for line in self.lines if line["look"] and set(line["runs"]) & set(runs))
        look = next(earlier, self.spent + 1)
        if self.looks is not None and look > self.looks:
            raise InputError(
                f"{str(self.path)!r} has used all of looks={self.looks} candidates: expected fewer arms (--arm) or a new ledger"
            )
        part = 6 / (math.pi * look) ** 2 if self.looks is None else 1 / self.looks
        return look, math.ldexp(LEVEL * part, -1 - sum(line["look"] == look for line in self.lines))

    def keep_baseline(self, baseline: dict[str, Any], moves: bool) -> None:
        """InputError where no run of this baseline is one of the last candidate's, unless it `moves`."""
        if self.lines and not moves and not set(baseline["runs"]) & set(self.lines[-1]["baseline"]["runs"]):
            before = self.lines[-1]["baseline"]["name"]
            raise InputError(
                f"baseline {baseline['name']!r} shares no run with the ledger's baseline {before!r}; --move-baseline accepts it"
            )

    def find(self, key: str) -> dict[str, Any] | None:
        """The line of this candidate, where its test spent a part of the level."""
        return next((line for line in self.lines if line["key"] == key and line["look"] is not None), None)

    def add(self, candidate: dict[str, Any], look: int | None) -> dict[str, Any]:
        """The line of a candidate."""
        line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "look": look, "looks": self.looks, **candidate}
        self.lines.append(line)
        return line

    def frontier(self) -> list[dict[str, Any]]:
        """Candidates that passed against the present baseline and are Pareto-optimal, with it, in all measured means."""
        known = set(self.lines[-1]["baseline"]["runs"]) if self.lines else set()
        passed = [line for line in self.lines if line["verdict"] in PASSED and known & set(line["baseline"]["runs"])]
        better = {"higher": 1.0, "lower": -1.0}
        gains = pd.DataFrame(
            {(one["task"], one["metric"]): better[one["direction"]] * one.get("difference", 0.0) for one in line["tests"]}
            for line in passed
        ).to_numpy()  # NaN where it was not measured

        def is_beaten(own: Numbers) -> bool:
            measured = ~np.isnan(own)
            alike = gains[(np.isnan(gains) != measured).all(axis=1)][:, measured]
            rivals = np.vstack([alike, np.zeros(alike.shape[1])])
            return bool(((rivals >= own[measured]).all(axis=1) & (rivals > own[measured]).any(axis=1)).any())

        return [line for line, own in zip(passed, gains, strict=True) if not is_beaten(own)]


def said(line: dict[str, Any]) -> str:
    """The verdict for people: who passes without a shown gain is within the limits, which does not make it equivalent."""
    if {test["outcome"] for test in line["tests"]} == {"not judged"}:
        return "not judged"
    return "within the limits" if line["verdict"] == Verdict.SAME.value else line["verdict"]


def overview(path: Path | None) -> str:
    """All candidates of a ledger, the Pareto-optimal ones, and the level of the next candidate."""
    if path is None or path.is_symlink() or not path.is_file():
        raise InputError(f"ledger={str(path)!r} is not a file: expected a ledger written by gate")
    ledger = Ledger.read(path)
    rows = [
        (
            str(line["look"] or "-"),
            f"{line['study']}/{line['arm']}",
            said(line),
            f"{line['level']:.2g}",
            _changes(line),
        )
        for line in ledger.lines
    ]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(said(line) for line in ledger.lines).items())
    front = ", ".join(f"{line['study']}/{line['arm']}" for line in ledger.frontier())
    left = "none remains" if ledger.looks == ledger.spent else f"the next has level {ledger.place([])[1]:.2g}"
    lines = [table(("number", "candidate", "verdict", "level", "changes"), rows, "rllrl"), ""] if rows else []
    lines += [wrapped(f"candidates: {counts or 'none'}; {left}", 0)]
    return "\n".join([*lines, wrapped(f"Pareto-optimal by measured means: {front or 'only the baseline'}", 0)])


def _changes(line: dict[str, Any]) -> str:
    moved = (test for test in line["tests"] if test.get("difference") != 0)
    return "; ".join(f"{test['title']} {change_text(test | {'interval': None})}" for test in moved)


def change_text(test: dict[str, Any]) -> str:
    """The change of a recorded test: in points or in percent, with its interval."""
    if "difference" not in test:
        return DASH
    number, ends, unit = test["difference"], test.get("interval"), test["unit"]
    if unit not in formats.SHARES and test.get("before"):
        size, unit = abs(test["before"]) / 100, "%"
        number, ends = number / size, ends and [end / size for end in ends]
    return formats.difference(number, unit, ends)


def look_text(line: dict[str, Any]) -> str:
    """The number of a candidate and its level, in words."""
    if line["look"] is None:
        return "only counts, without a test"
    before = "judged before, " if line["seen"] else ""
    return f"{before}candidate {line['look']}, level {line['level']:.2g}"
