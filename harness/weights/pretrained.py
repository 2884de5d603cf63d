"""Weights of a pretraining of ours, as fine-tuning takes them: from the cell before, or from a run that is picked by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import paths, resolve, runs
from harness.config import RunConfig
from harness.errors import InputError
from harness.weights import finetuned, stored

if TYPE_CHECKING:
    from torch import nn


def adopt(config: RunConfig) -> RunConfig:
    """The cell with shape, text, tokenizer and pretraining of the picked run; unchanged where none is picked.

    InputError for a run that is not there or left no weights.
    """
    if config.pretrain.checkpoint is None:
        return config
    if config.model.init_from is not None:
        raise InputError("pretrain.checkpoint and model.init_from both say what to start from: give one")
    folder = runs.weights_folder(config.pretrain.checkpoint, "pretrain.checkpoint", config.output, config.tracking.uri)
    if finetuned.is_finetuned(folder):
        raise InputError(
            f"pretrain.checkpoint={config.pretrain.checkpoint!r} is a fine-tuning: expected a pretraining to start from"
        )
    told = folder.parent / "config.yaml"
    if not told.exists():
        raise InputError(f"pretrain.checkpoint={config.pretrain.checkpoint!r}: {told} is missing, so it is no run of ours")
    theirs, (_, shape) = resolve.load(told), stored.read(folder)
    seed = theirs.seed if theirs.pretrain.seed is None else theirs.pretrain.seed
    model = replace(theirs.model, **vars(shape))
    adopted = replace(
        config,
        variant=config.variant or theirs.variant,
        model_name=theirs.model_name,
        scale_name=theirs.scale_name,
        model=model,
        published=theirs.published,
        pretrain=replace(theirs.pretrain, checkpoint=str(folder), seed=seed),
        corpus=theirs.corpus,
        measure=replace(config.measure, length=min(config.measure.length, model.longest_text)),
    )
    adopted = with_tokenizer(replace(adopted, tokenizer=theirs.tokenizer), folder)
    resolve.refuse_impossible(adopted)
    return adopted


def with_tokenizer(config: RunConfig, folder: Path) -> RunConfig:
    """The cell with the tokenizer that lies in the folder."""
    return replace(config, tokenizer=replace(config.tokenizer, vocab_file=None, file=str(folder / stored.TOKENIZER)))


def inputs_of(config: RunConfig) -> dict[str, str | None]:
    """What a cell's inputs say of the picked run."""
    folder = Path(config.pretrain.checkpoint).parent
    cell = json.loads((folder / "cell.json").read_text())
    return {
        "corpus": cell["inputs"]["corpus"],
        "pretraining": cell["tags"]["fingerprint"],
        "pretrained": str(folder),
    }


def load_weights(folder: str, model: "nn.Module") -> list[str]:
    """Loads encoder and, where it was trained, pooler; returns the tensors that keep their fresh values.

    InputError when the encoder does not fit.
    """
    state, _ = stored.read(Path(folder) / paths.WEIGHTS)
    wanted = model.state_dict()
    found = {name: tensor for name, tensor in state.items() if name in wanted}
    fresh = [name for name in wanted if name not in found]
    unfit = [name for name, tensor in found.items() if tensor.shape != wanted[name].shape]
    unfit += [name for name in fresh if name.startswith("encoder.")]
    if unfit:
        raise InputError(f"the weights of {folder} do not fit the model: {', '.join(unfit[:8])}")
    model.load_state_dict(found, strict=False)
    return fresh
