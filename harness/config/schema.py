"""The config of one run as typed plain data. Hydra composes YAML over it, so a wrong key or type is an error before any run.

Values are in `conf/`; defaults here are for keys that no file sets. Each docstring names the module that reads the keys.
"""

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import Field, dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, get_args, get_type_hints

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
from harness.models.config import BY_LAYER, LARGEST_TABLE, AdaptationConfig, EncoderConfig
from harness.models.objectives.config import PROBED, ObjectiveConfig, ObjectiveName
from harness.models.ranges import ALWAYS, LARGEST_SEED, Refused, Role, When, option

MISSING: Any = "???"
"""A value that a file has to give, as OmegaConf writes it, which commands that compose nothing do not import."""


@dataclass
class GrammarConfig:
    """A generated data set; read in `harness/tasks/synthetic/`."""

    rule: Rule = Rule.bag  # what decides the label
    train_examples: int = option(1000, at_least=2)  # rows to train on
    validation_examples: int = option(500, at_least=2)  # rows to score
    distance: int = option(20, by_rule(Rule.distance), at_least=2)  # tokens between the two words of the rule `distance`
    symbols: int = option(
        4, by_rule(Rule.pairs, Rule.induction), at_least=2
    )  # words that `pairs` matches, or that are keys in `induction`
    pairs: int = option(
        4, by_rule(Rule.induction, Rule.brackets), at_least=2
    )  # of key and value in `induction`, of opening and closing bracket in `brackets`
    depth: int = option(3, by_rule(Rule.brackets), at_least=1)  # of nesting in `brackets`
    length: int = option(480, by_rule(Rule.needle), at_least=16)  # words of a document of `needle`
    seed: int = option(0, at_least=0, limit=LARGEST_SEED)  # of the rows


@dataclass
class TaskConfig:
    """One data set with its labels and scores, or a named set of tasks; read in `harness/tasks/`."""

    name: str = MISSING  # in the names of runs and in reports
    version: int = option(1, at_least=0)  # raised where the rows or scores of this name change
    kind: TaskKind = TaskKind.classification  # what is predicted for a text, and so which head the model has
    plugin: str | None = option(
        None, earlier=...
    )  # a kind of task of another package, by its name; `kind` is the one that it is like
    members: list[str] = field(default_factory=list)  # names of tasks: this entry is a set, which runs each of them
    grammar: GrammarConfig | None = None  # the rows are generated, whatever `data` says
    hub: str = option("", OF_ROWS, role=Role.place)  # data set on the hub
    folder: str = option("", OF_ROWS, role=Role.place)  # the same data set's folder below data.root
    dataset: str = option(
        "", OF_ROWS, role=Role.place, earlier=...
    )  # in place of hub and folder: OWNER/NAME or OWNER/NAME@REVISION of the hub, or a folder, also one of save_to_disk
    subset: str = option("", OF_ROWS, role=Role.place)  # configuration of the data set; "*": all of them, one after the other
    train_split: str = option("train", OF_ROWS)  # a split or a part of one: train[:80%]
    validation_split: str = option("validation", OF_ROWS)  # a split or, in the notation of `datasets`, a part: train[80%:]
    more_validation: dict[str, str] = field(default_factory=dict)  # name: further split to evaluate, or SUBSET:SPLIT
    languages: dict[str, str] = field(default_factory=dict)  # name: SUBSET:SPLIT whose text a multilingual tokenizer reads too
    test_split: str = option("", OF_ROWS)  # rows with hidden labels, for finetune.submit; empty: there are none
    train_file: str | None = option(
        None, OF_ROWS, role=Role.place
    )  # .csv, .tsv, .jsonl, .json, .parquet or CoNLL, in place of hub and folder
    validation_file: str | None = option(None, OF_ROWS, role=Role.place)  # likewise, the rows that are scored
    test_file: str | None = option(None, OF_ROWS, role=Role.place)  # likewise, rows with hidden labels
    tune_share: float = option(0.0, at_least=0, below=1)  # of train, kept apart from it as the split `tune`
    tune_seed: int = option(0, HOLDING_OUT, at_least=0, limit=LARGEST_SEED)  # of the choice of these rows
    item: str = "idx"  # column of row ids; without it rows are numbered
    submission: str = ""  # name of the benchmark's file of predictions, as GLUE's CoLA
    more_submission: dict[str, str] = field(default_factory=dict)  # file: further split with its own file
    source: str = ""  # paper or page that defines the task
    fields: list[str] = field(default_factory=list)  # one or two text columns; a+b: the text of both
    label: str = "label"  # column of the label; of CoNLL its number will do
    label_separator: str | None = option(
        None, MULTILABEL, earlier=...
    )  # between several labels in a text; None: |, or the one of ; , that leaves labels of task.labels alone
    labels: list[str] = field(default_factory=list)  # class names in the order of their numbers
    scores: list[str] = field(default_factory=list)  # functions of harness/tasks/scores.py
    headline: str = ""  # the main score of the task
    max_length: int = option(128, at_least=1)  # tokens; longer texts are cut, of kind `spans` into windows
    stride: int = option(128, SPANS, at_least=0)  # tokens that neighbouring windows have in common
    max_answer_length: int = option(30, SPANS, at_least=1)  # longest predicted answer in tokens
    answerable_only: bool = option(False, SPANS)  # "no answer" is never predicted
    pairs: int | None = option(
        None, PAIRS, earlier=..., at_least=2
    )  # of kind minimal_pairs: generated ones of each paradigm; None: they are read


