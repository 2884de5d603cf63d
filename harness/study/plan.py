"""What a command will run: every run resolved, with its data prepared, a pretraining before the runs that need it."""

import functools
import hashlib
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness import extensions, paths, records
from harness.checkpoints import huggingface, language_model, native, pretrained, start, teacher
from harness.comparison import arms
from harness.comparison.paired import grouped
from harness.config.choices import Device, Keep, MatchOn, TaskKind, TrainedOn
from harness.config.conditions import has_task, is_only_scored, is_pretrained
from harness.config.resolve import Checkpoint, Found, pretraining_of, resolve, with_vocabulary
from harness.config.schema import RunConfig
from harness.corpus import overlap, prepare, sequences
from harness.data import sources
from harness.data.tokenizer import vocabulary_bytes
from harness.errors import InputError
from harness.hardware import facts
from harness.measure import subject
from harness.models import mup
from harness.models.adapt import adapt
from harness.models.config import Trains
from harness.models.objectives.build import refuse_misfit
from harness.models.objectives.config import ObjectiveName
from harness.models.objectives.span_corruption import refuse_few_sentinels
from harness.study import identity
from harness.study.identity import Identity, Inputs
from harness.tasks import prepared

SMALL = 4e6
"""Parameters in the layers up to which runs of a sweep train one on each core: a little more than those of scale mini."""

FEW, FEW_ROWS = 5000, "only {:,} rows to train random weights on: add model=minilm to start from pretrained weights"
"""Rows of the user below which published weights are proposed, and what is said."""

FEWEST_STEPS = 100
FEW_STEPS = "only {} optimizer steps: set more epochs, such as finetune.epochs=20 (arXiv:2006.04884)"
"""Steps of a fine-tuning on rows of the user below which more epochs are proposed, and what is said."""

SHAPES = "harness.shapes"
"""The group of entry points with a `Resizing` of the name `match`."""


@dataclass(frozen=True)
class Resizing:
    """How variants get the cost of their baseline.

    `resized`: the composed runs in their new shapes, given what resolves one of them. `note`: one line on the shape of a run.
    """

    resized: Callable[[list[RunConfig], Callable[[RunConfig], RunConfig]], list[RunConfig]]
    note: Callable[[RunConfig], str | None]


@dataclass
class PlannedRun:
    """A run that can start once the pretraining that it needs has finished."""

    config: RunConfig
    inputs: Inputs
    folder: Path
    needs: "PlannedRun | None" = None  # a pretraining of this command
    needs_weights: list[Path] = field(default_factory=list)  # a finished run without these folders runs again
    drops_weights: bool = False  # because nothing else is set
    lifted: list[str] = field(default_factory=list)  # facts that vary between the arms of this command
    place: int = 0  # among the runs as the command names them
    label: str = ""  # its title in console lines, with its number among the runs in the order of starting
    notes: list[str] = field(default_factory=list)  # printed before the first run starts
    same_as: str = ""  # label of another arm of this command that is the same model and recipe

    @functools.cached_property
    def identity(self) -> Identity:
        """The identity of the run, which does not depend on the weights that it keeps."""
        return Identity(self.config, self.inputs)

    @property
    def title(self) -> str:
        """The name of the run in console lines."""
        return self.identity.title

    @property
    def is_to_be_timed(self) -> bool:
        """Whether its inference is timed once it has finished."""
        return not self.inputs.is_pretraining and self.config.measure.enabled


