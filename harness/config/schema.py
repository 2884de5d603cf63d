"""The config of one run as typed plain data. Hydra composes YAML over it, so a wrong key or type is an error before any run.

Values are in `conf/`; defaults here are for keys that no file sets. Each docstring names the module that reads the keys.
"""

import math
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any

from harness.comparison.arms import setting_texts
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
    Rule,
    Sampler,
    Scenario,
    Schedule,
    TaskKind,
    TokenizerKind,
    TrainedOn,
    Until,
)
from harness.metrics import FEWEST_REPLICATES
from harness.models.config import LARGEST_TABLE, AdaptationConfig, EncoderConfig
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.ranges import LARGEST_SEED, number, numbers

MISSING: Any = "???"
"""A value that a file has to give, as OmegaConf writes it, which commands that compose nothing do not import."""


@dataclass
class GrammarConfig:
    """A generated data set; read in `harness/tasks/synthetic/`."""

    rule: Rule = Rule.bag  # what decides the label
    train_examples: int = number(1000, at_least=2)  # rows to train on
    validation_examples: int = number(500, at_least=2)  # rows to score
    distance: int = number(20, at_least=2)  # tokens between the two words of the rule `distance`
    symbols: int = number(4, at_least=2)  # words that `pairs` matches, or that are keys in `induction`
    pairs: int = number(4, at_least=2)  # of key and value in `induction`, of opening and closing bracket in `brackets`
    depth: int = number(3, at_least=1)  # of nesting in `brackets`
    length: int = number(480, at_least=16)  # words of a document of `needle`
    seed: int = number(0, at_least=0, limit=LARGEST_SEED)  # of the rows


@dataclass
class TaskConfig:
    """One data set with its labels and scores, or a named set of tasks; read in `harness/tasks/`."""

    name: str = MISSING  # in the names of runs and in reports
    version: int = number(1, at_least=0)  # raised where the rows or scores of this name change
    kind: TaskKind = TaskKind.classification  # what is predicted for a text, and so which head the model has
    members: list[str] = field(default_factory=list)  # names of tasks: this entry is a set, which runs each of them
    grammar: GrammarConfig | None = None  # the rows are generated, whatever `data` says
    hub: str = ""  # data set on the hub
    folder: str = ""  # the same data set's folder below data.root
    subset: str = ""  # configuration of the data set; "*": all of them, one after the other
    train_split: str = "train"  # a split or a part of one: train[:80%]
    validation_split: str = "validation"  # a split or, in the notation of `datasets`, a part: train[80%:]
    more_validation: dict[str, str] = field(default_factory=dict)  # name: further split to evaluate, or SUBSET:SPLIT
    languages: dict[str, str] = field(default_factory=dict)  # name: SUBSET:SPLIT whose text a multilingual tokenizer reads too
    test_split: str = ""  # rows with hidden labels, for finetune.submit; empty: there are none
    train_file: str | None = None  # .csv, .tsv, .jsonl, .json, .parquet or CoNLL, in place of hub and folder
    validation_file: str | None = None  # likewise, the rows that are scored
    test_file: str | None = None  # likewise, rows with hidden labels
    tune_share: float = number(0.0, at_least=0, below=1)  # of train, kept apart from it as the split `tune`
    tune_seed: int = number(0, at_least=0, limit=LARGEST_SEED)  # of the choice of these rows
    item: str = "idx"  # column of row ids; without it rows are numbered
    submission: str = ""  # name of the benchmark's file of predictions, as GLUE's CoLA
    more_submission: dict[str, str] = field(default_factory=dict)  # file: further split with its own file
    source: str = ""  # paper or page that defines the task
    fields: list[str] = field(default_factory=list)  # one or two text columns; a+b: the text of both
    label: str = "label"  # column of the label; of CoNLL its number will do
    label_separator: str | None = None  # between several labels in a text; None: the one of | ; , that a file has
    labels: list[str] = field(default_factory=list)  # class names in the order of their numbers
    scores: list[str] = field(default_factory=list)  # functions of harness/tasks/scores.py
    headline: str = ""  # the main score of the task
    max_length: int = number(128, at_least=1)  # tokens; longer texts are cut, of kind `spans` into windows
    stride: int = number(128, at_least=0)  # tokens that neighbouring windows have in common
    max_answer_length: int = number(30, at_least=1)  # longest predicted answer in tokens
    answerable_only: bool = False  # "no answer" is never predicted
    pairs: int | None = number(None, at_least=2)  # of kind minimal_pairs: generated ones of each paradigm; None: they are read


