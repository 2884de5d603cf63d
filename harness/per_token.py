"""Losses and accuracies of a pretraining by token: they compare within one vocabulary alone, bits per byte across several."""

from collections.abc import Iterable, Mapping

VOCABULARY = (
    *("tokenizer.kind", "tokenizer.lowercase", "tokenizer.multilingual", "tokenizer.vocab_size", "tokenizer.min_frequency"),
    *("tokenizer.train_characters", "facts.tokenizer_file"),
)
"""Parameters of a run that decide its vocabulary, where the text is the same."""

PER_BYTE = {
    "pretrain/masked_loss": "pretrain/heldout_bits_per_byte",
    "pretrain/next_token_loss": "pretrain/next_token_bits_per_byte",
}
"""Loss by token -> the same by byte of the text."""

PER_TOKEN = tuple(
    f"pretrain/{of}_{what}"
    for of in ("masked", "detection", "replaced", "next_token", "permuted", "two_sided", "centre")
    for what in ("loss", "accuracy")
)


def vocabulary(params: Mapping[str, str]) -> tuple[str | None, ...]:
    """What decides the vocabulary of a run with these parameters."""
    return tuple(params.get(key) for key in VOCABULARY)


def has_one_vocabulary(runs: Iterable[Mapping[str, str]]) -> bool:
    """Whether runs with these parameters have one vocabulary."""
    return len(set(map(vocabulary, runs))) <= 1
