"""The config of one run as typed plain data. Hydra composes YAML over it, so a wrong key or type is an error before any run.

Values are in `conf/`; defaults here are for keys that no file sets. Each docstring names the module that reads the keys.
"""

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import Field, dataclass, fields, is_dataclass
from pathlib import PurePath
from typing import Any, get_args, get_type_hints

import msgspec

from harness.config.choices import (
    Backend,
    CorpusSource,
    DataSource,
    Device,
    DeviceSharding,
    Dtype,
    Keep,
    KeepBest,
    MatchBy,
    MatchOn,
    Optimizer,
    Precision,
    Products,
    Provider,
    Rule,
    Sampler,
    Scenario,
    Schedule,
    Statistic,
    TaskKind,
    TokenizerKind,
    TrainedOn,
    Until,
)
from harness.config.conditions import (
    AMONG_NEGATIVES,
    AS_SERVER,
    AT_LENGTHS,
    BY_LATENCY,
    COMPUTED_BY_LIBRARY,
    DECAYING,
    DEFAULT_RATE,
    FINE_TUNING,
    FROM_FOLDER,
    FROM_WEIGHTS,
    GENERATED,
    HOLDING_OUT,
    IN_EPOCHS,
    IN_GRID,
    IN_STEPS,
    KEEPING_BEST,
    LEARNED_POSITIONS,
    MERGING,
    MULTILABEL,
    OF_COLUMN,
    OF_DATA_SET,
    OF_FILES,
    OF_LANGUAGES,
    OF_ROWS,
    ON_CPU,
    PAIRS,
    PRETRAINING,
    PUBLISHED_START,
    RAMPED,
    RANDOM_START,
    READING_DATA,
    READING_TEXT,
    RESIZED,
    RESOLVED,
    SAMPLED,
    SEARCHING,
    SERVED,
    SPANS,
    TAUGHT,
    TIMED,
    TOKENIZING,
    TRAINING_STEPS,
    UNDER_LOAD,
    WITH_BETAS,
    WITH_EPS,
    WITH_MOMENTUM,
    by_rule,
    with_option,
)
from harness.metrics import FEWEST_REPLICATES
from harness.models.config import BY_LAYER, AdaptationConfig, EncoderConfig, rows
from harness.models.objectives.config import PROBED, ObjectiveConfig, ObjectiveName
from harness.models.ranges import (
    ALWAYS,
    Refused,
    Role,
    When,
    added,
    any_seed,
    condition,
    count,
    naming,
    neutral,
    not_negative,
    option,
    place,
    positive,
    proper_share,
    share,
)

MISSING: Any = "???"
"""A value that a file has to give, as OmegaConf writes it, which commands that compose nothing do not import."""


@dataclass
class GrammarConfig:
    """A generated data set; read in `harness/tasks/synthetic/`."""

    rule: Rule = Rule.bag  # Rule that decides the label of a generated row.
    train_examples: int = option(1000, at_least=2)  # Number of generated training rows.
    validation_examples: int = option(500, at_least=2)  # Number of generated validation rows.
    distance: int = option(
        20, by_rule(Rule.distance), at_least=2
    )  # Tokens between the two words that the rule `distance` compares.
    symbols: int = option(
        4, by_rule(Rule.pairs, Rule.induction), at_least=2
    )  # Words that the rule `pairs` matches, or keys of the rule `induction`.
    pairs: int = option(
        4, by_rule(Rule.induction, Rule.brackets), at_least=2
    )  # Key-value pairs of the rule `induction`, or bracket pairs of the rule `brackets`.
    depth: int = count(3, by_rule(Rule.brackets))  # Nesting depth of the rule `brackets`.
    length: int = option(480, by_rule(Rule.needle), at_least=16)  # Words in a document of the rule `needle`.
    seed: int = any_seed(0)  # Seed of the generated rows.


