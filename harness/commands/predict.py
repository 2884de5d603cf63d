"""Predictions of a fine-tuned run on new texts: `python -m harness predict run=RUN input=FILE output=FILE`.

RUN is the folder of a run with `finetune.keep=last` or its id. Input is .txt, one text per line, the texts of a pair separated
by ` ||| `, or .csv, .tsv, .jsonl with the columns of the task's fields. Output is .jsonl or .csv, one row per input row.
"""

import csv
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.checkpoints import find_run
from harness.commands.arguments import Parser, compose_and_run, whole_number
from harness.commands.text_rows import READERS, Columns, read_rows
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

KEYS = {
    "run": "folder of a fine-tuned run, of its checkpoint, or its id in the tracking store",
    "input": ".txt, .csv, .tsv or .jsonl in UTF-8",
    "output": ".jsonl or .csv; an older file is replaced",
    "batch_size": "rows of one pass through the model (64)",
    "runs": "folder of the runs, to find an id in (multirun)",
}
GROUPS = ("hardware", "tracking")
"""Groups of Hydra that may be set too."""

OUTPUTS = (".jsonl", ".csv")
CHUNK = 2048
"""Rows in memory at a time."""


@dataclass(frozen=True)
class Request:
    """The command line."""

    run: str
    input: Path
    output: Path
    batch_size: int
    runs: str


def request_of(values: dict[str, str]) -> Request:
    """The request; InputError for a key that is missing or whose value cannot be used."""
    for key in ("run", "input", "output"):
        if not values.get(key):
            raise InputError(f"{key}= is missing: expected {KEYS[key]}")
    source, output = Path(values["input"]), Path(values["output"])
    if not source.is_file():
        raise InputError(f"input={values['input']!r} is no file: expected {KEYS['input']}")
    for key, path, endings in (("input", source, tuple(READERS)), ("output", output, OUTPUTS)):
        if path.suffix not in endings:
            raise InputError(f"{key}={str(path)!r} ends in {path.suffix!r}: expected {', '.join(endings)}")
    if output.is_dir() or (output.exists() and output.samefile(source)):
        raise InputError(f"output={values['output']!r} is a folder or the input itself: expected another file")
    size = whole_number("batch_size", values.get("batch_size", "64"))
    return Request(values["run"], source, output, size, values.get("runs", "multirun"))


# Output


def write(rows: Iterable[list[dict[str, Any]]], output: Path) -> int:
    """Writes all rows, whole or not at all, and returns their number; without rows an older file stays.

    InputError where the file cannot be written.
    """
    temporary, count = output.with_name(f".{output.name}.{os.getpid()}"), 0
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            table: csv.DictWriter | None = None
            for chunk in rows:
                count += len(chunk)
                if output.suffix == ".jsonl":
                    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in chunk)
                    continue
                flat = [_flat(row) for row in chunk]
                if table is None:
                    table = csv.DictWriter(file, list(flat[0]))
                    table.writeheader()
                table.writerows(flat)
            file.flush()
            os.fsync(file.fileno())
        if count:
            temporary.replace(output)
    except OSError as error:
        raise InputError(f"output={str(output)!r} cannot be written ({error.strerror}); expected a file") from error
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Without nesting, as a table has it: `probability.LABEL` for each class, words and tags separated by spaces."""
    flat = {f"probability.{label}": value for label, value in row.get("probabilities", {}).items()}
    plain = {key: " ".join(value) if isinstance(value, list) else value for key, value in row.items() if key != "probabilities"}
    return plain | flat


def chunks(rows: Iterable[list[str]], size: int) -> Iterator[list[list[str]]]:
    """Lists of `size` rows, the last one shorter."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk


def predict_file(request: Request, config: "RunConfig") -> str:
    """Writes the predictions; returns the line for the console."""
    from harness.training.predictor import Predictor  # torch: a wrong key is refused before it is loaded

    checkpoint = find_run.weights_folder(request.run, "run", request.runs, config.tracking.uri)
    predictor = Predictor(checkpoint, config.hardware, request.batch_size)
    columns = Columns.of_task(predictor.task)
    texts = chunks(read_rows(request.input, columns), CHUNK)
    count = write((predictor.rows(chunk, index * CHUNK + 1) for index, chunk in enumerate(texts)), request.output)
    if not count:
        raise InputError(f"input={str(request.input)!r} has no rows")
    return f"wrote {request.output}: {count:,} predictions of task {predictor.task.name}"


def parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Own keys, and the choices that Hydra composes; InputError for a key that neither reads."""
    parser = Parser(
        "predict", "Writes the predictions of a fine-tuned run on new texts.", "hardware= says on what it runs.", KEYS
    )
    _, own, choices = parser.parse_composed(arguments, GROUPS)
    return own, choices


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be read, composed or written."""
    own, choices = parse(arguments)
    request = request_of(own)
    return compose_and_run([*choices, "task=bag"], lambda configs: _predict(request, configs[0]))


def _predict(request: Request, config: "RunConfig") -> int:
    print(predict_file(request, config))
    return 0
