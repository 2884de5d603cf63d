"""The keys of `python -m harness features`, read from the command line."""

from dataclasses import dataclass
from pathlib import Path

from harness.commands.arguments import whole_number
from harness.errors import InputError, unknown

KEYS = {
    "run": "folder of a run of ours, or its id in the tracking store",
    "checkpoint": "folder of weights, ours or published, or a name on the hub",
    "input": "text file in UTF-8, one text a line, the texts of a pair separated by ` ||| `; or a .csv, .tsv, .jsonl",
    "fields": "columns of a .csv, .tsv or .jsonl: one, or the two of a pair, such as [premise,hypothesis] (text)",
    "output": "file to write; an older one is replaced",
    "format": "jsonl, parquet or safetensors (the output's ending; jsonl where it has none)",
    "layers": "such as [-1,-2,-3,-4], the default; 0 is the embeddings, 1 the first layer, -1 the last",
    "batch_size": "texts of one pass through the model (32)",
    "max_length": "tokens of a text, longer ones are cut (128, or as many as the model takes)",
    "runs": "folder of the runs, to find an id in (multirun)",
}

TABLES = (".csv", ".tsv", ".jsonl")
"""Endings of inputs that are read by their columns."""

FORMATS = ("jsonl", "parquet", "safetensors")
"""Of the output."""

SHORTEST = 4
"""Least `max_length`: one less than a pair of one piece each needs."""


@dataclass(frozen=True)
class Request:
    """The command line; `layers`, `max_length` are None where it does not name them."""

    source: tuple[str, str]  # run or checkpoint, and which
    text: Path
    fields: tuple[str, ...]  # columns of a table
    output: Path
    format: str
    layers: tuple[int, ...] | None
    batch_size: int
    max_length: int | None


def request_of(values: dict[str, str]) -> Request:
    """The request; InputError for a value that cannot be used."""
    for key in ("input", "output"):
        if not values.get(key):
            raise InputError(f"{key}= is missing: expected {KEYS[key]}")
    sources = [(key, values[key]) for key in ("run", "checkpoint") if values.get(key)]
    if len(sources) != 1:
        problem = "run= and checkpoint= both name weights" if sources else "no weights are named"
        raise InputError(f"{problem}: give run=RUN or checkpoint=FOLDER, one of them")
    text, output = Path(values["input"]), Path(values["output"])
    if not text.is_file():
        raise InputError(f"input={values['input']!r} is no file: expected {KEYS['input']}")
    if output.is_dir() or (output.exists() and output.samefile(text)):
        raise InputError(f"output={values['output']!r} is a folder or the input itself: expected another file")
    ending = output.suffix.removeprefix(".")
    form = values.get("format", ending or "jsonl")
    if "format" not in values and form not in FORMATS:
        endings = ", ".join(f".{known}" for known in FORMATS)
        raise InputError(f"output={values['output']!r} ends in {output.suffix!r}: expected {endings}, or format=NAME beside it")
    if form not in FORMATS:
        raise unknown("format", form, FORMATS, "format")
    layers = _layers(values["layers"]) if "layers" in values else None
    longest = whole_number("max_length", values["max_length"], SHORTEST) if "max_length" in values else None
    size = whole_number("batch_size", values.get("batch_size", "32"))
    fields = tuple(name.strip() for name in values.get("fields", "text").strip("[]").split(","))
    if "fields" in values and text.suffix not in TABLES:
        raise InputError(f"fields={values['fields']!r} names columns: expected an input that ends in {', '.join(TABLES)}")
    if not all(fields) or len(fields) > 2:
        raise InputError(f"fields={values['fields']!r} must name one or two columns, such as [text]")
    return Request(sources[0], text, fields, output, form, layers, size, longest)


def _layers(value: str) -> tuple[int, ...]:
    try:
        layers = tuple(int(part) for part in value.strip("[]").split(","))
    except ValueError as error:
        raise InputError(f"layers={value!r} must be whole numbers such as [-1,-2]") from error
    if len(set(layers)) < len(layers):
        raise InputError(f"layers={value!r} names a layer twice")
    return layers