@dataclass
class DataConfig:
    """Where data comes from; read in `harness/data/`."""

    source: DataSource = DataSource.hub  # the hub, or a folder with its layout (data.root)
    root: str | None = None  # folder of source=local
    train_examples: int | None = number(None, at_least=1)  # so many, stratified by label; None: all of them
    validation_examples: int | None = number(None, at_least=1)  # likewise, of the rows that are scored
    split_seed: int | None = number(0, at_least=0, limit=LARGEST_SEED)  # of the rows of parts and examples; None: in file order


@dataclass
class CorpusConfig:
    """Running text; read in `harness/corpus/`."""

    name: str = MISSING  # in the names of runs and in reports
    version: int = number(1, at_least=0)  # raised where the text of this name changes
    source: CorpusSource = CorpusSource.builtin  # generated text, a data set, or files of yours
    hub: str = ""  # data set on the hub
    folder: str = ""  # the same data set's folder below data.root
    subset: str = ""  # configuration of the data set
    train_split: str = "train"  # split of the data set that is trained on
    validation_split: str | None = "validation"  # None: validation_share of the documents is held out
    validation_share: float = number(0.02, above=0, below=1)  # share of the documents that is held out, where nothing else is
    text: str = "text"  # column
    document: str = ""  # column that is the same for all rows of a document; empty: each row is a document
    heading: str = ""  # pattern of a row that begins a document
    files: list[str] = field(default_factory=list)  # plain text, a blank line between documents; or rows, each a document
    validation_files: list[str] = field(default_factory=list)  # empty: validation_share of the documents is held out
    train_documents: int | None = number(None, at_least=1)  # the first so many; None: all of them
    shuffled_words: bool = False  # words of each sentence of the training text in random order (arXiv:2104.06644)
    documents: int = number(2000, at_least=1)  # that the grammar generates
    seed: int = number(0, at_least=0, limit=LARGEST_SEED)  # of the generated text


@dataclass
class TokenizerConfig:
    """Trained on text, or from a file; read in `harness/data/tokenizer.py`. Null: what the model or scale states."""

    kind: TokenizerKind | None = TokenizerKind.wordpiece  # how words are cut into pieces
    trained_on: TrainedOn = TrainedOn.auto  # whose text; auto: the corpus where there is pretraining, else the task
    train_characters: int = number(100_000_000, at_least=1, limit=1e12)  # at most, of the text that it is trained on
    vocab_size: int | None = number(
        8192, at_least=1, limit=LARGEST_TABLE
    )  # pieces at most; at least every letter and the special ones
    min_frequency: int = number(2, at_least=0)  # times that two pieces must meet to become one; not of kind unigram
    lowercase: bool | None = True  # text is read in lower case
    multilingual: bool | None = False  # also trained on the text of task.languages, without labels
    separators: int | None = number(1, at_least=1, limit=100)  # [SEP] between the two texts of a pair
    sentinels: int | None = number(
        None, at_least=0, limit=10_000
    )  # pieces <extra_id_0>, <extra_id_1>, ... at the end, among vocab_size; None: 100 for span_corruption, else none
    vocab_file: str | None = None  # one piece a line, as BERT's vocab.txt
    file: str | None = None  # tokenizer.json of the library, or a published folder


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
    same_failures: int = number(5, at_least=0)  # failures of one kind in a row after which the sweep stops; 0: never
    timeout_minutes: float | None = number(None, above=0)  # longest time of a run; null: no limit
    silent_minutes: float | None = number(60.0, above=0)  # longest time without progress of any kind; null: no limit
    budget_minutes: float | None = number(
        None, above=0
    )  # of all runs together, finished ones included: seeds that do not fit are left out; null: no limit
    until: Until = Until.seeds  # resolved: seeds are added in looks until every arm is better, worse or the same
    most_seeds: int = number(12, at_least=FEWEST_REPLICATES, limit=1000)  # of until=resolved
    headline: str | None = None  # metric of until=resolved; null: mean score over tasks, without a task held-out masked loss
    control: bool = False  # the first arm of the command with random weights, neither pretrained nor healed, joins its arms
    timing: bool = True  # times what has finished; false leaves that to a later command, as where several share a sweep
    retime: bool = False  # times again what an earlier session has timed, and trains nothing again
    retries: int = number(0, at_least=0)  # times that a run whose worker was killed from outside is run again at once
    quiet: bool = False  # shows only problems and where the results are; every line is in sweep.log of the study (-q)


