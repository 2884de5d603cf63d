"""What a command will run: every run resolved, with its data prepared, a pretraining before the runs that need it."""

import hashlib
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness import checksums, paths
from harness.checkpoints import huggingface, pretrained, start, teacher
from harness.config.choices import Keep, TrainedOn
from harness.config.resolve import Found, Vocabulary, has_task, is_pretrained, pretraining_of, resolve
from harness.config.schema import RunConfig
from harness.corpus import overlap, prepare, sequences
from harness.data.tokenizer import vocabulary_bytes
from harness.errors import InputError
from harness.study import identity
from harness.study.identity import Inputs
from harness.study.match import note, resized
from harness.tasks import prepared
from harness.tracking import run_log
from models.objectives.build import refuse_misfit


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

    @property
    def title(self) -> str:
        """The name of the run in console lines."""
        return identity.title(self.config, self.inputs)

    @property
    def is_to_be_timed(self) -> bool:
        """Whether its inference is timed once it has finished."""
        return self.inputs.data is not None and self.config.measure.enabled


def plan(composed: list[RunConfig]) -> list[PlannedRun]:
    """Resolves every run and prepares its data and text, each once; a duplicate run is planned once.

    InputError, before any run starts, if the data of any of them cannot be used.
    """
    planned: dict[Path, PlannedRun] = {}
    cache = Cache()
    for config in with_sizes(composed, cache):
        for item in _runs(config, cache, planned):
            item.notes = [*filter(None, (_smaller_vocabulary(config, item.config), note(item.config)))]
            _refuse_two_names(planned.setdefault(item.folder, item), item)
    runs = list(planned.values())
    for place, item in enumerate(runs):
        item.place = place
    by_task: dict[str, list[PlannedRun]] = {}
    for item in runs:
        by_task.setdefault(identity.task_of(item.config, item.inputs), []).append(item)
    for several in by_task.values():
        several[0].notes += _alike(several)
        lifted = identity.lifted((item.config, item.inputs) for item in several)
        for item in several:
            item.lifted = lifted
    _choose_what_is_kept([item for item in runs if item.inputs.data is not None])
    return run_order(runs)


def _refuse_two_names(item: PlannedRun, again: PlannedRun) -> None:
    """InputError for two arms that are one run: what one of them changes has no effect. A pretraining may serve several."""
    if item.inputs.data is not None and item.config.label != again.config.label:
        raise InputError(
            f"{item.config.label!r} and {again.config.label!r} are one run: what they differ in has no effect here; "
            "leave one of them out"
        )


def _alike(runs: list[PlannedRun]) -> list[str]:
    """A note on each pair of arms that are one model and recipe under two names."""
    labels: dict[str, str] = {}
    pairs: dict[tuple[str, str], None] = {}
    for item in runs:
        first = labels.setdefault(identity.unnamed(item.config, item.inputs), item.config.label)
        if first != item.config.label:
            pairs[first, item.config.label] = None
    return [f"{first!r} and {again!r} are the same model and recipe under two names" for first, again in pairs]


def with_sizes(composed: list[RunConfig], cache: "Cache | None" = None) -> list[RunConfig]:
    """The composed runs, those with `match` resized; InputError for one that cannot be."""
    known = cache or Cache()
    return resized(composed, lambda one: _runs(one, known, {})[-1].config)


def _choose_what_is_kept(runs: list[PlannedRun]) -> None:
    """Where finetune.keep is not set, a single run keeps its last weights, and the runs of a sweep keep none."""
    default = Keep.last if len(runs) == 1 else Keep.none
    for item in runs:
        finetune = item.config.finetune
        keeps = finetune.enabled and finetune.keep not in (None, Keep.none)
        item.needs_weights = [item.folder / paths.WEIGHTS] if keeps else []
        item.drops_weights = finetune.enabled and finetune.keep is None and default is Keep.none
        item.config = replace(item.config, finetune=replace(finetune, keep=finetune.keep or default))