@dataclass
class DataConfig:
    """Where data comes from; read in `harness/data/`."""

    source: DataSource = option(DataSource.hub, role=Role.place)  # the hub, or a folder with its layout (data.root)
    root: str | None = option(None, FROM_FOLDER, role=Role.place)  # folder of source=local
    train_examples: int | None = option(None, at_least=1)  # so many, stratified by label; None: all of them
    validation_examples: int | None = option(None, at_least=1)  # likewise, of the rows that are scored
    split_seed: int | None = option(0, at_least=0, limit=LARGEST_SEED)  # of the rows of parts and examples; None: in file order


@dataclass
class CorpusConfig:
    """Running text; read in `harness/corpus/`."""

    name: str = MISSING  # in the names of runs and in reports
    version: int = option(1, at_least=0)  # raised where the text of this name changes
    source: CorpusSource = CorpusSource.builtin  # generated text, a data set, or files of yours
    hub: str = option("", OF_DATA_SET, role=Role.place)  # data set on the hub
    folder: str = option("", OF_DATA_SET, role=Role.place)  # the same data set's folder below data.root
    subset: str = option("", OF_DATA_SET, role=Role.place)  # configuration of the data set
    train_split: str = option("train", OF_DATA_SET)  # split of the data set that is trained on
    validation_split: str | None = option("validation", OF_DATA_SET)  # None: validation_share of the documents is held out
    validation_share: float = option(0.02, above=0, below=1)  # share of the documents that is held out, where nothing else is
    text: str = option("text", OF_COLUMN)  # column
    document: str = option("", OF_DATA_SET)  # column that is the same for all rows of a document; empty: each row is a document
    heading: str = option("", OF_DATA_SET)  # pattern of a row that begins a document
    files: list[str] = option(
        [], OF_FILES, role=Role.place
    )  # plain text, a blank line between documents; or rows, each a document
    validation_files: list[str] = option([], OF_FILES, role=Role.place)  # empty: validation_share of the documents is held out
    train_documents: int | None = option(None, at_least=1)  # the first so many; None: all of them
    shuffled_words: bool = option(
        False, earlier=...
    )  # words of each sentence of the training text in random order (arXiv:2104.06644)
    documents: int = option(2000, GENERATED, at_least=1)  # that the grammar generates
    seed: int = option(0, GENERATED, at_least=0, limit=LARGEST_SEED)  # of the generated text


