"""The keys, words and switches of every command but `run`, each command's as a dataclass: what `--help` prints is from here.

A command line is read into it before the command's module, which may need torch, is imported.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness import study
from harness.config import command_line
from harness.errors import InputError
from harness.grammar import Composed, group_of, key, word
from harness.models.ranges import Range
from harness.paths import TABLES, WORDS, ending

RUN = "folder or name of a run, or its id in the tracking store"
ROWS = (".txt", *TABLES, *WORDS)
"""Endings of files with texts of a user; .gz may follow."""

FORMATS = ("csv", "jsonl", "parquet", "safetensors")
"""Of predictions all but the last, of vectors all but the first."""

OF_VECTORS = ("checkpoint", "bert_config_file", "fields", "layers", "max_length")
"""Options of `predict` that vectors alone have."""

OF_MODEL = ("model", "scale", "enhancement")
"""Groups of choices that say which model is meant."""

ABOVE_ZERO, COUNT = Range(above=0, limit=float("inf")), Range(at_least=1)


@dataclass(frozen=True, kw_only=True)
class OutputFolder:
    """Where the runs are."""

    output: str = key("multirun", "folder of the runs")

    def refuse_missing(self) -> None:
        """InputError where the folder is not there."""
        if not Path(self.output).is_dir():
            raise InputError(f"output={self.output!r} is not a folder: expected the one of the runs")


@dataclass(frozen=True, kw_only=True)
class Store(OutputFolder):
    """Where the runs and the tracking store are."""

    uri: str | None = key(None, "tracking store (SQLite in the folder of the runs)", name="tracking.uri")

    def __post_init__(self) -> None:
        """InputError for an address that none can be, or that holds a password."""
        command_line.refuse_address(self.uri)


def refuse_files(source: Path, to: Path) -> None:
    """InputError for an output that is a folder or the input itself, and for an input that is no file."""
    if not source.is_file():
        raise InputError(f"input={str(source)!r} is no file: expected {', '.join(ROWS)} in UTF-8")
    if to.is_dir() or (to.exists() and to.samefile(source)):
        raise InputError(f"to={str(to)!r} is a folder or the input itself: expected another file")


def has_values(choice: str) -> bool:
    """Whether a choice names several values, as `model=base,gpt` does and `enhancement=[swiglu,shared]` does not."""
    return "," in re.sub(r"\[.*?\]|\{.*?\}|\(.*?\)|'.*?'|\".*?\"", "", choice)


# Before a run


@dataclass(frozen=True, kw_only=True)
class Plan(Composed):
    """Shows what a command would run, and about how long it would take, without running it.

    Everything else is as for a run: -m model=base,albert task=sst2 ... or +experiment=NAME
    """

    replicates: ClassVar[bool] = True

    probe: bool = key(False, "times a few steps of what no earlier run tells, some seconds each")
    flops_per_second: float | None = key(
        None, "FLOP/s of another device, to extrapolate training from its counted FLOPs", range=ABOVE_ZERO
    )
    price: float | None = key(None, "price of an hour of one device, to extrapolate the cost", range=ABOVE_ZERO)

    def overrides(self) -> list[str]:
        return self.typed()

    def begin(self) -> None:
        if self.probe:
            study.prepare_workers()


# Inputs of a model


@dataclass(frozen=True, kw_only=True)
class Weights(Composed):
    """A command that reads weights, of a run of ours or from elsewhere."""

    reads_as_runs: ClassVar[bool] = False

    run: str | None = word("RUN", None, RUN)
    checkpoint: str | None = key(None, "in place of RUN: a folder of weights, ours or published, or a name on the hub")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(models := self.models) > 1:
            raise InputError(f"{models[0]} and {models[1]} both name a model: give one of them")

    @property
    def models(self) -> list[str]:
        """What on the command line says which model is meant."""
        choices = [choice for choice in self.choices if group_of(choice) in OF_MODEL]
        return [*(["RUN"] if self.run else []), *(["checkpoint="] if self.checkpoint else []), *choices[:1]]

    @property
    def source(self) -> tuple[str, str] | None:
        """Where the weights are: `RUN` or `checkpoint`, and which."""
        return ("RUN", self.run) if self.run else ("checkpoint", self.checkpoint) if self.checkpoint else None


VECTORS = "output=vectors"


@dataclass(frozen=True, kw_only=True)
class Predict(Weights):
    """Writes what a fine-tuned run answers to new texts; output=vectors: the vectors of every token of any weights.

    hardware= says on what it runs. Vectors without weights are those of an encoder that is randomly initialised (seed=): of
    bert_config_file=, or of model=, scale= and enhancement=, with tokenizer.vocab_file=FILE. A folder of runs that is called
    vectors is output=./vectors.
    """

    groups = (*OF_MODEL, "tokenizer", "hardware", "tracking", "output", "seed")

    input: Path = key(
        meaning=".txt, one text a line, the texts of a pair separated by ` ||| `, or .csv, .tsv, .json, .jsonl, .parquet, "
        ".conll with the task's columns"
    )
    to: Path = key(meaning="file to write, one row an input row; an older one is replaced")
    format: str | None = key(
        None, "jsonl, csv or parquet, of vectors jsonl, parquet or safetensors (the ending of `to`)", choices=FORMATS
    )
    beside: tuple[str, ...] = key((), "columns of the input that are written beside the answer, such as [id,text]")
    batch_size: int | None = key(None, "rows of one pass through the model (64, of vectors 32)", range=COUNT)
    bert_config_file: Path | None = key(
        None, "of vectors, in place of weights: the bert_config.json of an encoder that is randomly initialised"
    )
    fields: tuple[str, ...] = key(("text",), "of vectors: columns of a table, one, or the two of a pair, [premise,hypothesis]")
    layers: tuple[int, ...] | None = key(
        None, "of vectors: such as [-1,-2,-3,-4], the default; 0 is the embeddings, 1 the first layer, -1 the last"
    )
    max_length: int | None = key(
        None, "of vectors: tokens of a text, longer ones are cut (128, or as many as the model takes)", range=Range(at_least=4)
    )  # one less than a pair of one piece each needs

    @property
    def models(self) -> list[str]:
        return [*(["bert_config_file="] if self.bert_config_file else []), *super().models]

    @property
    def gives_vectors(self) -> bool:
        """Whether vectors are written, and no predictions of a task."""
        return VECTORS in self.choices

    @property
    def written(self) -> str:
        """The format of the file."""
        return self.format or self.to.suffix.removeprefix(".") or "jsonl"

    def overrides(self) -> list[str]:
        return [choice for choice in super().overrides() if choice != VECTORS]

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_files(self.input, self.to)
        formats = FORMATS[1:] if self.gives_vectors else FORMATS[:-1]
        if self.written not in formats:
            endings = ", ".join(f".{name}" for name in formats)
            raise InputError(f"to={str(self.to)!r} ends in {self.to.suffix!r}: expected {endings}, or format=NAME beside it")
        (self._refuse_vectors if self.gives_vectors else self._refuse_answers)()

    def _refuse_answers(self) -> None:
        """InputError for predictions of other weights than a run's, or with a key of vectors."""
        if ending(self.input) not in ROWS:
            raise InputError(f"input={str(self.input)!r} ends in {self.input.suffix!r}: expected {', '.join(ROWS)}")
        own = [name for name in OF_VECTORS if getattr(self, name) != Predict.__dataclass_fields__[name].default]
        own += [choice for choice in self.choices if group_of(choice) in (*OF_MODEL, "tokenizer", "seed")]
        if own:
            raise InputError(
                f"{own[0].partition('=')[0]}= belongs to {VECTORS}: add it, or leave {own[0].partition('=')[0]}= out"
            )
        if not self.run:
            raise InputError(f"RUN is missing: expected {RUN}; fine-tuned with finetune.keep=last")

    def _refuse_vectors(self) -> None:
        """InputError where no model is named; for columns beside an answer; and for layers or fields that no file has."""
        if not self.source and not self.sets("tokenizer.file", "tokenizer.vocab_file"):
            raise InputError(
                "no weights are named: give RUN or checkpoint=FOLDER, one of them; or, for random ones, "
                "tokenizer.vocab_file=FILE with bert_config_file=FILE or model="
            )
        if self.beside:
            raise InputError(f"beside= belongs to predictions: leave it out, or {VECTORS}")
        if len({*(self.layers or ())}) < len(self.layers or ()):
            raise InputError(f"layers={[*(self.layers or ())]} names a layer twice")
        if len(self.fields) > 2:
            raise InputError(f"fields=[{','.join(self.fields)}] must name one or two columns, such as [text]")


# Runs that are finished


@dataclass(frozen=True, kw_only=True)
class Status(OutputFolder):
    """What of a study has finished, what is missing and why, and the command that completes it."""

    study: str | None = word("STUDY", None, "name of a study (all of them, in short)")

    def __post_init__(self) -> None:
        self.refuse_missing()


@dataclass(frozen=True, kw_only=True)
class Clean(OutputFolder):
    """Removes what no run needs: unused data, launches of old timing sessions, temporary files; asks first."""

    dry_run: bool = key(False, "only lists what would be removed")
    yes: bool = key(False, "does not ask")

    def __post_init__(self) -> None:
        self.refuse_missing()


@dataclass(frozen=True, kw_only=True)
class Sync(Store):
    """Sends results to MLflow that it has missed, from the folders of the runs; sending them twice changes nothing."""

    def __post_init__(self) -> None:
        self.refuse_missing()
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class Ui(OutputFolder):
    """Opens the tracking store in MLflow's UI: prints the address of each study's table, sorted by score, and serves until
    Ctrl-C.
    """

    port: int = key(5000, "port on this machine", range=Range(at_least=0, at_most=65535))