@dataclass
class TaskConfig:
    """One data set with its labels and scores, or a named set of tasks; read in `harness/tasks/`."""

    name: str = MISSING  # Name of the task in run names and reports. Example: reviews.
    version: int = not_negative(1)  # Version of the task, raised when its rows or scores change.
    kind: TaskKind = TaskKind.classification  # Kind of prediction, which decides the head of the model.
    plugin: str | None = added(
        None
    )  # Name of a task class from another package; `kind` names the built-in kind it resembles. Example: my_task.
    members: list[str] = option(list)  # Names of the tasks in a set; each of them is run. Example: [sst2,mrpc].
    grammar: GrammarConfig | None = None  # Settings of a generated data set, which replaces any data that is read.
    hub: str = place("", OF_ROWS)  # Data set on the hub. Example: nyu-mll/glue.
    folder: str = place("", OF_ROWS)  # Folder of the data set below data.root. Example: glue/sst2.
    dataset: str = place(
        "", OF_ROWS, earlier=...
    )  # Data set in place of task.hub and task.folder: hub name or local folder. Example: owner/name@revision.
    subset: str = place("", OF_ROWS)  # Configuration of the data set; "*" concatenates all of them. Example: sst2.
    train_split: str = option("train", OF_ROWS)  # Split to train on, or part of one. Example: train[:80%].
    validation_split: str = option("validation", OF_ROWS)  # Split to evaluate on, or part of one. Example: train[80%:].
    more_validation: dict[str, str] = option(
        dict
    )  # Further splits to evaluate, as NAME: SPLIT or NAME: SUBSET:SPLIT. Example: {mm: validation_mismatched}.
    languages: dict[str, str] = option(
        dict
    )  # Splits whose text a multilingual tokenizer is also trained on. Example: {de: xquad.de:validation}.
    test_split: str = option(
        "", OF_ROWS
    )  # Split with hidden labels, predicted by finetune.submit; empty if there is none. Example: test.
    file: str | None = place(
        None, OF_ROWS, earlier=...
    )  # One file for both splits: 80 % of its rows train, 20 % evaluate. Example: reviews.csv.
    train_file: str | None = place(
        None, OF_ROWS
    )  # Path of the training file: CSV, TSV, JSON, JSON lines, Parquet or CoNLL. Example: train.csv.
    validation_file: str | None = place(None, OF_ROWS)  # Path of the evaluation file. Example: dev.csv.
    test_file: str | None = place(None, OF_ROWS)  # Path of the test file, whose labels are hidden. Example: test.csv.
    tune_share: float = not_negative(0.0, below=1)  # Share of the training rows held out as the split `tune`. Example: 0.1.
    tune_seed: int = any_seed(0, HOLDING_OUT)  # Seed that selects the held-out rows of task.tune_share.
    item: str = "idx"  # Column of row ids; rows are numbered if it is missing.
    submission: str = ""  # File name of the predictions, as the benchmark expects it. Example: CoLA.
    more_submission: dict[str, str] = option(
        dict
    )  # Further submission files, as FILE: SPLIT. Example: {MNLI-mm: test_mismatched}.
    source: str = ""  # Paper or page that defines the task. Example: arXiv:1804.07461.
    fields: list[str] = option(list)  # One or two text columns; a+b joins the text of both. Example: [premise,hypothesis].
    label: str = "label"  # Column of the label; in CoNLL files its number works too.
    label_separator: str | None = added(
        None, MULTILABEL
    )  # Separator of several labels in one cell; null tries `|`, `;` and `,`. Example: /.
    labels: list[str] = option(list)  # Class names in the order of their ids. Example: [negative,positive].
    scores: list[str] = option(list)  # Scores to compute; harness/tasks/scores.py lists them. Example: [accuracy,f1].
    headline: str = ""  # Main score of the task. Example: accuracy.
    max_length: int = count(128)  # Maximum tokens per input; longer texts are cut (kind `spans`: split into windows).
    stride: int = not_negative(128, SPANS)  # Tokens that neighbouring windows share (kind `spans`).
    max_answer_length: int = count(30, SPANS)  # Maximum tokens of a predicted answer (kind `spans`).
    answerable_only: bool = option(False, SPANS)  # Never predict "no answer" (kind `spans`).
    pairs: int | None = added(
        None, PAIRS, at_least=2
    )  # Pairs to generate per paradigm (kind `minimal_pairs`); null reads them. Example: 100.


@dataclass
class DataConfig:
    """Where data comes from; read in `harness/data/`."""

    source: DataSource = place(
        DataSource.hub, READING_DATA
    )  # Source of data sets: the hub, or a folder with the same layout (data.root).
    root: str | None = place(None, (FROM_FOLDER, READING_DATA))  # Folder of data sets for data.source=local. Example: ../data.
    train_examples: int | None = count(None)  # Maximum training rows, stratified by label; null keeps all. Example: 2000.
    validation_examples: int | None = count(None)  # Maximum evaluation rows, stratified by label; null keeps all. Example: 500.
    split_seed: int | None = any_seed(0)  # Seed that selects rows for subsets and splits; null keeps file order.


@dataclass
class CorpusConfig:
    """Running text; read in `harness/corpus/`."""

    name: str = MISSING  # Name of the corpus in run names and reports. Example: wikitext.
    version: int = not_negative(1)  # Version of the corpus, raised when its text changes.
    source: CorpusSource = CorpusSource.builtin  # Source of the text: generated, a data set, or your own files.
    hub: str = place("", OF_DATA_SET)  # Data set on the hub. Example: Salesforce/wikitext.
    folder: str = place("", OF_DATA_SET)  # Folder of the data set below data.root. Example: wikitext.
    subset: str = place("", OF_DATA_SET)  # Configuration of the data set. Example: wikitext-103-raw-v1.
    train_split: str = option("train", OF_DATA_SET)  # Split of the data set to train on.
    validation_split: str | None = option(
        "validation", OF_DATA_SET
    )  # Split of the data set for evaluation; null holds out corpus.validation_share.
    validation_share: float = proper_share(0.02)  # Share of the documents held out when there is no validation split or file.
    text: str = option("text", OF_COLUMN)  # Column that holds the text.
    document: str = option(
        "", OF_DATA_SET
    )  # Column that identifies the document of a row; empty makes each row a document. Example: title.
    heading: str = option("", OF_DATA_SET)  # Regular expression that matches the first row of a document. Example: "^ = [^=]".
    files: list[str] = place(
        [], OF_FILES
    )  # Text files with a blank line between documents, or tables with a row per document. Example: [a.txt,b.txt].
    validation_files: list[str] = place(
        [], OF_FILES
    )  # Files for evaluation; empty holds out corpus.validation_share. Example: [c.txt].
    train_documents: int | None = count(None)  # Number of documents to keep, from the start; null keeps all. Example: 1000.
    shuffled_words: bool = added(False)  # Shuffle the words within each training sentence (arXiv:2104.06644).
    documents: int = count(2000, GENERATED)  # Number of documents to generate (corpus.source=builtin).
    seed: int = any_seed(0, GENERATED)  # Seed of the generated text.