@dataclass
class TokenizerConfig:
    """Trained on text, or from a file; read in `harness/data/tokenizer.py`. Null: what the model or scale states."""

    kind: TokenizerKind | None = TokenizerKind.wordpiece  # how words are cut into pieces
    trained_on: TrainedOn = TrainedOn.auto  # whose text; auto: the corpus where there is pretraining, else the task
    train_characters: int = option(
        100_000_000, TOKENIZING, at_least=1, limit=1e12
    )  # at most, of the text that it is trained on
    vocab_size: int | None = option(
        8192, TOKENIZING, at_least=1, limit=LARGEST_TABLE
    )  # pieces at most; at least every letter and the special ones
    min_frequency: int = option(
        2, (TOKENIZING, MERGING), at_least=0
    )  # times that two pieces must meet to become one; not of kind unigram
    lowercase: bool | None = True  # text is read in lower case
    multilingual: bool | None = option(
        False, (TOKENIZING, OF_LANGUAGES)
    )  # also trained on the text of task.languages, without labels
    separators: int | None = option(1, at_least=1, limit=100)  # [SEP] between the two texts of a pair
    sentinels: int | None = option(
        None, earlier=0, at_least=0, limit=10_000
    )  # pieces <extra_id_0>, <extra_id_1>, ... at the end, among vocab_size; None: 100 for span_corruption, else none
    vocab_file: str | None = option(None, role=Role.place)  # one piece a line, as BERT's vocab.txt
    file: str | None = option(None, role=Role.place)  # tokenizer.json of the library, or a published folder


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

    on_failure: str = "continue"  # with the other runs; stop: at the first run that does not finish
    same_failures: int = option(5, at_least=0)  # failures of one kind in a row after which the sweep stops; 0: never
    timeout_minutes: float | None = option(None, above=0)  # longest time of a run; null: no limit
    silent_minutes: float | None = option(60.0, above=0)  # longest time without progress of any kind; null: no limit
    budget_minutes: float | None = option(
        None, above=0
    )  # of all runs together, finished ones included: seeds that do not fit are left out; null: no limit
    until: Until = Until.seeds  # resolved: seeds are added in looks until every arm is better, worse or the same
    most_seeds: int = option(12, RESOLVED, at_least=FEWEST_REPLICATES, limit=1000)  # of until=resolved
    headline: str | None = option(
        None, RESOLVED
    )  # metric of until=resolved; null: mean score over tasks, without a task held-out masked loss
    control: bool = False  # the first arm of the command with random weights, neither pretrained nor healed, joins its arms
    timing: bool = True  # times what has finished; false leaves that to a later command, as where several share a sweep
    retime: bool = False  # times again what an earlier session has timed, and trains nothing again
    retries: int = option(0, at_least=0)  # times that a run whose worker was killed from outside is run again at once
    quiet: bool = False  # shows only problems and where the results are; every line is in sweep.log of the study (-q)


@dataclass
class MatchConfig:
    """A variant resized until it costs as much as the baseline of the command; read in `plugins/costs/match.py`."""

    cost: MatchOn = MatchOn.none  # what a variant is to have as much of as the baseline
    to: str = "base"  # the baseline: a model of the command, without enhancements, of the same scale
    by: MatchBy = MatchBy.hidden_size  # what is resized for it
    within: float = option(0.01, above=0, below=1)  # share of the baseline's cost that is close enough to go without a note
    tolerance: float = option(0.05, above=0, below=1)  # share from which on the command is refused
    rounds: int = option(5, BY_LATENCY, at_least=3)  # of match=latency: launches of both variants for each shape that is tried


@dataclass
class SearchConfig:
    """Each arm is tuned on rows of its training data that its trials are not trained on; read in `harness/study/search.py`."""

    space: list[str] = field(
        default_factory=list
    )  # KEY=interval(LOW,HIGH), KEY=tag(log,interval(LOW,HIGH)) or KEY=choice(A,B) of each key; empty: no search
    trials: int = option(10, SAMPLED, at_least=1, limit=10000)  # of each arm on each task
    sampler: Sampler = Sampler.random  # how the trials are chosen
    part: float = option(1.0, IN_GRID, above=0, at_most=1)  # share of the grid that is run, drawn by search.seed
    selected_on: KeepBest = KeepBest.tune  # rows that trials are scored on; validation: those reported, too good a score then
    tune_share: float = option(0.1, above=0, below=1)  # of train, which trials are scored on; task.tune_share where that is set
    seed: int = option(1000, at_least=0, limit=LARGEST_SEED)  # of the sampler and of the trials' fine-tuning
    reduction: int | None = option(
        None, at_least=2, limit=100
    )  # successive halving: of the trials that reach a budget, one in so many gets this many times as much (arXiv:1810.05934)