@dataclass
class MatchConfig:
    """A variant resized until it costs as much as the baseline of the command; read in `harness/study/match.py`."""

    cost: MatchOn = MatchOn.none  # what a variant is to have as much of as the baseline
    to: str = "base"  # the baseline: a model of the command, without enhancements, of the same scale
    by: MatchBy = MatchBy.hidden_size  # what is resized for it
    within: float = number(0.01, above=0, below=1)  # share of the baseline's cost that is close enough to go without a note
    tolerance: float = number(0.05, above=0, below=1)  # share from which on the command is refused
    rounds: int = number(5, at_least=3)  # of match=latency: launches of both variants for each shape that is tried


@dataclass
class SearchConfig:
    """Each arm is tuned on rows of its training data that its trials are not trained on; read in `harness/study/search/`."""

    space: list[str] = field(
        default_factory=list
    )  # KEY=interval(LOW,HIGH), KEY=tag(log,interval(LOW,HIGH)) or KEY=choice(A,B) of each key; empty: no search
    trials: int = number(10, at_least=1, limit=10000)  # of each arm on each task
    sampler: Sampler = Sampler.random  # how the trials are chosen
    tune_share: float = number(0.1, above=0, below=1)  # of train, which trials are scored on; task.tune_share where that is set
    seed: int = number(1000, at_least=0, limit=LARGEST_SEED)  # of the sampler and of the trials' fine-tuning
    reduction: int | None = number(
        None, at_least=2, limit=100
    )  # successive halving: of the trials that reach a budget, one in so many gets this many times as much (arXiv:1810.05934)


MOST_THREADS = 4096
MOST_DEVICES = 4096


@dataclass
class StatedTokenizer:
    """The tokenizer that a model or scale states, for null keys of `tokenizer`; read in `harness/config/resolve.py`."""

    kind: TokenizerKind | None = None  # how words are cut into pieces
    vocab_size: int | None = number(None, at_least=1, limit=LARGEST_TABLE)  # pieces at most
    lowercase: bool | None = None  # text is read in lower case
    multilingual: bool | None = None  # it is also trained on the text of task.languages
    separators: int | None = number(None, at_least=1, limit=100)  # [SEP] between the two texts of a pair
    vocab_file: str | None = None  # used if neither kind nor size nor another file is set
    file: str | None = None  # likewise


@dataclass
class StatedRecipe:
    """What a scale states for `recipe=small` (docs/recipes.md): settings that hold for its depth and width."""

    learning_rate: float = number(5e-4, above=0, limit=1000)  # for pretrain.learning_rate
    initializer_range: float = number(0.02, above=0, limit=100)  # for pretrain.initializer_range


@dataclass
class ModelConfig(EncoderConfig):
    """A variant: its shape, the objective of its paper, and weights to start from; read in `harness/checkpoints/`."""

    objective: ObjectiveName = ObjectiveName.mlm_nsp  # what `pretrain=own` means
    init_from: str | None = None  # name on the hub or folder of weights; other keys say what changes in their shape
    keep_layers: list[int] | None = None  # of the weights, counted from 0; None: evenly spaced
    random_weights: bool = False  # shape and tokenizer of the weights, values from the seed: the control
    tokenizer: StatedTokenizer = field(default_factory=StatedTokenizer)  # what `tokenizer=own` means
    recipe: StatedRecipe = field(default_factory=StatedRecipe)  # what differs from scale to scale in `recipe=small`
    finetune_rate: float | None = number(
        None, above=0, limit=1000
    )  # finetune.learning_rate of these weights where nothing says one; None: 5e-5 of published ones
    scratch_rate: float = number(3e-4, above=0, limit=1000)  # the same of a model that starts from random weights


