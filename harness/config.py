"""Everything one run is told, as typed plain data.

Hydra composes YAML over these classes, so a wrong key or type stops before anything runs. Values live in `conf/`; the defaults
here are those of a key that no file sets. Each key is read in the module that is named beside its class.
"""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import MISSING, OmegaConf

from harness.errors import InputError
from models.config import EncoderConfig


class DataSource(Enum):
    """Where the rows of a task come from, unless a grammar generates them."""

    hub = "hub"
    local = "local"


class Rule(Enum):
    """What decides the label of a generated row; `harness/grammar.py` says what each one needs of a model."""

    bag = "bag"
    order = "order"
    distance = "distance"


class Dtype(Enum):
    """Arithmetic of the forward pass: float32 throughout, or bfloat16 by autocast over float32 weights."""

    fp32 = "fp32"
    bf16 = "bf16"


class Device(Enum):
    """What runs the model."""

    cpu = "cpu"
    cuda = "cuda"


MEASURED_LENGTH = 128
"""Tokens of the measured text where no length is given."""


@dataclass
class ModelConfig(EncoderConfig):
    """A variant: its shape, and published weights to start from; read in `harness/checkpoint.py`."""

    init_from: str | None = None  # name on the hub or folder; its config.json then says the shape


@dataclass
class GrammarConfig:
    """A generated data set; read in `harness/grammar.py`."""

    rule: Rule = Rule.bag
    train_examples: int = 1000
    validation_examples: int = 500
    distance: int = 20  # tokens between the two words of the rule `distance`
    seed: int = 0


@dataclass
class TaskConfig:
    """One data set with its labels and scores, or a named set of tasks; read in `harness/tasks.py`."""

    name: str = MISSING
    version: int = 1
    members: list[str] = field(default_factory=list)  # names of tasks: this entry is a set, and a run of it is a run of each
    grammar: GrammarConfig | None = None  # the rows are generated, whatever `data` says
    hub: str = ""  # data set on the hub
    folder: str = ""  # the same data set's folder below data.root
    subset: str = ""  # configuration of the data set
    train_split: str = "train"
    validation_split: str = "validation"
    fields: list[str] = field(default_factory=list)  # one or two text columns
    label: str = "label"
    labels: list[str] = field(default_factory=list)  # class names in the order of their numbers; empty: a regression
    scores: list[str] = field(default_factory=list)  # functions of harness/scores.py
    headline: str = ""  # the score that stands for the task
    max_length: int = 128  # tokens; longer texts are cut


@dataclass
class DataConfig:
    """Where data comes from; read in `harness/data.py`."""

    source: DataSource = DataSource.hub
    root: str | None = None  # folder of source=local
    train_examples: int | None = None  # the first so many; None: all of them
    validation_examples: int | None = None


@dataclass
class TokenizerConfig:
    """WordPiece trained on the task's training text, or read from a file; read in `harness/tokenizer.py`."""

    vocab_size: int = 8192
    min_frequency: int = 2
    lowercase: bool = True
    vocab_file: str | None = None  # one piece a line, as BERT's vocab.txt
    file: str | None = None  # a whole tokenizer of the library, tokenizer.json


@dataclass
class FinetuneConfig:
    """Budget and optimiser of fine-tuning; read in `harness/train.py` and `harness/finetune.py`."""

    epochs: float = 2.0
    max_steps: int | None = None  # ends earlier than the epochs would
    batch_size: int = 32  # examples of one optimiser step
    accumulation: int = 1  # pieces that a batch is cut into
    learning_rate: float = 3e-4
    warmup_fraction: float = 0.1
    weight_decay: float = 0.01
    adam_betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    adam_eps: float = 1e-8
    max_grad_norm: float = 1.0
    eval_batch_size: int = 64