@dataclass
class TokenizerConfig:
    """Trained on text, or from a file; read in `harness/data/tokenizer.py`. Null: what the model or scale states."""

    kind: TokenizerKind | None = TokenizerKind.wordpiece  # Subword algorithm. Null: what the model or scale specifies.
    trained_on: TrainedOn = (
        TrainedOn.auto
    )  # Text to train the tokenizer on; auto: the corpus if the run pretrains, else the task.
    train_characters: int = count(100_000_000, TOKENIZING, limit=1e12)  # Maximum characters to train the tokenizer on.
    vocab_size: int | None = rows(
        8192, TOKENIZING
    )  # Maximum vocabulary size; letters and special tokens are always kept. Null: the model's own. Example: 8192.
    min_frequency: int = not_negative(2, (TOKENIZING, MERGING))  # Minimum frequency of a pair to be merged (not for unigram).
    lowercase: bool | None = True  # Lowercase the text. Null: what the model or scale specifies.
    multilingual: bool | None = option(
        False, (TOKENIZING, OF_LANGUAGES)
    )  # Also train the tokenizer on the text of task.languages, without labels.
    separators: int | None = count(1, limit=100)  # Number of [SEP] tokens between the two texts of a pair. Example: 1.
    sentinels: int | None = not_negative(
        None, earlier=0, limit=10_000
    )  # Number of sentinel tokens <extra_id_N> in the vocabulary. Null: 100 for span_corruption, else 0. Example: 100.
    vocab_file: str | None = place(None)  # WordPiece vocabulary with one piece per line, like BERT's. Example: vocab.txt.
    file: str | None = place(None)  # Tokenizer file, or folder of a published model. Example: tokenizer.json.


ON_FAILURE = ("continue", "stop")
"""Values of sweep.on_failure."""

REMOVED = {
    "measure.half_width": "measure.half_width was removed: leave it out; a session ends once every comparison is decided, or "
    "after measure.budget_minutes",
    "sweep.lease": "sweep.lease was removed: leave it out; machines that run one sweep share the folder `output`, or are given "
    "its runs by hydra/launcher=submitit_slurm or ray",
}
"""Key of an earlier version -> what is said where it is set."""


@dataclass
class SweepConfig:
    """What happens to a run that does not end well, and to those after it; read in `harness/study/`."""

    on_failure: str = "continue"  # Action after a failed run: continue with the next run, or stop. Example: stop.
    same_failures: int = not_negative(5)  # Consecutive identical failures that stop the sweep; 0 never stops.
    timeout_minutes: float | None = positive(None)  # Maximum duration of a run in minutes; null sets no limit. Example: 120.
    silent_minutes: float | None = positive(60.0)  # Maximum time without progress in minutes; null sets no limit.
    budget_minutes: float | None = positive(
        None
    )  # Maximum duration of all runs together, finished ones included; seeds that exceed it are dropped. Example: 60.
    until: Until = (
        Until.seeds
    )  # Stopping rule: `resolved` adds seeds, with interim analyses, until every comparison has a verdict.
    most_seeds: int = option(
        12, RESOLVED, at_least=FEWEST_REPLICATES, limit=1000
    )  # Maximum seeds per arm for sweep.until=resolved.
    headline: str | None = option(
        None, RESOLVED
    )  # Metric that decides sweep.until=resolved. Null: mean score, or pretraining loss. Example: eval/score.
    control: bool = (
        False  # Add a control arm: the first model with random weights, neither pretrained nor recovered by distillation.
    )
    timing: bool = True  # Time the finished runs; false leaves that to a later command.
    retime: bool = False  # Repeat the timing of finished runs, without training them again.
    retries: int = not_negative(0)  # Number of retries after a worker was killed from outside. Example: 2.
    quiet: bool = False  # Print only problems and result paths (-q); sweep.log keeps every line.


@dataclass
class MatchConfig:
    """A variant resized until it costs as much as the baseline of the command; read in `plugins/costs/match.py`."""

    cost: MatchOn = MatchOn.none  # Cost in which each variant is made equal to the baseline.
    to: str = "base"  # Baseline model of the command, at the same scale and without enhancements.
    by: MatchBy = MatchBy.hidden_size  # Dimension that is resized to match the cost.
    within: float = proper_share(0.01)  # Relative cost difference that needs no note in the report.
    tolerance: float = proper_share(0.05)  # Relative cost difference above which the command is refused.
    rounds: int = option(5, BY_LATENCY, at_least=3)  # Launches per candidate shape for match=latency.


