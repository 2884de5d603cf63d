"""From a composed config to the one that runs: placeholders are replaced by values, impossible values are refused."""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from harness.config import own_files
from harness.config.choices import (
    UNTRAINED,
    CorpusSource,
    Dtype,
    Schedule,
    TaskKind,
    TrainedOn,
)
from harness.config.conditions import NO_TASK, has_task, is_only_scored, is_pretrained, rate_of_start
from harness.config.help import default_choices
from harness.config.own_files import as_text
from harness.config.rules import BUDGETS, refuse_combinations, refuse_numbers
from harness.config.schema import (
    REMOVED,
    CorpusConfig,
    FinetuneConfig,
    MeasureConfig,
    PretrainConfig,
    RunConfig,
    TaskConfig,
    TokenizerConfig,
    key_of,
    to_dict,
    within,
)
from harness.errors import InputError
from harness.models.config import EncoderConfig
from harness.models.keys import OF_HEAD, UNSHAPED, refuse_underived, refuse_unread, spaced, typed, with_own_head_size
from harness.models.objectives.config import ObjectiveName
from harness.paths import conf_directory

DEFAULT_TOKENS = 1e6
"""Default budget of pretraining in tokens."""

DECAY = {schedule: 0.2 if schedule is Schedule.wsd else 1.0 for schedule in Schedule}
"""Default of decay_fraction by schedule."""

OWN = "own"
"""Name of a task that its user completes."""

SCORES = {
    TaskKind.classification: ["accuracy"],
    TaskKind.multiple_choice: ["accuracy"],
    TaskKind.multilabel: ["f1_micro", "f1_macro", "accuracy"],
    TaskKind.regression: ["pearson", "spearman"],
    TaskKind.tokens: ["entity_f1", "entity_precision", "entity_recall"],
    TaskKind.spans: ["exact_match", "f1"],
    TaskKind.minimal_pairs: ["accuracy", "accuracy_by_piece"],
    TaskKind.similarity: ["pearson", "spearman"],
    TaskKind.retrieval: ["ndcg_at_10", "recall_at_10"],
}
"""Kind of task -> scores of a task of the user that names none."""


MEASURED_LENGTH = 128
"""Default tokens of the measured text, and of a pretraining sequence."""

OF_TEXT = ("tokenizer.file", "tokenizer.vocab_file")
"""Keys of the tokenizer that are read with published weights; the second one also sets its letter case."""


NAMES = {field.name for field in fields(EncoderConfig)}

GROUPS = ("model", "enhancement")
"""Those whose choices set keys of the encoder, at any scale."""

SIZES = {"embedding_fraction": "embedding_size", "intermediate_size": "feed_forward_size"}
"""Key -> the key that replaces it if set."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights to start from: their shape and tokenizer, and the config of the run if they are from one."""

    name: str
    folder: str
    shape: EncoderConfig
    tokenizer: TokenizerConfig
    run: RunConfig | None = None
    vocabulary: dict[str, Any] = field(default_factory=dict)  # keys of the shape, where the tokenizer has part of the pieces
    longest_text: int | None = None  # tokens that the published tokenizer allows, where it names a limit
    changeable: tuple[str, ...] = ()  # families whose weights can be changed

    @property
    def key(self) -> str:
        """The key that names it."""
        return "model.init_from" if self.run is None else "pretrain.from"


@dataclass(frozen=True)
class Found:
    """What must be read before a run can be resolved; None for what does not exist or is not read yet."""

    checkpoint: Checkpoint | None = None
    teacher: tuple[str, TokenizerConfig] | None = None  # its folder and its tokenizer
    threads: int | None = None  # CPU threads of each process of training if hardware.threads is null
    dtype: Dtype | None = None  # that of the run; differs from hardware.dtype where that is auto
    shape: EncoderConfig | None = None  # of an encoder of another package without weights, with the sizes that its class has
    kind: TaskKind | None = None  # of a task whose data set says it
    task: TaskConfig | None = None  # with the splits and columns of its one file


