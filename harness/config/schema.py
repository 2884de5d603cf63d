"""The config of one run as typed plain data. Hydra composes YAML over it, so a wrong key or type is an error before any run.

Values are in `conf/`; defaults here are for keys that no file sets. Each docstring names the module that reads the keys.
"""

import math
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.arms import setting_texts
from harness.config.choices import (
    Device,
    DeviceSharding,
    Dtype,
    Keep,
    KeepBest,
    Products,
    TokenizerKind,
)
from harness.config.execution import SweepConfig
from harness.config.match import MatchConfig
from harness.config.search import SearchConfig
from harness.config.texts import CorpusConfig, DataConfig, TaskConfig, TokenizerConfig
from models.config import LARGEST_TABLE, EncoderConfig
from models.objectives.config import ObjectiveConfig, ObjectiveName
from models.ranges import LARGEST_SEED, number, numbers

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
    init_from: str | None = None  # name on the hub or folder; its config.json gives the shape
    tokenizer: StatedTokenizer = field(default_factory=StatedTokenizer)  # what `tokenizer=own` means
    recipe: StatedRecipe = field(default_factory=StatedRecipe)  # what differs from scale to scale in `recipe=small`


@dataclass
class OptimiserConfig:
    """AdamW and its schedule; read in `harness/training/loop.py`."""

    batch_size: int = number(32, at_least=1)  # examples of one optimiser step
    accumulation: int = number(1, at_least=1)  # pieces that a batch is cut into
    learning_rate: float = number(3e-4, above=0, limit=1000)  # peak, after the warm-up
    warmup_fraction: float = number(
        0.1, at_least=0, at_most=1
    )  # share of the steps in which the rate rises; it falls to 0 in the others
    weight_decay: float = number(0.01, at_least=0, limit=1000)  # of matrices; none of biases and norms
    adam_betas: list[float] = field(
        default_factory=lambda: [0.9, 0.999], metadata=numbers(count=2, at_least=0, below=1)
    )  # decay of the means of gradient and its square
    adam_eps: float = number(1e-8, above=0, limit=1)  # added to the divisor
    max_grad_norm: float = number(1.0, above=0)  # gradients are scaled down to this norm
    activation_checkpointing: bool = False  # layers are computed again in the backward pass, not kept (arXiv:1604.06174)


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
    ramp_from: int | None = number(None, at_least=1)  # sequences of the first step; None: no ramp
    ramp_fraction: float = number(0.1, above=0, at_most=1)  # share of the budget that the ramp takes
    weight_decay: float = number(0.01, at_least=0, limit=1000)  # of matrices; none of biases and norms
    initializer_range: float | None = number(
        None, above=0, limit=100
    )  # standard deviation of initial values; None: model.initializer_range
    dropout: float | None = number(
        None, at_least=0, below=1
    )  # of layers and attention while pretraining; None: that of the model
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
    checkpoint: str | None = None  # run id or folder of a pretraining to start from; on the command line also `pretrain.from`


@dataclass
class FinetuneConfig(OptimiserConfig):
    """Budget and optimiser of fine-tuning; read in `harness/training/loop.py` and `harness/training/finetune.py`."""

    enabled: bool = True  # false: the model is only measured
    epochs: float = number(2.0, above=0)  # passes over the rows of train; fractions are possible
    max_steps: int | None = number(None, at_least=1)  # ends earlier than the epochs
    eval_batch_size: int = number(64, at_least=1)  # examples of one batch of evaluation
    keep_best: KeepBest = KeepBest.none  # which epoch's weights are evaluated
    keep: Keep | None = None  # weights left in the run's folder, for predict and export; None: last, or none in a sweep
    submit: bool = False  # write predictions of the test split in the benchmark's format

    def steps_per_epoch(self, examples: int) -> int:
        """Optimiser steps of one epoch."""
        return math.ceil(examples / self.batch_size)

    def planned_steps(self, examples: int) -> int:
        """Optimiser steps of the budget, at least one."""
        steps = max(1, round(self.epochs * self.steps_per_epoch(examples)))
        return steps if self.max_steps is None else min(steps, self.max_steps)


@dataclass
class MeasureConfig:
    """What is measured beside training, and how often; read in `harness/measure/`."""

    enabled: bool = True  # false: nothing is measured beside training
    length: int | None = number(
        None, at_least=1
    )  # tokens of the measured text, latency and FLOPs; None: 128, or as many as the model takes
    rounds: int = number(5, at_least=1)  # most launches of a variant, each in a new process
    min_rounds: int = number(4, at_least=1)  # launches before a session may end early
    half_width: float = number(
        0.05, at_least=0
    )  # a session ends when the 95 % intervals of its A/A replicates are within ± this share; 0: never
    repeats: int = number(20, at_least=1)  # timed calls of a launch, after a warm-up until steady
    batch_size: int = number(32, at_least=1)  # texts of one throughput batch
    throughput_batches: int = number(4, at_least=1)  # validation batches of one throughput pass
    threads: int = number(1, at_least=1, limit=MOST_THREADS)  # CPU threads of latency and throughput
    lengths: list[int] = field(
        default_factory=list, metadata=numbers(different=True, at_least=1)
    )  # further text lengths in tokens; those too long for the model are left out
    batch_sizes: list[int] = field(
        default_factory=list, metadata=numbers(different=True, at_least=1)
    )  # further batch sizes, at measure.length
    seconds_per_length: float = number(1.0, at_least=0)  # per launch for each of these; slow calls are timed fewer times
    foreign_cpus: float = number(0.5, at_least=0)  # CPUs that other processes may keep busy before a launch is repeated
    retries: int = number(1, at_least=0)  # most repeats of a launch


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
    workers: int = number(1, at_least=1, limit=MOST_THREADS)  # runs of a sweep that train at once, each on threads of its own
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
    arm: str = ""  # label of the arm; empty: from model, enhancements and objective
    settings: dict[str, str] = field(default_factory=dict)  # key: value, where the arm differs from its choices
    swept: list[str] = field(default_factory=list)  # keys and groups that the command sweeps
    matched: dict[str, float] = field(
        default_factory=dict
    )  # what `match` found: cost of the baseline, as published, as resized
    tuned: dict[str, str] = field(default_factory=dict)  # what `search` found: chosen settings, scores of its trials
    overrides: list[str] = field(default_factory=list)  # what the command line says of the run, without seeds
    model_keys: list[str] = field(default_factory=list)  # keys of the model that the command sets, without `model.`
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


def save(config: RunConfig, path: Path) -> None:
    """Writes the whole resolved config as YAML."""
    OmegaConf.save(OmegaConf.structured(config), path)
