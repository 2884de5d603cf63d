"""A model that was trained here as a checkpoint that transformers loads: config.json, model.safetensors and the tokenizer.

A checkpoint is loaded and run once before it gets its name. B texts, T tokens, D hidden.
"""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from harness import paths
from harness.checkpoints import finetuned, foreign, native, remote_code
from harness.config.choices import TaskKind
from harness.data.tokenizer import by_words, special_ids
from harness.errors import InputError, refused_errors
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.foreign import Foreign, keep_layers
from harness.models.heads import SequenceClassifier
from harness.models.huggingface import config_of, family_of, load
from harness.models.huggingface.task_heads import ON_TOKENS, PROBLEMS, WITHOUT
from harness.plugins.export.folder import new_folder, refuse_filled
from harness.plugins.export.publish import exported, published

ENDS = {"bos_token_id": "cls", "eos_token_id": "sep"}
"""Keys of the config.json of a causal model: its texts begin and end with these pieces here."""

GENERATOR = "generator"
"""Part of a detector of replaced tokens that no published encoder has."""

POOLED = ("bert", "albert", "roberta")
"""Families whose bare model has a pooler."""

TOLERANCE = 1e-3
"""Hidden states of a checkpoint may differ from ours by so much of their largest value, as sums in another order do."""

CHECKED_TOKENS = 16
"""Tokens of the two texts that a checkpoint is run on, or as many as it reads."""


def export(checkpoint: Path, out: Path, family: str | None = None, card: str | None = None) -> str:
    """Writes the checkpoint to `out`, with its card as README.md, whole or not at all; says what was written, and what was not.

    InputError for weights that cannot be read, a shape that no family expresses, an `out` that is not empty, or a checkpoint
    that does not compute what the model does.
    """
    refuse_filled(out)
    state, shape = native.read(checkpoint)
    task = finetuned.read_task(checkpoint) if finetuned.is_finetuned(checkpoint) else None
    tokenizer = finetuned.tokenizer_of(checkpoint / native.TOKENIZER, shape)
    if shape.encoder is not None:
        return _of_library(checkpoint, out, state, shape, tokenizer, card)
    if task is not None and task.kind == TaskKind.tokens.name:
        by_words(tokenizer)
    try:
        config = published(shape, family)
        head = {}
        if task is not None and task.kind in ON_TOKENS:
            head = token_head(state, task.kind, config["model_type"])
            state = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
        tensors, homeless = exported(state, shape, config)
        tensors |= head
    except ValueError as error:
        raise InputError(f"{checkpoint} cannot be exported: {error}") from error
    if task is not None:
        config |= task_keys(task.kind, task.labels, task.num_outputs)
    ids, family = special_ids(tokenizer), config["model_type"]
    if shape.causal:
        config |= {key: ids[piece] for key, piece in ENDS.items()}
    read = by_transformers if find_spec("transformers") else by_our_reader
    with new_folder(out) as building:
        (building / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        _write_texts(building, tokenizer, shape, shape.longest_text if task is None else task.max_length, card)
        save_file(tensors, building / "model.safetensors", metadata={"format": "pt"})
        paths.share(building / "model.safetensors")
        checked = check(building, state, shape, read)
    encoder, _ = exported({name: tensor for name, tensor in state.items() if name.startswith("encoder.")}, shape, config)
    heads = [name for name in tensors if name not in encoder]
    # one name for all tensors of the generator, which is an encoder of its own
    left_out = [*dict.fromkeys(GENERATOR if name.startswith(f"{GENERATOR}.") else name for name in homeless)]
    has = {name.partition(".")[0] for name in state if name not in left_out}
    initialised = {
        "the pooler of AutoModel": family in POOLED and not any(".pooler." in name for name in heads),
        "the head of AutoModelForMaskedLM": bool(family_of({"model_type": family}).masked) and "masked_head" not in has,
        # that of T5 has a decoder and a dense layer
        "the head of AutoModelForSequenceClassification": "head" not in has or family == "t5",
    }
    missing = [part for part, lacks in initialised.items() if lacks]
    return "\n".join(
        [
            f"wrote {out}: {family}, {len(tensors)} tensors",
            f"heads included: {', '.join(heads) or 'none'}",
            f"left out, not supported by {family}: {', '.join(left_out) or 'none'}",
            f"transformers will initialise randomly: {', '.join(missing) or 'nothing'}",
            f"loaded and run once by {checked}",
        ]
    )


def token_head(state: dict[str, Tensor], kind: str, family: str) -> dict[str, Tensor]:
    """The tensors `head.` of a task on tokens under their published names; ValueError for a family without such a head."""
    if family in WITHOUT:
        raise ValueError(f"model_type={family!r} has no head for every token")
    name, weight = ON_TOKENS[kind], state["head.weight"]
    bias = state.get("head.bias", torch.zeros(len(weight), dtype=weight.dtype))  # theirs always has one
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def task_keys(kind: str, labels: list[str], num_outputs: int) -> dict[str, Any]:
    """Keys of config.json: names of the outputs, and the loss."""
    problem = {"problem_type": PROBLEMS[kind]} if kind in PROBLEMS else {}
    names = labels if len(labels) == num_outputs else [f"LABEL_{number}" for number in range(num_outputs)]
    by_number = {str(number): name for number, name in enumerate(names)}
    return problem | {"id2label": by_number, "label2id": {name: number for number, name in enumerate(names)}}


def _of_library(
    checkpoint: Path, out: Path, state: dict[str, Tensor], shape: EncoderConfig, tokenizer: Tokenizer, card: str | None
) -> str:
    """Writes an encoder of transformers, without a head, as `export`; InputError for one of another package."""
    if shape.encoder != foreign.TRANSFORMERS:
        raise InputError(f"{checkpoint} is computed by {shape.encoder}, which transformers does not have: expected format=onnx")
    with new_folder(out) as building:
        try:
            write_published(building, state, shape)
        except ValueError as error:
            raise InputError(f"{checkpoint} cannot be exported: {error}") from error
        _write_texts(building, tokenizer, shape, shape.longest_text, card)
        checked = check(building, state, shape, by_library)
    left = [*dict.fromkeys(name.partition(".")[0] for name in state if not name.startswith("encoder."))]
    return (
        f"wrote {out}: {shape.options['model_type']}\nleft out: {', '.join(left) or 'none'}\nloaded and run once by {checked}"
    )


def write_published(folder: Path, state: dict[str, Tensor], shape: EncoderConfig) -> None:
    """Writes config.json and the tensors of an encoder of transformers to the folder; none of a decoder.

    ValueError for layers that its config.json cannot leave out.
    """
    model, part = foreign.built(shape.vocab_size, shape.pad_token_id, shape.options)
    if shape.layers_kept:
        keep_layers(part, shape.layers_kept)
        if part.config is not model.config:
            raise ValueError(f"config.json of model_type={model.config.model_type} cannot say which layers were kept")
    native.load(part, native.part(state, "encoder.body."))
    own = {id(tensor) for tensor in part.state_dict(keep_vars=True).values()}
    tensors = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if id(tensor) in own}
    with foreign.quiet():
        model.save_pretrained(folder, state_dict=tensors)
    if remote_code.KEY in shape.options:
        remote_code.copy(remote_code.kept(shape.options[remote_code.KEY]), folder)


