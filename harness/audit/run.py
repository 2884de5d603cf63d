"""Settles claims one after the other."""

import functools
from collections.abc import Iterable, Iterator

from harness.audit import verdicts
from harness.audit.claims import Claim
from harness.audit.measures import Instruments, measure
from harness.audit.shapes import Shapes
from harness.audit.show import Line, Row
from harness.errors import InputError
from harness.tracking.run_log import FinishedRun


def instruments(config_dir: str | None, timed: bool, vocab_file: str | None, uri: str | None, output: str) -> Instruments:
    """The tracking store is read when the first claim needs it."""

    @functools.cache
    def finished_runs() -> list[FinishedRun]:
        from harness.tracking.mlflow_store import MlflowException, finished_runs  # MLflow takes seconds

        try:
            return finished_runs(uri, output)
        except MlflowException as error:
            raise InputError(f"MLflow is unreachable: {str(error).splitlines()[0]}") from error

    return Instruments(Shapes(config_dir), timed, vocab_file, finished_runs)


def settle(claims: Iterable[Claim], tools: Instruments) -> Iterator[Row]:
    """InputError, naming file and reading, for what cannot be measured."""
    for claim in claims:
        lines = tuple(_line(claim, name, tools) for name in claim.readings)
        yield Row(claim, verdicts.of_claim({line.name: (line.reading, line.settled) for line in lines}), lines)


def _line(claim: Claim, name: str, tools: Instruments) -> Line:
    reading = claim.readings[name]
    try:
        measured = measure(reading, tools)
        return Line(name, reading, measured, verdicts.of_reading(reading, measured))
    except ValueError as error:
        raise InputError(f"{claim.file}: claims.{claim.name}.readings.{name}: {error}") from error
