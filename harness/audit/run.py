"""Settles claims one after the other."""

import functools
from collections.abc import Iterable, Iterator

from harness.audit import holm, verdicts
from harness.audit.claims import Claim
from harness.audit.measured import Measured
from harness.audit.measures import Instruments, measure
from harness.audit.shapes import Shapes
from harness.audit.show import Line, Row
from harness.errors import InputError
from harness.tracking.run_log import FinishedRun
from harness.tracking.trackers import complaint


def instruments(config_dir: str | None, timed: bool, vocab_file: str | None, uri: str | None, output: str) -> Instruments:
    """The tracking store is read when the first claim needs it."""

    @functools.cache
    def finished_runs() -> list[FinishedRun]:
        from harness.tracking.mlflow_store import MlflowException, finished_runs  # MLflow takes seconds

        try:
            return finished_runs(uri, output)
        except (MlflowException, ImportError) as error:
            raise InputError(f"MLflow {complaint(error)}") from error

    return Instruments(Shapes(config_dir), timed, vocab_file, finished_runs)


def measured(claims: Iterable[Claim], tools: Instruments) -> Iterator[list[Measured]]:
    """What is measured for each reading of each claim; InputError, naming file and reading, for what cannot be measured."""
    for claim in claims:
        yield [_measured(claim, name, tools) for name in claim.readings]


def _measured(claim: Claim, name: str, tools: Instruments) -> Measured:
    reading = claim.readings[name]
    try:
        found = measure(reading, tools)
        verdicts.with_claimed(reading, found)
        return found
    except ValueError as error:
        raise InputError(f"{claim.file}: claims.{claim.name}.readings.{name}: {error}") from error


def settle(claim: Claim, found: list[Measured]) -> Row:
    """The claim with its verdict, after Holm's correction over the points of each reading."""
    corrected = [holm.corrected(reading, one) for reading, one in zip(claim.readings.values(), found, strict=True)]
    return Row(
        claim,
        tuple(
            Line(name, reading, one, verdicts.of_reading(reading, one))
            for (name, reading), one in zip(claim.readings.items(), corrected, strict=True)
        ),
    )