@dataclass
class ProtocolConfig:
    """How a paper makes a number of its runs on this task, by `conf/protocol/`; read in `harness/config/compose.py`."""

    seeds: list[int] = option([], at_least=0, limit=LARGEST_SEED)  # of the runs, where the command names none
    statistic: Statistic = Statistic.mean  # of their scores
    scores: list[str] = field(default_factory=list)  # or SPLIT/SCORE, whose mean is the number of the task; empty: the headline
    average: list[str] = field(default_factory=list)  # tasks, or TASK/SPLIT, whose mean is the number of the table
    starts_from: str | None = None  # task whose fine-tuned weights the paper starts from


MOST_THREADS = 4096
MOST_DEVICES = 4096


@dataclass
class StatedTokenizer:
    """The tokenizer that a model or scale states, for null keys of `tokenizer`; read in `harness/config/resolve.py`."""

    kind: TokenizerKind | None = None  # how words are cut into pieces
    vocab_size: int | None = option(None, at_least=1, limit=LARGEST_TABLE)  # pieces at most
    lowercase: bool | None = None  # text is read in lower case
    multilingual: bool | None = None  # it is also trained on the text of task.languages
    separators: int | None = option(None, at_least=1, limit=100)  # [SEP] between the two texts of a pair
    vocab_file: str | None = None  # used if neither kind nor size nor another file is set
    file: str | None = None  # likewise


@dataclass
class StatedRecipe:
    """What a scale states for `recipe=small` (docs/recipes.md): settings that hold for its depth and width."""

    learning_rate: float = option(5e-4, above=0, limit=1000)  # for pretrain.learning_rate
    initializer_range: float = option(0.02, above=0, limit=100)  # for pretrain.initializer_range


@dataclass
class ModelConfig(EncoderConfig):
    """A variant: its shape, the objective of its paper, and weights to start from; read in `harness/checkpoints/`."""

    objective: ObjectiveName = option(ObjectiveName.mlm_nsp, role=Role.neutral)  # what `pretrain=own` means
    init_from: str | None = option(
        None, role=Role.place
    )  # name on the hub or folder of weights; other keys say what changes in their shape
    provider: Provider = option(Provider.auto, earlier=...)  # whose code computes published weights; auto: ours where it can
    remote_code: str | None = option(
        None, COMPUTED_BY_LIBRARY, earlier=...
    )  # runs the code beside weights: its commit on the hub; of a folder, a hash of its .py files, which a wrong one states
    keep_layers: list[int] | None = option(
        None, FROM_WEIGHTS, earlier=...
    )  # of the weights, counted from 0; None: evenly spaced
    random_weights: bool = option(False, earlier=...)  # shape and tokenizer of the weights, values from the seed: the control
    tokenizer: StatedTokenizer = option(StatedTokenizer, role=Role.neutral)  # what `tokenizer=own` means
    recipe: StatedRecipe = option(StatedRecipe, role=Role.neutral)  # what differs from scale to scale in `recipe=small`
    finetune_rate: float | None = option(
        None, PUBLISHED_START, earlier=..., role=Role.neutral, above=0, limit=1000
    )  # finetune.learning_rate of these weights where nothing says one; None: 5e-5 of published ones
    scratch_rate: float = option(
        3e-4, RANDOM_START, role=Role.neutral, above=0, limit=1000
    )  # the same of a model that starts from random weights


