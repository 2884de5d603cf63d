"""The encoder and tokenizer that a command line names: of a run, of a checkpoint of ours, or of a published one."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from harness.checkpoints import find_run, huggingface, native
from harness.config.schema import RunConfig
from harness.data import published, tokenizer
from harness.errors import present
from harness.measure import subject
from harness.models.encoder import Encoder
from harness.plugins.shared.options import Weights

SEPARATOR = " ||| "
"""Between the texts of a pair."""


@dataclass(frozen=True)
class Source:
    """A folder's encoder, not yet on its device, and its tokenizer."""

    encoder: Encoder
    tokenizer: Tokenizer
    longest: int  # tokens of a text that both take


def untrained(config: RunConfig, reader: Tokenizer, shape: Any = None) -> Source:
    """The randomly initialised encoder of the model, with the pieces of the tokenizer, or of another shape."""
    shape = shape or replace(config.model, vocab_size=reader.get_vocab_size(), pad_token_id=tokenizer.pad_token_id(reader) or 0)
    return Source(subject.classifier(replace(config, model=shape), config.seed).encoder.eval(), reader, shape.longest_text)


def source_of(options: Weights, config: RunConfig) -> Source:
    """The encoder with its weights; InputError for weights or a tokenizer that are missing or do not fit each other."""
    key, name = present(options.source)
    if key == "RUN" or (Path(name) / native.SHAPE).is_file():
        folder = find_run.weights_folder(name, key, config.output, config.tracking.uri)
        state, shape = native.read(folder)
        settings, limit = replace(config.tokenizer, vocab_file=None, file=str(folder / native.TOKENIZER)), None
    else:
        folder = huggingface.folder_of(name, key)
        state, shape = huggingface.encoder_of(folder, key)
        settings, limit = huggingface.tokenizer_of(config, folder), published.longest_text(folder)
    reader = tokenizer.build(settings, ())
    native.refuse_more_pieces(reader, shape, f"{key}={name!r}: the tokenizer")
    return Source(native.encoder_of(state, shape).eval(), reader, min(shape.longest_text, limit or shape.longest_text))