def plan(composed: list[RunConfig], show: Callable[[str], object] = lambda _: None) -> list[PlannedRun]:
    """Resolves every run and prepares its data and text, each once, which `show` is told; a duplicate run is planned once.

    InputError, before any run starts, if the data of any of them cannot be used.
    """
    planned: dict[Path, PlannedRun] = {}
    first: dict[tuple[str, ...], dict[int, PlannedRun]] = {}  # runs that others start from, by seed
    cache = Cache(show)
    named = with_sizes(with_workers(composed, facts.cores()), cache)
    places = {id(config): place for place, config in enumerate(named)}
    for config in itertools.chain(*stages(named)):
        by_seed = first.get(_stage(config, config.protocol.starts_from), {})
        needed = by_seed.get(config.seed) or next(iter(by_seed.values()), None)
        if needed is None and (begun := config.protocol.starts_from):
            raise InputError(f"{config.label} on {config.task.name} starts from {begun}, which is not among these runs: add it")
        for run in _runs(config, cache, planned, needed):
            if needed is not None and run.inputs.is_pretraining:  # its weights have one already
                continue
            model, task = run.config.model, run.config.task
            said = [_smaller_vocabulary(config, run.config)]
            if run.config.matched:
                said.append(_resizing(run.config).note(run.config))
            if run.inputs.weights_read:
                said.append(f"{model.init_from or model.encoder}: {run.inputs.weights_read}")
            if not run.inputs.is_pretraining and task.kind is not config.task.kind:
                said.append(
                    f"task {task.name!r} is of kind {task.kind.value} by the features of {task.dataset}; "
                    "task.kind= says another"
                )
            if needed is not None:
                named_start = f"{needed.config.task.name} ({needed.config.label})"
                said.append(f"{config.task.name} starts from the fine-tuned weights of {named_start}")
                # of a fine-tuning that was planned before it (arXiv:1811.01088)
                content = run.inputs.content | {"recipe": arms.short_hash(needed.identity.facts)}
                of, weights = needed.identity.fingerprint, str(needed.folder)
                inputs = replace(run.inputs, pretraining=of, pretrained=weights, content=content)
                run = replace(run, inputs=inputs, folder=Identity(run.config, inputs).folder, needs=needed)
            run.notes = [*filter(None, said), *run.notes]
            run.place = places[id(config)]
            same = planned.setdefault(run.folder, run)
            if same is not run:
                same.notes += run.notes
            if run.inputs.is_pretraining:  # which may serve several arms
                continue
            first.setdefault(_stage(config, config.task.name), {}).setdefault(config.seed, same)
            if same.config.label != run.config.label:
                raise InputError(
                    f"{same.config.label!r} and {run.config.label!r} are the same run: their difference has no effect here; "
                    "leave one of them out"
                )
    runs = list(planned.values())
    for place, run in enumerate(sorted(runs, key=lambda run: run.place)):
        run.place = place
    for of_task in grouped((run.identity.task, run) for run in runs).values():
        of_task[0].notes += _alike(of_task)
        lifted = identity.lifted(run.identity for run in of_task)
        for run in of_task:
            run.lifted = lifted
    _choose_what_is_kept([run for run in runs if not run.inputs.is_pretraining])
    return run_order(runs)


def stages(composed: list[RunConfig]) -> list[list[RunConfig]]:
    """The runs whose weights others start from, by their protocol, and then the others; empty ones are left out."""
    starts = {_stage(run, run.protocol.starts_from) for run in composed if run.protocol.starts_from}
    first = [run for run in composed if _stage(run, run.task.name) in starts]
    return [stage for stage in (first, [run for run in composed if run not in first]) if stage]


def _stage(run: RunConfig, task: str | None) -> tuple[str, ...]:
    """Equal for runs of one arm on this task, including trials of a search, which change what the command does not sweep."""
    swept = [item for item in sorted(run.settings.items()) if item[0] in run.swept or not item[0].startswith("finetune.")]
    return (run.arm, run.scale_name, repr(swept), str(task))


def _alike(runs: list[PlannedRun]) -> list[str]:
    """A note on each pair of arms that are one model and recipe under two names."""
    labels: dict[str, str] = {}
    pairs: dict[tuple[str, str], None] = {}
    for run in runs:
        first = labels.setdefault(run.identity.unnamed, run.config.label)
        if first != run.config.label:
            run.same_as = first
            pairs[first, run.config.label] = None
    return [f"{first!r} and {again!r} are the same model and recipe under two names" for first, again in pairs]


def with_workers(composed: list[RunConfig], at_once: int) -> list[RunConfig]:
    """The composed runs of a command with the number that train at once: as set, else up to `at_once` small ones on a CPU."""
    first = composed[0]
    is_divided = len(composed) > 1 and first.sweep.budget_minutes is None and not any(run.model.init_from for run in composed)
    for run in composed:
        hardware, layers = run.hardware, 12 * run.model.num_hidden_layers * run.model.hidden_size**2
        is_divided &= hardware.device is Device.cpu and hardware.devices == 1 and hardware.threads is None
        is_divided &= layers <= SMALL
    workers = at_once if is_divided else 1
    return [replace(run, hardware=replace(run.hardware, workers=run.hardware.workers or workers)) for run in composed]