@dataclass
class OptimiserConfig:
    """The optimizer and its schedule; read in `harness/training/optimiser.py` and `loop.py` beside it."""

    batch_size: int = option(32, at_least=1)  # examples of one optimiser step
    accumulation: int = option(1, at_least=1)  # pieces that a batch is cut into
    optimizer: Optimizer = option(Optimizer.adamw, earlier=...)  # what makes a step of the gradients
    learning_rate: float = option(3e-4, above=0, limit=1000)  # peak, after the warm-up
    schedule: Schedule = option(Schedule.linear, earlier=...)  # how the rate goes on after the warm-up
    warmup_fraction: float = option(0.1, at_least=0, at_most=1)  # share of the steps in which the rate rises
    decay_fraction: float | None = option(
        None, DECAYING, earlier=..., above=0, at_most=1
    )  # share of the budget, at its end, in which the rate falls to 0; None: all that the warm-up leaves, of wsd 0.2
    weight_decay: float = option(0.01, at_least=0, limit=1000)  # of matrices; none of biases and norms
    adam_betas: list[float] = option(
        [0.9, 0.999], with_option("adam_betas", WITH_BETAS), count=2, at_least=0, below=1
    )  # decay of the means of gradient and its square
    adam_eps: float = option(1e-8, with_option("adam_eps", WITH_EPS), above=0, limit=1)  # added to the divisor
    momentum: float | None = option(
        None, with_option("momentum", WITH_MOMENTUM, Refused.everywhere), earlier=..., at_least=0, below=1
    )  # of sgd, rmsprop and muon; None: torch's own, 0, 0 and 0.95
    max_grad_norm: float = option(1.0, above=0)  # gradients are scaled down to this norm
    activation_checkpointing: bool = False  # layers are computed again in the backward pass, not kept (arXiv:1604.06174)
    ema_decay: float | None = option(
        None, earlier=..., above=0, below=1
    )  # of the moving average of the weights, which is what is evaluated and kept, such as 0.999; None: the last weights are


@dataclass
class PretrainConfig(ObjectiveConfig, OptimiserConfig):
    """Objective, budget and optimiser of pretraining; read in `harness/training/pretrain.py`."""

    tokens: float | None = option(
        None, at_least=1, limit=1e15
    )  # for example 20e6, the default budget; set at most one of tokens, steps, flops and seconds
    steps: int | None = option(None, at_least=1)  # the budget in optimiser steps
    flops: float | None = option(None, at_least=1, limit=1e30)  # of all forward and backward passes, as counted
    seconds: float | None = option(None, above=0)  # of training alone
    seed: int | None = option(
        None, role=Role.seed, at_least=0, limit=LARGEST_SEED
    )  # None: that of the run; set it to share a pretraining between seeds
    length: int | None = option(None, at_least=8)  # tokens of a sequence; None: 128, or as many as the model takes
    batch_size: int = option(32, at_least=1)  # sequences of one optimiser step, at the end of the ramp
    warmup_steps: int = option(
        0, IN_STEPS, at_least=0, limit=1e12
    )  # the rate rises at least so long, in the first half of the steps; not with a budget in seconds, whose steps nobody knows
    decay_fraction: float | None = option(
        None, DECAYING, earlier=1.0, above=0, at_most=1
    )  # share of the budget, at its end, in which the rate falls to 0; it is constant before; None: the last phase, of wsd 0.2
    ramp_from: int | None = option(None, at_least=1)  # sequences of the first step; None: no ramp
    ramp_fraction: float = option(0.1, RAMPED, above=0, at_most=1)  # share of the budget that the ramp takes
    weight_decay: float = option(0.01, at_least=0, limit=1000)  # of matrices; none of biases and norms
    initializer_range: float | None = option(
        None, above=0, limit=100
    )  # standard deviation of initial values; None: model.initializer_range
    dropout: float | None = option(
        None, at_least=0, below=1
    )  # of layers and attention while pretraining; None: that of the model
    mup_base_width: int | None = option(
        None, earlier=..., at_least=1
    )  # hidden size of learning_rate and initializer_range, from which others get theirs (arXiv:2203.03466); None: one for all
    neighbour_heads: bool = option(
        False, LEARNED_POSITIONS
    )  # where positions are learned, heads of the first layer begin by looking at neighbours
    evaluations: int = option(5, at_least=1)  # on held-out text, the last one at the end
    eval_sequences: int = option(256, at_least=1)  # of the held-out text
    probe_steps: int = option(200, PROBED, at_least=1)  # of a masked-LM head on the frozen encoder, for objectives without one
    checkpoint_every_s: float = option(60.0, role=Role.neutral, at_least=0)  # seconds between two checkpoints to resume from
    keep: list[float] = option(
        [], role=Role.neutral, above=0, limit=1e15
    )  # tokens after which weights are kept, such as [1e6, 5e6], for pretrain.at
    at: float | None = option(
        None, ALWAYS, above=0, limit=1e15
    )  # fine-tuning starts from the weights kept after so many tokens; None: from those of the end
    checkpoint: str | None = option(
        None, ALWAYS, role=Role.place
    )  # id or folder of a run, a fine-tuning too, to start from; also typed `pretrain.from`