@dataclass
class OptimiserConfig:
    """The optimizer and its schedule; read in `harness/training/optimiser.py` and `loop.py` beside it."""

    batch_size: int = number(32, at_least=1)  # examples of one optimiser step
    accumulation: int = number(1, at_least=1)  # pieces that a batch is cut into
    optimizer: Optimizer = Optimizer.adamw  # what makes a step of the gradients
    learning_rate: float = number(3e-4, above=0, limit=1000)  # peak, after the warm-up
    schedule: Schedule = Schedule.linear  # how the rate goes on after the warm-up
    warmup_fraction: float = number(0.1, at_least=0, at_most=1)  # share of the steps in which the rate rises
    decay_fraction: float | None = number(
        None, above=0, at_most=1
    )  # share of the budget, at its end, in which the rate falls to 0; None: all that the warm-up leaves, of wsd 0.2
    weight_decay: float = number(0.01, at_least=0, limit=1000)  # of matrices; none of biases and norms
    adam_betas: list[float] = field(
        default_factory=lambda: [0.9, 0.999], metadata=numbers(count=2, at_least=0, below=1)
    )  # decay of the means of gradient and its square
    adam_eps: float = number(1e-8, above=0, limit=1)  # added to the divisor
    momentum: float | None = number(None, at_least=0, below=1)  # of sgd, rmsprop and muon; None: torch's own, 0, 0 and 0.95
    max_grad_norm: float = number(1.0, above=0)  # gradients are scaled down to this norm
    activation_checkpointing: bool = False  # layers are computed again in the backward pass, not kept (arXiv:1604.06174)
    ema_decay: float | None = number(
        None, above=0, below=1
    )  # of the moving average of the weights, which is what is evaluated and kept, such as 0.999; None: the last weights are


@dataclass
class PretrainConfig(ObjectiveConfig, OptimiserConfig):
    """Objective, budget and optimiser of pretraining; read in `harness/training/pretrain.py`."""

    tokens: float | None = number(
        None, at_least=1, limit=1e15
    )  # for example 20e6, the default budget; set at most one of tokens, steps, flops and seconds
    steps: int | None = number(None, at_least=1)  # the budget in optimiser steps
    flops: float | None = number(None, at_least=1, limit=1e30)  # of all forward and backward passes, as counted
    seconds: float | None = number(None, above=0)  # of training alone
    seed: int | None = number(
        None, at_least=0, limit=LARGEST_SEED
    )  # None: that of the run; set it to share a pretraining between seeds
    length: int | None = number(None, at_least=8)  # tokens of a sequence; None: 128, or as many as the model takes
    batch_size: int = number(32, at_least=1)  # sequences of one optimiser step, at the end of the ramp
    warmup_steps: int = number(
        0, at_least=0, limit=1e12
    )  # the rate rises at least so long, in the first half of the steps; not with a budget in seconds, whose steps nobody knows
    decay_fraction: float | None = number(
        None, above=0, at_most=1
    )  # share of the budget, at its end, in which the rate falls to 0; it is constant before; None: the last phase, of wsd 0.2
    ramp_from: int | None = number(None, at_least=1)  # sequences of the first step; None: no ramp
    ramp_fraction: float = number(0.1, above=0, at_most=1)  # share of the budget that the ramp takes
    weight_decay: float = number(0.01, at_least=0, limit=1000)  # of matrices; none of biases and norms
    initializer_range: float | None = number(
        None, above=0, limit=100
    )  # standard deviation of initial values; None: model.initializer_range
    dropout: float | None = number(
        None, at_least=0, below=1
    )  # of layers and attention while pretraining; None: that of the model
    mup_base_width: int | None = number(
        None, at_least=1
    )  # hidden size of learning_rate and initializer_range, from which others get theirs (arXiv:2203.03466); None: one for all
    neighbour_heads: bool = False  # where positions are learned, heads of the first layer begin by looking at neighbours
    evaluations: int = number(5, at_least=1)  # on held-out text, the last one at the end
    eval_sequences: int = number(256, at_least=1)  # of the held-out text
    probe_steps: int = number(200, at_least=1)  # of a masked-LM head on the frozen encoder, for objectives without one
    checkpoint_every_s: float = number(60.0, at_least=0)  # seconds between two checkpoints to resume from
    keep: list[float] = field(
        default_factory=list, metadata=numbers(above=0, limit=1e15)
    )  # tokens after which weights are kept, such as [1e6, 5e6], for pretrain.at
    at: float | None = number(
        None, above=0, limit=1e15
    )  # fine-tuning starts from the weights kept after so many tokens; None: from those of the end
    checkpoint: str | None = None  # id or folder of a run, a fine-tuning too, to start from; also typed `pretrain.from`


