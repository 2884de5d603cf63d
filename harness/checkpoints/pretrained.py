"""Weights to fine-tune: of a pretraining of this command, or of the run that pretrain.from names, a fine-tuning too."""

from dataclasses import replace
from pathlib import Path

from harness import records, tags
from harness.checkpoints import find_run, finetuned, huggingface, native
from harness.comparison import arms
from harness.config import resolve
from harness.config.choices import TaskKind
from harness.config.resolve import Checkpoint, pretraining_of
from harness.config.schema import RunConfig, TaskConfig
from harness.errors import InputError, present
from harness.models.derive import RANDOM, Origin, derived
from harness.models.heads import Classifier
from harness.models.huggingface.names import those_of
from harness.paths import WEIGHTS
from harness.tracking.run_log import RECORD, Record


def checkpoint_of(config: RunConfig) -> Checkpoint:
    """The run that pretrain.from names: its weights, its tokenizer and its config as that of a pretraining.

    A fine-tuning is one whose seed is that of the run, before another task (arXiv:1811.01088). InputError for a run that does
    not exist or saved no weights, and for a fine-tuning where a language model is expected.
    """
    folder = find_run.weights_folder(present(config.pretrain.checkpoint), "pretrain.from", config.output, config.tracking.uri)
    is_finetuned = finetuned.is_finetuned(folder)
    if is_finetuned and config.task.kind is TaskKind.minimal_pairs:
        raise InputError(f"pretrain.from={config.pretrain.checkpoint!r} is a fine-tuning: expected a pretraining to start from")
    saved = folder.parent / "config.yaml"
    for path in (saved, folder.parent / RECORD):
        if not path.exists():
            raise InputError(f"pretrain.from={config.pretrain.checkpoint!r}: {path} is missing: expected the folder of a run")
    pretraining, (_, shape) = resolve.load(saved), native.read(folder)
    if is_finetuned:
        arm, model = f"{pretraining.arm}+{pretraining.task.name}", replace(pretraining.model, init_from=None)
        seeded = replace(pretraining, pretrain=replace(pretraining.pretrain, seed=pretraining.seed))
        pretraining = replace(pretraining_of(seeded), arm=arm, model=model)
    tokenizer = replace(pretraining.tokenizer, vocab_file=None, file=str(folder / native.TOKENIZER))
    return Checkpoint(pretraining.arm, str(folder), shape, tokenizer, pretraining)


def identity_of(folder: Path) -> dict[str, str | None]:
    """Key and hash of the text of a pretraining, its fingerprint, and its recipe: the fingerprint without the seed.

    The recipe of a fine-tuning is the hash of its facts, which have no seeds.
    """
    run, is_finetuned = records.read(folder / RECORD, Record), finetuned.is_finetuned(folder / WEIGHTS)
    try:
        inputs, named = run["inputs"], run["tags"]
        return {
            "corpus": inputs["corpus"],
            "text": inputs["content"]["text"],
            "pretraining": named[tags.FINGERPRINT],
            "recipe": arms.short_hash(arms.facts(run["parameters"])) if is_finetuned else named[tags.RECIPE],
        }
    except (KeyError, TypeError) as error:
        raise records.CorruptError(
            f"{folder / RECORD} is corrupt: it does not say how these weights were pretrained"
        ) from error


def load_weights(
    folder: Path, model: Classifier, keep_layers: list[int] | None = None, task: TaskConfig | None = None
) -> dict[str, Origin]:
    """Loads the encoder, changed to its shape, and a trained pooler; returns the origin of each tensor of the model.

    A fine-tuned head is loaded, row by row, where the task has the same labels. InputError if the encoder does not fit.
    """
    state, shape = native.read(folder)
    if finetuned.is_finetuned(folder):
        facts = finetuned.read_task(folder)
        head = those_of("head.", state)
        state = {name: tensor for name, tensor in state.items() if name not in head}
        if task is not None and facts.kind == task.kind.name and sorted(facts.labels) == sorted(task.labels):
            rows = [facts.labels.index(label) for label in task.labels] or slice(None)
            state |= {name: tensor[rows] for name, tensor in head.items()}
    expected, target = model.state_dict(), model.encoder.config
    try:
        state, origins = derived(state, huggingface.with_head_of(target, shape), target, keep_layers)
    except ValueError as error:
        raise InputError(f"the weights of {folder} do not fit the model: {error}") from error
    found = {name: tensor for name, tensor in state.items() if name in expected}
    first: dict[int, str] = {}
    for name, tensor in expected.items():  # one tensor under two names is kept under the first
        if (one := first.setdefault(tensor.data_ptr(), name)) in found:
            found[name], origins[name] = found.get(name, found[one]), origins.get(name, origins[one])
    missing = [name for name in expected if name not in found]
    misfit = [name for name, tensor in found.items() if tensor.shape != expected[name].shape]
    misfit += [name for name in missing if name.startswith("encoder.")]
    if misfit:
        raise InputError(f"the weights of {folder} do not fit the model: {', '.join(misfit[:8])}")
    model.load_state_dict(found, strict=False)
    return dict.fromkeys(expected, RANDOM) | {name: origins[name] for name in found}