def run_order(planned: list[PlannedRun]) -> list[PlannedRun]:
    """Pretrainings first; then, for each task and seed, all arms in a random order.

    Runs that are compared train close in time, and no arm is always first. The same command gives the same order.
    """
    blocks: dict[tuple[str, int], list[PlannedRun]] = {}
    for item in planned:
        if item.inputs.data is not None:
            blocks.setdefault((item.config.task.name, item.config.seed), []).append(item)
    for (task, seed), block in blocks.items():
        random.Random(f"{task} {seed} {len(block)}").shuffle(block)
    trained = (item for block in blocks.values() for item in block)
    return [*(item for item in planned if item.inputs.data is None), *trained]


def _smaller_vocabulary(composed: RunConfig, config: RunConfig) -> str | None:
    """A note if the text yields fewer pieces than the model or scale states; None if enough, or if the user set a size."""
    stated, pieces = composed.model.tokenizer.vocab_size, config.model.vocab_size
    tokenizer = composed.tokenizer
    is_read = tokenizer.file or tokenizer.vocab_file or start.has_tokenizer(composed)
    if stated is None or is_read or tokenizer.vocab_size != stated or pieces >= stated:
        return None
    return (
        f"{composed.model_name} at scale {composed.scale_name} states a vocabulary of {stated:,} pieces; "
        f"the text yields {pieces:,}, and the model gets that size"
    )


class Cache:
    """Prepares each text and task data of a command once, by the settings that they depend on."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}

    def text(self, config: RunConfig) -> str:
        """Key of the prepared text."""
        settings = repr((config.corpus, config.data, config.tokenizer, config.output, config.pretrain.teacher))
        if settings not in self._keys:
            self._keys[settings] = prepare.prepare(config)
        return self._keys[settings]

    def task(self, config: RunConfig) -> str:
        """Key of the task's prepared data."""
        splits = (config.task, config.finetune.submit, config.finetune.keep_best)
        settings = repr((*splits, config.data, config.tokenizer, config.output, config.model.init_from))
        if settings not in self._keys:
            self._keys[settings] = prepared.prepare(config)
        return self._keys[settings]


def _runs(composed: RunConfig, cache: Cache, planned: dict[Path, PlannedRun]) -> list[PlannedRun]:
    """The composed run, after the pretraining that it needs, if any."""
    found = start.read(composed)
    config = resolve(composed, found)
    tokenizer_file = hashlib.sha256(vocabulary_bytes(config.tokenizer)).hexdigest()[:16]
    if config.pretrain.checkpoint is not None:
        return [_from_checkpoint(config, found, tokenizer_file, cache)]
    if not is_pretrained(config) and config.tokenizer.trained_on is not TrainedOn.corpus:
        return [_on_task(config, found, tokenizer_file, cache)]
    key = cache.text(config)
    found = replace(found, text_tokenizer=str(prepare.folder_of(config.output, key) / "tokenizer.json"))
    corpus = sequences.read(config.output, key)
    if not is_pretrained(config):
        return [_on_task(resolve(composed, found), found, tokenizer_file, cache, corpus)]
    needed = _pretraining(
        composed, replace(found, vocabulary=Vocabulary(corpus.vocab_size, corpus.pad)), corpus, tokenizer_file
    )
    needed = _merged(planned.get(needed.folder), needed)
    if not has_task(config):
        return [needed]
    return [needed, _on_task(resolve(composed, found), found, tokenizer_file, cache, corpus, needed)]


def _pretraining(composed: RunConfig, found: Found, corpus: sequences.Corpus, tokenizer_file: str) -> PlannedRun:
    config = pretraining_of(resolve(composed, found))
    try:
        teacher.refuse_misfit(config, corpus.vocab_size)
        refuse_misfit(config.pretrain, config.model)
    except ValueError as error:
        raise InputError(str(error)) from error
    content = identity.content_of(config, None, corpus.text, tokenizer_file, None)
    inputs = Inputs(corpus=corpus.key, content=content)
    return PlannedRun(config, inputs, identity.folder_of(config, inputs))


