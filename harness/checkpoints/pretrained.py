"""Weights of a pretraining of ours, as fine-tuning takes them: from the cell before, or from a run that is picked by hand."""

import json
from dataclasses import replace
from pathlib import Path

from torch import nn

from harness import paths, tags
from harness.checkpoints import find_run, native
from harness.config import resolve
from harness.config.resolve import Checkpoint
from harness.config.schema import RunConfig
from harness.errors import InputError


def checkpoint_of(config: RunConfig) -> Checkpoint:
    """The pretraining that pretrain.checkpoint names: its weights, its tokenizer and the config that it ran with.

    InputError for a run that is not there or left no weights.
    """
    folder = find_run.weights_folder(config.pretrain.checkpoint, "pretrain.checkpoint", config.output, config.tracking.uri)
    saved = folder.parent / "config.yaml"
    if not saved.exists():
        raise InputError(f"pretrain.checkpoint={config.pretrain.checkpoint!r}: {saved} is missing, so it is no run of ours")
    theirs, (_, shape) = resolve.load(saved), native.read(folder)
    tokenizer = replace(theirs.tokenizer, vocab_file=None, file=str(folder / native.TOKENIZER))
    return Checkpoint(theirs.arm, str(folder), shape, tokenizer, theirs)


def identity_of(folder: Path) -> dict[str, str | None]:
    """Of a pretraining's folder: key and hash of its text, its fingerprint, and its recipe, which is that without the seed."""
    run = json.loads((folder / "run.json").read_text())
    inputs, named = run["inputs"], run["tags"]
    return {
        "corpus": inputs["corpus"],
        "text": inputs["content"]["text"],
        "pretraining": named[tags.FINGERPRINT],
        "recipe": named[tags.RECIPE],
    }


def load_weights(folder: str, model: nn.Module) -> list[str]:
    """Loads encoder and, where it was trained, pooler; returns the tensors that stay randomly initialised.

    InputError when the encoder does not fit.
    """
    state, _ = native.read(Path(folder) / paths.WEIGHTS)
    wanted = model.state_dict()
    found = {name: tensor for name, tensor in state.items() if name in wanted}
    fresh = [name for name in wanted if name not in found]
    unfit = [name for name, tensor in found.items() if tensor.shape != wanted[name].shape]
    unfit += [name for name in fresh if name.startswith("encoder.")]
    if unfit:
        raise InputError(f"the weights of {folder} do not fit the model: {', '.join(unfit[:8])}")
    model.load_state_dict(found, strict=False)
    return fresh
