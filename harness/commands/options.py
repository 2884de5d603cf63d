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

PREDICTIONS = (".jsonl", ".csv", ".parquet")
FEATURES = ("jsonl", "parquet", "safetensors")
EXPORTS = ("transformers", "onnx")
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
        if self.run and self.checkpoint:
            raise InputError("RUN and checkpoint= both name weights: give one of them")

    @property
    def source(self) -> tuple[str, str] | None:
        """Where the weights are: `RUN` or `checkpoint`, and which."""
        return ("RUN", self.run) if self.run else ("checkpoint", self.checkpoint) if self.checkpoint else None


@dataclass(frozen=True, kw_only=True)
class Features(Weights):
    """Writes the vectors of every token of every line of a text file.

    model=, scale= and enhancement= say which model is expected; hardware= on what it runs. Without weights the encoder of
    bert_config_file= or of model= is randomly initialised (seed=), with tokenizer.vocab_file=FILE.
    """

    groups = (*OF_MODEL, "tokenizer", "hardware", "tracking", "output", "seed")

    input: Path = key(
        meaning="text file in UTF-8, one text a line, the texts of a pair separated by ` ||| `; or a .csv, .tsv, .json, .jsonl"
    )
    fields: tuple[str, ...] = key(
        ("text",), "columns of a .csv, .tsv, .json, .jsonl or .parquet: one, or the two of a pair, [premise,hypothesis]"
    )
    to: Path = key(meaning="file to write; an older one is replaced")
    bert_config_file: Path | None = key(
        None, "in place of weights: the bert_config.json of an encoder that is randomly initialised"
    )
    format: str | None = key(
        None, "jsonl, parquet or safetensors (the ending of `to`; jsonl where it has none)", choices=FEATURES
    )
    layers: tuple[int, ...] | None = key(
        None, "such as [-1,-2,-3,-4], the default; 0 is the embeddings, 1 the first layer, -1 the last"
    )
    batch_size: int = key(32, "texts of one pass through the model", range=COUNT)
    max_length: int | None = key(
        None, "tokens of a text, longer ones are cut (128, or as many as the model takes)", range=Range(at_least=4)
    )  # one less than a pair of one piece each needs

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source and self.bert_config_file:
            raise InputError(f"{self.source[0]} names weights, which have their own shape: leave bert_config_file= out")
        if self.bert_config_file and (named := [choice for choice in self.choices if group_of(choice) in OF_MODEL]):
            raise InputError(f"bert_config_file= and {named[0]} both name a model: give one of them")
        if not self.source and not self.sets("tokenizer.file", "tokenizer.vocab_file"):
            raise InputError(
                "no weights are named: give RUN or checkpoint=FOLDER, one of them; or, for random ones, "
                "tokenizer.vocab_file=FILE with bert_config_file=FILE or model="
            )
        refuse_files(self.input, self.to)
        if len({*(self.layers or ())}) < len(self.layers or ()):
            raise InputError(f"layers={[*(self.layers or ())]} names a layer twice")
        if self.written not in FEATURES:
            endings = ", ".join(f".{name}" for name in FEATURES)
            raise InputError(f"to={str(self.to)!r} ends in {self.to.suffix!r}: expected {endings}, or format=NAME beside it")
        if self.fields != ("text",) and ending(self.input) not in TABLES:
            names = ",".join(self.fields)
            raise InputError(f"fields=[{names}] names columns: expected an input that ends in {', '.join(TABLES)}")
        if not all(self.fields) or len(self.fields) > 2:
            raise InputError(f"fields=[{','.join(self.fields)}] must name one or two columns, such as [text]")

    @property
    def written(self) -> str:
        """The format of the file."""
        return self.format or self.to.suffix.removeprefix(".") or "jsonl"


@dataclass(frozen=True, kw_only=True)
class Predict(Composed):
    """Writes the predictions of a fine-tuned run on new texts.

    hardware= says on what it runs.
    """

    groups = ("hardware", "tracking", "output")

    run: str = word("RUN", meaning=f"{RUN}; fine-tuned with finetune.keep=last")
    input: Path = key(
        meaning=".txt, one text a line, the texts of a pair separated by ` ||| `, or .csv, .tsv, .json, .jsonl, .parquet, "
        ".conll with the task's columns"
    )
    to: Path = key(meaning=".jsonl, .csv or .parquet, one row an input row; an older file is replaced")
    beside: tuple[str, ...] = key((), "columns of the input that are written beside the answer, such as [id,text]")
    batch_size: int = key(64, "rows of one pass through the model", range=COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_files(self.input, self.to)
        for name, path, endings in (("input", self.input, ROWS), ("to", self.to, PREDICTIONS)):
            if (ending(path) if name == "input" else path.suffix) not in endings:
                raise InputError(f"{name}={str(path)!r} ends in {path.suffix!r}: expected {', '.join(endings)}")


# Runs that are finished


@dataclass(frozen=True, kw_only=True)
class Export(Store):
    """Writes a model that was trained here as a checkpoint of transformers or an ONNX file, or into MLflow's model registry."""

    run: str = word("RUN", meaning=RUN)
    to: Path | None = key(None, "new folder (RUN/export, or RUN/onnx)")
    format: str = key("transformers", "transformers or onnx (the extra [serve])", choices=EXPORTS)
    family: str | None = key(None, "model_type to write (the first that expresses the model)")
    license: str = key("unknown", "licence of the weights in the model card, as the hub names it")
    register: str | None = key(None, "name in the model registry of MLflow, to which a version is added instead of a folder")

    def __post_init__(self) -> None:
        """InputError also for a folder or format beside a name in the registry."""
        super().__post_init__()
        for name in ("to", "format", "family") if self.register is not None else ():
            if (value := getattr(self, name)) != Export.__dataclass_fields__[name].default:
                raise InputError(f"{name}={value} is of a folder: leave it out, or register={self.register}")


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


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Packs the answers that runs with finetune.submit=true left for GLUE's page."""

    folders: tuple[Path, ...] = word("RUN...", meaning="folders of runs with finetune.submit=true")
    to: Path = key(Path("submission.zip"), "archive to write")
