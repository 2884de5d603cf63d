"""The keys of `python -m harness inspect`, read from the command line."""

from dataclasses import dataclass
from pathlib import Path

from harness.errors import InputError

KEYS = {
    "item": "id of the row, as its data set has it",
    "text": "in place of an item: a text of yours, the texts of a pair separated by ` ||| `",
    "split": "of the task: train, validation, test, or a name of its own (validation)",
    "out": "folder of the pictures (multirun/inspect)",
    "png": "true: PNG beside SVG (false)",
    "attention": "true: the attention of every layer and head too, of run= or checkpoint= (false)",
    "run": "folder or name of a run of ours, or its id in the tracking store: its model and tokenizer",
    "checkpoint": "the same of a folder of weights, ours or published, or a name on the hub",
    "runs": "folder of the runs, to find an id in (multirun)",
}

SEPARATOR = " ||| "
"""Between the texts of a pair."""


@dataclass(frozen=True)
class Request:
    """The command line; either an item or a text."""

    item: str | None
    text: str | None
    split: str
    out: Path
    endings: tuple[str, ...]
    attention: bool
    source: tuple[str, str] | None  # run or checkpoint, and which
    runs: str


def request_of(values: dict[str, str]) -> Request:
    """The request; InputError for a value that cannot be used."""
    if "text" in values and values.get("item"):
        raise InputError("item= and text= both name what is shown: give one of them")
    if "text" not in values and not values.get("item"):
        raise InputError(f"item= is missing: expected {KEYS['item']}, or text=")
    sources = [(key, values[key]) for key in ("run", "checkpoint") if values.get(key)]
    if len(sources) > 1:
        raise InputError("run= and checkpoint= both name weights: give one of them")
    attention = _boolean(values, "attention")
    if attention and not sources and "text" not in values:
        raise InputError("attention=true needs weights: give run=RUN or checkpoint=FOLDER")
    return Request(
        item=values.get("item"),
        text=values.get("text"),
        split=values.get("split", "validation"),
        out=Path(values.get("out") or Path("multirun", "inspect")),
        endings=("svg", "png") if _boolean(values, "png") else ("svg",),
        attention=attention,
        source=sources[0] if sources else None,
        runs=values.get("runs", "multirun"),
    )


def _boolean(values: dict[str, str], key: str) -> bool:
    value = values.get(key, "false").lower()
    if value not in ("true", "false"):
        raise InputError(f"{key}={values[key]!r} must be true or false")
    return value == "true"