@dataclass
class FinetuneConfig(AdaptationConfig, OptimiserConfig):
    """Trained parameters, budget and optimiser of fine-tuning; read in `harness/training/finetune.py`, `loop.py` beside it."""

    enabled: bool = option(True, ALWAYS)  # false: the model is only measured
    learning_rate: float | None = option(  # type: ignore[assignment]
        DEFAULT_RATE, above=0, limit=1000
    )  # peak, after the warm-up; None: model.scratch_rate, model.finetune_rate of published weights, 3e-4 after a pretraining
    epochs: float = option(2.0, IN_EPOCHS, above=0)  # passes over the rows of train; fractions are possible
    max_steps: int | None = option(None, at_least=1)  # ends earlier than the epochs
    seconds: float | None = option(None, earlier=..., above=0)  # the budget in seconds of training alone, in place of epochs
    eval_batch_size: int = option(64, at_least=1)  # examples of one batch of evaluation
    layer_decay: float = option(
        1.0, BY_LAYER, earlier=..., above=0, at_most=1
    )  # factor of the rate from one layer to the one below, to the embeddings at last (arXiv:2003.10555)
    keep_best: KeepBest = KeepBest.none  # which epoch's weights are evaluated
    evaluations_per_epoch: int = option(1, KEEPING_BEST, earlier=..., at_least=1)  # of keep_best, evenly spaced
    early_stopping: int | None = option(
        None, KEEPING_BEST, earlier=..., at_least=1
    )  # evaluations without a better score after which keep_best=tune ends
    class_weights: Any = option(
        None, earlier=...
    )  # of the loss: balanced, or {LABEL: WEIGHT}; of kind multilabel those of the texts with a label
    teacher: str | None = option(
        None, role=Role.place
    )  # a fine-tuning of the same task, or its folder, whose answers are learned beside the labels
    soft_weight: float = option(1.0, TAUGHT, earlier=..., at_least=0)  # of these answers, where the loss of the labels has 1
    temperature: float = option(2.0, TAUGHT, earlier=..., above=0)  # by which the logits of both are divided
    hidden_weight: float = option(0.0, TAUGHT, earlier=..., at_least=0)  # of the squared error of the hidden states
    in_batch_negatives: bool = option(
        False, earlier=...
    )  # of kind retrieval: each question learns its paragraph among those of its batch
    cosine_temperature: float = option(
        0.05, AMONG_NEGATIVES, earlier=..., above=0, limit=1000
    )  # by which their cosines are divided
    keep: Keep | None = option(
        None, role=Role.neutral
    )  # weights left in the run's folder, for predict and export; None: last, or none in a sweep
    submit: bool = option(False, role=Role.derived)  # write predictions of the test split in the benchmark's format

    def steps_per_epoch(self, examples: int) -> int:
        """Optimiser steps of one epoch."""
        return math.ceil(examples / self.batch_size)

    def planned_steps(self, examples: int) -> int:
        """Optimiser steps of the epochs, at least one; how many a budget in seconds has, nobody knows."""
        steps = max(1, round(self.epochs * self.steps_per_epoch(examples)))
        return steps if self.max_steps is None else min(steps, self.max_steps)


