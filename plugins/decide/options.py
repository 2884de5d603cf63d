"""The options of `compare`, `gate`, `pick` and `power`, which `--help` reads without what these need."""

from dataclasses import fields
from pathlib import Path

from harness.errors import InputError
from harness.grammar import arguments, key, word
from harness.models.ranges import Range
from harness.plugins.judge.options import Files
from harness.reports.options import STUDIES, Runs, Store

LIMIT = Range(at_least=0, limit=float("inf"))


@arguments
class Compare(Store):
    """Shows how two runs differ: main results, settings, environment. No verdict.

    --all lists numbers by group: eval, pretrain, inference, train_step, finetune, model, others; those that cannot be
    compared come last in their group.
    """

    run_a: str = word("RUN_A", meaning="Id, folder or name of a run; the beginning of a name is enough.")
    run_b: str = word("RUN_B", meaning="The other run.")
    study: tuple[str, ...] = key((), "Study to search; may be repeated. Default: all.", whole=True)
    all: bool = key(False, "Show all numbers, by the names of metrics.")
    format: str = key("text", "Format: text, md or csv.", choices=("text", "md", "csv"))


@arguments
class Gate(Files, Runs):
    """Tests that arms are not inferior to a baseline.

    Exit code 0: every arm passed. 1: one did not, or there was nothing to judge. 2: a wrong input.
    """

    results: Path | None = word("RESULTS", None, "File or folder of results of another tool, instead of a study.")
    study: str | None = key(None, "Study to judge. Default: show the ledger.")
    against: str | None = key(None, "Reference study or results. Default: the study itself.")
    baseline: str | None = key(None, "Reference arm. Default: the same arm; within one study, base.")
    max_drop: str | None = key(None, "Largest acceptable drop of the score. Example: 0.5% or 0.5points.")
    max_slowdown: str | None = key(None, "Largest acceptable slowdown in the metric of timing=. Example: 5%.")
    max_memory: str | None = key(None, "Largest acceptable increase of peak memory, in inference and training. Example: 5%.")
    max_cost: str | None = key(None, "Largest acceptable increase of FLOPs, bytes moved and operators. Example: 5%.")
    timing: str | None = key(
        None, "Metric that max_slowdown= limits. Default: latency in device time, else in wall-clock time.", called="metric"
    )
    better: bool = key(False, "Require that an arm is also better in at least one quantity.")
    json: bool = key(False, "Print verdicts, margins and evidence as JSON.")
    move_baseline: bool = key(False, "Allow another baseline than that of the ledger's last line.")
    arm: tuple[str, ...] = key((), "Arm to judge; may be repeated. Default: all.", whole=True)
    ledger: Path | None = key(None, "Ledger (JSON lines) of all candidates, which share the 5 % level.")
    looks: int | None = key(
        None, "Number N of candidates in a new ledger; each gets 1/N of the level.", range=Range(at_least=1)
    )

    def __post_init__(self) -> None:
        """InputError for options without effect."""
        typed = {option.name for option in fields(self) if getattr(self, option.name) != option.default}
        if self.study and self.results:
            raise InputError("gate needs study=NEW or RESULTS, not both")
        if self.study is None and self.results is None and typed - {"output", "uri"} != {"ledger"}:
            raise InputError("expected study=NEW or a file of results; ledger=FILE alone prints the ledger")
        if self.ledger is None and (self.looks is not None or self.move_baseline):
            raise InputError("looks= and --move-baseline need ledger=FILE")


@arguments
class Pick(Runs):
    """Lists the arms that meet limits, the best score first; exit code 1 if none does."""

    study: tuple[str, ...] = key((), STUDIES, whole=True)
    max_latency_ms: float | None = key(None, "Maximum latency in ms.", range=LIMIT)
    max_params: float | None = key(None, "Maximum number of parameters.", range=LIMIT)
    max_memory_mb: float | None = key(None, "Maximum peak memory of inference in MB.", range=LIMIT)
    at_least: tuple[str, ...] = key(
        (), "Minimum of a metric, in base units; may be repeated. Example: eval/score=0.8.", whole=True
    )
    at_most: tuple[str, ...] = key((), "Maximum of a metric, in base units; may be repeated.", whole=True)


@arguments
class Power(Files, Runs):
    """Computes the minimum detectable difference of two scores, at 80 % power, before anything is run.

    The standard deviation over seeds comes from a pilot (study= or pilot=) or from sd=. Without one, only sampling error is
    counted.
    """

    arms: int | None = key(
        None, "Number of arms, baseline included. Default: that of the pilot, else 2.", range=Range(at_least=2)
    )
    tasks: int | None = key(
        None, "Number of tasks whose mean is compared. Default: that of the pilot, else 1.", range=Range(at_least=1)
    )
    items: int | None = key(None, "Evaluation items per task. Default: those of the pilot.", range=Range(at_least=1))
    seeds: int = key(3, "Seeds per arm.", range=Range(at_least=3))
    score: float | None = key(
        None,
        "Expected score, which sets the sampling error. Default: that of the pilot, else 0.8.",
        range=Range(above=0, below=1),
    )
    sd: float | None = key(
        None, "Standard deviation of an arm's scores over seeds. Example: 0.01.", range=Range(above=0, below=1)
    )
    study: tuple[str, ...] = key((), "Pilot study in the store.", whole=True)
    pilot: Path | None = key(None, "Pilot results of another tool: file or folder.")
    all_pairs: bool = key(False, "Compare all pairs of arms.")
    difference: str | None = key(None, "Difference to detect; prints the seeds and items it takes. Example: 1point.")

    def __post_init__(self) -> None:
        """InputError for two sources of the standard deviation."""
        if sum(map(bool, (self.sd, self.study, self.pilot))) > 1:
            raise InputError("sd=, study= and pilot= exclude each other: expected one of them")
