"""What a model answers to new texts, as files: `predict`."""

from harness.commands import Command

PREDICT = Command(
    "labels and probabilities of new texts, or vectors of every token (output=vectors)",
    "harness.plugins.predict.options:Predict",
    "harness.plugins.predict.predict:main",
)
