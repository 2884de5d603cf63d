"""What no run can do: values that exclude each other, and keys that nothing reads; each in one line, with the cure."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from harness import metrics
from harness.config import command_line, protocols
from harness.config.choices import (
    Backend,
    Device,
    DeviceSharding,
    Dtype,
    Keep,
    KeepBest,
    MatchOn,
    Optimizer,
    Precision,
    TaskKind,
)
from harness.config.conditions import PRETRAINING, has_task, is_only_scored, is_pretrained, ranks_a_corpus
from harness.config.help import GROUPS, default_choices
from harness.config.schema import ON_FAILURE, FinetuneConfig, RunConfig, key_of, stated_keys
from harness.errors import InputError, unknown
from harness.metrics import TRAINED_UNITS, Compared, Direction
from harness.models.config import Body, Trains
from harness.models.objectives.config import ObjectiveName
from harness.models.ranges import Refused, When, refuse_out_of_range
from harness.redact import refuse_address

BUDGETS = ("tokens", "steps", "flops", "seconds")
"""Keys of `pretrain` of which one sets the budget."""

BALANCED = "balanced"
"""Value of finetune.class_weights: rows over classes times rows of the class."""

SERVED = {
    Backend.torch: (Precision.fp32, Precision.bf16, Precision.int8_dynamic, Precision.int8_weights),
    Backend.compile: (Precision.fp32, Precision.bf16),
    Backend.onnxruntime: (Precision.fp32, Precision.int8_dynamic),
}
"""What each backend computes in."""

JUDGED = [
    metric.name
    for metric in metrics.METRICS.values()
    if metric.compared is Compared.BY_SEED and metric.unit in TRAINED_UNITS and metric.direction is not Direction.NEITHER
]
"""Metrics that a verdict over seeds may be about."""

Lines = Iterator[str]
"""What is said of a run that is impossible."""


def refuse_impossible(config: RunConfig) -> None:
    """InputError for the first value that no run could use."""
    refuse_numbers(config)
    refuse_combinations(config)


def refuse_numbers(config: RunConfig) -> None:
    """InputError for the first number that is out of its range."""
    try:
        refuse_out_of_range(replace(config, published=config.model))
    except ValueError as error:
        raise InputError(str(error)) from error


def refuse_combinations(config: RunConfig) -> None:
    """InputError for values that exclude each other, and for invalid names."""
    refuse_idle(config)
    for line in itertools.chain(_of_command(config), _of_pretraining(config), _of_training(config), _of_devices(config)):
        raise InputError(line)
    refuse_class_weights(config)
    if config.sweep.on_failure not in ON_FAILURE:
        raise unknown("value", config.sweep.on_failure, ON_FAILURE, "sweep.on_failure")
    if config.sweep.headline not in (None, *JUDGED):
        raise unknown("metric", config.sweep.headline, JUDGED, "sweep.headline")
    command_line.refuse_study(config.study)
    refuse_address(config.tracking.uri)


def _of_command(config: RunConfig) -> Lines:
    measure, scored, longest = config.measure, is_only_scored(config), config.model.longest_text
    if has_task(config) and not (config.finetune.enabled or measure.enabled or scored):
        yield "finetune=none measure=none leave nothing to do: set one of them to another choice"
    if scored and config.search.space:
        yield f"task={config.task.name} trains nothing: leave out search"
    read = {"measure.length": True, "task.max_length": has_task(config), "pretrain.length": is_pretrained(config)}
    for key, is_read in read.items():
        if is_read and (length := attrgetter(key)(config)) > longest:
            yield f"{key}={length} must be at most the {longest} of model.max_position_embeddings"
    if config.sweep.retime and not (config.sweep.timing and measure.enabled):
        yield "sweep.retime=true times again: leave out sweep.timing=false and measure=none, or sweep.retime"
    for key, text in {"arm": config.arm, "task.name": config.task.name, **config.settings}.items():
        if not text.isprintable():
            yield f"{key}={text!r} must be text on one line: it is part of the names of runs"


def _of_pretraining(config: RunConfig) -> Lines:
    pretrain = config.pretrain
    budgets = [f"pretrain.{key}={getattr(pretrain, key)}" for key in BUDGETS if getattr(pretrain, key) is not None]
    if len(budgets) > 1:
        yield f"{' and '.join(budgets)} are budgets: set only one"
    if (pretrain.ramp_from or 0) > pretrain.batch_size:
        yield f"pretrain.ramp_from={pretrain.ramp_from} must be at most pretrain.batch_size={pretrain.batch_size}"
    keep = f"pretrain.keep={pretrain.keep}"
    if pretrain.keep and pretrain.tokens is None:
        yield f"{keep} counts tokens: set the budget in tokens, too (pretrain.tokens)"
    for tokens in pretrain.keep:
        if not 0 < tokens <= (pretrain.tokens or 0):
            yield f"{keep}: {tokens} must be above 0 and at most pretrain.tokens={pretrain.tokens}"
    if pretrain.checkpoint is None and pretrain.at not in (None, *pretrain.keep):
        yield f"pretrain.at={pretrain.at} must be one of {keep}"
    yield from _of_phases(config)
    if pretrain.objective is ObjectiveName.distillation and not (pretrain.teacher or config.model.init_from):
        yield "pretrain.objective=distillation needs a teacher: set pretrain.teacher to a run or folder"
    if pretrain.objective is ObjectiveName.own:
        yield "model.objective=own refers to itself: set an objective"


def _of_phases(config: RunConfig) -> Lines:
    """Phases train one encoder, and their shares divide the budget among them."""
    pretrain, shares = config.pretrain, config.pretrain.shares
    names = [phase.value for phase in pretrain.phases]
    if not names:
        return
    said = f"pretrain.phases=[{','.join(names)}]"
    for alone in sorted({"none", "own", "distillation"} & {*names}):
        yield f"{said}: {alone} is not a phase: expected objectives without a teacher, such as [clm,mlm]"
    if pretrain.phases[-1] is not pretrain.objective:
        yield f"{said} must end with pretrain={pretrain.objective.value}: expected pretrain=[{','.join(names)}]"
    if len(shares) != len(names) or not math.isclose(sum(shares), 1):
        yield f"pretrain.shares={shares} must be {len(names)} shares that add up to 1, one for each of {said}"
    if (pretrain.decay_fraction or 0) > shares[-1] * (1 + 1e-9):
        yield f"pretrain.decay_fraction={pretrain.decay_fraction} must be at most {shares[-1]}, the share of the last phase"
    if pretrain.steps is not None and pretrain.steps * shares[-1] < 1:
        yield f"pretrain.steps={pretrain.steps} leaves no step for {names[-1]}, with pretrain.shares={shares}: raise it"


def _of_training(config: RunConfig) -> Lines:
    finetune, body = config.finetune, config.model.body
    if finetune.keep is Keep.best and finetune.keep_best is KeepBest.none:
        yield "finetune.keep=best needs a split that selects the best epoch: set finetune.keep_best=tune, or finetune.keep=last"
    if None not in (finetune.max_steps, finetune.seconds):
        yield f"finetune.max_steps={finetune.max_steps} and finetune.seconds={finetune.seconds} are budgets: set only one"
    if finetune.batch_size % finetune.accumulation:
        yield f"finetune.batch_size={finetune.batch_size} must be a multiple of finetune.accumulation={finetune.accumulation}"
    for phase, options in (("finetune", finetune), ("pretrain", config.pretrain)):
        if options.activation_checkpointing and body in (Body.lstm, Body.static, Body.foreign):
            yield f"{phase}.activation_checkpointing=true needs layers, but model.body={body.value} has none: leave it out"
        name, is_other = f"{phase}.optimizer={options.optimizer.value}", options.optimizer is not Optimizer.adamw
        if is_other and config.hardware.sharding is not DeviceSharding.none:
            yield f"{name} cannot be sharded: set hardware.sharding=none, or {phase}.optimizer=adamw"
        if is_other and config.match.cost is MatchOn.memory:
            yield f"match=memory has a formula for {phase}.optimizer=adamw only, not for {options.optimizer.value}"
        if options.optimizer is Optimizer.muon and body is Body.static:
            yield f"{name} trains the matrices of layers, but model.body=static has none"
    layers = config.model.depth * (2 if body is Body.encoder_decoder else 1)
    if finetune.optimizer is Optimizer.muon and (finetune.trains is not Trains.all or finetune.freeze_layers == layers):
        yield f"finetune.optimizer=muon trains the matrices of layers: expected trains=all, freeze_layers below {layers}"
    if finetune.in_batch_negatives:
        yield from _of_negatives(config)


def _of_negatives(config: RunConfig) -> Lines:
    """In-batch negatives need pairs and a whole batch, and have no head."""
    finetune, task, said = config.finetune, config.task, "finetune.in_batch_negatives=true"
    if task.kind is not TaskKind.retrieval:
        yield f"{said} trains pairs, not task {task.name!r} of kind {task.kind.value}: expected task.kind=retrieval"
    if ranks_a_corpus(task):
        yield f"{said} needs pairs of texts: expected task.fields with two columns, or finetune=none to rank a corpus"
    for key, value in {"finetune.accumulation": finetune.accumulation, "hardware.devices": config.hardware.devices}.items():
        if value > 1:
            yield f"{key}={value} divides the batch, whose paragraphs are the negatives of {said}: leave one out"
    if finetune.trains is Trains.head or finetune.teacher is not None:
        yield f"finetune.trains=head and finetune.teacher need a head on the encoder, which {said} does not have: leave one out"


def _of_devices(config: RunConfig) -> Lines:
    measure, hardware, finetune = config.measure, config.hardware, config.finetune
    backend, served = f"measure.backend={measure.backend.value}", SERVED[measure.backend]
    precision = f"measure.precision={measure.precision.value}"
    if measure.precision not in served:
        others = ", ".join(one.value for one in served)
        yield f"{backend} does not compute in {precision}: expected one of {others}"
    is_plain = (hardware.device, hardware.dtype, hardware.compile, hardware.devices) == (Device.cpu, Dtype.fp32, False, 1)
    if measure.is_served and not is_plain:
        wanted = "hardware.device=cpu, hardware.dtype=fp32, and neither hardware.compile nor hardware.devices"
        yield f"{backend} {precision} serves what one CPU trains in float32: expected {wanted}"
    is_divided = hardware.sharding is DeviceSharding.full
    if is_divided and hardware.devices == 1:
        yield "hardware.sharding=full divides a model among several devices: set hardware.devices to 2 or more"
    if is_divided and hardware.compile:
        yield "hardware.sharding=full cannot be combined with hardware.compile=true: leave one of them out"
    for key in ("trains", "freeze_layers"):
        if is_divided and getattr(finetune, key) != getattr(FinetuneConfig, key):
            yield f"finetune.{key} trains a part of a model that is whole on each device: set hardware.sharding=none"
    trained = {"finetune": finetune.enabled and has_task(config), "pretrain": is_pretrained(config)}
    for phase, is_trained in trained.items():
        options, devices = getattr(config, phase), hardware.devices
        if is_trained and options.batch_size < (fewest := devices * options.accumulation):
            yield f"{phase}.batch_size={options.batch_size} is too small for hardware.devices={devices}: raise it to {fewest}"


def refuse_class_weights(config: RunConfig) -> None:
    """InputError for weights of a task without classes, for other values than `balanced` and numbers, and for other labels."""
    weights, task = config.finetune.class_weights, config.task
    if weights is None:
        return
    said = f"finetune.class_weights={weights}"
    if task.kind in (TaskKind.regression, TaskKind.spans, TaskKind.retrieval, TaskKind.multiple_choice):
        raise InputError(f"{said}: task {task.name!r} of kind {task.kind.value} has no classes: leave it out")
    if weights == BALANCED:
        return
    numbers = weights.values() if isinstance(weights, dict) else [weights]
    if not all(isinstance(one, int | float) and 0 < one < math.inf for one in numbers):
        raise InputError(f"{said} must be {BALANCED}, or a number above 0 for each label, such as {{no: 1, yes: 3}}")
    if task.labels and {*map(str, weights)} != {*task.labels}:
        raise InputError(f"{said} must have a weight for each label of task {task.name!r}: {', '.join(task.labels)}")


def refuse_misfit(config: RunConfig, recipe: str | None, keys: list[str], swept: list[str]) -> None:
    """InputError for published weights at the rate for random ones, and for positions of which some have a head start.

    `keys` are those that the user sets: what they say is meant.
    """
    neighbours, pretrains = "pretrain.neighbour_heads", config.pretrains
    if pretrains and config.pretrain.neighbour_heads and "model.position" in swept and neighbours not in keys:
        raise InputError(
            f"recipe={recipe} initialises heads to attend to neighbours with learned positions alone, and model.position "
            f"is swept: add {neighbours}=false for an equal start, or {neighbours}=true to keep this one"
        )
    weights = config.model.init_from
    if recipe in ("small", "mup") and pretrains and weights is not None and "pretrain.learning_rate" not in keys:
        raise InputError(
            f"recipe={recipe} is for randomly initialised models, not for model.init_from={weights}: "
            "add recipe=bert, or set pretrain.learning_rate"
        )


# Keys that nothing reads


def unread_by(run: RunConfig) -> list[str]:
    """Keys that this run does not read."""
    return [key for key in stated_keys() if not all(holds(run, key, when) for when in stated_keys()[key].read)]


def holds(run: RunConfig, key: str, when: When) -> bool:
    """Whether a condition of this key holds; also where the section of the key is left out."""
    section, _, _ = key.rpartition(".")
    owner = attrgetter(section)(run) if section else run
    return owner is None or bool(when.holds(run, owner))


def refuse_unread_parts(runs: list[RunConfig], overrides: list[str], of: str = "") -> None:
    """InputError for a key, typed or swept by a file, that none of the runs reads; `of`: of a task, such as `task.rte.`."""
    for word in overrides:
        if of_task := protocols.TYPED.fullmatch(word):
            on_it = [run for run in runs if of_task[1] in (run.task.name, protocols.of_task(run.overrides)[0])]
            if not on_it:
                reason = f"no run is on this task: add task={of_task[1]}"
                raise InputError(f"{word} has no effect, because {reason}, or leave it out")
            refuse_unread_parts(on_it, [of_task[2]], f"task.{of_task[1]}.")
    typed = {key_of(override): override.lstrip("+") for override in overrides}
    swept, weights = [] if of else runs[0].swept, runs[0].pretrain.checkpoint
    for said_key, said in ({key: key for key in swept} | typed).items():
        above = itertools.accumulate(said_key.split("."), "{}.{}".format)
        key = max((name for name in above if name in stated_keys()), key=len, default="")
        key = "data.source" if said == "data=local" else key  # a file of the user may set more
        for when in stated_keys()[key].read if key else ():
            is_choice = said_key in GROUPS and (weights or said.partition("=")[2] in ("none", default_choices().get(said_key)))
            is_refused = said_key in swept or not (when.refused is Refused.swept or is_choice)
            if not is_refused or any(holds(run, key, when) for run in runs):
                continue
            choice = when.choice.format(section=key.partition(".")[0])
            reason = f"no run of this command {when.why}: add {choice}"
            if when is PRETRAINING and weights is not None:
                reason = f"the pretraining is that of pretrain.from={weights}: name a pretraining with that setting"
            raise InputError(f"{of}{said} has no effect, because {reason}, or leave it out")


def refuse_idle(config: RunConfig) -> None:
    """InputError for a key with another value than its default, in a command or a file, that only other runs could read."""
    conditions = ((key, stated.field.default, when) for key, stated in stated_keys().items() for when in stated.read)
    for key, default, when in conditions:
        if when.refused is not Refused.everywhere or (value := attrgetter(key)(config)) == default:
            continue
        if not holds(config, key, when):
            choice = when.choice.format(section=key.partition(".")[0])
            raise InputError(f"{key}={value} is read only by a run that {when.why}: add {choice}, or leave it out")
