"""The inputs of a model: `python -m harness inspect task=mrpc item=3 [split=validation] [out=FOLDER] [attention=true run=RUN]`.

Prints pieces, segments, positions and labels of one item of a task as a table, and a picture; with weights, the attention too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import OF_MODEL, Parser, group_of
from harness.errors import InputError, unknown

if TYPE_CHECKING:
    from harness.commands.features.vectors import Source
    from harness.commands.inspect.attention_maps import AttentionMap
    from harness.commands.inspect.sequences import InputSequence
    from harness.config.schema import RunConfig

KEYS = {
    "item": "id of the row, as its data set has it",
    "split": "of the task: train, validation, test, or a name of its own (validation)",
    "out": "folder of the pictures (multirun/inspect)",
    "png": "true: PNG beside SVG (false)",
    "attention": "true: the attention of every layer and head too, of run= or checkpoint= (false)",
    "run": "folder of a run of ours, or its id in the tracking store: its model and tokenizer",
    "checkpoint": "the same of a folder of weights, ours or published, or a name on the hub",
    "runs": "folder of the runs, to find an id in (multirun)",
}


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    item: str
    split: str
    out: Path
    endings: tuple[str, ...]
    attention: bool
    source: tuple[str, str] | None  # run or checkpoint, and which
    runs: str


def parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Own keys, and what is left for Hydra; InputError without a task."""
    parser = Parser(
        "inspect",
        "Shows the inputs of a model for one item of a task, as a table and as a picture.",
        "Everything else chooses task, model and tokenizer: task=mrpc model=roberta data=local ...",
        KEYS,
    )
    _, own, choices = parser.parse_composed(arguments)
    if not any(choice.startswith("task=") for choice in choices):
        raise InputError("task= is missing: expected the task whose item is shown, such as task=mrpc")
    return own, choices


def request_of(values: dict[str, str]) -> Request:
    """The request; InputError for a value that cannot be meant."""
    if not values.get("item"):
        raise InputError(f"item= is missing: expected {KEYS['item']}")
    sources = [(key, values[key]) for key in ("run", "checkpoint") if values.get(key)]
    if len(sources) > 1:
        raise InputError("run= and checkpoint= both name weights: give one of them")
    attention = _fact(values, "attention")
    if attention and not sources:
        raise InputError("attention=true needs weights: give run=RUN or checkpoint=FOLDER")
    return Request(
        item=values["item"],
        split=values.get("split", "validation"),
        out=Path(values.get("out") or Path("multirun", "inspect")),
        endings=("svg", "png") if _fact(values, "png") else ("svg",),
        attention=attention,
        source=sources[0] if sources else None,
        runs=values.get("runs", "multirun"),
    )


def _fact(values: dict[str, str], key: str) -> bool:
    value = values.get(key, "false").lower()
    if value not in ("true", "false"):
        raise InputError(f"{key}={values[key]!r} must be true or false")
    return value == "true"


def show(request: Request, config: "RunConfig", expected: bool) -> str:
    """All that is printed; the pictures are below `out` then. `expected` says whether the model of the config was named."""
    from harness.commands.inspect.sequences import as_table, sequences_of

    source = None
    if request.source is not None:
        source, config = _with_weights(request, config, expected)
    sequences = sequences_of(config, request.split, request.item, source and source.tokenizer)
    written = []
    for sequence in sequences:
        for ending, name, content in _pictures(request, sequence, source):
            written.append(_written(request.out, f"{name}.{ending}", content))
    return "\n\n".join([*map(as_table, sequences), "\n".join(map(str, written))])


def _with_weights(request: Request, config: "RunConfig", expected: bool) -> "tuple[Source, RunConfig]":
    """The weights, and the config with their model's shape."""
    from harness.commands.features.vectors import refuse_other_model, source_of

    key, name = request.source
    source = source_of(key, name, config, request.runs)
    if expected:
        refuse_other_model(source.encoder.config, config.model, f"{key}={name!r}")
    shape = {field.name: getattr(source.encoder.config, field.name) for field in fields(source.encoder.config)}
    return source, replace(config, model=replace(config.model, **shape))


def _pictures(request: Request, sequence: "InputSequence", source: "Source | None") -> Iterator[tuple[str, str, bytes]]:
    """Ending, name and content of each file."""
    import matplotlib as mpl

    from harness.commands.inspect import attention_picture, picture

    name = re.sub(r"[^A-Za-z0-9_.+@-]+", "_", sequence.title.replace(", ", "-"))
    with mpl.rc_context(picture.STYLE):
        figures = {name: picture.draw(sequence)}
        if request.attention:
            maps = _maps(request, sequence, source)
            title = f"Attention: {sequence.title}"
            figures[f"{name}-attention"] = attention_picture.draw(maps, sequence.rows["piece"], title)
        for stem, figure in figures.items():
            for ending in request.endings:
                yield ending, stem, picture.content(figure, ending)


def _maps(request: Request, sequence: "InputSequence", source: "Source") -> "list[AttentionMap]":
    from harness.commands.inspect.attention_maps import maps_of

    maps = maps_of(source.encoder, sequence.batch)
    if not maps:
        key, name = request.source
        raise InputError(f"{key}={name!r} has no attention: leave attention=true out")
    return maps


def _written(folder: Path, name: str, content: bytes) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"out={str(folder)!r} cannot be written ({error.strerror}); expected a folder") from error
    return folder / name


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be read, composed or written."""
    own, choices = parse(arguments)
    request = request_of(own)
    from harness.config import compose, mistakes, resolve, schema  # Hydra, which --help does not need

    known = {*KEYS, *mistakes.groups(), *(field.name for field in fields(schema.RunConfig)), "hydra"}
    for choice in choices:
        if not choice.startswith("-") and group_of(choice) not in known:
            raise unknown("key", group_of(choice), known, "the command line")

    def run(configs: "list[RunConfig]") -> int:
        if len(configs) > 1:
            raise InputError(f"the command line names {len(configs)} runs: expected one task and one model")
        if not resolve.has_task(configs[0]):
            raise InputError("task=none has no items: expected the task whose item is shown, such as task=mrpc")
        print(show(request, _resolved(configs[0]), any(group_of(choice) in OF_MODEL for choice in choices)))
        return 0

    return compose.main(choices, run)


def _resolved(config: "RunConfig") -> "RunConfig":
    """With the shape and tokenizer of what it starts from."""
    from harness.checkpoints import start
    from harness.config.resolve import resolve

    return resolve(config, start.read(config))