def _merged(planned: PlannedRun | None, again: PlannedRun) -> PlannedRun:
    """The pretraining as planned so far, if it is; it keeps the weights that either of the two asks for."""
    chosen = planned or again
    keep = sorted({*chosen.config.pretrain.keep, *again.config.pretrain.keep})
    chosen.config = replace(chosen.config, pretrain=replace(chosen.config.pretrain, keep=keep))
    chosen.needs_weights = [paths.pretrained_weights(chosen.folder, tokens) for tokens in keep]
    return chosen


def _on_task(
    config: RunConfig,
    found: Found,
    tokenizer_file: str,
    cache: Cache,
    corpus: sequences.Corpus | None = None,
    needed: PlannedRun | None = None,
) -> PlannedRun:
    """A fine-tuning, or only measurements on a task, from random or published weights or from a pretraining."""
    if not has_task(config):
        raise InputError("task=none leaves nothing to do without pretraining: choose a pretrain, such as pretrain=mlm")
    huggingface.refuse_misfit(config)
    key = cache.task(config)
    data = prepared.facts(config.output, key)
    huggingface.refuse_other_vocabulary(config, data.vocab_size)
    config = resolve(config, replace(found, vocabulary=Vocabulary(data.vocab_size, data.pad_token_id)))
    recipe = identity.recipe(needed.config, needed.inputs) if needed else None
    content = identity.content_of(config, data.rows, corpus and corpus.text, tokenizer_file, recipe)
    inputs = Inputs(data=key, corpus=corpus and corpus.key, content=content)
    if needed is not None:
        inputs = replace(
            inputs,
            pretraining=identity.fingerprint(needed.config, needed.inputs),
            pretrained=str(needed.folder),
            overlap=_overlap(config, inputs),
        )
    return PlannedRun(config, inputs, identity.folder_of(config, inputs), needed)


def _from_checkpoint(config: RunConfig, found: Found, tokenizer_file: str, cache: Cache) -> PlannedRun:
    """A fine-tuning of the weights that pretrain.checkpoint names."""
    run = _on_task(config, found, tokenizer_file, cache)
    folder = Path(found.checkpoint.folder).parent
    if not paths.pretrained_weights(folder, config.pretrain.at).is_dir():
        kept = ", ".join(path.name.removeprefix("tokens-") for path in sorted((folder / paths.KEPT).glob("tokens-*")))
        raise InputError(f"pretrain.at={config.pretrain.at}: {folder} has kept weights after so many tokens: {kept or 'none'}")
    source = pretrained.identity_of(folder)
    inputs = replace(
        run.inputs,
        corpus=source["corpus"],
        pretraining=source["pretraining"],
        pretrained=str(folder),
        content=run.inputs.content | {"recipe": source["recipe"], "text": source["text"]},
    )
    return replace(run, inputs=inputs, folder=identity.folder_of(run.config, inputs))


def _overlap(config: RunConfig, inputs: Inputs) -> float:
    """Share of the evaluation items with an n-gram of the corpus, counted once per task and corpus."""
    path = paths.data_folder(config.output, inputs.data) / f"overlap-{inputs.corpus}.json"
    share = _kept_overlap(path)
    if share is None:
        split = prepared.read(config, inputs.data).validation
        corpus = sequences.read(config.output, inputs.corpus)
        special = [corpus.pad, corpus.cls, corpus.sep]
        items = [ids[~np.isin(ids, special)] for ids in split.ids_of_items()]
        share = overlap.overlap(corpus, items)
        run_log.write_json(path, checksums.with_checksum({"share": share}))
    return share


def _kept_overlap(path: Path) -> float | None:
    """None where it was not counted yet, or the file is torn, which is printed."""
    try:
        return run_log.read_json(path).get("share")
    except checksums.TornError as error:
        kept = path.rename(checksums.aside(path))
        print(f"{error}: it is kept as {kept.name}, and counted again", flush=True)
        return None
