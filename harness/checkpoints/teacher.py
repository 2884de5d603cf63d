"""The teacher of a distillation: a run or a published model, with a masked-LM head or without one; and of a fine-tuning."""

import hashlib
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from harness import paths
from harness.checkpoints import find_run, finetuned, huggingface, native
from harness.config.choices import DeviceSharding
from harness.config.schema import RunConfig, TokenizerConfig
from harness.data.published import LARGEST_BYTES
from harness.errors import InputError, present
from harness.models.encoder import Encoder
from harness.models.heads import MaskedHead, make_masked_head
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.distillation import Teacher, refuse_unlike

HEAD = "masked_head."
TABLE = "encoder.embeddings.token_embedding.weight"
WITHOUT = ": pretrain.soft_weight=0 needs no head, nor does recipe=heal"


def read(config: RunConfig) -> tuple[str, TokenizerConfig] | None:
    """The teacher's folder, and its tokenizer unless one is configured by file; None where the run needs no teacher.

    InputError for a teacher that does not exist.
    """
    if config.pretrain.objective is not ObjectiveName.distillation or config.pretrain.checkpoint is not None:
        return None
    folder = folder_of(config)
    if not (folder / native.SHAPE).exists():
        return str(folder), huggingface.tokenizer_of(config, folder)
    if config.tokenizer.file or config.tokenizer.vocab_file:
        return str(folder), config.tokenizer
    return str(folder), replace(config.tokenizer, file=str(folder / native.TOKENIZER))


def folder_of(config: RunConfig) -> Path:
    """The folder of the teacher's weights; without one that is named, of those that the student starts from."""
    if config.pretrain.teacher is None:
        return huggingface.folder_of(present(config.model.init_from))
    teacher, key = config.pretrain.teacher, "pretrain.teacher"
    if (Path(teacher) / "config.json").exists() or not (Path(teacher).is_dir() or find_run.is_id(teacher)):
        return huggingface.folder_of(teacher, key)
    return find_run.weights_folder(teacher, key, config.output, config.tracking.uri)


def content_hash(config: RunConfig) -> str | None:
    """Hash of the teacher's weights and of its shape, None without one."""
    if config.pretrain.objective is not ObjectiveName.distillation or config.pretrain.teacher is None:
        return None
    return hash_of(Path(config.pretrain.teacher))


def hash_of(folder: Path) -> str:
    """Hash of the weights in a folder and of their shape."""
    shape = folder / native.SHAPE if (folder / native.SHAPE).exists() else folder / "config.json"
    with (folder / native.WEIGHTS).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(shape.read_bytes())
    return digest.hexdigest()[:16]


def refuse_misfit(config: RunConfig, vocab_size: int) -> None:
    """InputError if the teacher has another vocabulary size, or is too short for pretrain.length.

    ValueError if its vectors are compared and have another size.
    """
    if config.pretrain.objective is not ObjectiveName.distillation:
        return
    name = f"pretrain.teacher={config.pretrain.teacher!r}"
    loaded = load(Path(present(config.pretrain.teacher)), config.pretrain, config.tokenizer)
    shape = loaded.encoder.config
    if shape.vocab_size != vocab_size:
        raise InputError(
            f"{name} has {shape.vocab_size} pieces, the tokenizer {vocab_size}: "
            "set tokenizer.file or tokenizer.vocab_file to the teacher's own"
        )
    if shape.longest_text < present(config.pretrain.length):
        raise InputError(f"{name} reads at most {shape.longest_text} tokens, but pretrain.length={config.pretrain.length}")
    refuse_unlike(config.pretrain, config.model, loaded)


def load(folder: Path, options: ObjectiveConfig, tokenizer: TokenizerConfig | None = None) -> Teacher:
    """The teacher with its weights, and with its masked-LM head if its predictions are learned; InputError without one.

    For published weights without a head, the rows of the token table are those of the student's `tokenizer`.
    """
    ours = (folder / native.SHAPE).exists()
    if not options.soft_weight:
        state, shape = native.read(folder) if ours else huggingface.encoder_of(folder, "pretrain.teacher")
        pieces = None if ours or tokenizer is None else huggingface.rows_of(tokenizer, folder)
        if pieces is not None:
            shape = replace(shape, vocab_size=len(pieces))
            state = state | {TABLE: state[TABLE][pieces]}
        return Teacher(native.encoder_of(state, shape), None)
    if ours:
        state, shape = native.read(folder)
    try:
        if not ours:
            state, shape = huggingface.masked_lm(folder, "pretrain.teacher")
        encoder, name = native.encoder_of(state, shape), f"pretrain.teacher={str(folder)!r}"
        if (head := masked_head(state, encoder, name)) is None:
            raise InputError(f"{name} has no masked-LM head")
    except InputError as error:
        raise InputError(f"{error}{WITHOUT}") from error
    return Teacher(encoder, head)


def masked_head(state: dict[str, Tensor], encoder: Encoder, name: str) -> MaskedHead | None:
    """The masked-LM head among these weights, on their encoder; None without one, and InputError for a part of one."""
    if not (mine := native.part(state, HEAD)):
        return None
    shape = replace(encoder.config, mask_decoder=any(key.startswith("decoder.") for key in mine))
    head = make_masked_head(shape, encoder)
    first: dict[int, str] = {id(one): "encoder" for one in encoder.parameters()}
    tied = {key for key, one in head.state_dict(keep_vars=True).items() if first.setdefault(id(one), key) != key}
    missing = head.load_state_dict(mine, strict=False).missing_keys
    if missing := [key for key in missing if key not in tied]:
        raise InputError(f"{name} lacks {', '.join(missing)} of its masked-LM head")
    return head.eval()


def with_finetuned(config: RunConfig, tokenizer: Path) -> RunConfig:
    """The config with the folder of the fine-tuned teacher; `tokenizer` is the student's.

    InputError for a run that does not exist, that predicts something else, or whose texts or vectors do not fit.
    """
    given, task = config.finetune.teacher, config.task
    if given is None or not config.finetune.enabled:
        return replace(config, finetune=replace(config.finetune, teacher=None))
    said = f"finetune.teacher={given}"
    folder = find_run.weights_folder(given, "finetune.teacher", config.output, config.tracking.uri)
    if not finetuned.is_finetuned(folder):
        raise InputError(f"{said} is a pretraining: expected a fine-tuning, run with finetune.keep=last")
    facts, (_, shape) = finetuned.read_task(folder), native.read(folder)
    if (facts.kind, facts.labels, facts.fields) != (task.kind.name, list(task.labels), list(task.fields)):
        raise InputError(f"{said} was fine-tuned on {facts.name}: expected a fine-tuning on {task.name}")
    if paths.read(folder / native.TOKENIZER, LARGEST_BYTES) != tokenizer.read_bytes():
        raise InputError(
            f"{said} does not have the tokenizer of the student: set tokenizer.file to {folder / native.TOKENIZER}"
        )
    if shape.longest_text < task.max_length:
        raise InputError(f"{said} reads at most {shape.longest_text} tokens, but task.max_length={task.max_length}")
    if config.finetune.hidden_weight and shape.hidden_size != config.model.hidden_size:
        sizes = f"a hidden size of {shape.hidden_size}, not model.hidden_size={config.model.hidden_size}"
        raise InputError(f"{said} has {sizes}: set finetune.hidden_weight=0")
    if config.hardware.sharding is not DeviceSharding.none:
        raise InputError(f"{said} cannot be sharded: set hardware.sharding=none")
    return replace(config, finetune=replace(config.finetune, teacher=str(folder)))