@dataclass
class FinetuneConfig(AdaptationConfig, OptimiserConfig):
    """Trained parameters, budget and optimiser of fine-tuning; read in `harness/training/finetune.py`, `loop.py` beside it."""

    enabled: bool = True  # false: the model is only measured
    learning_rate: float | None = number(
        3e-4, above=0, limit=1000
    )  # peak, after the warm-up; None: model.scratch_rate, model.finetune_rate of published weights, 3e-4 after a pretraining
    epochs: float = number(2.0, above=0)  # passes over the rows of train; fractions are possible
    max_steps: int | None = number(None, at_least=1)  # ends earlier than the epochs
    seconds: float | None = number(None, above=0)  # the budget in seconds of training alone, in place of epochs
    eval_batch_size: int = number(64, at_least=1)  # examples of one batch of evaluation
    layer_decay: float = number(
        1.0, above=0, at_most=1
    )  # factor of the rate from one layer to the one below, to the embeddings at last (arXiv:2003.10555)
    keep_best: KeepBest = KeepBest.none  # which epoch's weights are evaluated
    evaluations_per_epoch: int = number(1, at_least=1)  # of keep_best, evenly spaced
    early_stopping: int | None = number(None, at_least=1)  # evaluations without a better score after which keep_best=tune ends
    class_weights: Any = None  # of the loss: balanced, or {LABEL: WEIGHT}; of kind multilabel those of the texts with a label
    teacher: str | None = None  # a fine-tuning of the same task, or its folder, whose answers are learned beside the labels
    soft_weight: float = number(1.0, at_least=0)  # of these answers, where the loss of the labels has 1
    temperature: float = number(2.0, above=0)  # by which the logits of both are divided
    hidden_weight: float = number(0.0, at_least=0)  # of the squared error of the hidden states
    in_batch_negatives: bool = False  # of kind retrieval: each question learns its paragraph among those of its batch
    cosine_temperature: float = number(0.05, above=0, limit=1000)  # by which their cosines are divided
    keep: Keep | None = None  # weights left in the run's folder, for predict and export; None: last, or none in a sweep
    submit: bool = False  # write predictions of the test split in the benchmark's format

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
    length: int | None = number(
        None, at_least=1
    )  # tokens of the measured text, latency and FLOPs; None: 128, or as many as the model takes
    rounds: int = number(9, at_least=1)  # most launches of a variant, each in a new process
    min_rounds: int = number(4, at_least=1)  # launches before a session may end, once every comparison is decided
    budget_minutes: float | None = number(None, above=0)  # after which a session begins no further round; None: no limit
    repeats: int = number(20, at_least=1)  # timed calls of a launch, after a warm-up until steady
    throughput_texts: int | None = number(
        8, at_least=1
    )  # random texts of measure.length tokens in the throughput batch of all tasks; null: validation batches of each task
    batch_size: int = number(32, at_least=1)  # texts of one validation batch of which memory and throughput are measured
    throughput_batches: int = number(4, at_least=1)  # validation batches of one pass over them
    train_steps: int = number(3, at_least=0)  # timed training steps of a launch; 0: none
    train_batch_size: int = number(2, at_least=1)  # texts of one timed training step, of measure.length tokens
    threads: int = number(1, at_least=1, limit=MOST_THREADS)  # CPU threads of latency, throughput and timed training steps
    lengths: list[int] = field(
        default_factory=list, metadata=numbers(different=True, at_least=1)
    )  # text lengths in tokens, to which measure.length is added; those too long for the model are left out
    batch_sizes: list[int] = field(
        default_factory=list, metadata=numbers(different=True, at_least=1)
    )  # further batch sizes, at measure.length
    seconds_per_length: float = number(1.0, at_least=0)  # per launch for each of these; slow calls are timed fewer times
    foreign_cpus: float = number(0.5, at_least=0)  # CPUs that other processes may keep busy before a launch is repeated
    retries: int = number(1, at_least=0)  # most repeats of a launch
    backend: Backend = Backend.torch  # what runs the model while it is measured and evaluated; onnxruntime: the extra [serve]
    precision: Precision = Precision.fp32  # of the weights then; int8_weights: the extra [serve]
    load: list[Scenario] = field(
        default_factory=list
    )  # single_stream, server, offline: latency under load on the texts of the task
    load_share: float = number(0.5, above=0, below=1)  # rate of arrivals of load=[server], as a share of the offline throughput
    load_texts: int = number(200, at_least=10)  # texts of each scenario in a launch, drawn from the validation texts

    @property
    def is_served(self) -> bool:
        """Whether what is measured and evaluated is another model than the one that trains: `harness/measure/serving.py`."""
        return (self.backend, self.precision) != (Backend.torch, Precision.fp32)


