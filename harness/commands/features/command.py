"""Vectors of every token as data: `python -m harness features run=RUN input=text.txt output=features.jsonl`.

One text a line, two texts of a pair separated by ` ||| `. The model is a run of ours or a checkpoint, ours or a published one.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import OF_MODEL, Parser, group_of
from harness.errors import InputError, unknown

if TYPE_CHECKING:
    from harness.commands.features.files import FeatureFile, Features
    from harness.commands.features.vectors import Extractor, Text
    from harness.config.schema import RunConfig

KEYS = {
    "run": "folder of a run of ours, or its id in the tracking store",
    "checkpoint": "folder of weights, ours or published, or a name on the hub",
    "input": "text file in UTF-8, one text a line, the texts of a pair separated by ` ||| `",
    "output": "file to write; an older one is replaced",
    "format": "jsonl, parquet or safetensors (the output's ending, else jsonl)",
    "layers": "such as [-1,-2,-3,-4], the default; 0 is the embeddings, 1 the first layer, -1 the last",
    "batch_size": "texts of one pass through the model (32)",
    "max_length": "tokens of a text, longer ones are cut (128, or as many as the model takes)",
    "runs": "folder of the runs, to find an id in (multirun)",
}
GROUPS = (*OF_MODEL, "tokenizer", "hardware", "tracking")
"""Groups that Hydra composes beside them: which model is expected, the hardware, the store in which an id is looked up."""

SHORTEST = 4
"""Tokens that a pair of one piece each would need, but for one."""

SHOWN = 10
"""Texts that the summary lists one by one."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for; `layers`, `max_length` are None where it does not say."""

    source: tuple[str, str]  # run or checkpoint, and which
    text: Path
    output: Path
    format: str
    layers: tuple[int, ...] | None
    batch_size: int
    max_length: int | None


def request_of(values: dict[str, str]) -> Request:
    """The request; InputError for a value that cannot be meant."""
    from harness.commands.features.files import FORMATS

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
    form = values.get("format", ending if ending in FORMATS else "jsonl")
    if form not in FORMATS:
        raise unknown("format", form, FORMATS, "format")
    layers = _layers(values["layers"]) if "layers" in values else None
    longest = _number(values, "max_length", SHORTEST) if "max_length" in values else None
    return Request(sources[0], text, output, form, layers, _number(values, "batch_size", 1, "32"), longest)


def _number(values: dict[str, str], key: str, least: int, default: str = "") -> int:
    value = values.get(key, default)
    if not value.isdecimal() or int(value) < least:
        raise InputError(f"{key}={value!r} must be a whole number of at least {least}")
    return int(value)


def _layers(value: str) -> tuple[int, ...]:
    try:
        layers = tuple(int(part) for part in value.strip("[]").split(","))
    except ValueError as error:
        raise InputError(f"layers={value!r} must be whole numbers such as [-1,-2]") from error
    if len(set(layers)) < len(layers):
        raise InputError(f"layers={value!r} names a layer twice")
    return layers


def texts_of(path: Path, advance: Callable[[int], object]) -> "Iterator[Text]":
    """A text or pair a line, one line in memory at a time; InputError for what is no UTF-8 and where no line has text."""
    has_text = False
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise InputError(f"input={str(path)!r} line {number} is not UTF-8 text: {error.reason}") from error
            has_text = has_text or bool(line)
            one, pair, other = line.rpartition(" ||| ")
            yield (one, other) if pair else line
            advance(len(raw))
    if not has_text:
        raise InputError(f"input={str(path)!r} is empty: expected one text a line")


def batched(texts: "Iterable[Text]", size: int) -> "Iterator[list[Text]]":
    """Lists of `size` texts, the last one shorter."""
    texts = iter(texts)
    while batch := list(islice(texts, size)):
        yield batch