@dataclass
class MeasureConfig:
    """What is measured beside training, and how often; read in `harness/measure/`."""

    enabled: bool = True  # false: nothing is measured beside training
    length: int | None = option(
        None, at_least=1
    )  # tokens of the measured text, latency and FLOPs; None: 128, or as many as the model takes
    rounds: int = option(9, TIMED, at_least=1)  # most launches of a variant, each in a new process
    min_rounds: int = option(4, TIMED, at_least=1)  # launches before a session may end, once every comparison is decided
    budget_minutes: float | None = option(None, TIMED, above=0)  # after which a session begins no further round; None: no limit
    repeats: int = option(20, TIMED, at_least=1)  # timed calls of a launch, after a warm-up until steady
    throughput_texts: int | None = option(
        8, TIMED, at_least=1
    )  # random texts of measure.length tokens in the throughput batch of all tasks; null: validation batches of each task
    batch_size: int = option(32, TIMED, at_least=1)  # texts of one validation batch of which memory and throughput are measured
    throughput_batches: int = option(4, TIMED, at_least=1)  # validation batches of one pass over them
    train_steps: int = option(3, TIMED, at_least=0)  # timed training steps of a launch; 0: none
    train_batch_size: int = option(
        2, (TIMED, TRAINING_STEPS), at_least=1
    )  # texts of one timed training step, of measure.length tokens
    threads: int = option(
        1, TIMED, at_least=1, limit=MOST_THREADS
    )  # CPU threads of latency, throughput and timed training steps
    lengths: list[int] = option(
        [], TIMED, different=True, at_least=1
    )  # text lengths in tokens, to which measure.length is added; those too long for the model are left out
    batch_sizes: list[int] = option([], TIMED, different=True, at_least=1)  # further batch sizes, at measure.length
    seconds_per_length: float = option(
        1.0, (TIMED, AT_LENGTHS), at_least=0
    )  # per launch for each of these; slow calls are timed fewer times
    foreign_cpus: float = option(0.5, TIMED, at_least=0)  # CPUs that other processes may keep busy before a launch is repeated
    retries: int = option(1, TIMED, at_least=0)  # most repeats of a launch
    backend: Backend = option(
        Backend.torch, SERVED, earlier=...
    )  # what runs the model while it is measured and evaluated; onnxruntime: the extra [serve]
    precision: Precision = option(Precision.fp32, SERVED, earlier=...)  # of the weights then; int8_weights: the extra [serve]
    load: list[Scenario] = option(
        [], TIMED, earlier=...
    )  # single_stream, server, offline: latency under load on the texts of the task
    load_share: float = option(
        0.5, AS_SERVER, earlier=..., above=0, below=1
    )  # rate of arrivals of load=[server], as a share of the offline throughput
    load_texts: int = option(
        200, UNDER_LOAD, earlier=..., at_least=10
    )  # texts of each scenario in a launch, drawn from the validation texts

    @property
    def is_served(self) -> bool:
        """Whether what is measured and evaluated is another model than the one that trains: `harness/measure/serving.py`."""
        return (self.backend, self.precision) != (Backend.torch, Precision.fp32)


@dataclass
class HardwareConfig:
    """Device, arithmetic and threads; read in `harness/hardware/`."""

    device: Device = Device.cpu  # cuda: the first GPU
    dtype: Dtype = Dtype.fp32  # bf16: autocast over float32 weights; auto: the faster one on this machine
    devices: int = option(1, at_least=1, limit=MOST_DEVICES)  # that train one run together, with a process each
    sharding: DeviceSharding = DeviceSharding.none  # full: for models that do not fit on one device while they train
    threads: int | None = option(
        None, at_least=1, limit=MOST_THREADS
    )  # CPU threads of each process that trains; None: all cores, divided by the devices and workers
    workers: int | None = option(
        None, at_least=1, limit=MOST_THREADS
    )  # runs of a sweep that train at once, each on threads of its own; None: small models one on each core, others one
    products: Products = option(Products.auto, ON_CPU)  # library of the float32 matrix products of linear layers, on a CPU
    compile: bool = False  # the model runs under torch.compile


@dataclass
class TrackingConfig:
    """Where results are browsed; read in `harness/tracking/`."""

    mlflow: bool = False  # in MLflow, at tracking.uri
    tensorboard: bool = False  # in `output`/tensorboard; the extra [tensorboard]
    wandb: bool = False  # Weights & Biases, in `output`/wandb; the extra [wandb]
    plugins: list[str] = field(default_factory=list)  # trackers of other packages, by their names
    uri: str | None = None  # of MLflow; None: SQLite in `output`


