"""Explains variants, inputs and tokenizers: `describe`, `inspect`, `tokenizer`, `tour`."""

from harness.commands import Command

DESCRIBE = Command(
    "what a variant is, or several side by side: keys, parameters, shapes, pictures",
    "harness.plugins.explain.options:Describe",
    "harness.plugins.explain.describe:main",
)
INSPECT = Command(
    "the inputs of one item or of your text, and the attention over them",
    "harness.plugins.explain.options:Inspect",
    "harness.plugins.explain.inspect:main",
)
TOKENIZER = Command(
    "how tokenizers cut a text: pieces per word, unknown ones, lengths",
    "harness.plugins.explain.options:Tokenizer",
    "harness.plugins.explain.tokenizer:main",
)
TOUR = Command(
    "ten steps through an encoder on your text, with the commands, as pages and as one HTML file",
    "harness.plugins.explain.options:Tour",
    "harness.plugins.explain.tour:main",
    is_live=True,
)