def resolve(composed: RunConfig, found: Found) -> RunConfig:
    """The config that runs, but for the vocabulary of its data: every placeholder is replaced, adopted shapes included.

    A pure function; only its result is hashed, saved, tracked, shown and run. InputError for a value that no run could use.
    """
    config = started_from(composed, found.checkpoint, found.shape)
    if found.task is not None:
        config = replace(config, task=found.task)
    if found.kind is not None:
        task = replace(config.task, kind=found.kind)
        task = replace(task, scores=[], headline="") if task.scores == SCORES[config.task.kind] else task
        config = replace(config, task=task)
    if found.teacher is not None:
        folder, tokenizer = found.teacher
        config = replace(config, pretrain=replace(config.pretrain, teacher=folder), tokenizer=tokenizer)
    config = _without_unread(_without_placeholders(config))
    if composed.hardware.dtype is Dtype.auto and "hardware.dtype" in composed.swept:
        raise InputError("hardware.dtype=auto picks one of the others: sweep hardware.dtype=fp32,bf16 instead")
    hardware = config.hardware
    threads, dtype = hardware.threads or found.threads, found.dtype or hardware.dtype
    config = replace(config, hardware=replace(hardware, threads=threads, dtype=dtype))
    if found.checkpoint is not None:  # all else was checked where it was composed
        refuse_combinations(config)
        longest = found.checkpoint.longest_text or math.inf
        for key, is_read in {"task.max_length": has_task(config), "pretrain.length": is_pretrained(config)}.items():
            if is_read and (length := attrgetter(key)(config)) > longest:
                raise InputError(
                    f"{key}={length} must be at most the {longest} tokens that {found.checkpoint.folder} states "
                    "(model_max_length of tokenizer_config.json, or max_seq_length of Sentence Transformers)"
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
        settings=config.settings_without("finetune", "task", "measure", "data", "pretrain.at", "protocol"),
        protocol_name="",
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
    is_own = task.name == OWN or bool(task.dataset or task.train_file or task.validation_file)
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
    kind = tokenizer.kind or (not tokenizer.vocab_file and not is_generated and stated.kind) or default.kind
    if stated.kind not in (None, kind):
        stated = replace(stated, lowercase=None)
    is_open = all(getattr(tokenizer, key) is None for key in ("file", "vocab_file", "kind", "vocab_size"))
    files: dict[str, Any] = {"file": stated.file, "vocab_file": stated.vocab_file} if is_open else {}
    values: dict[str, Any] = {"kind": kind}
    for key in ("vocab_size", "lowercase", "multilingual", "separators"):
        choices = (getattr(source, key) for source in (tokenizer, stated, default))
        values[key] = next(value for value in choices if value is not None)
    if tokenizer.sentinels is None:
        objectives = [config.pretrain.objective, *config.pretrain.phases]
        if tokenizer.trained_on is TrainedOn.corpus and not config.pretrains:
            objectives.append(config.model.objective)  # a control on the vocabulary of the text has that of its objective
        reads = config.model.init_from is None and ObjectiveName.span_corruption in objectives  # weights have their own
        values["sentinels"] = SENTINELS if reads else 0
    return replace(tokenizer, **files, **values)


SENTINELS = 100
"""As T5 has them: 26 spans and a final one are those of 512 tokens (arXiv:1910.10683, section 3.1.4)."""


def _without_unread(config: RunConfig) -> RunConfig:
    """Sets what a run does not read to its defaults, so that equal runs have equal configs."""
    if config.task.kind in UNTRAINED:  # vectors of texts are not timed: another task times the same encoder
        unmeasured = MeasureConfig(enabled=False, length=config.measure.length)
        config = replace(config, settings=config.settings_without("measure"), measure=unmeasured)
    if is_only_scored(config):  # one run for each pretraining, with its seed, or for the published weights
        is_control = config.model.random_weights and config.pretrain.checkpoint is not None
        of_start = 0 if config.model.has_published_weights else config.seed
        seed = seed_of_pretraining(config) if config.pretrains and not is_control else of_start
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
    """Writes the resolved config as YAML."""
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
    refuse_combinations(config)
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


# What weights say


def refuse_changes(config: RunConfig, checkpoint: Checkpoint, allowed: Iterable[str] = ()) -> None:
    """InputError for groups and keys of a composed run, but those `allowed`, that have no effect with weights.

    A group that sets keys of the encoder says what the weights become; one that says what they are anyway may stand.
    """
    is_published, where = checkpoint.run is None, f"{checkpoint.key}={checkpoint.folder}"
    keys = [one.name for one in fields(EncoderConfig) if one.name not in (*UNSHAPED, *config.model_keys)]
    different = [key for key in keys if getattr(config.model, key) != getattr(checkpoint.shape, key)]
    of_scale = _keys_of_scale(config.scale_name) or _keys_of_scale("base")
    for group, choice in _chosen(config).items():
        its_keys = [key for key in different if (key in of_scale) == (group == "scale")]
        if its_keys and choice != "[]" and group not in allowed and not said_by(config, group):
            there = ", ".join(f"model.{key}={typed(to_dict(getattr(checkpoint.shape, key)))}" for key in its_keys[:3])
            raise InputError(f"{group}={choice} has no effect: the encoder is that of {where}, with {there}; leave it out")
    if not is_published and config.pretrains:
        raise InputError(
            f"pretrain={config.pretrain.objective.value} has no effect: the pretraining is that of {where}; leave it out"
        )
    fixed = ("tokenizer", "tokenizer.", *(() if is_published else ("corpus", "corpus.", "recipe")))
    read = (*OF_TEXT, *(("tokenizer.lowercase",) if config.tokenizer.vocab_file else ())) if is_published else ()
    of_files = [(key, f"{key} of {name}") for name, keys in config.said_keys.items() if "=" not in name for key in keys]
    for key, said in [*((key_of(override), override.lstrip("+")) for override in config.overrides), *of_files]:
        looks_away = key == "pretrain.neighbour_heads" and config.pretrain.neighbour_heads
        if looks_away or (within(key, fixed) and key not in read):
            raise InputError(f"{said} has no effect: {where} has its own; leave it out")


def _keys_of_scale(name: str) -> set[str]:
    """Keys of the model that a scale sets; none for a file of the user, which is elsewhere."""
    path = conf_directory() / "scale" / f"{name}.yaml"
    return {str(key) for key in OmegaConf.load(path)} if path.is_file() else set()


def _chosen(config: RunConfig) -> dict[str, str]:
    """Group of the model -> its choice as it is typed, where the command or a file of it chooses one."""
    enhancements = f"[{','.join(sorted(config.enhancements))}]"
    choices = {"enhancement": enhancements, "model": config.model_name, "scale": config.scale_name}
    typed, default = {*map(key_of, config.overrides)}, default_choices()
    return {group: name for group, name in choices.items() if group in typed or name not in ("", "[]", default[group])}


def started_from(config: RunConfig, checkpoint: Checkpoint | None, of_class: EncoderConfig | None = None) -> RunConfig:
    """With the shape and tokenizer of the weights, and of a pretraining also its text and budget; or of a class its shape."""
    if checkpoint is None and of_class is not None:
        model = replace(config.model, **vars(of_class))
        return replace(config, model=model, published=model, scale_name=f"L{model.depth}-H{model.hidden_size}")
    if checkpoint is None:
        return config
    shape = _shape_of(config, checkpoint)
    model = replace(config.model, **vars(shape))
    adopted = replace(
        config,
        arm=config.arm or checkpoint.name,
        model=model,
        published=model,
        pretrain=replace(config.pretrain, neighbour_heads=False),
        tokenizer=checkpoint.tokenizer,
        measure=replace(config.measure, length=min(config.measure.length or MEASURED_LENGTH, model.longest_text)),
    )
    source = checkpoint.run
    if source is None:
        return replace(adopted, scale_name=f"L{model.depth}-H{model.hidden_size}")
    model_choice, enhancements = (_changing(config, checkpoint.shape, group) for group in GROUPS)
    kept = source.settings_without(*(f"model.{key}" for key in config.model_keys))
    return replace(
        adopted,
        arm=config.arm or "+".join([source.arm, *model_choice, *enhancements]),
        settings=kept | config.settings,
        model_name=source.model_name,
        scale_name=source.scale_name,
        enhancements=source.enhancements | dict.fromkeys(enhancements, True),
        model=replace(source.model, **vars(shape) | {"keep_layers": config.model.keep_layers}),
        published=source.published,
        pretrain=replace(source.pretrain, checkpoint=checkpoint.folder, at=config.pretrain.at),
        corpus=source.corpus,
    )


def _shape_of(config: RunConfig, checkpoint: Checkpoint) -> EncoderConfig:
    """The shape of the weights, with what the command says of the encoder; InputError for what cannot change."""
    own = [key for key in config.model_keys if key.partition(".")[0] in NAMES]
    if checkpoint.shape.encoder is not None:
        return _shape_of_foreign(config, checkpoint, own)
    chosen = _chosen(config)
    said = [*own, *(key for group in GROUPS if group in chosen for key in said_by(config, group) & NAMES)]
    changes = {key: getattr(config.model, key) for key in said if key not in UNSHAPED}
    for size, stated in SIZES.items():  # a size that the weights state is no longer one
        if size in changes and stated not in changes:
            changes[stated] = None
    layers = config.model.keep_layers
    if layers is not None:
        changes = {"num_hidden_layers": len(layers), "depth_fraction": 1.0} | changes
    try:
        shape = replace(with_own_head_size(checkpoint.shape, changes), **checkpoint.vocabulary)
        refuse_underived(checkpoint.shape, shape, layers)
    except ValueError as error:
        raise InputError(f"{checkpoint.key}={checkpoint.folder}: {error}") from error
    refuse_unread(shape, own)
    return shape


def _shape_of_foreign(config: RunConfig, checkpoint: Checkpoint, said: list[str]) -> EncoderConfig:
    """Allowed changes of weights that another package computes: keys of the head, and fewer layers; InputError for others."""
    shape, layers = checkpoint.shape, config.model.keep_layers
    depth = config.model.num_hidden_layers if "num_hidden_layers" in said else shape.num_hidden_layers
    depth = depth if layers is None else len(layers)
    open_keys = (*OF_HEAD, "num_hidden_layers", "encoder")
    fixed = [key for key in said if key not in open_keys and not key.startswith("options")]
    if fixed or not 1 <= depth <= shape.num_hidden_layers:
        wrong = f"model.{fixed[0]}" if fixed else f"model.num_hidden_layers={depth}, of {shape.num_hidden_layers}"
        raise InputError(
            f"{wrong} cannot be changed in {checkpoint.key}={checkpoint.folder}, which {shape.encoder} computes: expected keys "
            "of the head, model.num_hidden_layers or model.keep_layers; other keys change weights of "
            f"{', '.join(checkpoint.changeable)}"
        )
    own = {key: getattr(config.model, key) for key in said if key in OF_HEAD}
    of_encoder = {key: value for key, value in own.items() if key in shape.options}  # dropout, which its own config names, too
    own["options"] = shape.options | of_encoder | config.model.options
    if depth < shape.num_hidden_layers:
        own |= {"num_hidden_layers": depth, "layers_kept": layers or spaced(shape.num_hidden_layers, depth)}
    return replace(shape, **own)


def said_by(config: RunConfig, group: str) -> set[str]:
    """Keys of the model that the files of what a group chooses set, the user's own files included."""
    return {key for choice, keys in config.said_keys.items() if choice.startswith(f"{group}=") for key in keys}


def _changing(config: RunConfig, shape: EncoderConfig, group: str) -> list[str]:
    """Choices of a group, where the command makes one, that set a key to another value than weights of this shape have."""
    said = {
        choice.partition("=")[2]: NAMES & {*keys} for choice, keys in config.said_keys.items() if choice.startswith(f"{group}=")
    }
    return [
        choice
        for choice, keys in sorted(said.items())
        if group in _chosen(config) and any(getattr(config.model, key) != getattr(shape, key) for key in keys - {*UNSHAPED})
    ]


def note_on_scale(config: RunConfig) -> str | None:
    """One line on a pretraining of a model that is deeper or wider than those that `recipe=small` of its scale was found at."""
    shape, stated = config.model, config.model.recipe
    is_small = config.pretrain.learning_rate == stated.learning_rate and config.pretrain.mup_base_width is None
    if not config.pretrains or shape.init_from is not None or not is_small:
        return None
    scales: list[Any] = [OmegaConf.load(path) for path in sorted((conf_directory() / "scale").glob("*.yaml"))]
    learned = [scale for scale in scales if scale.get("recipe") == vars(stated)]
    if any(shape.depth <= scale.num_hidden_layers and shape.hidden_size <= scale.hidden_size for scale in learned):
        return None
    shapes = " and ".join(f"L{scale.num_hidden_layers} H{scale.hidden_size}" for scale in learned)
    tried = f"were tuned at {shapes}" if learned else "were not tuned at any scale"
    return (
        f"pretrain.learning_rate={stated.learning_rate:g} and initial values of {stated.initializer_range:g} (recipe=small) "
        f"{tried}, here L{shape.depth} H{shape.hidden_size}: larger models may need lower ones; set them, or take recipe=bert"
    )