@dataclass
class RunConfig:
    """One run: one arm on one task with one seed."""

    study: str = option("default", role=Role.name)  # name of the MLflow experiment and of its folder in `output`
    hypothesis: str = option(
        "", role=Role.name
    )  # what the study expects; recorded with its time before the first run, and the head of the report
    arm: str = option("", role=Role.name)  # label of the arm; empty: from model, enhancements and objective
    settings: dict[str, str] = option(dict, role=Role.name)  # key: value, where the arm differs from its choices
    swept: list[str] = option([], role=Role.name)  # keys and groups that the command sweeps
    matched: dict[str, float] = option(
        dict, role=Role.name
    )  # what `match` found: cost of the baseline, as published, as resized
    tuned: dict[str, str] = option(dict, role=Role.name)  # what `search` found: chosen settings, scores of its trials
    overrides: list[str] = option([], role=Role.name)  # what the command line says of the run, without seeds
    model_keys: list[str] = option([], role=Role.name)  # keys of the model that the command sets, without `model.`
    said_keys: dict[str, list[str]] = option(
        dict, role=Role.name
    )  # group=choice: keys of the model that its file sets; experiment/NAME: all that this file sets
    model_name: str = option("", role=Role.arm)
    scale_name: str = option("", role=Role.arm)
    enhancements: dict[str, bool] = option(dict, role=Role.arm)
    protocol_name: str = option("", earlier=..., role=Role.arm)
    protocol: ProtocolConfig = option(ProtocolConfig, role=Role.name)  # how a paper makes its numbers: +protocol=NAME
    seed: int = option(
        0, role=Role.seed, at_least=0, limit=LARGEST_SEED
    )  # of initialisation, dropout and the order of examples
    output: str = option("multirun", role=Role.name)  # folder of all results
    rerun: bool = option(False, role=Role.name)  # run again what has finished
    report: bool = option(True, role=Role.name)  # after a sweep, write the report on its study
    model: ModelConfig = option(ModelConfig, role=Role.arm)
    published: ModelConfig = option(ModelConfig, role=Role.name)  # the same variant at BERT-base dimensions
    task: TaskConfig = option(TaskConfig, role=Role.condition)
    data: DataConfig = option(DataConfig, role=Role.condition)
    corpus: CorpusConfig = option(CorpusConfig, READING_TEXT, role=Role.condition)
    tokenizer: TokenizerConfig = option(TokenizerConfig, role=Role.condition)
    pretrain: PretrainConfig = option(PretrainConfig, PRETRAINING, role=Role.condition)
    finetune: FinetuneConfig = option(FinetuneConfig, FINE_TUNING, role=Role.condition)
    measure: MeasureConfig = option(MeasureConfig, role=Role.condition)
    match: MatchConfig = option(MatchConfig, RESIZED, role=Role.name)
    search: SearchConfig = option(SearchConfig, SEARCHING, role=Role.name)
    hardware: HardwareConfig = option(HardwareConfig, role=Role.condition)
    tracking: TrackingConfig = option(TrackingConfig, role=Role.name)
    sweep: SweepConfig = option(SweepConfig, role=Role.name)

    @property
    def label(self) -> str:
        """The label of the arm: `base`, `albert dtype=bf16`."""
        return " ".join([self.arm, *setting_texts(self.settings, self.settings)])

    def settings_without(self, *beginnings: str) -> dict[str, str]:
        """The settings whose keys begin otherwise."""
        return {key: value for key, value in self.settings.items() if not key.startswith(beginnings)}


PLAIN = (str, int, float, bool)


def to_dict(config: Any) -> Any:
    """Nested plain values, enums by name: what is written, hashed and logged."""
    if config is None or type(config) in PLAIN:  # nearly all of them
        return config
    if is_dataclass(config):
        return {one.name: to_dict(getattr(config, one.name)) for one in fields(config)}
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    if isinstance(config, list):
        return [to_dict(value) for value in config]
    return config.name if isinstance(config, Enum) else config


def typed(value: Any) -> str:
    """A plain value as it is typed on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(typed, value))}]"
    return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)


def flatten(nested: Any, prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


@dataclass(frozen=True)
class Stated:
    """What the schema states of a key, together with its section."""

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
    """Keys, and groups that end in a dot, whose role is one of these; keys of a section are not named beside it."""
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
    """The overrides of other keys than these, and of none in a group of them that ends in a dot."""
    return [override for override in overrides if not within(key_of(override), keys)]


@functools.lru_cache(maxsize=256)
def members(keys: tuple[str, ...], groups: tuple[str, ...]) -> frozenset[str]:
    """Those of the keys that are within the groups; a study's runs all have the same keys, so that few are computed."""
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
