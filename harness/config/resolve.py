"""From a composed config to the one that runs: placeholders are replaced by values, impossible values are refused."""

import functools
import math
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from harness import metrics
from harness.config import command_line, own_files
from harness.config.adopted import MEASURED_LENGTH, Checkpoint, started_from
from harness.config.choices import (
    UNTRAINED,
    Backend,
    CorpusSource,
    Device,
    DeviceSharding,
    Dtype,
    Keep,
    KeepBest,
    MatchOn,
    Optimizer,
    Precision,
    Schedule,
    TaskKind,
    TrainedOn,
)
from harness.config.conditions import NO_TASK as NO_TASK
from harness.config.conditions import depends_on_seed as depends_on_seed
from harness.config.conditions import has_task as has_task
from harness.config.conditions import is_only_scored as is_only_scored
from harness.config.conditions import is_pretrained as is_pretrained
from harness.config.conditions import rate_of_start as rate_of_start
from harness.config.own_files import as_text
from harness.config.schema import (
    ON_FAILURE,
    REMOVED,
    CorpusConfig,
    FinetuneConfig,
    MeasureConfig,
    PretrainConfig,
    RunConfig,
    SweepConfig,
    TaskConfig,
    TokenizerConfig,
)
from harness.config.unread import refuse_idle
from harness.errors import InputError, unknown
from harness.metrics import TRAINED_UNITS, Compared, Direction
from harness.models.choices import Body, Trains
from harness.models.objectives.config import ObjectiveName
from harness.models.ranges import refuse_out_of_range
from harness.paths import conf_directory

BUDGETS = ("tokens", "steps", "flops", "seconds")
"""Keys of `pretrain` of which one sets the budget."""

BALANCED = "balanced"
"""Value of finetune.class_weights: rows over classes times rows of the class."""

DEFAULT_TOKENS = 1e6
"""Default budget of pretraining in tokens."""

DECAY = {schedule: 0.2 if schedule is Schedule.wsd else 1.0 for schedule in Schedule}
"""Default of decay_fraction by schedule."""

OWN = "own"
"""Name of a task that its user completes."""

SCORES = {
    TaskKind.classification: ["accuracy"],
    TaskKind.multilabel: ["f1_micro", "f1_macro", "accuracy"],
    TaskKind.regression: ["pearson", "spearman"],
    TaskKind.tokens: ["entity_f1", "entity_precision", "entity_recall"],
    TaskKind.spans: ["exact_match", "f1"],
    TaskKind.minimal_pairs: ["accuracy", "accuracy_by_piece"],
    TaskKind.similarity: ["pearson", "spearman"],
    TaskKind.retrieval: ["ndcg_at_10", "recall_at_10"],
}
"""Kind of task -> scores of a task of the user that names none."""


@dataclass(frozen=True)
class Found:
    """What must be read before a run can be resolved; None for what does not exist or is not read yet."""

    checkpoint: Checkpoint | None = None
    teacher: tuple[str, TokenizerConfig] | None = None  # its folder and its tokenizer
    threads: int | None = None  # CPU threads of each process of training if hardware.threads is null
    dtype: Dtype | None = None  # that of the run; differs from hardware.dtype where that is auto


def resolve(composed: RunConfig, found: Found) -> RunConfig:
    """The config that runs, but for the vocabulary of its data: every placeholder is replaced, adopted shapes included.

    A pure function; only its result is hashed, saved, tracked, shown and run. InputError for a value that no run could use.
    """
    config = started_from(composed, found.checkpoint)
    if found.teacher is not None:
        folder, tokenizer = found.teacher
        config = replace(config, pretrain=replace(config.pretrain, teacher=folder), tokenizer=tokenizer)
    config = _without_unread(_without_placeholders(config))
    if composed.hardware.dtype is Dtype.auto and "hardware.dtype" in composed.swept:
        raise InputError("hardware.dtype=auto stands for one of the others: expected hardware.dtype=fp32,bf16 in a sweep")
    hardware = config.hardware
    threads, dtype = hardware.threads or found.threads, found.dtype or hardware.dtype
    config = replace(config, hardware=replace(hardware, threads=threads, dtype=dtype))
    refuse_impossible(config)
    if found.checkpoint is not None and found.checkpoint.longest_text is not None:
        for key in (["task.max_length"] if has_task(config) else []) + (["pretrain.length"] if is_pretrained(config) else []):
            if (length := attrgetter(key)(config)) > found.checkpoint.longest_text:
                raise InputError(
                    f"{key}={length} must be at most the {found.checkpoint.longest_text} of model_max_length in "
                    f"{found.checkpoint.folder}/tokenizer_config.json"
                )
    return config