def by_library(folder: Path, ids: Tensor) -> tuple[str, Tensor]:
    """As `model.init_from` reads it with the provider transformers."""
    encoder = Foreign(foreign.published_shape(json.loads((folder / "config.json").read_text()), str(folder)))
    foreign.load_published(folder, encoder, str(folder))
    return "transformers", encoder.eval()(Batch(ids))


def _write_texts(folder: Path, tokenizer: Tokenizer, shape: EncoderConfig, longest: int, card: str | None) -> None:
    """The tokenizer with its config, for texts of `longest` tokens, and the card."""
    normalizer = json.loads(tokenizer.to_str()).get("normalizer") or {}
    steps = [normalizer, *normalizer.get("normalizers", [])]
    lowercase = [True for step in steps if step.get("type") == "Lowercase"]
    lowercase += [step["lowercase"] for step in steps if step.get("type") == "BertNormalizer"]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": ["input_ids", *(["token_type_ids"] if shape.type_vocab_size > 1 else []), "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": tokenizer.id_to_token(id_) for role, id_ in special_ids(tokenizer).items() if id_ is not None},
        **({"do_lower_case": lowercase[0]} if lowercase else {}),
    }
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    if card is not None:
        (folder / "README.md").write_text(card, encoding="utf-8")


Reader = Callable[[Path, Tensor], tuple[str, Tensor]]
"""A checkpoint and ids (B, T) -> the reader's name and the last hidden states (B, T, D)."""


def check(folder: Path, state: dict[str, Tensor], shape: EncoderConfig, read: Reader) -> str:
    """The reader's name and the largest difference of its hidden states from ours; InputError where it fails or they differ."""
    encoder = native.encoder_of(state, shape).eval()
    length = min(CHECKED_TOKENS, shape.longest_text)
    ids = torch.arange(2 * length).view(2, length) % shape.vocab_size
    ids = ids.masked_fill(ids == shape.pad_token_id, (shape.pad_token_id + 1) % shape.vocab_size)
    with torch.inference_mode():
        ours = encoder(Batch(ids))
        with refused_errors("nothing is written: the checkpoint does not run"):
            reader, found = read(folder, ids)
    difference = (ours - found).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, ours.abs().max().item()):
        raise InputError(f"nothing is written: read by {reader}, hidden states differ from the model's by {difference:.2g}")
    return f"{reader}: hidden states differ from the model's by {difference:.1g} at most"


def by_transformers(folder: Path, ids: Tensor) -> tuple[str, Tensor]:
    """By the architecture that config.json names, or the bare model of its family."""
    import transformers  # optional: may not be installed

    (architecture,) = json.loads((folder / "config.json").read_text()).get("architectures", ["AutoModel"])
    logging: Any = transformers.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()  # `export` lists the parts that the checkpoint lacks
    logging.disable_progress_bar()
    try:
        model = getattr(transformers, architecture).from_pretrained(folder).eval()
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()
    both = {"decoder_input_ids": ids} if architecture == "T5Model" else {}
    return f"transformers {transformers.__version__}", model(input_ids=ids, **both).last_hidden_state


def by_our_reader(folder: Path, ids: Tensor) -> tuple[str, Tensor]:
    """As `model.init_from` reads it."""
    config = json.loads((folder / "config.json").read_text())
    model = SequenceClassifier(config_of(config), num_outputs=2).eval()
    load(model, load_file(folder / "model.safetensors"), config)
    return "our own reader, as transformers is not installed", model.encoder(Batch(ids))