@dataclass
class SearchConfig:
    """Each arm is tuned on rows of its training data that its trials are not trained on; read in `plugins/tuning/search.py`."""

    space: list[str] = option(
        list
    )  # Search space: KEY=interval(LOW,HIGH) or KEY=choice(A,B). Example: ["finetune.learning_rate=interval(1e-5,1e-4)"].
    trials: int = count(10, SAMPLED, limit=10000)  # Number of trials per arm and task.
    sampler: Sampler = Sampler.random  # Algorithm that selects the trials.
    part: float = share(1.0, IN_GRID)  # Share of the grid to run, sampled by search.seed.
    selected_on: KeepBest = KeepBest.tune  # Split that scores the trials; `validation` makes reported scores optimistic.
    tune_share: float = proper_share(
        0.1
    )  # Share of the training rows that scores the trials; task.tune_share takes precedence.
    seed: int = any_seed(1000)  # Seed of the sampler and of the trials.
    reduction: int | None = option(
        None, at_least=2, limit=100
    )  # Reduction factor of successive halving (arXiv:1810.05934); null trains all trials fully. Example: 3.


@dataclass
class ProtocolConfig:
    """How a paper makes a number of its runs on this task, by `conf/protocol/`; read in `harness/config/compose.py`."""

    seeds: list[int] = any_seed([])  # Seeds of the protocol, used when the command names none.
    statistic: Statistic = Statistic.mean  # Statistic of the scores over seeds that the paper reports.
    scores: list[str] = option(list)  # Scores, or SPLIT/SCORE, whose mean is the number of the task; empty: the headline.
    average: list[str] = option(list)  # Tasks, or TASK/SPLIT, whose mean is the number of the table.
    starts_from: str | None = None  # Task whose fine-tuned weights the paper starts from.


MOST_THREADS = 4096
MOST_DEVICES = 4096


@dataclass
class StatedTokenizer:
    """The tokenizer that a model or scale states, for null keys of `tokenizer`; read in `harness/config/resolve.py`."""

    kind: TokenizerKind | None = None  # Subword algorithm of the published tokenizer. Example: bpe.
    vocab_size: int | None = rows(None)  # Maximum vocabulary size. Example: 30522.
    lowercase: bool | None = None  # Lowercase the text.
    multilingual: bool | None = None  # Also train the tokenizer on the text of task.languages.
    separators: int | None = count(None, limit=100)  # Number of [SEP] tokens between the two texts of a pair. Example: 1.
    vocab_file: str | None = None  # Vocabulary that is used if no kind, size or other file is set. Example: vocab.txt.
    file: str | None = None  # Tokenizer file that is used if no kind, size or other file is set. Example: tokenizer.json.


@dataclass
class StatedRecipe:
    """What a scale states for `recipe=small` (docs/recipes.md): settings that hold for its depth and width."""

    learning_rate: float = positive(5e-4, limit=1000)  # Value of pretrain.learning_rate for `recipe=small`.
    initializer_range: float = positive(0.02, limit=100)  # Value of pretrain.initializer_range for `recipe=small`.


@dataclass
class ModelConfig(EncoderConfig):
    """A variant: its shape, the objective of its paper, and weights to start from; read in `harness/checkpoints/`."""

    # Pretraining and weights
    objective: ObjectiveName = neutral(ObjectiveName.mlm_nsp)  # Objective of the model's paper, used by `pretrain=own`.
    init_from: str | None = place(
        None
    )  # Pretrained weights: hub name or folder; other model keys change their shape. Example: bert-base-uncased.
    provider: Provider = added(
        Provider.auto
    )  # Implementation of published weights; auto: ours if it supports them, else transformers.
    remote_code: str | None = added(
        None, COMPUTED_BY_LIBRARY
    )  # Commit on the hub, or hash of a folder's .py files, of model code that may run. Example: 0123abcd.
    keep_layers: list[int] | None = added(
        None, FROM_WEIGHTS
    )  # Indices of the pretrained layers to keep, from 0. Null: evenly spaced. Example: [0,2,4].
    random_weights: bool = added(
        False
    )  # Keep shape and tokenizer of the pretrained model, but initialise its weights randomly.
    tokenizer: StatedTokenizer = neutral(StatedTokenizer)  # Tokenizer that `tokenizer=own` means.
    recipe: StatedRecipe = neutral(StatedRecipe)  # Settings of `recipe=small` that depend on the scale.
    finetune_rate: float | None = neutral(
        None, PUBLISHED_START, earlier=..., above=0, limit=1000
    )  # Learning rate for published weights if none is set. Null: 5e-5. Example: 2e-5.
    scratch_rate: float = neutral(3e-4, RANDOM_START, above=0, limit=1000)  # Learning rate for random weights if none is set.

    @property
    def has_published_weights(self) -> bool:
        """Whether the run starts from published values, not only from their shape."""
        return self.init_from is not None and not self.random_weights