def seed_of_pretraining(config: RunConfig) -> int:
    """Seed of the pretraining of a resolved run: its own, or that of the run."""
    return config.seed if config.pretrain.seed is None else config.pretrain.seed


def with_vocabulary(config: RunConfig, vocab_size: int, pad_token_id: int) -> RunConfig:
    """The resolved config of a model that is not read from a checkpoint, with the vocabulary of its prepared data."""
    return replace(config, model=replace(config.model, vocab_size=vocab_size, pad_token_id=pad_token_id))


def pretraining_of(config: RunConfig) -> RunConfig:
    """The run of the pretraining that this resolved run needs, with everything that belongs to the task at its defaults."""
    return replace(
        config,
        settings=config.settings_without("finetune", "task", "measure", "data", "pretrain.at"),
        seed=seed_of_pretraining(config),
        pretrain=replace(config.pretrain, at=None),
        task=TaskConfig(name=NO_TASK),
        finetune=FinetuneConfig(enabled=False),
        measure=replace(MeasureConfig(enabled=False), length=config.pretrain.length),
        data=replace(config.data, train_examples=None, validation_examples=None),
    )


def _without_placeholders(config: RunConfig) -> RunConfig:
    """Replaces defaults that depend on other keys by values."""
    longest, pretrain = min(MEASURED_LENGTH, config.model.longest_text), config.pretrain
    objective, *phases = (
        config.model.objective if one is ObjectiveName.own else one for one in (pretrain.objective, *pretrain.phases)
    )
    phases = [] if phases == [objective] else phases
    shares = pretrain.shares or [1 / len(phases) for _ in phases]
    pretrain = replace(
        pretrain,
        length=pretrain.length or longest,
        objective=objective,
        phases=phases,
        shares=shares,
        decay_fraction=pretrain.decay_fraction or (shares[-1] if phases else DECAY[pretrain.schedule]),
        seed=seed_of_pretraining(config),
    )
    if all(getattr(pretrain, key) is None for key in BUDGETS):
        pretrain = replace(pretrain, tokens=DEFAULT_TOKENS)
    length = config.measure.length or longest
    lengths = dict.fromkeys([*config.measure.lengths, length]) if config.measure.lengths else ()
    measure = replace(config.measure, length=length, lengths=list(lengths))
    task = config.task
    is_own = task.name == OWN or bool(task.train_file or task.validation_file)
    if is_own and not task.scores:
        task = replace(task, scores=SCORES[task.kind])
    if is_own and not task.headline:
        task = replace(task, headline=task.scores[0])
    config = replace(config, pretrain=pretrain, measure=measure, task=task)
    if config.finetune.learning_rate is None:
        config = replace(config, finetune=replace(config.finetune, learning_rate=rate_of_start(config)))
    if config.tokenizer.trained_on is TrainedOn.auto:
        trained_on = TrainedOn.corpus if is_pretrained(config) else TrainedOn.task
        config = replace(config, tokenizer=replace(config.tokenizer, trained_on=trained_on))
    return replace(config, tokenizer=_stated(config))


