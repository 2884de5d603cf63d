"""The ledger of `python -m reports gate --ledger FILE`: JSON lines, one a candidate, against one baseline.

The k-th candidate has 6 / (pi k)^2 of the level, or one N-th in a ledger of N looks: half of it at the first look, a quarter
at the second, with more seeds, and so on. All sum to the level at most, so that whatever the candidates have in common, and
whichever of them is looked at again, at most one ledger in twenty holds a false pass (Bonferroni).
"""

import contextlib
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as validated

from harness import paths
from harness.comparison.paired import LEVEL, grouped
from harness.comparison.verdicts import Verdict
from harness.document import DASH
from harness.reports.errors import ReportError
from harness.reports.reading.untrusted import PART, Entries, Line, json_of
from harness.reports.writing import formats
from harness.terminal import table, wrapped

PASSED = (Verdict.BETTER.value, Verdict.SAME.value)
MOST_LOOKS = 10**6


@validated(config=PART)
class RecordedTest:
    """What is read of a test in a line."""

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
    """What a candidate was judged against."""

    name: Line
    runs: Entries[Line]


@validated(config=PART)
class Candidate:
    """What is read of a line."""

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
    content: bytes = b""  # of the file, whose lines stay as they are

    @classmethod
    @contextlib.contextmanager
    def locked(cls, path: Path, looks: int | None) -> Iterator["Ledger"]:
        """The ledger, which no other process changes meanwhile; at the end, all that was added is on disk, or nothing.

        ReportError for another number of looks than it has.
        """
        is_other = path.is_symlink() or (path.exists() and not (path.is_file() and os.access(path, os.W_OK)))
        if is_other or not os.access(path.parent, os.W_OK):
            raise ReportError(f"--ledger {str(path)!r} cannot be written; expected a file in a folder that exists, and no link")
        with _locked(path.with_name(f"{path.name}.lock")):
            ledger = cls.read(path) if path.exists() else cls(path, [], looks)
            if looks not in (None, ledger.looks) and ledger.lines:
                raise ReportError(
                    f"--looks {looks}: {str(path)!r} was begun with {ledger.looks or 'no limit'}; expected a new ledger"
                )
            before, content = len(ledger.lines), ledger.content
            yield cls(path, ledger.lines, ledger.looks if ledger.lines else looks)
            if added := ledger.lines[before:]:
                written = "".join(json.dumps(line, allow_nan=False) + "\n" for line in added)
                with paths.replaced(path) as temporary:
                    temporary.write_bytes(content + b"\n" * (content[-1:] not in (b"", b"\n")) + written.encode())

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        """As it is on disk; ReportError for a line that no gate has written."""
        content, lines = paths.read(path, paths.LARGEST_PLAN), []
        for number, line in enumerate(content.splitlines(), 1):
            where = f"--ledger {str(path)!r} line {number} is no candidate"
            json_of(line, Candidate, where, "lines that gate has written")
            lines.append(json.loads(line))
        return cls(path, lines, lines[-1]["looks"] if lines else None, content)

    @staticmethod
    def key(*facts: object) -> str:
        """What makes a candidate the same one."""
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def spent(self) -> int:
        """Candidates so far."""
        return max((line["look"] or 0 for line in self.lines), default=0)

    def place(self, runs: list[str]) -> tuple[int, float]:
        """Which candidate these runs are, and the level of this look at it; ReportError where none is left."""
        earlier = (line["look"] for line in self.lines if line["look"] and set(line["runs"]) & set(runs))
        look = next(earlier, self.spent + 1)
        if self.looks is not None and look > self.looks:
            raise ReportError(
                f"{str(self.path)!r} has {self.looks} looks, of which none is left; expected fewer arms (--arm) or a new ledger"
            )
        part = 6 / (math.pi * look) ** 2 if self.looks is None else 1 / self.looks
        return look, math.ldexp(LEVEL * part, -1 - sum(line["look"] == look for line in self.lines))

    def keep_baseline(self, baseline: dict[str, Any], moves: bool) -> None:
        """ReportError where no run of this baseline is one of the last candidate's, unless it `moves`."""
        if self.lines and not moves and not set(baseline["runs"]) & set(self.lines[-1]["baseline"]["runs"]):
            before = self.lines[-1]["baseline"]["name"]
            raise ReportError(
                f"baseline {baseline['name']!r} has no run in common with that of the ledger, {before!r}; "
                "--move-baseline makes it the one from here on"
            )

    def find(self, key: str) -> dict[str, Any] | None:
        """The look at this candidate; what spent none is judged again."""
        return next((line for line in self.lines if line["key"] == key and line["look"] is not None), None)

    def add(self, candidate: dict[str, Any], look: int | None) -> dict[str, Any]:
        """The line of a candidate."""
        line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "look": look, "looks": self.looks, **candidate}
        self.lines.append(line)
        return line

    def frontier(self) -> list[dict[str, Any]]:
        """Candidates that passed against the present baseline and that neither it nor another beats in all measured means."""
        known = set(self.lines[-1]["baseline"]["runs"]) if self.lines else set()
        passed = [line for line in self.lines if line["verdict"] in PASSED and known & set(line["baseline"]["runs"])]
        points = [_gains(line) for line in passed]
        kept = set()
        for axes, gains in grouped((tuple(point), tuple(point.values())) for point in points).items():
            rivals = np.array([*dict.fromkeys(gains), (0.0,) * len(axes)])
            beaten = (((rivals >= gain).all(axis=1) & (rivals > gain).any(axis=1)).any() for gain in rivals)
            kept |= {(axes, tuple(gain)) for gain, is_beaten in zip(rivals.tolist(), beaten, strict=True) if not is_beaten}
        return [line for line, point in zip(passed, points, strict=True) if (tuple(point), tuple(point.values())) in kept]


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """The block for one process at a time; the empty file at this place, which is locked, is removed at its end.

    ReportError for a file of somebody else.
    """
    while True:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(place)):
                break
        os.close(lock)  # whoever held it has removed it
    if os.fstat(lock).st_size:
        os.close(lock)
        raise ReportError(f"{str(place)!r} is a file with content, and would be the lock; expected another --ledger")
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(lock)