@dataclass
class OptimiserConfig:
    """The optimizer and its schedule; read in `harness/training/optimiser.py` and `loop.py`."""

    batch_size: int = count(32)  # Examples per optimizer step.
    accumulation: int = count(1)  # Number of micro-batches per optimizer step (gradient accumulation).
    optimizer: Optimizer = added(Optimizer.adamw)  # Optimizer algorithm.
    learning_rate: float = positive(3e-4, limit=1000)  # Peak learning rate, reached after warm-up. Typical: 1e-4 to 1e-3.
    schedule: Schedule = added(Schedule.linear)  # Learning-rate schedule after warm-up.
    warmup_fraction: float = not_negative(0.1, at_most=1)  # Share of the steps used for linear warm-up.
    decay_fraction: float | None = share(
        None, DECAYING, earlier=...
    )  # Final share of the budget with a decaying rate. Null: all after warm-up; wsd: 0.2. Example: 0.5.
    weight_decay: float = not_negative(0.01, limit=1000)  # Weight decay of matrices; biases and norms have none.
    adam_betas: list[float] = not_negative(
        [0.9, 0.999], with_option("adam_betas", WITH_BETAS), count=2, below=1
    )  # Decay rates of Adam's first and second moments.
    adam_eps: float = positive(1e-8, with_option("adam_eps", WITH_EPS), limit=1)  # Epsilon of Adam, added to the denominator.
    momentum: float | None = not_negative(
        None, with_option("momentum", WITH_MOMENTUM, Refused.everywhere), earlier=..., below=1
    )  # Momentum of sgd, rmsprop and muon. Null: the default of torch (0, 0 and 0.95). Example: 0.9.
    max_grad_norm: float = positive(1.0)  # Maximum gradient norm; larger gradients are clipped. No clipping: 1e9.
    activation_checkpointing: bool = False  # Recompute activations in the backward pass to save memory (arXiv:1604.06174).
    ema_decay: float | None = proper_share(
        None, earlier=...
    )  # Decay of a moving average of the weights, used for evaluation. Null: no average. Example: 0.999.


@dataclass
class PretrainConfig(ObjectiveConfig, OptimiserConfig):
    """Objective, budget and optimizer of pretraining; read in `harness/training/pretrain.py`."""

    tokens: float | None = count(
        None, limit=1e15
    )  # Budget in tokens; set only one of tokens, steps, flops and seconds. Example: 20e6.
    steps: int | None = count(None)  # Budget in optimizer steps. Example: 10000.
    flops: float | None = count(None, limit=1e30)  # Budget in FLOPs of all forward and backward passes. Example: 1e15.
    seconds: float | None = positive(None)  # Budget in seconds of training. Example: 600.
    seed: int | None = any_seed(
        None, role=Role.seed
    )  # Seed of pretraining. Null: the seed of the run; a value shares one pretraining among seeds. Example: 0.
    length: int | None = option(None, at_least=8)  # Tokens per sequence. Null: 128, or the maximum of the model. Example: 512.
    batch_size: int = count(32)  # Sequences per optimizer step, after the batch-size ramp.
    warmup_steps: int = not_negative(
        0, IN_STEPS, limit=1e12
    )  # Minimum warm-up in steps, at most half of the budget; not with pretrain.seconds.
    decay_fraction: float | None = share(
        None, DECAYING, earlier=1.0
    )  # Final share of the budget with a decaying rate. Null: the last phase; wsd: 0.2. Example: 0.5.
    ramp_from: int | None = count(None)  # Sequences in the first step of a batch-size ramp; null uses no ramp. Example: 8.
    ramp_fraction: float = share(0.1, RAMPED)  # Share of the budget in which the batch size grows.
    weight_decay: float = not_negative(0.01, limit=1000)  # Weight decay of matrices; biases and norms have none.
    initializer_range: float | None = positive(
        None, limit=100
    )  # Standard deviation of the initial weights. Null: model.initializer_range. Example: 0.02.
    dropout: float | None = not_negative(
        None, below=1
    )  # Dropout of layers and attention while pretraining. Null: the model's own. Example: 0.1.
    mup_base_width: int | None = count(
        None, earlier=...
    )  # Hidden size at which rate and initialisation were tuned (µP, arXiv:2203.03466). Null: no scaling. Example: 128.
    neighbour_heads: bool = option(
        False, LEARNED_POSITIONS
    )  # Initialise heads of the first layer to attend to neighbours (learned positions only).
    evaluations: int = count(5)  # Number of evaluations on held-out text, the last one at the end.
    eval_sequences: int = count(256)  # Held-out sequences per evaluation.
    probe_steps: int = count(
        200, PROBED
    )  # Training steps of a masked-LM head on the frozen encoder, for objectives without one.
    checkpoint_every_s: float = neutral(60.0, at_least=0)  # Seconds between two checkpoints for resuming.
    keep: list[float] = neutral(
        [], above=0, limit=1e15
    )  # Token counts after which weights are kept, for pretrain.at. Example: [1e6,5e6].
    at: float | None = positive(
        None, ALWAYS, limit=1e15
    )  # Token count of the kept weights that fine-tuning starts from. Null: the final ones. Example: 5e6.
    checkpoint: str | None = place(
        None, ALWAYS
    )  # Run to start from, by id or folder; pretrain.from is the same key. Example: multirun/my_study/RUN.