class Summary:
    """Sizes of what was written: of the first texts one by one, and of all together."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []
        self.texts = self.pieces = self.longest = 0

    def add(self, features: "Features", written: int) -> None:
        """One text."""
        pieces = len(features.ids)
        if self.texts < SHOWN:
            self.rows.append((str(features.line), f"{pieces:,}", shown(features.values.shape), f"{written:,}"))
        self.texts, self.pieces, self.longest = self.texts + 1, self.pieces + pieces, max(self.longest, pieces)

    def render(self, kind: str, size: int, shape: tuple[int, ...]) -> str:
        """The table; `kind` is what pieces are called, `size` the bytes of the file, `shape` that of one token."""
        from harness.commands.terminal import table

        rows = [*self.rows]
        if self.texts > len(rows):
            rows.append((f"and {self.texts - len(rows):,} more", "", "", ""))
        rows.append(("mean", f"{self.pieces / self.texts:,.1f}", "", f"{size / self.texts:,.0f}"))
        rows.append((f"all {self.texts:,}", f"{self.pieces:,}", shown((self.pieces, *shape)), f"{size:,}"))
        return table(("text", kind, "shape", "bytes"), rows, "lrrr")


def shown(shape: tuple[int, ...]) -> str:
    """`12 x 4 x 256`: pieces, layers, hidden size."""
    return " x ".join(f"{size:,}" for size in shape)


def write(extractor: "Extractor", request: Request) -> str:
    """Writes the file whole or not at all; returns what to tell. InputError where it cannot be written."""
    from tqdm import tqdm

    from harness.commands.features.files import FORMATS, Layout

    vocabulary = extractor.tokenizer.get_vocab()
    shape = (len(extractor.layers), extractor.encoder.config.hidden_size)
    layout = Layout(extractor.layers, shape[1], sorted(vocabulary, key=vocabulary.get))
    summary = Summary()
    temporary = request.output.with_name(f".{request.output.name}.{os.getpid()}")
    size = request.text.stat().st_size
    try:
        with tqdm(total=size, unit="B", unit_scale=True, desc="features", leave=False, disable=None) as bar:
            file = FORMATS[request.format](temporary, layout)
            _fill(file, extractor, batched(texts_of(request.text, bar.update), request.batch_size), summary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(request.output)
    except OSError as error:
        raise InputError(f"output={str(request.output)!r} cannot be written ({error.strerror}); expected a file") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    kind = "WordPieces" if type(extractor.tokenizer.model).__name__ == "WordPiece" else "pieces"
    return f"wrote {request.output}\n\n{summary.render(kind, request.output.stat().st_size, shape)}"


def _fill(file: "FeatureFile", extractor: "Extractor", batches: "Iterable[list[Text]]", summary: Summary) -> None:
    try:
        for texts in batches:
            for features in extractor.features(texts, summary.texts):
                summary.add(features, file.write(features))
    finally:
        file.close()


def extract(request: Request, config: "RunConfig", runs_folder: str, expected: bool) -> str:
    """Writes the file and returns what to print; `expected` says whether the model of the config was named."""
    from harness.commands.features.vectors import Extractor, refuse_other_model, source_of

    key, name = request.source
    source = source_of(key, name, config, runs_folder)
    if expected:
        refuse_other_model(source.encoder.config, config.model, f"{key}={name!r}")
    return write(Extractor(source, config.hardware, request.layers, request.max_length), request)


def parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Own keys, and what is left for Hydra; InputError for a key that nobody reads."""
    parser = Parser(
        "features",
        "Writes the vectors of every token of every line of a text file.",
        "model=, scale= and enhancement= say which model is expected; hardware= on what it runs.",
        KEYS,
    )
    _, own, choices = parser.parse_composed(arguments)
    for choice in choices:
        if not choice.startswith("-") and group_of(choice) not in GROUPS:
            raise unknown("key", group_of(choice), (*KEYS, *GROUPS), "the command line")
    return own, choices


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be read, composed or written."""
    own, choices = parse(arguments)
    request = request_of(own)
    from harness.config import compose  # Hydra, which --help does not need

    def run(configs: "list[RunConfig]") -> int:
        named = any(group_of(choice) in OF_MODEL for choice in choices)
        print(extract(request, configs[0], own.get("runs", "multirun"), named))
        return 0

    return compose.main([*choices, "task=bag"], run)