def _gains(line: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(task, metric) -> by how much it is better than the baseline; in the order of the pairs."""
    signs = {"higher": 1.0, "lower": -1.0}
    changes = {(test["task"], test["metric"]): signs[test["direction"]] * test.get("difference", 0.0) for test in line["tests"]}
    return dict(sorted(changes.items()))


def overview(path: Path | None) -> str:
    """All candidates of a ledger, the frontier, and the level of the next look."""
    if path is None or path.is_symlink() or not path.is_file():
        raise ReportError(f"--ledger {str(path)!r} is no file; expected a ledger that gate has written")
    ledger = Ledger.read(path)
    rows: list[tuple[str, ...]] = [
        (str(line["look"] or "-"), f"{line['study']}/{line['arm']}", line["verdict"], f"{line['level']:.2g}", _changes(line))
        for line in ledger.lines
    ]
    verdicts = grouped((line["verdict"], line) for line in ledger.lines)
    counts = ", ".join(f"{len(lines)} {verdict}" for verdict, lines in verdicts.items())
    front = ", ".join(f"{line['study']}/{line['arm']}" for line in ledger.frontier())
    left = "no look is left" if ledger.looks == ledger.spent else f"the next one has level {ledger.place([])[1]:.2g}"
    lines = [table(("look", "candidate", "verdict", "level", "changes"), rows, "rllrl"), ""] if rows else []
    lines += [wrapped(f"candidates: {counts or 'none'}; {left}", 0)]
    return "\n".join([*lines, wrapped(f"frontier, by measured means: {front or 'the baseline alone'}", 0)])


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
    """What a candidate has spent."""
    if line["look"] is None:
        return "nothing that scatters was compared, and no look is spent"
    before = "seen before, and answered from the ledger: " if line["seen"] else ""
    return f"{before}look {line['look']}, level {line['level']:.2g}"