@dataclass
class FinetuneConfig(AdaptationConfig, OptimiserConfig):
    """Trained parameters, budget and optimizer of fine-tuning; read in `harness/training/finetune.py` and `loop.py`."""

    enabled: bool = option(True, ALWAYS)  # Fine-tune the model; false only measures it.
    learning_rate: float | None = positive(  # type: ignore[assignment]
        DEFAULT_RATE, limit=1000
    )  # Peak learning rate, reached after warm-up. Typical: 1e-5 to 1e-3. Null: model.finetune_rate or model.scratch_rate.
    epochs: float = positive(2.0, IN_EPOCHS)  # Passes over the training rows; fractions are possible.
    max_steps: int | None = count(None)  # Maximum optimizer steps, which may end training before the last epoch. Example: 1000.
    seconds: float | None = positive(None, earlier=...)  # Budget in seconds of training, in place of epochs. Example: 60.
    eval_batch_size: int = count(64)  # Examples per evaluation batch.
    layer_decay: float = share(
        1.0, BY_LAYER, earlier=...
    )  # Layer-wise learning-rate decay, from the top layer down to the embeddings (arXiv:2003.10555).
    keep_best: KeepBest = KeepBest.none  # Split that selects the best epoch; none evaluates the last one.
    evaluations_per_epoch: int = count(
        1, KEEPING_BEST, earlier=...
    )  # Evaluations per epoch for finetune.keep_best, evenly spaced.
    early_stopping: int | None = count(
        None, KEEPING_BEST, earlier=...
    )  # Patience: evaluations without improvement that end training (keep_best=tune). Example: 3.
    class_weights: Any = added(None)  # Class weights of the loss: balanced, or {LABEL: WEIGHT}. Example: balanced.
    teacher: str | None = place(
        None
    )  # Fine-tuned run of the same task, to distil from, by id or folder. Example: multirun/my_study/RUN.
    soft_weight: float = not_negative(
        1.0, TAUGHT, earlier=...
    )  # Weight of the teacher's predictions in the loss; the labels have weight 1.
    temperature: float = positive(2.0, TAUGHT, earlier=...)  # Temperature of the logits of teacher and student.
    hidden_weight: float = not_negative(
        0.0, TAUGHT, earlier=...
    )  # Weight of the squared error of the hidden states in the loss. Example: 1.
    in_batch_negatives: bool = added(False)  # Train retrieval with the other paragraphs of the batch as negatives.
    cosine_temperature: float = positive(
        0.05, AMONG_NEGATIVES, earlier=..., limit=1000
    )  # Temperature of the cosine similarities of in-batch negatives.
    keep: Keep = neutral(Keep.auto)  # Weights kept in the run folder, for predict and export.
    submit: bool = option(False, role=Role.derived)  # Write predictions of the test split in the benchmark's format.

    def steps_per_epoch(self, examples: int) -> int:
        """Optimizer steps of one epoch."""
        return math.ceil(examples / self.batch_size)

    def planned_steps(self, examples: int) -> int:
        """Optimizer steps of the epochs, at least one; unknown for a budget in seconds."""
        steps = max(1, round(self.epochs * self.steps_per_epoch(examples)))
        return steps if self.max_steps is None else min(steps, self.max_steps)


@dataclass
class MeasureConfig:
    """What is measured besides training, and how often; read in `harness/measure/`."""

    enabled: bool = True  # Measure size, speed and memory; false only trains.
    length: int | None = count(
        None
    )  # Tokens of the measured text, for latency and FLOPs. Null: 128, or the model's maximum. Example: 256.
    rounds: int = count(9, TIMED)  # Maximum launches of a variant, each in a new process.
    min_rounds: int = count(4, TIMED)  # Minimum launches before a session may end with every comparison decided.
    budget_minutes: float | None = positive(
        None, TIMED
    )  # Time after which a session starts no new round; null sets no limit. Example: 10.
    repeats: int = count(20, TIMED)  # Timed calls per launch, after warm-up.
    throughput_texts: int | None = count(
        8, TIMED
    )  # Random texts per throughput batch; null times the validation batches of each task.
    batch_size: int = count(32, TIMED)  # Texts per validation batch, for memory and throughput.
    throughput_batches: int = count(4, TIMED)  # Validation batches per throughput measurement.
    train_steps: int = not_negative(3, TIMED)  # Timed training steps per launch; 0 skips them.
    train_batch_size: int = count(2, (TIMED, TRAINING_STEPS))  # Texts per timed training step, each of measure.length tokens.
    threads: int = count(1, TIMED, limit=MOST_THREADS)  # CPU threads for latency, throughput and timed training steps.
    lengths: list[int] = count(
        [], TIMED, different=True
    )  # Further text lengths to time, in tokens; those above the model's maximum are skipped. Example: [64,256].
    batch_sizes: list[int] = count(
        [], TIMED, different=True
    )  # Further batch sizes to time, at measure.length. Example: [1,8,32].
    seconds_per_length: float = not_negative(
        1.0, (TIMED, AT_LENGTHS)
    )  # Seconds per launch for each further length or batch size.
    foreign_cpus: float = not_negative(0.5, TIMED)  # CPUs that other processes may use before a launch is repeated.
    retries: int = not_negative(1, TIMED)  # Maximum repeats of a disturbed launch.
    backend: Backend = added(
        Backend.torch, SERVED
    )  # Runtime for measurement and evaluation; onnxruntime needs the extra [serve].
    precision: Precision = added(
        Precision.fp32, SERVED
    )  # Precision of the served weights; int8_weights needs the extra [serve].
    load: list[Scenario] = added(
        [], TIMED
    )  # Load scenarios to time: single_stream, server or offline. Example: [offline,server].
    load_share: float = proper_share(
        0.5, AS_SERVER, earlier=...
    )  # Arrival rate of the server scenario, as a share of the offline throughput.
    load_texts: int = added(200, UNDER_LOAD, at_least=10)  # Validation texts per scenario and launch.

    @property
    def is_served(self) -> bool:
        """Whether what is measured and evaluated is another model than the one that trains: `harness/measure/serving.py`."""
        return (self.backend, self.precision) != (Backend.torch, Precision.fp32)


