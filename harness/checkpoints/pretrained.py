"""Weights of a pretraining for fine-tuning: of the same command, or of the run that pretrain.from names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import checksums, tags
from harness.checkpoints import find_run, finetuned, native
from harness.config import resolve
from harness.config.adopted import Checkpoint
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.tracking import run_log
from harness.tracking.run_log import RECORD
from models.changes import OF_HEAD
from models.derive import RANDOM, Origin, derived
from models.heads import Classifier


def checkpoint_of(config: RunConfig) -> Checkpoint:
    """The pretraining that pretrain.from names: its weights, its tokenizer and its config.

    InputError for a run that does not exist or saved no weights.
    """
    folder = find_run.weights_folder(config.pretrain.checkpoint, "pretrain.from", config.output, config.tracking.uri)
    if finetuned.is_finetuned(folder):
        raise InputError(f"pretrain.from={config.pretrain.checkpoint!r} is a fine-tuning: expected a pretraining to start from")
    saved = folder.parent / "config.yaml"
    if not saved.exists():
        raise InputError(f"pretrain.from={config.pretrain.checkpoint!r}: {saved} is missing: expected the folder of a run")
    if torn := checksums.fault(folder.parent, _record(folder.parent).get("files", {})):
        raise checksums.TornError(f"{folder.parent / torn} is torn or has changed since it was written")
    pretraining, (_, shape) = resolve.load(saved), native.read(folder)
    tokenizer = replace(pretraining.tokenizer, vocab_file=None, file=str(folder / native.TOKENIZER))
    return Checkpoint(pretraining.arm, str(folder), shape, tokenizer, pretraining)


def identity_of(folder: Path) -> dict[str, str | None]:
    """Key and hash of the text of a pretraining, its fingerprint, and its recipe: the fingerprint without the seed."""
    run = _record(folder)
    try:
        inputs, named = run["inputs"], run["tags"]
        return {
            "corpus": inputs["corpus"],
            "text": inputs["content"]["text"],
            "pretraining": named[tags.FINGERPRINT],
            "recipe": named[tags.RECIPE],
        }
    except (KeyError, TypeError) as error:
        raise checksums.TornError(f"{folder / RECORD} is torn: it lacks what says how these weights were pretrained") from error


def _record(folder: Path) -> dict[str, Any]:
    return run_log.read(folder / RECORD)


def load_weights(folder: Path, model: Classifier, keep_layers: list[int] | None = None) -> dict[str, Origin]:
    """Loads the encoder, changed to its shape, and, if it was trained, the pooler; where each tensor of the model comes from.

    InputError if the encoder does not fit.
    """
    state, shape = native.read(folder)
    expected, target = model.state_dict(), model.encoder.config
    source = replace(shape, **{key: getattr(target, key) for key in OF_HEAD})
    try:
        state, origins = derived(state, source, target, keep_layers)
    except ValueError as error:
        raise InputError(f"the weights of {folder} do not fit the model: {error}") from error
    found = {name: tensor for name, tensor in state.items() if name in expected}
    missing = [name for name in expected if name not in found]
    misfit = [name for name, tensor in found.items() if tensor.shape != expected[name].shape]
    misfit += [name for name in missing if name.startswith("encoder.")]
    if misfit:
        raise InputError(f"the weights of {folder} do not fit the model: {', '.join(misfit[:8])}")
    model.load_state_dict(found, strict=False)
    return dict.fromkeys(expected, RANDOM) | {name: origins[name] for name in found}
