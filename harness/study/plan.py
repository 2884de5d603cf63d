"""What a command will run: every cell with its data prepared and its identity known, a pretraining before who needs it."""

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness import paths
from harness.checkpoints import huggingface, pretrained, teacher
from harness.config.choices import TrainedOn
from harness.config.resolve import has_task, is_pretrained
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.study import identity as cells
from harness.study.identity import Inputs
from harness.tasks import prepared
from harness.tracking import run_log


@dataclass
class Planned:
    """A cell that can run once what it needs is there."""

    config: RunConfig
    inputs: Inputs
    folder: Path
    needs: "Planned | None" = None  # a pretraining of this command

    @property
    def title(self) -> str:
        """The cell as a reader names it."""
        return cells.title(self.config, self.inputs)


def plan(configs: list[RunConfig]) -> list[Planned]:
    """Prepares data and text of every cell, each once; a cell that is named twice is planned once.

    InputError, before any run exists, when the data of any of them cannot be used.
    """
    planned: dict[Path, Planned] = {}
    keys: dict[str, str] = {}
    for config in configs:
        config = teacher.adopt(pretrained.adopt(huggingface.adopt(config)))
        corpus = _corpus(config, keys)
        if corpus is not None:
            from harness.corpus import prepare

            config = pretrained.with_tokenizer(config, prepare.folder_of(config.output, corpus))
        needed = _pretraining(config, corpus)
        if needed is not None:
            needed = planned.setdefault(needed.folder, needed)
        if has_task(config):
            cell = _cell(config, corpus, needed, keys)
            planned.setdefault(cell.folder, cell)
        elif needed is None:
            raise InputError("task=none leaves nothing to do without pretraining: choose a pretrain, such as pretrain=mlm")
    return in_turn(list(planned.values()))


def in_turn(planned: list[Planned]) -> list[Planned]:
    """Pretrainings first, then task by task and seed by seed all variants, in an order that is drawn for each of these.

    What is compared is trained close in time, and no variant is always the first; the same command has the same order.
    """
    blocks: dict[tuple[str, int], list[Planned]] = {}
    for item in planned:
        if item.inputs.data is not None:
            blocks.setdefault((item.config.task.name, item.config.seed), []).append(item)
    for (task, seed), block in blocks.items():
        random.Random(f"{task} {seed} {len(block)}").shuffle(block)
    trained = (item for block in blocks.values() for item in block)
    return [*(item for item in planned if item.inputs.data is None), *trained]


def _corpus(config: RunConfig, keys: dict[str, str]) -> str | None:
    """Key of the prepared text, where the cell uses any that is not a checkpoint's own."""
    if config.pretrain.checkpoint is not None:
        return None
    if not is_pretrained(config) and config.tokenizer.trained_on is not TrainedOn.corpus:
        return None
    from harness.corpus import prepare, sequences

    wanted = repr((config.corpus, config.data, config.tokenizer, config.output, config.pretrain.teacher))
    if wanted not in keys:
        keys[wanted] = prepare.prepare(config)
    if is_pretrained(config):
        teacher.refuse_misfit(config, sequences.read(config.output, keys[wanted]).vocab_size)
    return keys[wanted]


def _pretraining(config: RunConfig, corpus: str | None) -> Planned | None:
    """The pretraining that the cell needs and that may have to run."""
    if not is_pretrained(config) or config.pretrain.checkpoint is not None:
        return None
    from models.objectives.build import refuse_misfit

    try:
        refuse_misfit(config.pretrain, config.model)
    except ValueError as error:
        raise InputError(str(error)) from error
    inputs = Inputs(corpus=corpus)
    return Planned(config, inputs, cells.folder_of(config, inputs))


def _cell(config: RunConfig, corpus: str | None, needed: Planned | None, keys: dict[str, str]) -> Planned:
    read = (config.task, config.finetune.submit, config.finetune.keep_best)  # which splits, of which rows
    wanted = repr((*read, config.data, config.tokenizer, config.output, config.model.init_from))
    if wanted not in keys:
        keys[wanted] = prepared.prepare(config)
        huggingface.refuse_misfit(config)
    inputs = Inputs(data=keys[wanted], corpus=corpus)
    if needed is not None:
        shared = _overlap(config, inputs)
        inputs = replace(
            inputs, pretraining=cells.fingerprint(needed.config, needed.inputs), pretrained=str(needed.folder), overlap=shared
        )
    elif config.pretrain.checkpoint is not None:
        inputs = replace(inputs, **pretrained.inputs_of(config))
    return Planned(config, inputs, cells.folder_of(config, inputs), needed)


def _overlap(config: RunConfig, inputs: Inputs) -> float:
    """Share of the evaluation items that have an n-gram of the corpus, counted once for a task and a corpus."""
    from harness.corpus import overlap, sequences

    told = paths.data_folder(config.output, inputs.data) / f"overlap-{inputs.corpus}.json"
    if not told.exists():
        split = prepared.read(config, inputs.data).validation
        corpus = sequences.read(config.output, inputs.corpus)
        special = [corpus.pad, corpus.cls, corpus.sep]
        items = [ids[~np.isin(ids, special)] for ids in split.ids_of_items()]
        run_log.write_json(told, overlap.overlap(corpus, items))
    return json.loads(told.read_text())