def _stated(config: RunConfig) -> TokenizerConfig:
    """The tokenizer with what the model or scale states in place of each null, and the default where they state nothing.

    A stated file is read only where nothing says which file, kind or size. A stated case is that of the stated kind. A typed
    vocabulary file is WordPiece's. Words of a generated text have no parts: every model reads them whole, as the default does.
    """
    tokenizer, stated, default = config.tokenizer, config.model.tokenizer, TokenizerConfig()
    is_generated = bool(config.task.grammar or config.task.pairs)
    if tokenizer.trained_on is TrainedOn.corpus:
        is_generated = config.corpus.source is CorpusSource.builtin
    is_open_kind = not tokenizer.vocab_file and not is_generated
    kind = tokenizer.kind or (is_open_kind and stated.kind) or default.kind
    if stated.kind not in (None, kind):
        stated = replace(stated, lowercase=None)
    is_open = all(getattr(tokenizer, key) is None for key in ("file", "vocab_file", "kind", "vocab_size"))
    files: dict[str, Any] = {"file": stated.file, "vocab_file": stated.vocab_file} if is_open else {}
    values: dict[str, Any] = {"kind": kind}
    for key in ("vocab_size", "lowercase", "multilingual", "separators"):
        choices = (getattr(source, key) for source in (tokenizer, stated, default))
        values[key] = next(value for value in choices if value is not None)
    if tokenizer.sentinels is None:
        values["sentinels"] = SENTINELS if _reads_sentinels(config) else 0
    return replace(tokenizer, **files, **values)


SENTINELS = 100
"""As T5 has them: 26 spans and a final one are those of 512 tokens (arXiv:1910.10683, section 3.1.4)."""


def _reads_sentinels(config: RunConfig) -> bool:
    """Whether spans are predicted; a model that is not pretrained, on the vocabulary of the text, has that of its objective.

    Weights have the vocabulary that they have.
    """
    if config.model.init_from is not None:
        return False
    pretrain, is_control = config.pretrain, config.tokenizer.trained_on is TrainedOn.corpus
    objectives = [pretrain.objective, *pretrain.phases]
    objectives += [config.model.objective] if is_control and pretrain.objective is ObjectiveName.none else []
    return ObjectiveName.span_corruption in objectives


def _without_unread(config: RunConfig) -> RunConfig:
    """Sets what a run does not read to its defaults, so that equal runs have equal configs."""
    if config.task.kind in UNTRAINED:  # vectors of texts are not timed: another task times the same encoder
        unmeasured = MeasureConfig(enabled=False, length=config.measure.length)
        config = replace(config, settings=config.settings_without("measure"), measure=unmeasured)
    if is_only_scored(config):  # one run for each pretraining, with its seed, or for the published weights
        is_control = config.model.random_weights and config.pretrain.checkpoint is not None
        trains = config.pretrain.objective is not ObjectiveName.none and not is_control
        published = config.model.init_from is not None and not config.model.random_weights
        seed = seed_of_pretraining(config) if trains else 0 if published else config.seed
        settings = config.settings_without("finetune")
        config = replace(config, seed=seed, settings=settings, finetune=FinetuneConfig(enabled=False))
    if config.finetune.seconds is not None:
        epochs = replace(config.finetune, epochs=FinetuneConfig.epochs)
        config = replace(config, settings=config.settings_without("finetune.epochs"), finetune=epochs)
    if is_pretrained(config):
        distilled = config.pretrain.objective is ObjectiveName.distillation
        unread: dict[str, Any] = ({} if distilled else {"teacher": None}) | ({} if config.pretrain.phases else {"shares": []})
        settings = config.settings_without(*(f"pretrain.{key}" for key in unread))
        return replace(config, pretrain=replace(config.pretrain, **unread), settings=settings)
    plain = PretrainConfig(length=config.pretrain.length, tokens=DEFAULT_TOKENS, seed=config.seed, decay_fraction=1.0)
    config = replace(config, pretrain=plain, settings=config.settings_without("pretrain."))
    if config.tokenizer.trained_on is TrainedOn.corpus:
        return config
    return replace(config, corpus=CorpusConfig(name="none"), settings=config.settings_without("corpus"))


def save(config: RunConfig, path: Path) -> None:
    """Writes the whole resolved config as YAML."""
    OmegaConf.save(OmegaConf.structured(config), path)


