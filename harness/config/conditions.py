"""When a run reads a key: conditions that the fields of the schema name, and what a run does, by its config."""

from typing import TYPE_CHECKING

from harness.config.choices import (
    UNTRAINED,
    CorpusSource,
    DataSource,
    Device,
    KeepBest,
    MatchOn,
    Optimizer,
    Provider,
    Rule,
    Sampler,
    Scenario,
    Schedule,
    TaskKind,
    TokenizerKind,
    TrainedOn,
    Until,
)
from harness.models.config import Position, Trains
from harness.models.ranges import Refused, When

if TYPE_CHECKING:
    from harness.config.schema import RunConfig, TaskConfig

NO_TASK = "none"
"""Name of the task of a pretraining."""

DEFAULT_RATE = 3e-4
"""Rate of a fine-tuning of what a pretraining of one's own has left, or of a part of a model."""

PUBLISHED_RATE = 5e-5
"""The largest of BERT's rates of fine-tuning (arXiv:1810.04805, appendix A.3); at 3e-4 published weights may be undone."""


def is_pretrained(config: "RunConfig") -> bool:
    """Whether the run has a pretraining: its own, or that of pretrain.checkpoint."""
    return config.pretrains or config.pretrain.checkpoint is not None


def is_only_scored(config: "RunConfig") -> bool:
    """Whether the task scores the model without training it; a task of kind retrieval may train it."""
    trains = config.task.kind is TaskKind.retrieval and config.finetune.enabled and config.finetune.in_batch_negatives
    return config.task.kind in UNTRAINED and not trains


def ranks_a_corpus(task: "TaskConfig") -> bool:
    """Whether its data set has queries, a corpus and judgements, by the one column of their texts."""
    return task.kind is TaskKind.retrieval and bool(task.dataset) and len(task.fields) == 1


def depends_on_seed(config: "RunConfig") -> bool:
    """Whether another seed gives another score or loss: something is trained, or random weights are scored."""
    if config.pretrains or not is_only_scored(config):
        return config.pretrains or config.finetune.enabled
    return config.model.random_weights or not starts_from_weights(config)


def has_task(config: "RunConfig") -> bool:
    """Whether the run has a task; if not, it is a pretraining only."""
    return config.task.name != NO_TASK


def starts_from_weights(config: "RunConfig") -> bool:
    """Whether the run starts from weights that exist: published ones, or those of another run."""
    return bool(config.model.init_from or config.pretrain.checkpoint)


def rate_of_start(config: "RunConfig") -> float:
    """Rate of a fine-tuning that states none: the scale's for random weights; their own for published ones that are trained
    whole.
    """
    if config.model.init_from is None and not is_pretrained(config):
        return config.model.scratch_rate
    if not config.model.has_published_weights or config.finetune.trains is not Trains.all:
        return DEFAULT_RATE
    return config.model.finetune_rate or PUBLISHED_RATE


def _has_own_rate(config: "RunConfig", rate: float | None) -> bool:
    """Whether the run fine-tunes at this rate because nothing states another one."""
    return config.finetune.enabled and config.finetune.learning_rate == rate_of_start(config) == rate


def _is_measured(config: "RunConfig") -> bool:
    return has_task(config) and config.task.kind not in UNTRAINED


WITH_BETAS = (Optimizer.adamw, Optimizer.adam, Optimizer.nadam, Optimizer.radam, Optimizer.adamax, Optimizer.muon)
WITH_EPS = (*WITH_BETAS, Optimizer.adagrad, Optimizer.adadelta, Optimizer.rmsprop)
WITH_MOMENTUM = (Optimizer.sgd, Optimizer.rmsprop, Optimizer.muon)


def by_rule(*rules: Rule) -> When:
    """The rows of the task, if they are generated, follow one of these rules."""
    names = [rule.value for rule in rules]
    return When(lambda _, own: own.rule in rules, f"generates rows by the rule {' or '.join(names)}", f"task={names[0]}")


def with_option(option: str, optimizers: tuple[Optimizer, ...], refused: Refused = Refused.typed) -> When:
    """The optimizer is one of these."""
    choice = f"{{section}}.optimizer={optimizers[0].value}"
    return When(lambda _, own: own.optimizer in optimizers, f"has an optimizer with {option}", choice, refused)


