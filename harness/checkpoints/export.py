"""A model that was trained here as a checkpoint that transformers loads: config.json, model.safetensors and the tokenizer.

A checkpoint is loaded and run once before it gets its name. B texts, T tokens, D hidden.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from harness import paths
from harness.checkpoints import finetuned, native
from harness.config.choices import TaskKind
from harness.data.published import LARGEST_BYTES
from harness.data.tokenizer import by_words, special_ids
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier
from harness.models.huggingface import config_of, exported, family_of, homeless, load, published
from harness.models.huggingface.task_heads import ON_TOKENS, task_keys, token_head

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


@dataclass(frozen=True)
class Export:
    """What was written, and what was not."""

    folder: Path
    family: str
    tensors: int
    heads: list[str]  # published names of the heads' tensors
    left_out: list[str]  # our names that the family has no place for
    initialised: list[str]  # parts of the models of the family that are missing: transformers initialises them randomly
    checked: str  # what loaded and ran it, and how far its hidden states are from ours


def export(checkpoint: Path, out: Path, family: str | None = None, card: str | None = None) -> Export:
    """Writes the checkpoint to `out`, with its card as README.md, whole or not at all.

    InputError for weights that cannot be read, a shape that no family expresses, an `out` that is not empty, or a checkpoint
    that does not compute what the model does.
    """
    native.refuse_filled(out)
    state, shape = native.read(checkpoint)
    task = finetuned.read_task(checkpoint) if finetuned.is_finetuned(checkpoint) else None
    longest = shape.longest_text if task is None else task.max_length
    tokenizer = _tokenizer(
        checkpoint / native.TOKENIZER, shape, longest, task is not None and task.kind == TaskKind.tokens.name
    )
    try:
        config = published(shape, family)
        head = {}
        if task is not None and task.kind in ON_TOKENS:
            head = token_head(state, task.kind, config["model_type"])
            state = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
        found = exported(state, shape, config) | head
        left_out = [*dict.fromkeys(_shortened(name) for name in homeless(state, shape, config))]
    except ValueError as error:
        raise InputError(f"{checkpoint} cannot be exported: {error}") from error
    if task is not None:
        config |= task_keys(task.kind, task.labels, task.num_outputs)
    if shape.causal:
        config |= {key: tokenizer.ids[piece] for key, piece in ENDS.items()}
    read = by_transformers if find_spec("transformers") else by_our_reader
    texts = (
        {"config.json": json.dumps(config, indent=2) + "\n"} | tokenizer.files | ({} if card is None else {"README.md": card})
    )
    with native.exported(out) as building:
        for name, text in texts.items():
            (building / name).write_text(text, encoding="utf-8")
        save_file(found, building / "model.safetensors", metadata={"format": "pt"})
        paths.share(building / "model.safetensors")
        checked = check(building, state, shape, read)
    encoder = exported({name: tensor for name, tensor in state.items() if name.startswith("encoder.")}, shape, config)
    heads = [name for name in found if name not in encoder]
    family, has = config["model_type"], {name.partition(".")[0] for name in state if name not in left_out}
    initialised = {
        "the pooler of AutoModel": family in POOLED and not any(".pooler." in name for name in heads),
        "the head of AutoModelForMaskedLM": bool(family_of({"model_type": family}).masked) and "masked_head" not in has,
        # that of T5 has a decoder and a dense layer
        "the head of AutoModelForSequenceClassification": "head" not in has or family == "t5",
    }
    return Export(out, family, len(found), heads, left_out, [part for part, lacks in initialised.items() if lacks], checked)


def _shortened(name: str) -> str:
    """The name to print: one for all tensors of the generator, which is an encoder of its own."""
    return GENERATOR if name.startswith(f"{GENERATOR}.") else name


@dataclass(frozen=True)
class TokenizerFiles:
    """The tokenizer of a checkpoint."""

    files: dict[str, str]  # name -> text
    ids: dict[str, int | None]  # of the special pieces


def _tokenizer(path: Path, shape: EncoderConfig, longest: int, of_words: bool) -> TokenizerFiles:
    try:
        text = paths.read(path, LARGEST_BYTES).decode()
        tokenizer = Tokenizer.from_str(text)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): expected the tokenizer of the run") from error
    except Exception as error:  # the library raises no narrower one
        raise InputError(f"{path} is not a tokenizer: {error}") from error
    if tokenizer.get_vocab_size() > shape.vocab_size:
        raise InputError(f"{path} has {tokenizer.get_vocab_size()} pieces, the model {shape.vocab_size} token embeddings")
    text = by_words(tokenizer).to_str() if of_words else text
    ids = special_ids(tokenizer)
    types = ["token_type_ids"] if shape.type_vocab_size > 1 else []
    lowercase = _lowercase(json.loads(text).get("normalizer"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": tokenizer.id_to_token(number) for role, number in ids.items() if number is not None},
        **({} if lowercase is None else {"do_lower_case": lowercase}),
    }
    return TokenizerFiles({"tokenizer.json": text, "tokenizer_config.json": json.dumps(config, indent=2) + "\n"}, ids)


def _lowercase(normalizer: dict[str, Any] | None) -> bool | None:
    """None where the tokenizer does not define it."""
    steps = [normalizer or {}, *(normalizer or {}).get("normalizers", [])]
    if any(step.get("type") == "Lowercase" for step in steps):
        return True
    return next((step["lowercase"] for step in steps if step.get("type") == "BertNormalizer"), None)


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
        try:
            reader, found = read(folder, ids)
        except Exception as error:  # the libraries raise no narrower one
            cause = " ".join(str(error).split())
            raise InputError(f"nothing is written: the checkpoint does not run ({type(error).__name__}: {cause})") from error
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
    logging.set_verbosity_error()  # `Export` lists the parts that the checkpoint lacks
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