@dataclass
class HardwareConfig:
    """Device, arithmetic and threads; read in `harness/hardware/`."""

    device: Device = Device.cpu  # cuda: the first GPU
    dtype: Dtype = Dtype.fp32  # bf16: autocast over float32 weights; auto: the faster one on this machine
    devices: int = number(1, at_least=1, limit=MOST_DEVICES)  # that train one run together, with a process each
    sharding: DeviceSharding = DeviceSharding.none  # full: for models that do not fit on one device while they train
    threads: int | None = number(
        None, at_least=1, limit=MOST_THREADS
    )  # CPU threads of each process that trains; None: all cores, divided by the devices and workers
    workers: int | None = number(
        None, at_least=1, limit=MOST_THREADS
    )  # runs of a sweep that train at once, each on threads of its own; None: small models one on each core, others one
    products: Products = Products.auto  # library of the float32 matrix products of linear layers, on a CPU
    compile: bool = False  # the model runs under torch.compile


@dataclass
class TrackingConfig:
    """Where results are browsed; read in `harness/tracking/`."""

    mlflow: bool = False  # in MLflow, at tracking.uri
    tensorboard: bool = False  # in `output`/tensorboard; the extra [tensorboard]
    wandb: bool = False  # Weights & Biases, in `output`/wandb; the extra [wandb]
    uri: str | None = None  # of MLflow; None: SQLite in `output`


@dataclass
class RunConfig:
    """One run: one arm on one task with one seed."""

    study: str = "default"  # name of the MLflow experiment and of its folder in `output`
    hypothesis: str = ""  # what the study expects; recorded with its time before the first run, and the head of the report
    arm: str = ""  # label of the arm; empty: from model, enhancements and objective
    settings: dict[str, str] = field(default_factory=dict)  # key: value, where the arm differs from its choices
    swept: list[str] = field(default_factory=list)  # keys and groups that the command sweeps
    matched: dict[str, float] = field(
        default_factory=dict
    )  # what `match` found: cost of the baseline, as published, as resized
    tuned: dict[str, str] = field(default_factory=dict)  # what `search` found: chosen settings, scores of its trials
    overrides: list[str] = field(default_factory=list)  # what the command line says of the run, without seeds
    model_keys: list[str] = field(default_factory=list)  # keys of the model that the command sets, without `model.`
    said_keys: dict[str, list[str]] = field(
        default_factory=dict
    )  # group=choice: keys of the model that its file sets; experiment/NAME: all that this file sets
    model_name: str = ""
    scale_name: str = ""
    enhancements: dict[str, bool] = field(default_factory=dict)
    seed: int = number(0, at_least=0, limit=LARGEST_SEED)  # of initialisation, dropout and the order of examples
    output: str = "multirun"  # folder of all results
    rerun: bool = False  # run again what has finished
    report: bool = True  # after a sweep, write the report on its study
    model: ModelConfig = field(default_factory=ModelConfig)
    published: ModelConfig = field(default_factory=ModelConfig)  # the same variant at BERT-base dimensions
    task: TaskConfig = field(default_factory=TaskConfig)
    data: DataConfig = field(default_factory=DataConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    match: MatchConfig = field(default_factory=MatchConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)

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


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
