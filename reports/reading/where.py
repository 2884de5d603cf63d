"""`--where`: which runs a report is on, in the syntax of MLflow's own search.

`tags.task = 'sst2' and metrics.eval/score > 0.8`; a key without `tags.`, `params.`, `metrics.` or `attributes.` is a tag.
Tags are named with or without `harness.`.
It is applied to the runs as they were read, so that it means the same for every store.
"""

import difflib
import fnmatch
import glob
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness import tags
from harness.comparison.runs import Run
from harness.errors import InputError, some_of, unknown

CLAUSE = re.compile(
    r"""\s*(?:(?P<kind>tags?|params?|metrics?|attributes?)\.)?
    (?:(?P<quote>[`"])(?P<quoted>.+?)(?P=quote)|(?P<plain>[^\s=!<>`"']+))
    \s*(?P<sign>=|!=|>=|<=|>|<|\blike\b|\bilike\b)\s*
    (?P<value>'[^']*'|"[^"]*"|[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*""",
    re.VERBOSE | re.IGNORECASE,
)
AND = re.compile(r"and\b", re.IGNORECASE)
EXPECTED = "expected clauses such as tags.task = 'sst2' and params.model.hidden_size = '128' and metrics.eval/score > 0.8"
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
TEXT_SIGNS = ("=", "!=", "like", "ilike")
ATTRIBUTES: dict[str, Callable[[Run], str]] = {"run_id": lambda run: run.run_id, "run_name": lambda run: run.name}
NEAREST = 8


@dataclass(frozen=True)
class Clause:
    """One condition: a key of the tags, parameters, metrics or attributes, a sign, and a text or (metrics) a number."""

    kind: str
    key: str
    sign: str
    value: str | float

    def read(self, run: Run) -> str | float | None:
        """The value of the run; None if it has none."""
        if self.kind == "attributes":
            return ATTRIBUTES[self.key](run)
        values: Mapping[str, str | float] = getattr(run, self.kind)
        return values.get(self.key)

    def holds(self, run: Run) -> bool:
        """As in MLflow, a run without the key fits no condition on it."""
        value = self.read(run)
        if value is None:
            return False
        if self.sign in ("like", "ilike"):
            pattern = fnmatch.translate(glob.escape(str(self.value)).replace("%", "*").replace("_", "?"))
            return re.match(pattern, str(value), re.IGNORECASE if self.sign == "ilike" else 0) is not None
        return SIGNS[self.sign](value, self.value)


def parse(text: str) -> list[Clause]:
    """The clauses joined by `and`; InputError in one line for anything else."""
    clauses, at = [], 0
    while match := CLAUSE.match(text, at):
        clauses.append(_clause(text, match))
        at = match.end()
        if at == len(text):
            return clauses
        joint = AND.match(text, at)
        if joint is None:
            break
        at = joint.end()
    raise InputError(f"where={text!r} cannot be parsed from {text[at:].strip()!r} on; {EXPECTED}, joined by `and`")


def _clause(text: str, match: re.Match[str]) -> Clause:
    kind = (match["kind"] or "tags").lower().rstrip("s") + "s"
    sign, value, key = match["sign"].lower(), match["value"], match["quoted"] or match["plain"]
    quoted = value[0] in "'\""
    if kind == "metrics":
        if quoted or sign not in SIGNS:
            raise InputError(f"where={text!r}: a metric is compared with a number, as in metrics.eval/score > 0.8")
        return Clause(kind, key, sign, float(value))
    if not quoted or sign not in TEXT_SIGNS:
        raise InputError(
            f"where={text!r}: {kind.rstrip('s')} {key!r} is compared with a quoted text by {', '.join(TEXT_SIGNS)}, "
            f"as in {kind}.{key} = '{value.strip(chr(39) + chr(34))}'"
        )
    if kind == "attributes" and key not in ATTRIBUTES:
        raise unknown("attribute", key, ATTRIBUTES, "where")
    return Clause(kind, key.removeprefix(tags.PREFIX) if kind == "tags" else key, sign, value[1:-1])


def keep(runs: list[Run], text: str) -> list[Run]:
    """The runs that fit, the A/A replicates of their sessions, and the pretrainings that they start from.

    InputError where none fits: it says what the runs have of the first clause that none fits.
    """
    clauses = parse(text)
    candidates = [run for run in runs if not run.is_aa_replicate]
    fitting = [run for run in candidates if all(clause.holds(run) for clause in clauses)]
    if not fitting:
        alone = next((clause for clause in clauses if not any(map(clause.holds, candidates))), None)
        if alone is None:
            raise InputError(f"where={text!r} matches no run: each clause matches some run, but no run matches all")
        if values := sorted({str(value) for run in candidates if (value := alone.read(run)) is not None}):
            raise InputError(f"where={text!r} matches no run; {alone.key} is {some_of(values, NEAREST)}")
        keys = {key for run in candidates for key in getattr(run, alone.kind)}  # there may be hundreds
        likely = difflib.get_close_matches(alone.key, keys, n=NEAREST, cutoff=0.3) or sorted(keys)[:NEAREST]
        raise unknown(alone.kind.rstrip("s"), alone.key, likely, "where")
    ids = {run.run_id for run in fitting}
    sessions = {run.session for run in fitting}
    origins = {run.origin for run in fitting} - {None}
    return [
        run
        for run in runs
        if run.run_id in ids
        or (run.is_aa_replicate and run.session in sessions)
        or (run.is_pretraining and run.tags.get(tags.FINGERPRINT) in origins)
    ]
