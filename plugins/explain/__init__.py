"""Explains variants, inputs and tokenizers: `describe`, `inspect`, `tokenizer`, `tour`."""

from harness.commands import Command

DESCRIBE = Command(
<<<<<<< 0cfa8e9d256dd5a355216b87bae850e27024e759
    "what a variant is, or several side by side: keys, parameters, shapes, pictures",
=======
    "Show the architecture of a model, or compare several",
>>>>>>> fbddbabd
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
