"""Explains variants, inputs and tokenizers: `describe`, `inspect`, `tokenizer`, `tour`."""

from harness.commands import Command

DESCRIBE = Command(
    "Show the architecture of a model, or compare several",
    "harness.plugins.explain.options:Describe",
    "harness.plugins.explain.describe:main",
)
INSPECT = Command(
    "Show the input ids and attention of one example or text",
    "harness.plugins.explain.options:Inspect",
    "harness.plugins.explain.inspect:main",
)
TOKENIZER = Command(
    "Compare tokenizers: pieces per word, unknown tokens, lengths",
    "harness.plugins.explain.options:Tokenizer",
    "harness.plugins.explain.tokenizer:main",
)
TOUR = Command(
    "Walk through an encoder in ten steps, from text to verdict",
    "harness.plugins.explain.options:Tour",
    "harness.plugins.explain.tour:main",
    is_live=True,
)