@dataclass
class MeasureConfig:
    """What is measured beside training, and how often; read in `harness/measure/`."""

    enabled: bool = True
    length: int | None = None  # tokens of the measured text, latency and FLOPs; None: 128, or as many as the model takes
    warmup: int = 5  # calls before the first that counts
    repeats: int = 30  # timed calls
    batch_size: int = 32  # texts of one throughput batch
    throughput_batches: int = 8  # validation batches of one throughput pass
    threads: int = 1  # CPU threads of latency and throughput


@dataclass
class HardwareConfig:
    """On what it runs; read in `harness/hardware.py`."""

    device: Device = Device.cpu
    dtype: Dtype = Dtype.fp32
    threads: int | None = None  # CPU threads of training; None: all cores


@dataclass
class TrackingConfig:
    """Where results are browsed; read in `harness/tracking.py`."""

    uri: str | None = None  # None: SQLite in `output`


@dataclass
class RunConfig:
    """One cell: one variant on one task with one seed."""

    study: str = "default"
    variant: str = ""  # empty: named after the choices made
    model_name: str = ""
    scale_name: str = ""
    enhancements: dict[str, bool] = field(default_factory=dict)
    seed: int = 0
    output: str = "multirun"
    rerun: bool = False  # run again what is already finished
    model: ModelConfig = field(default_factory=ModelConfig)
    published: ModelConfig = field(default_factory=ModelConfig)  # the same variant at BERT-base dimensions
    task: TaskConfig = field(default_factory=TaskConfig)
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """Nested plain values, enums by name: what is written, hashed and logged."""
    return OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def save(config: RunConfig, path: Path) -> None:
    """Writes the whole resolved config as YAML."""
    OmegaConf.save(OmegaConf.structured(config), path)


def load(path: Path) -> RunConfig:
    """The config that `save` wrote."""
    return from_node(OmegaConf.load(path))


def from_node(node: Any) -> RunConfig:
    """A validated RunConfig from an OmegaConf node; InputError names the key and what is wrong with it.

    Merging plain values into the schema once more closes what `+key=` slips past it.
    """
    merged = OmegaConf.merge(OmegaConf.structured(RunConfig), OmegaConf.to_container(node, enum_to_str=True))
    config = OmegaConf.to_object(merged)
    if not isinstance(config, RunConfig):
        raise TypeError(f"expected a RunConfig, got {type(config).__name__}")
    if config.measure.length is None:  # resolved here, so that the protocol says what was measured
        config.measure.length = min(MEASURED_LENGTH, config.model.longest_text)
    refuse_impossible(config)
    return config


def refuse_impossible(config: RunConfig) -> None:
    """InputError for the first value that no run could use."""
    at_least_one = (
        "finetune.batch_size finetune.accumulation finetune.eval_batch_size finetune.max_steps measure.length measure.repeats "
        "measure.throughput_batches measure.threads hardware.threads task.max_length tokenizer.vocab_size data.train_examples "
        "data.validation_examples"
    )
    flat = flatten(to_dict(config))
    for key in at_least_one.split():
        if flat[key] is not None and flat[key] < 1:
            raise InputError(f"{key}={flat[key]} must be at least 1")
    for key in ("finetune.epochs", "finetune.learning_rate", "finetune.max_grad_norm"):
        if not flat[key] > 0:
            raise InputError(f"{key}={flat[key]} must be above 0")
    if not 0 <= config.finetune.warmup_fraction <= 1:
        raise InputError(f"finetune.warmup_fraction={config.finetune.warmup_fraction} must be between 0 and 1")
    if config.finetune.batch_size % config.finetune.accumulation:
        raise InputError(
            f"finetune.batch_size={config.finetune.batch_size} must be a multiple of "
            f"finetune.accumulation={config.finetune.accumulation}"
        )
    for key in ("measure.length", "task.max_length"):
        if flat[key] > config.model.longest_text:
            raise InputError(
                f"{key}={flat[key]} must be at most the {config.model.longest_text} of model.max_position_embeddings"
            )
    if not config.study or any(character in config.study for character in "/\\\0"):
        raise InputError(f"study={config.study!r} must be a name without slashes: it becomes a folder")