# Sections
PRETRAINING = When(lambda run, _: run.pretrains, "pretrains", "pretrain=mlm")
FINE_TUNING = When(
    lambda run, _: has_task(run) and run.finetune.enabled and not is_only_scored(run),
    "fine-tunes",
    "finetune=standard, and a task that trains",
)
READING_TEXT = When(
    lambda run, _: is_pretrained(run) or run.tokenizer.trained_on is TrainedOn.corpus, "pretrains", "pretrain=mlm"
)
RESIZED = When(lambda run, _: run.match.cost is not MatchOn.none, "is resized", "match=params")
IN_GRID = When(lambda _, own: own.sampler is Sampler.grid, "searches a grid", "search=grid")
SAMPLED = When(lambda _, own: own.sampler is not Sampler.grid, "samples its trials", "search.sampler=random")
SEARCHING = When(lambda run, _: run.search.space, "searches for settings", "search=rate")
# Pretraining
RAMPED = When(lambda _, own: own.ramp_from is not None, "has a ramp", "pretrain.ramp_from=1")
IN_STEPS = When(lambda _, own: own.seconds is None, "has a budget in steps", "pretrain.seconds=null")
LEARNED_POSITIONS = When(
    lambda run, _: run.model.position is Position.learned, "has learned positions", "model.position=learned"
)
# Fine-tuning
IN_EPOCHS = When(lambda _, own: own.seconds is None, "trains by epochs", "finetune.seconds=null")
PUBLISHED_START = When(
    lambda run, own: _has_own_rate(run, own.finetune_rate),
    "fine-tunes published weights at the default rate",
    "model.init_from=NAME, without finetune.learning_rate",
)
RANDOM_START = When(
    lambda run, own: _has_own_rate(run, own.scratch_rate),
    "fine-tunes random weights at the default rate",
    "pretrain=none, without model.init_from and finetune.learning_rate",
)
KEEPING_BEST = When(
    lambda _, own: own.keep_best is KeepBest.tune,
    "selects weights on held-out rows of train",
    "finetune.keep_best=tune task.tune_share=0.1",
    Refused.everywhere,
)
TAUGHT = When(lambda _, own: own.teacher is not None, "has a teacher", "finetune.teacher=FINE-TUNING", Refused.everywhere)
AMONG_NEGATIVES = When(
    lambda _, own: own.in_batch_negatives,
    "trains with in-batch negatives",
    "finetune.in_batch_negatives=true",
    Refused.everywhere,
)
DECAYING = When(
    lambda _, own: own.schedule is not Schedule.constant or own.decay_fraction in (None, 1.0),
    "has a decaying learning rate",
    "{section}.schedule=linear",
    Refused.everywhere,
)
# Task and data
FROM_FOLDER = When(
    lambda _, own: own.source is DataSource.local, "reads a folder of data sets", "data=local", Refused.everywhere
)
READING_DATA = When(
    lambda run, _: (
        run.pretrain.checkpoint  # whose text may be of a data set
        or (run.corpus.source is CorpusSource.data and READING_TEXT.holds(run, None))
        or (has_task(run) and not (run.task.grammar or run.task.pairs or run.task.file or run.task.train_file))
    ),
    "reads a data set",
    "a task on a data set, such as task=sst2",
)
OF_ROWS = When(
    lambda _, own: not (own.grammar or own.pairs), "reads the rows of its task", "a task=NAME whose rows are not generated"
)
SPANS = When(lambda _, own: own.kind is TaskKind.spans, "answers questions with spans", "task=squad")
PAIRS = When(lambda _, own: own.kind is TaskKind.minimal_pairs, "scores pairs of sentences", "task=minimal_pairs")
MULTILABEL = When(lambda _, own: own.kind is TaskKind.multilabel, "has several labels per text", "task.kind=multilabel")
HOLDING_OUT = When(lambda run, own: own.tune_share or run.search.space, "holds out rows of train", "task.tune_share=0.1")
# Text and tokenizer
GENERATED = When(lambda _, own: own.source is CorpusSource.builtin, "generates its text", "corpus=builtin")
OF_FILES = When(lambda _, own: own.source is CorpusSource.files, "reads text files", "corpus=files")
OF_COLUMN = When(
    lambda _, own: own.source is not CorpusSource.builtin, "reads a column of texts", "corpus=files or corpus=wikitext"
)
OF_DATA_SET = When(lambda _, own: own.source is CorpusSource.data, "reads the text of a data set", "corpus=wikitext")
TOKENIZING = When(lambda _, own: not (own.file or own.vocab_file), "trains its tokenizer", "tokenizer=wordpiece")
MERGING = When(lambda _, own: own.kind is not TokenizerKind.unigram, "merges pieces by frequency", "tokenizer.kind=wordpiece")
OF_LANGUAGES = When(lambda run, _: run.task.languages, "has a task with languages", "task=xquad", Refused.swept)
# Measuring, hardware, and the command
TIMED = When(lambda run, own: own.enabled and _is_measured(run), "is timed", "measure=quick", Refused.swept)
SERVED = When(lambda run, _: _is_measured(run), "is measured as it is served", "a task that is trained")
UNDER_LOAD = When(lambda _, own: own.load, "is timed under load", "measure.load=[offline]")
AS_SERVER = When(lambda _, own: Scenario.server in own.load, "is timed under the load of a server", "measure.load=[server]")
TRAINING_STEPS = When(lambda _, own: own.train_steps, "times training steps", "measure.train_steps=3")
AT_LENGTHS = When(lambda _, own: own.lengths or own.batch_sizes, "is timed at further lengths or batch sizes", "measure=full")
ON_CPU = When(lambda _, own: own.device is Device.cpu, "trains on a CPU", "hardware=cpu")
BY_LATENCY = When(lambda _, own: own.cost is MatchOn.latency, "is resized by latency", "match=latency")
RESOLVED = When(
    lambda _, own: own.until is Until.resolved,
    "adds seeds until there is a verdict",
    "sweep.until=resolved",
    Refused.everywhere,
)
COMPUTED_BY_LIBRARY = When(
    lambda run, own: starts_from_weights(run) and own.provider is not Provider.native,
    "starts from weights that transformers runs",
    "model.init_from=NAME without model.provider=native",
    Refused.everywhere,
)
FROM_WEIGHTS = When(
    lambda run, _: starts_from_weights(run), "starts from weights", "model.init_from or pretrain.from", Refused.everywhere
)