def with_sizes(composed: list[RunConfig], cache: "Cache | None" = None) -> list[RunConfig]:
    """The composed runs, those with `match` resized; InputError for one that cannot be."""
    cache = cache or Cache()
    for run in composed:
        if run.match.cost is not MatchOn.none and not run.matched:
            return _resizing(run).resized(composed, lambda config: _runs(config, cache, {})[-1].config)
    return composed


def _resizing(run: RunConfig) -> Resizing:
    if "match" not in extensions.names(SHAPES):
        raise InputError(f"match={run.match.cost.value} needs a plug-in that is not installed: expected match=none")
    return extensions.find(SHAPES, "match", Resizing, "match")


def _choose_what_is_kept(runs: list[PlannedRun]) -> None:
    """Where finetune.keep is not set, a single run keeps its last weights, and of a sweep only runs that others start from."""
    default, needed = Keep.last if len(runs) == 1 else Keep.none, {id(run.needs) for run in runs}
    for run in runs:
        finetune = run.config.finetune
        keep = Keep.last if id(run) in needed and finetune.keep in (Keep.auto, Keep.none) else finetune.keep
        keeps = finetune.enabled and keep not in (Keep.auto, Keep.none)
        run.needs_weights = [run.folder / paths.WEIGHTS] if keeps else []
        run.drops_weights = finetune.enabled and keep is Keep.auto and default is Keep.none
        run.config = replace(run.config, finetune=replace(finetune, keep=default if keep is Keep.auto else keep))


def not_needed(planned: list[PlannedRun]) -> list[PlannedRun]:
    """The runs without the pretrainings that others start from."""
    needed = {id(run.needs) for run in planned}
    return [run for run in planned if id(run) not in needed or not run.inputs.is_pretraining]


def run_order(planned: list[PlannedRun]) -> list[PlannedRun]:
    """Pretrainings first; then, for each seed and task, all arms in a random order: a study can be read after its first seed.

    Runs that are compared train close in time, and no arm is always first. The same command gives the same order.
    """
    seeds = grouped((run.config.seed, run) for run in planned if not run.inputs.is_pretraining)
    blocks = grouped(((run.config.task.name, run.config.seed), run) for runs in seeds.values() for run in runs)
    for (task, seed), block in blocks.items():
        random.Random(f"{task} {seed} {len(block)}").shuffle(block)
    return [*(run for run in planned if run.inputs.is_pretraining), *itertools.chain(*blocks.values())]


def _smaller_vocabulary(composed: RunConfig, config: RunConfig) -> str | None:
    """A note if the text yields fewer pieces than the model or scale states; None if enough, or if the user set a size."""
    stated, pieces = composed.model.tokenizer.vocab_size, config.model.vocab_size
    tokenizer, pretrain = composed.tokenizer, composed.pretrain
    is_distilled = pretrain.objective is ObjectiveName.distillation
    is_read = tokenizer.file or tokenizer.vocab_file or pretrain.checkpoint or composed.model.init_from or is_distilled
    if stated is None or is_read or tokenizer.vocab_size != stated or pieces >= stated:
        return None
    return (
        f"{composed.model_name} at scale {composed.scale_name} states a vocabulary of {stated:,} pieces; "
        f"the text yields {pieces:,}, and the model gets that size"
    )


class Cache:
    """Prepares each text and task data of a command once, by the settings that they depend on."""

    def __init__(self, show: Callable[[str], object] = lambda _: None) -> None:
        self._keys: dict[str, str] = {}
        self._show = show

    def text(self, config: RunConfig) -> str:
        """Key of the prepared text."""
        settings = repr((config.corpus, config.data, config.tokenizer, config.output, config.pretrain.teacher))
        if settings not in self._keys:
            self._show(f"preparing the text {config.corpus.name}")
            self._keys[settings] = prepare.prepare(config)
        return self._keys[settings]

    def task(self, config: RunConfig) -> str:
        """Key of the task's prepared data."""
        splits = (config.task, config.finetune.submit, config.finetune.keep_best, is_only_scored(config))
        settings = repr((*splits, config.data, config.tokenizer, config.output, config.model.init_from))
        if settings not in self._keys:
            self._show(f"preparing data of {config.task.name}")
            self._keys[settings] = prepared.prepare(config)
        return self._keys[settings]