@dataclass
class HardwareConfig:
    """Device, arithmetic and threads; read in `harness/hardware/`."""

    device: Device = Device.cpu  # Device that runs the model; cuda is the first GPU.
    dtype: Dtype = Dtype.fp32  # Arithmetic: bf16 is autocast over float32 weights, auto the faster one on this machine.
    devices: int = count(1, limit=MOST_DEVICES)  # Number of devices that train one run together, one process each.
    sharding: DeviceSharding = (
        DeviceSharding.none
    )  # What devices divide among them; `full` is for models that exceed one device.
    threads: int | None = count(
        None, limit=MOST_THREADS
    )  # CPU threads per training process. Null: all cores, divided by devices and workers. Example: 4.
    workers: int | None = count(
        None, limit=MOST_THREADS
    )  # Number of runs that train in parallel. Null: one per core for small models, else 1. Example: 2.
    products: Products = option(Products.auto, ON_CPU)  # Library for float32 matrix products of linear layers on a CPU.
    compile: bool = False  # Run the model under torch.compile.


@dataclass
class TrackingConfig:
    """Where results are browsed; read in `harness/tracking/`."""

    mlflow: bool = False  # Log runs to MLflow, at tracking.uri.
    tensorboard: bool = False  # Log runs to `output`/tensorboard; needs the extra [tensorboard].
    wandb: bool = False  # Log runs to Weights & Biases, in `output`/wandb; needs the extra [wandb].
    plugins: list[str] = option(list)  # Names of trackers from other packages. Example: [my_tracker].
    uri: str | None = None  # Address of the MLflow store. Null: SQLite in `output`. Example: http://127.0.0.1:5000.
    system_metrics: bool = False  # Log CPU, memory, disk, network and GPU use to MLflow (every 10 s) or Weights & Biases.


@dataclass
class RunConfig:
    """One run: one arm on one task with one seed."""

    study: str = naming("default")  # Name of the study: its folder in `output` and its MLflow experiment.
    hypothesis: str = naming(
        ""
    )  # Expected result, recorded before the first run; the report says whether it held. Example: albert score > -2 (points).
    arm: str = naming("")  # Label of the arm. Empty: derived from model, enhancements and objective. Example: wide.
    settings: dict[str, str] = naming(dict)  # key: value, where the arm differs from its choices
    swept: list[str] = naming([])  # keys and groups that the command sweeps
    matched: dict[str, float] = naming(dict)  # what `match` found: cost of the baseline, as published, as resized
    tuned: dict[str, str] = naming(dict)  # what `search` found: chosen settings, scores of its trials
    overrides: list[str] = naming([])  # what the command line says of the run, without seeds
    model_keys: list[str] = naming([])  # keys of the model that the command sets, without `model.`
    said_keys: dict[str, list[str]] = naming(
        dict
    )  # group=choice: keys of the model that its file sets; experiment/NAME: all that this file sets
    model_name: str = option("", role=Role.arm)
    scale_name: str = option("", role=Role.arm)
    enhancements: dict[str, bool] = option(dict, role=Role.arm)
    protocol_name: str = added("", role=Role.arm)
    protocol: ProtocolConfig = naming(ProtocolConfig)  # how a paper makes its numbers: +protocol=NAME
    seed: int = any_seed(0, role=Role.seed)  # Seed of initialisation, dropout and example order.
    output: str = naming("multirun")  # Folder of all results.
    rerun: bool = naming(False)  # Repeat runs that have finished.
    report: bool = naming(True)  # Write the report after a sweep.
    model: ModelConfig = option(ModelConfig, role=Role.arm)
    published: ModelConfig = naming(ModelConfig)  # the same variant at BERT-base dimensions
    task: TaskConfig = condition(TaskConfig)
    data: DataConfig = condition(DataConfig)
    corpus: CorpusConfig = condition(CorpusConfig, READING_TEXT)
    tokenizer: TokenizerConfig = condition(TokenizerConfig)
    pretrain: PretrainConfig = condition(PretrainConfig, PRETRAINING)
    finetune: FinetuneConfig = condition(FinetuneConfig, FINE_TUNING)
    measure: MeasureConfig = condition(MeasureConfig)
    match: MatchConfig = naming(MatchConfig, RESIZED)
    search: SearchConfig = naming(SearchConfig, SEARCHING)
    hardware: HardwareConfig = condition(HardwareConfig)
    tracking: TrackingConfig = naming(TrackingConfig)
    sweep: SweepConfig = naming(SweepConfig)

    @property
    def label(self) -> str:
        """The label of the arm: `base`, `albert dtype=bf16`."""
        return " ".join([self.arm, *setting_texts(self.settings, self.settings)])

    @property
    def pretrains(self) -> bool:
        """Whether the run itself has a pretraining objective."""
        return self.pretrain.objective is not ObjectiveName.none

    def settings_without(self, *beginnings: str) -> dict[str, str]:
        """The settings whose keys have none of these prefixes."""
        return {key: value for key, value in self.settings.items() if not key.startswith(beginnings)}


def to_dict(config: Any) -> Any:
    """Nested plain values, enums by name, which is their value: what is written, hashed and logged."""
    return msgspec.to_builtins(config)


