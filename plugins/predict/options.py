"""The keys and words of `predict`."""

from pathlib import Path

from harness.errors import InputError
from harness.grammar import arguments, group_of, key
from harness.models.ranges import Range
from harness.paths import TABLES, WORDS, ending
from harness.plugins.shared.options import COUNT, OF_MODEL, RUN, Weights

ROWS = (".txt", *TABLES, *WORDS)
"""Endings of files with texts of a user; .gz may follow."""

FORMATS = ("csv", "jsonl", "parquet", "safetensors")
"""Formats: predictions have all but the last, vectors all but the first."""

OF_VECTORS = ("checkpoint", "bert_config_file", "fields", "layers", "max_length")
"""Options of `predict` that vectors alone have."""

VECTORS = "kind=vectors"


@arguments
class Predict(Weights):
    """Writes the predictions of a fine-tuned run for new texts; with kind=vectors, the token vectors of any weights.

    hardware= selects the device. Vectors without weights are those of an encoder that is randomly initialised (seed=): of
    bert_config_file=, or of model=, scale= and enhancement=, with tokenizer.vocab_file=FILE.
    """

    groups = (*OF_MODEL, "tokenizer", "hardware", "tracking", "output", "seed")

    input: Path = key(
        meaning=".txt, one text per line, the texts of a pair separated by ` ||| `, or .csv, .tsv, .json, .jsonl, .parquet, "
        ".conll with the task's columns"
    )
    to: Path = key(meaning="Output file, one row per input row; an existing one is replaced.")
    format: str | None = key(
        None,
        "Format: jsonl, csv or parquet; for vectors jsonl, parquet or safetensors. Default: the suffix of `to`.",
        choices=FORMATS,
    )
    kind: str = key("labels", "What to write: labels with their probabilities, or vectors.", choices=("labels", "vectors"))
    beside: tuple[str, ...] = key((), "Input columns to copy into the output. Example: [id,text]")
    batch_size: int | None = key(None, "Rows per batch. Default: 64; 32 for vectors.", range=COUNT)
    bert_config_file: Path | None = key(
        None, "Vectors: bert_config.json of a randomly initialised encoder, instead of weights."
    )
    fields: tuple[str, ...] = key(("text",), "Vectors: one or two text columns. Example: [premise,hypothesis].")
    layers: tuple[int, ...] | None = key(
        None, "Vectors: layers; 0 is the embeddings, -1 the last layer. Default: [-1,-2,-3,-4]."
    )
    max_length: int | None = key(
        None, "Vectors: maximum tokens per text. Default: 128, or the model's maximum.", range=Range(at_least=4)
    )  # one less than a pair of one piece each needs

    @property
    def models(self) -> list[str]:
        return [*(["bert_config_file="] if self.bert_config_file else []), *super().models]

    @property
    def gives_vectors(self) -> bool:
        """Whether vectors are written, and no predictions of a task."""
        return self.kind == "vectors"

    @property
    def written(self) -> str:
        """The format of the file."""
        return self.format or self.to.suffix.removeprefix(".") or "jsonl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.input.is_file():
            raise InputError(f"input={str(self.input)!r} is not a file: expected {', '.join(ROWS)} in UTF-8")
        if self.to.is_dir() or (self.to.exists() and self.to.samefile(self.input)):
            raise InputError(f"to={str(self.to)!r} is a folder or the input itself: expected another file")
        formats = FORMATS[1:] if self.gives_vectors else FORMATS[:-1]
        if self.written not in formats:
            endings = ", ".join(f".{name}" for name in formats)
            raise InputError(f"to={str(self.to)!r} ends in {self.to.suffix!r}: expected {endings}, or format=NAME with it")
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
        """InputError if no model is named, for columns besides predictions, and for layers or fields that no file has."""
        if not self.source and not self.sets("tokenizer.file", "tokenizer.vocab_file"):
            raise InputError(
                "no weights are named: give RUN or checkpoint=FOLDER, one of them; or, for random ones, "
                "tokenizer.vocab_file=FILE with bert_config_file=FILE or model="
            )
        if self.beside:
            raise InputError(f"beside= is for predictions: leave it out, or {VECTORS}")
        if len({*(self.layers or ())}) < len(self.layers or ()):
            raise InputError(f"layers={[*(self.layers or ())]} names a layer twice")
        if len(self.fields) > 2:
            raise InputError(f"fields=[{','.join(self.fields)}] must name one or two columns, such as [text]")