def _runs(
    composed: RunConfig, cache: Cache, planned: dict[Path, PlannedRun], first: PlannedRun | None = None
) -> list[PlannedRun]:
    """The composed run, after the pretraining that it needs, if any, with the vocabulary of `first`, whose weights it gets."""
    prerequisites = start.read(composed)
    config = resolve(composed, prerequisites)
    if first is not None and not (config.tokenizer.file or config.tokenizer.vocab_file or is_pretrained(config)):
        file = str(paths.data_folder(config.output, first.inputs.rows) / native.TOKENIZER)
        config = replace(config, tokenizer=replace(config.tokenizer, file=file))
    tokenizer_file = hashlib.sha256(vocabulary_bytes(config.tokenizer)).hexdigest()[:16]
    if config.pretrain.checkpoint is not None and prerequisites.checkpoint is not None:
        return [_from_checkpoint(config, prerequisites, prerequisites.checkpoint, tokenizer_file, cache)]
    if not is_pretrained(config) and config.tokenizer.trained_on is not TrainedOn.corpus:
        return [_on_task(config, prerequisites, tokenizer_file, cache)]
    key = cache.text(config)
    file = str(prepare.folder_of(config.output, key) / "tokenizer.json")
    config = replace(config, tokenizer=replace(config.tokenizer, vocab_file=None, file=file))
    corpus = sequences.read(config.output, key)
    if not is_pretrained(config):
        return [_on_task(config, prerequisites, tokenizer_file, cache, corpus)]
    again = _pretraining(config, prerequisites, corpus, tokenizer_file)
    needed = planned.get(again.folder, again)
    keep = sorted({*needed.config.pretrain.keep, *again.config.pretrain.keep})  # what either of the two asks for
    needed.config = replace(needed.config, pretrain=replace(needed.config.pretrain, keep=keep))
    needed.needs_weights = [paths.pretrained_weights(needed.folder, tokens) for tokens in keep]
    if not has_task(config):
        return [needed]
    return [needed, _on_task(config, prerequisites, tokenizer_file, cache, corpus, needed)]


def _pretraining(config: RunConfig, prerequisites: Found, corpus: sequences.Corpus, tokenizer_file: str) -> PlannedRun:
    if prerequisites.checkpoint is None:
        config = with_vocabulary(config, corpus.vocab_size, corpus.pad)
    huggingface.refuse_other_vocabulary(config, corpus.vocab_size)
    config = pretraining_of(config)
    try:
        teacher.refuse_misfit(config, corpus.vocab_size)
        refuse_misfit(config.pretrain, config.model)
        for phase in config.pretrain.of_phases:
            if phase.objective is ObjectiveName.span_corruption:
                refuse_few_sentinels(phase, config.pretrain.length or 0, len(corpus.sentinels))
        if config.pretrain.mup_base_width is not None:
            mup.refuse_misfit(config.model)
    except ValueError as error:
        raise InputError(str(error)) from error
    content = identity.content_of(config, None, corpus.text, tokenizer_file, None)
    inputs = Inputs(corpus=corpus.key, content=content, weights_read="; ".join(huggingface.notes(config)))
    return PlannedRun(config, inputs, Identity(config, inputs).folder)