def flatten(nested: Any, prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


@dataclass(frozen=True)
class Stated:
    """The schema's declaration of a key, including that of its section."""

    role: Role
    is_own: bool  # the role is not that of the section
    read: tuple[When, ...]  # all of these must hold
    section: Any  # the class of the keys in it; None for a single value
    field: "Field[Any]"
    owner: type  # the class of the section that has it
    hint: Any  # its type


@functools.cache
def stated_keys() -> dict[str, Stated]:
    """Every key of a run, each section before what is in it; `published` alone stands for all of its own."""
    return dict(_stated(RunConfig, "", None, ()))


def _stated(kind: type, prefix: str, role: Role | None, read: tuple[When, ...]) -> Iterator[tuple[str, Stated]]:
    hints = get_type_hints(kind)
    for one in fields(kind):
        own, conditions = one.metadata.get("role"), one.metadata.get("read")
        its_role = own or role
        if its_role is None:
            raise TypeError(f"{prefix}{one.name} states no role")
        its_read = read if conditions is None else conditions if conditions == ALWAYS else (*read, *conditions)
        section = next((part for part in (hints[one.name], *get_args(hints[one.name])) if is_dataclass(part)), None)
        yield prefix + one.name, Stated(its_role, own is not None, its_read, section, one, kind, hints[one.name])
        if isinstance(section, type) and one.name != "published":
            yield from _stated(section, f"{prefix}{one.name}.", its_role, its_read)


def keys_of(*roles: Role) -> tuple[str, ...]:
    """Keys, and groups that end in a dot, whose role is one of these; keys of a named section are left out."""
    keys = [key for key, stated in stated_keys().items() if stated.is_own and stated.role in roles]
    return tuple(name for key in keys for name in (key, f"{key}."))


def default_of(one: "Field[Any]") -> Any:
    """The default of a key as a plain value."""
    return to_dict(one.default if one.default_factory is NO_DEFAULT else one.default_factory())


SEEDS = tuple(key for key in keys_of(Role.seed) if not key.endswith("."))
"""Keys of the two levels of replicates: fine-tunings, and pretrainings that they start from (arXiv:2106.16163)."""

NAMES = (*keys_of(Role.name), "environment.")
"""Keys, or groups that end in a dot, that name runs or say where results go."""

PATH_KEYS = keys_of(Role.place)
"""Keys that say where content comes from. The content itself is a fact, under `facts.`: rows, text, weights, tokenizer."""

NEUTRAL_KEYS = keys_of(Role.neutral)
"""Other keys, or groups that end in a dot, without effect on results: what a model states is resolved into other keys."""

DERIVED_KEYS = keys_of(Role.derived)
"""Keys that follow from the tokenizer, or that only add files: two runs that differ in them alone may be compared."""

OF_ARM = (
    *(*keys_of(Role.arm), "facts.weights", "facts.teacher", "facts.recipe"),
    *(f"pretrain.{one.name}" for one in fields(ObjectiveConfig)),
)
"""Keys, or groups that end in a dot, that belong to the arm whether they are swept or not."""

ADDED = {
    key: default_of(stated.field) if earlier is ... else earlier
    for key, stated in stated_keys().items()
    if (earlier := stated.field.metadata.get("earlier", "")) != ""
}
"""Keys that finished runs may lack -> the value that such a run has: no hash holds it, so that the run is the same."""

HASH_DIGITS = 8
"""Digits of a hash in tables and labels."""


def within(key: str, keys: Iterable[str]) -> bool:
    """Whether the key is one of these, or in a group of them that ends in a dot."""
    return any(key == one or (one.endswith(".") and key.startswith(one)) for one in keys)


def key_of(override: str) -> str:
    """The key that an override sets, without the `+` of Hydra."""
    return override.lstrip("+").partition("=")[0]


def without(overrides: Iterable[str], keys: Iterable[str]) -> list[str]:
    """The overrides without those of these keys, and of groups that end in a dot."""
    return [override for override in overrides if not within(key_of(override), keys)]


@functools.lru_cache(maxsize=256)
def members(keys: tuple[str, ...], groups: tuple[str, ...]) -> frozenset[str]:
    """The keys within these groups; a study's runs all have the same keys, so that few are computed."""
    return frozenset(key for key in keys if within(key, groups))


def setting_texts(settings: Mapping[str, str], keys: Iterable[str]) -> list[str]:
    """`dtype=bf16` for each key, by its short name unless two of the keys share that; `-` where the key is missing.

    Of a hash the first eight digits are shown, of a path the last part, of a large whole number no decimals: `at=500000`.
    """
    named = list(keys)
    short = [short_name(key) for key in named]
    names = [name if short.count(name) == 1 else key for key, name in zip(named, short, strict=True)]
    return [f"{name}={_value_text(key, settings.get(key, '-'))}" for key, name in zip(named, names, strict=True)]


def _value_text(key: str, value: str) -> str:
    if key.startswith("facts.") and re.fullmatch("[0-9a-f]{16,}", value):
        return value[:HASH_DIGITS]
    if key in PATH_KEYS:
        return PurePath(value).name or value
    return value.removesuffix(".0") if re.fullmatch(r"-?\d{4,}\.0", value) else value


def short_name(key: str) -> str:
    """`dtype` of `hardware.dtype`, `scale` of `scale_name`."""
    return key.rpartition(".")[2].removesuffix("_name")
