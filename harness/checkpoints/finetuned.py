"""The checkpoint of a fine-tuning: weights with the head of the task, and `task.json` with what the head predicts."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from harness import records
from harness.checkpoints import native
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data.tokenizer import build, by_words
from harness.errors import InputError, unknown
from harness.models.config import EncoderConfig
from harness.models.heads import ChoiceClassifier, Classifier, SequenceClassifier, TextVectors, TokenClassifier
from harness.paths import whole

TASK = "task.json"

LABELLED = (TaskKind.classification.name, TaskKind.multilabel.name, TaskKind.tokens.name)
"""Kinds whose outputs are labels."""


@dataclass(frozen=True)
class TaskFacts:
    """What a fine-tuned head predicts, and how its texts are tokenised."""

    name: str
    version: int
    kind: str  # name of a TaskKind
    fields: list[str]  # text columns, one or two; of kind `tokens` the column of words
    labels: list[str]  # names of the classes in the order of the outputs; empty for regression and spans
    head: str  # name of a class of models/heads.py
    num_outputs: int
    max_length: int  # tokens
    plugin: str | None = None  # name of a kind of task of another package

    def config(self) -> TaskConfig:
        """The config of a task with these facts and no data."""
        values = {key: value for key, value in asdict(self).items() if key not in ("kind", "head", "num_outputs")}
        return TaskConfig(**values, kind=TaskKind[self.kind])


def save(folder: Path, model: Classifier, task: TaskConfig, tokenizer: Path) -> None:
    """Writes weights, shape, tokenizer and task atomically; replaces the checkpoint of an earlier attempt."""
    of_task = {name: getattr(task, name) for name in ("name", "version", "fields", "labels", "max_length", "plugin")}
    outputs = 0 if model.head is None else model.head.out_features
    facts = TaskFacts(**of_task, kind=task.kind.name, head=type(model).__name__, num_outputs=outputs)
    with whole(folder) as building:
        native.save(building, model.state_dict(), model.encoder.config)
        shutil.copyfile(tokenizer, building / native.TOKENIZER)
        records.write(building / TASK, asdict(facts))
        shutil.rmtree(folder, ignore_errors=True)


def is_finetuned(folder: Path) -> bool:
    """Whether this is the checkpoint of a fine-tuning and not of a pretraining."""
    return (folder / TASK).is_file()


def read_task(folder: Path) -> TaskFacts:
    """What `save` wrote; InputError naming a missing or corrupt file, or a run that is not a fine-tuning."""
    if not is_finetuned(folder):
        raise InputError(f"{folder} lacks {TASK}: expected the checkpoint of a fine-tuning, run with finetune.keep=last")
    facts = native.typed(folder / TASK, TaskFacts)
    if facts.kind not in TaskKind.__members__:
        raise unknown("kind", facts.kind, TaskKind.__members__, str(folder / TASK))
    if not facts.fields:
        raise InputError(f"{folder / TASK} has no fields: expected the names of the text columns")
    if facts.kind in LABELLED and len(facts.labels) != facts.num_outputs:
        raise InputError(
            f"{folder / TASK} has {len(facts.labels):,} labels, and num_outputs={facts.num_outputs}: expected as many"
        )
    return facts


def tokenizer_of(path: Path, shape: EncoderConfig) -> Tokenizer:
    """The tokenizer in this file of a checkpoint; InputError for other content, or more pieces than the model has."""
    tokenizer = build(TokenizerConfig(file=str(path)), ())
    native.refuse_more_pieces(tokenizer, shape, str(path))
    return tokenizer


def cut(tokenizer: Tokenizer, facts: TaskFacts) -> Tokenizer:
    """The tokenizer with the run's truncation; windows of a context keep the whole question."""
    if facts.kind == TaskKind.tokens.name:
        by_words(tokenizer)
    strategy = "only_second" if facts.kind == TaskKind.spans.name else "longest_first"
    tokenizer.enable_truncation(facts.max_length, strategy=strategy)
    return tokenizer


def load_finetuned(folder: Path) -> tuple[Classifier, TaskFacts, Path]:
    """The classifier on CPU in evaluation mode, what it predicts, and its tokenizer.json.

    InputError naming a file that is missing, corrupt, or does not fit the others.
    """
    facts = read_task(folder)
    state, shape = native.read(folder)
    if facts.num_outputs * shape.hidden_size > native.MOST_MORE * sum(map(Tensor.numel, state.values())) + native.FEWEST:
        raise InputError(f"{folder / TASK}: num_outputs={facts.num_outputs:,} does not fit {native.WEIGHTS}")
    heads = {head.__name__: head for head in (SequenceClassifier, ChoiceClassifier, TokenClassifier, TextVectors)}
    if facts.head not in heads:
        raise InputError(f"{folder / TASK}: head={facts.head!r} is not one of {', '.join(heads)}")
    with native.naming(f"{folder / native.WEIGHTS} does not fit {TASK}"):
        model = heads[facts.head](shape, facts.num_outputs)
        native.load(model, state)
    tokenizer = folder / native.TOKENIZER
    if not tokenizer.is_file():
        raise InputError(f"{folder} lacks {native.TOKENIZER}: expected the tokenizer of the run")
    return model.eval(), facts, tokenizer