def _on_task(
    config: RunConfig,
    prerequisites: Found,
    tokenizer_file: str,
    cache: Cache,
    corpus: sequences.Corpus | None = None,
    needed: PlannedRun | None = None,
) -> PlannedRun:
    """A fine-tuning, or only measurements on a task, from random or published weights or from a pretraining."""
    if not has_task(config):
        raise InputError("task=none leaves nothing to do without pretraining: choose a pretrain, such as pretrain=mlm")
    if config.task.kind is TaskKind.minimal_pairs:
        language_model.refuse_misfit(config)
    read = huggingface.notes(config)
    if config.finetune.trains is not Trains.all or config.finetune.freeze_layers is not None:
        try:
            adapt(subject.shapes(config.model, config.task), config.finetune)
        except ValueError as error:
            raise InputError(str(error)) from error
    key = cache.task(config)
    data = prepared.facts(config.output, key)
    huggingface.refuse_other_vocabulary(config, data.vocab_size)
    if data.labels and data.labels != config.task.labels:  # which only the rows state
        config = replace(config, task=replace(config.task, labels=data.labels))
        read = huggingface.notes(config)
    config = teacher.with_finetuned(config, paths.data_folder(config.output, key) / native.TOKENIZER)
    if prerequisites.checkpoint is None:
        config = with_vocabulary(config, data.vocab_size, data.pad_token_id)
    recipe = needed.identity.recipe if needed else None
    content = identity.content_of(config, data.rows, corpus.text if corpus else None, tokenizer_file, recipe)
    content |= {} if data.trained_rows is None else {"trained_rows": data.trained_rows}
    text = corpus.key if corpus else None
    inputs = Inputs(
        data=key, corpus=text, content=content, leaked=data.leaked, origin=data.origin, weights_read="; ".join(read)
    )
    if needed is not None:
        inputs = replace(
            inputs,
            pretraining=needed.identity.fingerprint,
            pretrained=str(needed.folder),
            overlap=_overlap(config, inputs),
        )
    notes, budget = [*data.notes], config.finetune
    if sources.is_own(config.task) and data.trained:
        is_random = prerequisites.checkpoint is None and needed is None
        notes += [FEW_ROWS.format(data.trained)] if is_random and data.trained < FEW else []
        by_epochs = budget.enabled and budget.max_steps is None and budget.seconds is None
        steps = budget.planned_steps(data.trained) if by_epochs else FEWEST_STEPS
        notes += [FEW_STEPS.format(steps)] if steps < FEWEST_STEPS else []
    return PlannedRun(config, inputs, Identity(config, inputs).folder, needed, notes=_of_task(config.task.name, notes))


def _of_task(name: str, notes: list[str]) -> list[str]:
    """What is said of the rows, with the name of their task."""
    parts = (note.rpartition("warning: ") for note in notes)
    return [f"{before}{warning}task {name!r}: {text}" for before, warning, text in parts]


def _from_checkpoint(
    config: RunConfig, prerequisites: Found, checkpoint: Checkpoint, tokenizer_file: str, cache: Cache
) -> PlannedRun:
    """A fine-tuning of the weights that pretrain.checkpoint names."""
    run = _on_task(config, prerequisites, tokenizer_file, cache)
    folder = Path(checkpoint.folder).parent
    if not paths.pretrained_weights(folder, config.pretrain.at).is_dir():
        tokens = ", ".join(path.name.removeprefix("tokens-") for path in sorted((folder / paths.KEPT).glob("tokens-*")))
        raise InputError(f"pretrain.at={config.pretrain.at}: {folder} keeps weights at these token counts: {tokens or 'none'}")
    source = pretrained.identity_of(folder)
    inputs = replace(
        run.inputs,
        corpus=source["corpus"],
        pretraining=source["pretraining"],
        pretrained=str(folder),
        content=run.inputs.content | {"recipe": source["recipe"], "text": source["text"]},
    )
    return replace(run, inputs=inputs, folder=Identity(run.config, inputs).folder)


def _overlap(config: RunConfig, inputs: Inputs) -> float:
    """Share of the evaluation items with an n-gram of the corpus, counted once per task and corpus."""
    path = paths.data_folder(config.output, inputs.rows) / f"overlap-{inputs.corpus}.json"
    share = records.read_or_set_aside(path, dict[str, float]).get("share")
    if share is None:
        split = prepared.read(config, inputs.rows).validation
        corpus = sequences.read(config.output, inputs.text)
        special = [corpus.pad, corpus.cls, corpus.sep]
        items = [ids[~np.isin(ids, special)] for ids in split.ids_of_items()]
        share = overlap.overlap(corpus, items)
        records.write(path, {"share": share})
    return share
