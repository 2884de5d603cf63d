"""The options of `compare`, `gate`, `pick` and `power`, which `--help` reads without what these need."""

from dataclasses import dataclass, fields
from pathlib import Path

from harness.errors import InputError
from harness.grammar import key, word
from harness.models.ranges import Range
from harness.plugins.judge.options import Files
from harness.reports.options import NEWEST, STUDIES, Runs, Store

LIMIT = Range(at_least=0, limit=float("inf"))


@dataclass(frozen=True, kw_only=True)
class Compare(Store):
    """What differs between two runs: settings, environment, numbers. No verdict.

    Numbers are listed by group: eval, pretrain, inference, train_step, finetune, model, others; in each what does not compare
    comes last.
    """

    run_a: str = word("RUN_A", meaning="id, name, or the beginning of the name of a run's folder")
    run_b: str = word("RUN_B", meaning="the other one, by the same")
    study: tuple[str, ...] = key((), "where to search (every study)", whole=True)
    all: bool = key(False, "numbers that are equal, too")
    format: str = key("text", "text for a terminal, md or csv", choices=("text", "md", "csv"))


@dataclass(frozen=True, kw_only=True)
class Gate(Files, Runs):
    """Tests that arms are not worse than they were.

    Exit code 0: every arm passed. 1: one did not, or there was nothing to judge. 2: a wrong input.
    """

    results: Path | None = word("RESULTS", None, "file or folder of results of any tool, in place of a study")
    study: str | None = key(None, "study that is judged; without one, the ledger is shown")
    against: str | None = key(None, "study or results to judge against (itself, with baseline=)")
    baseline: str | None = key(None, "arm to judge against (the same arm; in one study, base)")
    max_drop: str | None = key(None, "of the score: 0.5% of what it was, or 0.5points")
    max_slowdown: str | None = key(None, "of the latency, or of timing=, such as 5%")
    max_memory: str | None = key(None, "more peak memory of inference and of training, such as 5%")
    max_cost: str | None = key(None, "more FLOPs, bytes moved and operators, which are counted, such as 5%")
    timing: str | None = key(
        None, "metric of max_slowdown= (latency by the clock of the device, else by the wall clock)", called="metric"
    )
    better: bool = key(False, "passes arms alone that are also shown to be better in a quantity")
    json: bool = key(False, "verdicts, margins, evidence and what would settle them, as JSON")
    move_baseline: bool = key(False, "allows another baseline than that of the ledger's last line")
    arm: tuple[str, ...] = key((), "arm to judge; may be repeated (all)", whole=True)
    ledger: Path | None = key(None, "JSON lines of all candidates, who share the level of 5 %")
    looks: int | None = key(None, "candidates of a new ledger, each with 1/N of the level", range=Range(at_least=1))

    def __post_init__(self) -> None:
        """InputError for options without effect."""
        typed = {option.name for option in fields(self) if getattr(self, option.name) != option.default}
        if self.study and self.results:
            raise InputError("gate needs study=NEW or RESULTS, not both")
        if self.study is None and self.results is None and typed - {"output", "uri"} != {"ledger"}:
            raise InputError("gate needs study=NEW or RESULTS, or ledger=FILE alone to show it")
        if self.ledger is None and (self.looks is not None or self.move_baseline):
            raise InputError("looks= and --move-baseline are of a ledger: expected ledger=FILE")


@dataclass(frozen=True, kw_only=True)
class Pick(Runs):
    """Arms that satisfy limits, the best score first; exit code 1 where none does."""

    study: tuple[str, ...] = key((), f"{STUDIES} {NEWEST}", whole=True)
    max_latency_ms: float | None = key(None, "limit on latency", range=LIMIT)
    max_params: float | None = key(None, "limit on parameters", range=LIMIT)
    max_memory_mb: float | None = key(None, "limit on peak memory of inference", range=LIMIT)
    at_least: tuple[str, ...] = key((), "METRIC=NUMBER in base units, such as eval/score=0.8; may be repeated", whole=True)
    at_most: tuple[str, ...] = key((), "METRIC=NUMBER in base units; may be repeated", whole=True)


@dataclass(frozen=True, kw_only=True)
class Power(Files, Runs):
    """The smallest true difference of two scores that is shown in 80 % of studies, before anything is run.

    How seeds scatter is known from a pilot (study= or pilot=), or stated (sd=). Without them the items alone count.
    """

    arms: int | None = key(None, "arms, the baseline among them (those of the pilot, else 2)", range=Range(at_least=2))
    tasks: int | None = key(None, "tasks whose mean is compared (those of the pilot, else 1)", range=Range(at_least=1))
    items: int | None = key(None, "items of each task (those of the pilot)", range=Range(at_least=1))
    seeds: int = key(3, "seeds of each arm", range=Range(at_least=3))
    score: float | None = key(None, "score at which items count (that of the pilot, else 0.8)", range=Range(above=0, below=1))
    sd: float | None = key(
        None, "scatter over seeds of one arm's scores on one task, such as 0.01", range=Range(above=0, below=1)
    )
    study: tuple[str, ...] = key((), "study of the store that is a pilot", whole=True)
    pilot: Path | None = key(None, "file or folder of results of any tool that is a pilot")
    all_pairs: bool = key(False, "compares all pairs of arms")
    difference: str | None = key(None, "what is wanted, such as 1point: says what shows it")

    def __post_init__(self) -> None:
        """InputError for two sources of the scatter."""
        if sum(map(bool, (self.sd, self.study, self.pilot))) > 1:
            raise InputError("sd=, study= and pilot= each say how seeds scatter: expected one of them")