def load(path: Path) -> RunConfig:
    """The resolved config that `save` wrote; InputError for any other file. What looks like `${...}` is text there."""
    try:
        node = own_files.load(path)
        for key in REMOVED:  # an earlier version has written them
            section, _, name = key.rpartition(".")
            if isinstance(values := OmegaConf.select(node, section), DictConfig):
                values.pop(name, None)
        return from_node(OmegaConf.merge(_schema(), node))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (OmegaConfBaseException, YAMLError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not the config of a run: {' '.join(str(error).split())}") from error


def from_node(node: Any) -> RunConfig:
    """A validated RunConfig from an OmegaConf node; InputError names the key and what is wrong with it."""
    config = unchecked(node)
    _refuse_combinations(config)
    return config


def unchecked(node: Any) -> RunConfig:
    """A RunConfig from an OmegaConf node, placeholders replaced, but not validated beyond the ranges of its numbers.

    The plain values are merged into the schema where the node is not of it, or has other keys: `+key=` and `~key` bypass it,
    as does `${...}` in place of a list or a section.
    """
    if OmegaConf.get_type(node) is not RunConfig or not _is_of_the_schema(node):
        node = OmegaConf.merge(_schema(), as_text(OmegaConf.to_container(node, resolve=True, enum_to_str=True)))
    config = OmegaConf.to_object(node)
    if not isinstance(config, RunConfig):
        raise TypeError(f"expected a RunConfig, got {type(config).__name__}")
    refuse_numbers(config)  # a placeholder may take the value of another key
    return _without_placeholders(config)


@functools.cache
def _schema() -> DictConfig:
    """The schema as a node, built once: that takes longer than to merge values into a copy of it."""
    schema: DictConfig = OmegaConf.structured(RunConfig)
    return schema


def _is_of_the_schema(node: Any) -> bool:
    """Whether every typed node below has the fields of its type, no other key, and no interpolation in place of a group.

    A plain dictionary may have any keys.
    """
    if isinstance(node, Container) and node._is_interpolation():
        return False
    of = OmegaConf.get_type(node)
    if not is_dataclass(of) or node._is_none():
        return True
    return set(node) == {field.name for field in fields(of)} and all(
        _is_of_the_schema(value) for _, value in node.items_ex(resolve=False)
    )


def refuse_impossible(config: RunConfig) -> None:
    """InputError for the first value that no run could use."""
    refuse_numbers(config)
    _refuse_combinations(config)


def _refuse_combinations(config: RunConfig) -> None:
    """InputError for values that are possible alone and not together, and for names that nothing could have."""
    refuse_idle(config)
    scored = is_only_scored(config)
    if not (config.finetune.enabled or config.measure.enabled or scored) and has_task(config):
        raise InputError("finetune=none measure=none leave nothing to do: set one of them to another choice")
    if scored and config.search.space:
        raise InputError(f"task={config.task.name} trains nothing: leave out search")
    _refuse_impossible_pretraining(config)
    _refuse_impossible_training(config)
    _refuse_unserved(config)
    trained = ["pretrain.length"] if is_pretrained(config) else []
    for key in ("measure.length", *(["task.max_length"] if has_task(config) else []), *trained):
        length = attrgetter(key)(config)
        if length > config.model.longest_text:
            raise InputError(f"{key}={length} must be at most the {config.model.longest_text} of model.max_position_embeddings")
    if config.sweep.retime and not (config.sweep.timing and config.measure.enabled):
        raise InputError("sweep.retime=true times again: leave out sweep.timing=false and measure=none, or sweep.retime")
    if config.sweep.on_failure not in ON_FAILURE:
        raise unknown("value", config.sweep.on_failure, ON_FAILURE, "sweep.on_failure")
    _refuse_no_headline(config.sweep)
    command_line.refuse_study(config.study)
    for key, text in {"arm": config.arm, "task.name": config.task.name, **config.settings}.items():
        if not text.isprintable():
            raise InputError(f"{key}={text!r} must be text on one line: it is part of the names of runs")
    command_line.refuse_address(config.tracking.uri)


def _refuse_no_headline(sweep: SweepConfig) -> None:
    """InputError for a metric that no verdict over seeds is about."""
    judged = [
        metric.name
        for metric in metrics.METRICS.values()
        if metric.compared is Compared.BY_SEED and metric.unit in TRAINED_UNITS and metric.direction is not Direction.NEITHER
    ]
    if sweep.headline is not None and sweep.headline not in judged:
        raise unknown("metric", sweep.headline, judged, "sweep.headline")


def refuse_numbers(config: RunConfig) -> None:
    """InputError for the first number that is out of its range."""
    try:
        refuse_out_of_range(replace(config, published=config.model))
    except ValueError as error:
        raise InputError(str(error)) from error


def _refuse_impossible_training(config: RunConfig) -> None:
    if config.finetune.keep is Keep.best and config.finetune.keep_best is KeepBest.none:
        raise InputError(
            "finetune.keep=best needs a split that chooses the best epoch: set finetune.keep_best=tune, or finetune.keep=last"
        )
    if None not in (config.finetune.max_steps, config.finetune.seconds):
        both = f"finetune.max_steps={config.finetune.max_steps} and finetune.seconds={config.finetune.seconds}"
        raise InputError(f"{both} are budgets: set only one")
    refuse_class_weights(config)
    _refuse_untrainable(config)
    _refuse_impossible_negatives(config)
    if config.finetune.batch_size % config.finetune.accumulation:
        raise InputError(
            f"finetune.batch_size={config.finetune.batch_size} must be a multiple of "
            f"finetune.accumulation={config.finetune.accumulation}"
        )
    _refuse_idle_devices(config)
    for key in ("finetune.activation_checkpointing", "pretrain.activation_checkpointing"):
        if attrgetter(key)(config) and config.model.body in (Body.lstm, Body.static):
            raise InputError(
                f"{key}=true needs layers to compute again, but model.body={config.model.body.value} has none: "
                "set model.body=transformer, or leave the key out"
            )


def _refuse_impossible_negatives(config: RunConfig) -> None:
    """InputError for in-batch negatives of a task without pairs, and for what divides their batch or needs a head."""
    finetune, said = config.finetune, "finetune.in_batch_negatives=true"
    if not finetune.in_batch_negatives:
        return
    if config.task.kind is not TaskKind.retrieval:
        raise InputError(
            f"{said} trains pairs of question and paragraph, not task {config.task.name!r} of kind {config.task.kind.value}: "
            "expected task=retrieval, or task.kind=retrieval, or leave it out"
        )
    for key, value in {"finetune.accumulation": finetune.accumulation, "hardware.devices": config.hardware.devices}.items():
        if value > 1:
            raise InputError(f"{key}={value} divides the batch, whose paragraphs are the negatives of {said}: leave one out")
    if finetune.trains is Trains.head or finetune.teacher is not None:
        key = "finetune.trains=head" if finetune.trains is Trains.head else f"finetune.teacher={finetune.teacher}"
        raise InputError(f"{key} needs a head on the encoder, which {said} has not: leave one of them out")


def _refuse_untrainable(config: RunConfig) -> None:
    """InputError for what an optimizer, or several devices with parts of a model, cannot train."""
    finetune = config.finetune
    partial = [key for key in ("trains", "freeze_layers") if getattr(finetune, key) != getattr(FinetuneConfig, key)]
    if partial and config.hardware.sharding is not DeviceSharding.none:
        raise InputError(
            f"finetune.{partial[0]} trains a part of a model that is whole on each device: set hardware.sharding=none"
        )
    for phase, options in (("finetune", config.finetune), ("pretrain", config.pretrain)):
        name = f"{phase}.optimizer={options.optimizer.value}"
        if options.optimizer is Optimizer.adamw:
            continue
        if config.hardware.sharding is not DeviceSharding.none:
            raise InputError(f"{name} is not divided among devices: set hardware.sharding=none, or {phase}.optimizer=adamw")
        if config.match.cost is MatchOn.memory:
            raise InputError(f"match=memory is by a formula for {phase}.optimizer=adamw, not for {options.optimizer.value}")
        if options.optimizer is Optimizer.muon and config.model.body is Body.static:
            raise InputError(f"{name} trains the matrices of layers, but model.body=static has none")
    layers = config.model.depth * (2 if config.model.body is Body.encoder_decoder else 1)
    if finetune.optimizer is Optimizer.muon and (finetune.trains is not Trains.all or finetune.freeze_layers == layers):
        raise InputError(
            "finetune.optimizer=muon trains the matrices of layers: expected finetune.trains=all, "
            f"and finetune.freeze_layers below {layers}"
        )


def refuse_class_weights(config: RunConfig) -> None:
    """InputError for weights of a task without classes, for other values than `balanced` and numbers, and for other labels."""
    weights, task = config.finetune.class_weights, config.task
    if weights is None:
        return
    said = f"finetune.class_weights={weights}"
    if task.kind in (TaskKind.regression, TaskKind.spans, TaskKind.retrieval):
        raise InputError(f"{said}: task {task.name!r} of kind {task.kind.value} has no classes: leave it out")
    if weights == BALANCED:
        return
    if not isinstance(weights, dict) or not all(
        isinstance(one, int | float) and 0 < one < math.inf for one in weights.values()
    ):
        raise InputError(f"{said} must be {BALANCED}, or a number above 0 for each label, such as {{no: 1, yes: 3}}")
    if task.labels and {*map(str, weights)} != {*task.labels}:
        raise InputError(f"{said} must have a weight for each label of task {task.name!r}: {', '.join(task.labels)}")


SERVED = {
    Backend.torch: (Precision.fp32, Precision.bf16, Precision.int8_dynamic, Precision.int8_weights),
    Backend.compile: (Precision.fp32, Precision.bf16),
    Backend.onnxruntime: (Precision.fp32, Precision.int8_dynamic),
}
"""What each backend computes in."""


def _refuse_unserved(config: RunConfig) -> None:
    measure, hardware = config.measure, config.hardware
    precision = f"measure.precision={measure.precision.value}"
    if measure.precision not in SERVED[measure.backend]:
        others = ", ".join(one.value for one in SERVED[measure.backend])
        raise InputError(f"measure.backend={measure.backend.value} does not compute in {precision}: expected one of {others}")
    plain = (hardware.device, hardware.dtype, hardware.compile, hardware.devices) == (Device.cpu, Dtype.fp32, False, 1)
    if measure.is_served and not plain:
        raise InputError(
            f"measure.backend={measure.backend.value} {precision} serves what one CPU trains in float32: leave out "
            "hardware.device, hardware.dtype, hardware.compile and hardware.devices"
        )


def _refuse_idle_devices(config: RunConfig) -> None:
    devices, sharding = config.hardware.devices, config.hardware.sharding
    if sharding is DeviceSharding.full and devices == 1:
        raise InputError("hardware.sharding=full divides a model among several devices: set hardware.devices to 2 or more")
    if sharding is DeviceSharding.full and config.hardware.compile:
        raise InputError("hardware.sharding=full cannot be combined with hardware.compile=true: leave one of them out")
    trained = {"finetune": config.finetune.enabled and has_task(config), "pretrain": is_pretrained(config)}
    for phase in (phase for phase, happens in trained.items() if happens):
        options = getattr(config, phase)
        if options.batch_size < devices * options.accumulation:
            pieces = "" if options.accumulation == 1 else f" in {phase}.accumulation={options.accumulation} pieces"
            raise InputError(
                f"{phase}.batch_size={options.batch_size}{pieces} has too few rows for hardware.devices={devices}: "
                f"raise {phase}.batch_size to {devices * options.accumulation} at least, or use fewer devices"
            )


def _refuse_impossible_pretraining(config: RunConfig) -> None:
    pretrain = config.pretrain
    budgets = [f"pretrain.{key}={getattr(pretrain, key)}" for key in BUDGETS if getattr(pretrain, key) is not None]
    if len(budgets) > 1:
        raise InputError(f"{' and '.join(budgets)} are budgets: set only one")
    if pretrain.ramp_from is not None and pretrain.ramp_from > pretrain.batch_size:
        raise InputError(f"pretrain.ramp_from={pretrain.ramp_from} must be at most pretrain.batch_size={pretrain.batch_size}")
    _refuse_unreached(pretrain)
    _refuse_phases(pretrain)
    if pretrain.objective is ObjectiveName.distillation and not (pretrain.teacher or config.model.init_from):
        raise InputError("pretrain.objective=distillation needs a teacher: set pretrain.teacher to a run or folder")
    if pretrain.objective is ObjectiveName.own:
        raise InputError("model.objective=own refers to itself: set an objective")


def _refuse_phases(pretrain: PretrainConfig) -> None:
    """InputError for phases that cannot train one encoder, or shares that do not divide the budget among them."""
    if not pretrain.phases:
        return
    names, shares = [phase.value for phase in pretrain.phases], pretrain.shares
    said = f"pretrain.phases=[{','.join(names)}]"
    alone = {"none", "own", "distillation"} & {*names}
    if alone:
        raise InputError(f"{said}: {alone.pop()} is no phase; expected objectives without a teacher, such as [clm,mlm]")
    if pretrain.phases[-1] is not pretrain.objective:
        raise InputError(f"{said} must end with pretrain={pretrain.objective.value}: expected pretrain=[{','.join(names)}]")
    if len(shares) != len(names) or not math.isclose(sum(shares), 1):
        raise InputError(f"pretrain.shares={shares} must be {len(names)} shares with a sum of 1, one for each of {said}")
    if pretrain.decay_fraction is not None and pretrain.decay_fraction > shares[-1] * (1 + 1e-9):
        raise InputError(
            f"pretrain.decay_fraction={pretrain.decay_fraction} must be at most {shares[-1]}, the share of the last phase"
        )
    if pretrain.steps is not None and pretrain.steps * shares[-1] < 1:
        raise InputError(
            f"pretrain.steps={pretrain.steps} leaves no step to {names[-1]}, with pretrain.shares={shares}: raise it"
        )


def _refuse_unreached(pretrain: PretrainConfig) -> None:
    """Weights are kept at numbers of tokens within the budget, and fine-tuning starts from one of them."""
    if pretrain.keep and pretrain.tokens is None:
        raise InputError(f"pretrain.keep={pretrain.keep} counts tokens: set the budget in tokens, too (pretrain.tokens)")
    for tokens in pretrain.keep:
        if not 0 < tokens <= (pretrain.tokens or 0):
            raise InputError(
                f"pretrain.keep={pretrain.keep}: {tokens} must be above 0 and at most pretrain.tokens={pretrain.tokens}"
            )
    if pretrain.at is not None and pretrain.checkpoint is None and pretrain.at not in pretrain.keep:
        raise InputError(f"pretrain.at={pretrain.at} must be one of pretrain.keep={pretrain.keep}")


def refuse_misfit(config: RunConfig, recipe: str | None, keys: list[str], swept: list[str]) -> None:
    """InputError for published weights at the rate for random ones, and for positions of which some have a head start.

    `keys` are those that the user sets: what they say is meant.
    """
    neighbours = "pretrain.neighbour_heads"
    is_pretrained = config.pretrain.objective is not ObjectiveName.none
    if is_pretrained and config.pretrain.neighbour_heads and "model.position" in swept and neighbours not in keys:
        raise InputError(
            f"recipe={recipe} begins learned positions, and no others, with heads that look at neighbours, and model.position "
            f"is swept: add {neighbours}=false for an equal start, or {neighbours}=true to keep this one"
        )
    starts_from_weights = config.model.init_from is not None and config.pretrain.objective is not ObjectiveName.none
    if recipe in ("small", "mup") and starts_from_weights and "pretrain.learning_rate" not in keys:
        raise InputError(
            f"recipe={recipe} is for randomly initialised models, not for model.init_from={config.model.init_from}: "
            "add recipe=bert, or set pretrain.learning_rate"
        )


def note_on_scale(config: RunConfig) -> str | None:
    """One line on a pretraining of a model that is deeper or wider than those that `recipe=small` of its scale was found at."""
    shape, stated = config.model, config.model.recipe
    is_small = config.pretrain.learning_rate == stated.learning_rate and config.pretrain.mup_base_width is None
    if config.pretrain.objective is ObjectiveName.none or shape.init_from is not None or not is_small:
        return None
    scales: list[Any] = [OmegaConf.load(path) for path in sorted((conf_directory() / "scale").glob("*.yaml"))]
    learned = [scale for scale in scales if scale.get("recipe") == vars(stated)]
    if any(shape.depth <= scale.num_hidden_layers and shape.hidden_size <= scale.hidden_size for scale in learned):
        return None
    shapes = " and ".join(f"L{scale.num_hidden_layers} H{scale.hidden_size}" for scale in learned)
    tried = f"were found at {shapes}" if learned else "were tried at no scale"
    return (
        f"pretrain.learning_rate={stated.learning_rate:g} and initial values of {stated.initializer_range:g} (recipe=small) "
        f"{tried}, here L{shape.depth} H{shape.hidden_size}: larger models may need lower ones; set them, or take recipe=bert"
    )
