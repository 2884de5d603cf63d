"""One item of a task as text and pictures: the inputs of the model, and with weights the attention over them."""

import re
import zlib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import matplotlib as mpl

from harness.checkpoints import start
from harness.commands.arguments import OF_MODEL
from harness.commands.features.vectors import Source, refuse_other_model, source_of
from harness.commands.inspect import attention_picture, free_text, picture
from harness.commands.inspect.attention_maps import AttentionMap, maps_of
from harness.commands.inspect.request import Request
from harness.commands.inspect.sequences import InputSequence, as_table, sequences_of
from harness.config.resolve import has_task, resolve
from harness.config.schema import RunConfig
from harness.errors import InputError

SHOWN = 24
"""Characters of a text that the names of its pictures begin with."""


def resolved(configs: list[RunConfig]) -> RunConfig:
    """The only config, with the shape and tokenizer of the weights that it starts from.

    InputError for several configs, and for one without a task.
    """
    if len(configs) > 1:
        raise InputError(f"the command line names {len(configs)} runs: expected one task and one model")
    if not has_task(configs[0]):
        raise InputError("task=none has no items: expected the task whose item is shown, such as task=mrpc")
    return resolve(configs[0], start.read(configs[0]))


def show(request: Request, config: RunConfig, expected: bool) -> str:
    """What is printed; writes the pictures to `out`. `expected`: the weights must be of the model of the config."""
    source = None
    if request.source is not None:
        source, config = _with_weights(request, config, expected)
    sequences = sequences_of(config, request.split, request.item, source and source.tokenizer)
    return "\n\n".join([*map(as_table, sequences), _files(request, sequences, source)])


def show_text(request: Request, config: RunConfig, groups: set[str]) -> str:
    """The same of a text, with what the weights predict of it; `groups` are those that the command line names.

    Without weights the model is randomly initialised.
    """
    weights = free_text.named(request, config)
    if request.source is None:
        source, config = free_text.random_source(config, "task" in groups, "corpus" in groups)
    else:
        source, config = _with_weights(request, config, expected=bool(groups & set(OF_MODEL)))
    sequences = free_text.sequences(request, config, source, weights)
    predicted = free_text.predictions(request, config, source, weights, sequences)
    return "\n\n".join([*map(as_table, sequences), *predicted, _files(request, sequences, source)])


def _files(request: Request, sequences: list[InputSequence], source: Source | None) -> str:
    """Writes the pictures; a line for each file."""
    written = []
    for sequence in sequences:
        for ending, name, content in _pictures(request, sequence, source):
            written.append(_written(request.out, f"{name}.{ending}", content))
    return "\n".join(map(str, written))


def _with_weights(request: Request, config: RunConfig, expected: bool) -> tuple[Source, RunConfig]:
    """The weights, and the config with their model's shape."""
    key, name = request.source
    source = source_of(key, name, config, request.runs)
    if expected:
        refuse_other_model(source.encoder.config, config.model, f"{key}={name!r}")
    shape = {field.name: getattr(source.encoder.config, field.name) for field in fields(source.encoder.config)}
    return source, replace(config, model=replace(config.model, **shape))


def _pictures(request: Request, sequence: InputSequence, source: Source | None) -> Iterator[tuple[str, str, bytes]]:
    """Ending, name and content of each file."""
    title = sequence.title if request.text is None else f"{sequence.title}, {request.text[:SHOWN]}"
    name = re.sub(r"[^A-Za-z0-9_.+@-]+", "_", title.replace(", ", "-"))
    if request.text is not None:  # its first characters may be those of another one
        name += f"-{zlib.crc32(request.text.encode(errors='surrogatepass')):08x}"
    with mpl.rc_context(picture.STYLE):
        figures = {name: picture.draw(sequence)}
        if request.attention:
            maps = _maps(request, sequence, source)
            title = f"Attention: {sequence.title}"
            figures[f"{name}-attention"] = attention_picture.draw(maps, sequence.rows["piece"], title)
        for stem, figure in figures.items():
            for ending in request.endings:
                yield ending, stem, picture.content(figure, ending)


def _maps(request: Request, sequence: InputSequence, source: Source) -> list[AttentionMap]:
    maps = maps_of(source.encoder, sequence.batch)
    if not maps:
        weights = "the model" if request.source is None else f"{request.source[0]}={request.source[1]!r}"
        raise InputError(f"{weights} has no attention: leave attention=true out")
    return maps


def _written(folder: Path, name: str, content: bytes) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"out={str(folder)!r} cannot be written ({error.strerror}); expected a folder") from error
    return folder / name
